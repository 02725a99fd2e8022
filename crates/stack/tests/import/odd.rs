//! Files that are no ordinary log.

use std::ffi::CString;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Folder, program, text};
use crate::imported::whole;

const SLOW: &str = "# Time: 2026-11-23T07:50:23.430719Z\n\
    # User@Host: root[root] @ localhost []  Id:     9\n\
    # Query_time: 0.000108  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 0\n\
    SET timestamp=1795420223;\n\
    SELECT 1;\n";

/// What is written into a pipe can be read once.
#[test]
fn a_pipe_is_refused() {
    let folder = Folder::new();
    let (pipe, trace) = (folder.file("pipe"), folder.file("t"));
    let name = CString::new(text(&pipe)).expect("no zero");
    // SAFETY: the name is a string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut command = program();
    command.args(["import", text(&pipe), text(&trace)]);
    command.args(["--format", "mysql-slow"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("runs");
    // It does not wait for a writer.
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let done = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("is not a regular file"), "{said}");
    assert!(said.contains("hint: ") && !trace.exists(), "{said}");
}

/// MySQL's clock was set back while a statement ran: it subtracted below zero.
#[test]
fn a_time_that_no_statement_takes_is_left_out() {
    let folder = Folder::new();
    let path = folder.file("log");
    let wrong = SLOW.replace("Query_time: 0.000108", "Query_time: 18446744073.709550");
    fs::write(&path, [SLOW, &wrong, SLOW].concat()).expect("room");
    let imported = whole(&path, "mysql-slow", &[]);
    assert_eq!(imported.requests().len(), 2);
    assert_eq!(imported.said["cut_entries"], 1);
    // The log's clock stands still: one after the other.
    assert_eq!(imported.said["duration_s"], 0.000216);
}

/// No log of a server's has them, and nothing is left out of 64 bits because of them.
#[test]
fn the_largest_numbers_are_no_fault() {
    let folder = Folder::new();
    let path = folder.file("log");
    let figures = "Query_time: 999999999.0  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1 \
        Created_tmp_tables: 0 Read_rnd_next: 18446744073709551615";
    let (begin, rest) = SLOW.split_once("Query_time: ").expect("figures");
    let (_, end) = rest.split_once("Rows_examined: 0").expect("figures");
    let entry = [begin, figures, end].concat();
    fs::write(&path, entry.repeat(20)).expect("room");
    let imported = whole(&path, "mysql-slow", &[]);
    assert_eq!(imported.requests().len(), 20);
    let mut times = imported
        .exchanges()
        .map(|each| each["last_byte_ns"].as_u64());
    let first = times.next().expect("one");
    assert!(times.all(|time| time >= first) && first > Some(0));
    let mut all = imported.exchanges();
    assert!(all.all(|each| each["full_scan"] == true));
}

/// Otherwise their lines would belong to the statement before.
#[test]
fn commands_of_replicas_are_no_part_of_a_statement() {
    let folder = Folder::new();
    let path = folder.file("log");
    let line =
        |number: u32, what: &str| format!("2026-11-23T07:50:22.92661{number}Z\t    8 {what}\n");
    let lines = [
        line(1, "Query\tSELECT 1"),
        line(2, "clone\t"),
        line(3, "Query\tSELECT 2"),
        line(4, "Group Replication Data Stream subscription\t"),
        line(5, "Query\tSELECT 3"),
    ];
    fs::write(&path, lines.concat()).expect("room");
    let imported = whole(&path, "mysql-general", &[]);
    assert_eq!(
        imported.requests(),
        [
            "0 query SELECT 1",
            "- other",
            "1 query SELECT 2",
            "- other",
            "2 query SELECT 3"
        ]
    );
}

/// It has a line with the schema before the others, and with log_slow_verbosity=full MariaDB's words about the plan.
#[test]
fn a_slow_log_of_percona_server_is_read() {
    let folder = Folder::new();
    let path = folder.file("log");
    let log = "/usr/sbin/mysqld, Version: 8.0.36-28 (Percona Server (GPL), Release 28). started with:\n\
        Tcp port: 3306  Unix socket: /var/run/mysqld/mysqld.sock\n\
        Time                 Id Command    Argument\n\
        # Time: 2026-11-23T07:50:23.430719Z\n\
        # User@Host: app[app] @ localhost []  Id:    10\n\
        # Schema:   Last_errno: 0  Killed: 0\n\
        # Query_time: 0.000245  Lock_time: 0.000004  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0  Bytes_sent: 56\n\
        SET timestamp=1795420223;\n\
        SELECT 1;\n\
        # Time: 2026-11-23T07:50:24.430719Z\n\
        # User@Host: app[app] @ localhost []  Id:    10\n\
        # Schema: shop  Last_errno: 0  Killed: 0\n\
        # Query_time: 0.014000  Lock_time: 0.000002  Rows_sent: 0  Rows_examined: 5000  Rows_affected: 3  Bytes_sent: 11\n\
        # Tmp_tables: 0  Tmp_disk_tables: 0  Tmp_table_sizes: 0\n\
        # Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\n\
        use shop;\n\
        SET timestamp=1795420224;\n\
        UPDATE t SET a = 1;\n";
    fs::write(&path, log).expect("room");
    let imported = whole(&path, "mysql-slow", &[]);
    assert_eq!(
        imported.requests(),
        ["0 query SELECT 1", "1 query UPDATE t SET a = 1"]
    );
    assert_eq!(imported.said["unread_lines"], 0);
    let update = imported.one("UPDATE");
    let found = [
        "affected",
        "rows_examined",
        "lock_ns",
        "full_scan",
        "temporary_tables",
    ];
    let found = found.map(|name| update[name].clone());
    assert_eq!(
        serde_json::Value::from(found.to_vec()),
        serde_json::json!([3, 5000, 2000, true, 0])
    );
    // It has no bytes of the client, and does not say which statement failed.
    let lacks = imported.lacks();
    assert!(
        lacks.contains("bytes") && lacks.contains("errors"),
        "{lacks}"
    );
}

/// A backslash before a quote escapes it on MySQL alone.
#[test]
fn a_masked_log_of_postgres_has_no_values_behind_a_backslash() {
    let folder = Folder::new();
    let path = folder.file("log");
    let log = "2026-11-23 07:50:22.926 UTC [7] LOG:  duration: 0.100 ms  \
        statement: INSERT INTO f (path, card) VALUES ('C:\\', 'CARD 4111222233334444 alice')\n";
    fs::write(&path, log).expect("room");
    let imported = whole(&path, "postgres", &["--mask"]);
    let insert = imported.one("INSERT");
    assert_eq!(
        insert["sql"],
        "INSERT INTO f (path, card) VALUES ('<text of 5 bytes>', '<text of 29 bytes>')"
    );
    assert_eq!(insert["backslash_escapes"], false);
}

/// Without `log_connections` a session begins with its first request, whose prefix has the name.
#[test]
fn a_client_of_postgres_is_known_without_its_login() {
    let folder = Folder::new();
    let path = folder.file("log");
    let line = |app: &str, what: &str| format!("2026-11-23 07:50:22 UTC [7] app={app} {what}\n");
    let lines = [
        line("psql", "LOG:  duration: 0.000 ms  statement: SELECT 1"),
        line("shop", "ERROR:  division by zero"),
        line("shop", "STATEMENT:  SELECT 1/0"),
    ];
    fs::write(&path, lines.concat()).expect("room");
    let imported = whole(&path, "postgres", &["--prefix", "%m [%p] app=%a "]);
    let sessions = imported.records.iter();
    let named: Vec<_> = sessions
        .filter(|record| record["record"] == "session")
        .map(|record| (record["client"].as_str(), record["joined_late"].as_bool()))
        .collect();
    let expected = ["psql", "shop"].map(|name| (Some(name), Some(true)));
    assert_eq!(named, expected);
}

/// The server says behind the name how the connection is encrypted.
#[test]
fn a_client_of_postgres_with_tls_has_its_name_alone() {
    let folder = Folder::new();
    let path = folder.file("log");
    let authorized = "connection authorized: user=a database=b application_name";
    let line = |pid: u32, what: &str| format!("2026-11-23 07:50:22 UTC [{pid}] LOG:  {what}\n");
    let logins = [
        "my shop SSL enabled (protocol=TLSv1.3, cipher=TLS_AES_256_GCM_SHA384, bits=256)",
        "psql GSS (authenticated=yes, encrypted=yes, principal=a@B)",
        "plain",
    ];
    let lines = logins.iter().zip(7..).map(|(login, pid)| {
        [
            line(pid, "connection received: host=10.0.0.1 port=4000"),
            line(pid, &format!("{authorized}={login}")),
            line(pid, "duration: 0.1 ms  statement: SELECT 1"),
        ]
        .concat()
    });
    fs::write(&path, lines.collect::<String>()).expect("room");
    let imported = whole(&path, "postgres", &[]);
    let sessions = imported.records.iter();
    let named: Vec<_> = sessions
        .filter_map(|record| record["client"].as_str())
        .collect();
    assert_eq!(named, ["my shop", "psql", "plain"]);
}

/// With `log_min_duration_statement` an error's line has no duration, and the usual prefix no SQLSTATE.
#[test]
fn time_before_an_error_of_postgres_is_not_the_clients() {
    let folder = Folder::new();
    let path = folder.file("log");
    let line = |at: &str, what: &str| format!("2026-11-23 07:50:{at} UTC [7] {what}\n");
    let lines = [
        line("22.000", "LOG:  duration: 0.000 ms  statement: BEGIN"),
        line("23.000", "ERROR:  deadlock detected"),
        line("23.000", "DETAIL:  Process 7 waits."),
        line("23.000", "STATEMENT:  UPDATE a SET x = 1"),
        line("24.000", "LOG:  duration: 0.000 ms  statement: ROLLBACK"),
        line("26.000", "ERROR:  canceling statement due to lock timeout"),
        line("26.000", "STATEMENT:  UPDATE b SET x = 1"),
    ];
    fs::write(&path, lines.concat()).expect("room");
    let imported = whole(&path, "postgres", &[]);
    let us = |each: &serde_json::Value, name: &str| each[name].as_u64().expect("a time") / 1000;
    let first = imported.one("UPDATE a");
    let times = [
        "request_ns",
        "request_end_ns",
        "first_byte_ns",
        "last_byte_ns",
    ];
    let began_us = us(first, "request_ns");
    assert_eq!(
        times.map(|name| us(first, name) - began_us),
        [0, 1_000_000, 1_000_000, 1_000_000]
    );
    assert_eq!(first["error"]["sqlstate"], "40P01");
    // Outside of a transaction nobody says when it began.
    let second = imported.one("UPDATE b");
    assert_eq!(us(second, "request_ns"), us(second, "last_byte_ns"));
    assert_eq!(second["error"]["sqlstate"], "55P03");
}

#[test]
fn a_text_of_postgres_with_a_whole_transaction_ends_it() {
    let folder = Folder::new();
    let path = folder.file("log");
    let line = |number: u32, what: &str| {
        format!(
            "2026-11-23 07:50:22.00{number} UTC [7] LOG:  duration: 0.1 ms  statement: {what}\n"
        )
    };
    let lines = [
        line(1, "BEGIN; UPDATE a SET x = 2; COMMIT"),
        line(2, "SELECT 1"),
        line(3, "SELECT 2"),
    ];
    fs::write(&path, lines.concat()).expect("room");
    let imported = whole(&path, "postgres", &[]);
    assert_eq!(
        imported.requests(),
        [
            "0 query BEGIN; UPDATE a SET x = 2; COMMIT",
            "1 query SELECT 1",
            "2 query SELECT 2"
        ]
    );
}

/// PostgreSQL only warns of the second BEGIN, and a log of statements does not have its warnings.
#[test]
fn a_begin_within_a_transaction_of_postgres_ends_nothing() {
    let folder = Folder::new();
    let path = folder.file("log");
    let statements = [
        "BEGIN",
        "UPDATE a SET x = 1",
        "BEGIN",
        "UPDATE a SET x = 2",
        "COMMIT",
    ];
    let lines = statements.iter().enumerate().map(|(number, what)| {
        format!(
            "2026-11-23 07:50:22.00{number} UTC [7] LOG:  duration: 0.1 ms  statement: {what}\n"
        )
    });
    fs::write(&path, lines.collect::<String>()).expect("room");
    let imported = whole(&path, "postgres", &[]);
    let expected = statements.map(|what| format!("0 query {what}"));
    assert_eq!(imported.requests(), expected);
}
