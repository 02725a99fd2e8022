//! Logs that are kept here.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Folder, program, text};
use crate::imported::{Imported, import, whole};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/logs")
        .join(name)
}

fn us(record: &Value, name: &str) -> u64 {
    record[name].as_u64().expect("a time") / 1000
}

/// What the small application did whose logs are kept, with its transactions, up to where it sets its autocommit off.
const APPLICATION: [&str; 13] = [
    "- query SET NAMES utf8mb4",
    "0 query create database if not exists shop",
    "- init_db",
    "1 query drop table if exists item",
    "2 query create table item(id int primary key, name varchar(100), data varbinary(50))",
    "3 query insert into item values (1,'a|b',x'00ff0a23'),(2,'two',NULL),(3,'# Time: no',NULL)",
    "4 query select *|from item|| where id = 1 -- end|# Time: 2026-01-01T00:00:00",
    "5 query BEGIN",
    "5 query update item set name='x' where id=2",
    "5 query select sleep(0.01)",
    "5 query COMMIT",
    "6 query select nope from item",
    "7 query insert into item values (9, 'bin', _binary'\0\u{fffd}\u{fffd}\\n|')",
];

#[test]
fn a_slow_log_with_its_extras_has_times_rows_bytes_and_errors() {
    let imported = whole(&kept("mysql-slow-extra.log"), "mysql-slow", &[]);
    let requests = imported.requests();
    assert_eq!(requests[..13], APPLICATION);
    assert_eq!(
        requests[13..17],
        [
            "- query SET autocommit=0",
            "8 query delete from item where id=9",
            "8 query rollback",
            "- ping"
        ]
    );
    assert_eq!(
        imported.lacks(),
        "round_trips packets answers affected fetches prepares protocol logins"
    );
    let select = imported.one("where id = 1 -- end");
    assert_eq!(
        (
            &select["rows"],
            &select["bytes_sent"],
            &select["bytes_received"]
        ),
        (&1.into(), &74.into(), &172.into())
    );
    assert_eq!(us(select, "last_byte_ns") - us(select, "request_ns"), 345);
    // From the end of the first entry to that of this one, as the log shows them.
    let first = imported.exchanges().next().expect("one");
    assert_eq!(
        us(select, "last_byte_ns") - us(first, "last_byte_ns"),
        475_347 - 430_719
    );
    assert_eq!(imported.one("select nope")["error"]["code"], 1054);
    assert_eq!(imported.one("select nope")["error"]["sqlstate"], "");
    let begin = &imported.records[0];
    assert_eq!(
        (&begin["capture"], &begin["family"]),
        (&"log".into(), &"mysql".into())
    );
    assert_eq!(begin["log"]["clock"], Value::Null);
    let session = imported
        .records
        .iter()
        .find(|record| record["record"] == "session");
    assert_eq!(session.expect("one")["server_version"], "9.7.4");
}

#[test]
fn a_plain_slow_log_that_breaks_off_has_what_is_whole() {
    let imported = whole(&kept("mysql-slow.log"), "mysql-slow", &[]);
    let requests = imported.requests();
    assert_eq!(
        requests[0],
        "- query set global slow_query_log_file='/var/lib/mysql/slow-plain.log'"
    );
    assert_eq!(requests[1], "- quit");
    assert_eq!(requests[2..12], APPLICATION[..10]);
    assert_eq!(requests.len(), 12);
    assert_eq!(imported.said["connections"], 2);
    let lacks = imported.lacks();
    assert!(
        lacks.contains("bytes") && lacks.contains("errors"),
        "{lacks}"
    );
    let sleep = imported.one("sleep(0.01)");
    assert_eq!(us(sleep, "last_byte_ns") - us(sleep, "request_ns"), 10_689);
}

fn counts(record: &Value) -> [&Value; 6] {
    [
        "rows_examined",
        "lock_ns",
        "full_scan",
        "sort_rows",
        "temporary_tables",
        "temporary_disk_tables",
    ]
    .map(|name| &record[name])
}

#[test]
fn a_slow_log_has_what_the_server_counted() {
    let none = &Value::Null;
    let [yes, no, zero, one] = [json!(true), json!(false), json!(0), json!(1)];
    // MariaDB's Lock_time is no wait, and it does not count what it sorts. A line about the plan stands where there is something to say.
    let imported = whole(&kept("mariadb-slow-plan.log"), "mysql-slow", &[]);
    for (sql, expected) in [
        ("where id = 5", [&one, none, none, none, none, none]),
        (
            "pad = 'nope'",
            [&json!(5000), none, &yes, none, &zero, &zero],
        ),
        ("k = 3", [&json!(500), none, none, none, none, none]),
        (
            "group by pad",
            [&json!(5002), none, &yes, none, &one, &zero],
        ),
        ("t.pad = u.k", [&json!(300), none, &yes, none, &zero, &zero]),
    ] {
        assert_eq!(counts(imported.one(sql)), expected, "{sql}");
    }
    let imported = whole(&kept("mysql-slow.log"), "mysql-slow", &[]);
    let select = imported.one("where id = 1 -- end");
    let waited = [&one, &json!(2000), none, none, none, none];
    assert_eq!(counts(select), waited);

    let folder = Folder::new();
    let path = folder.file("log");
    let log = fs::read(kept("mysql-slow-extra.log")).expect("kept");
    let log = String::from_utf8_lossy(&log);
    let change = |all: &[(&str, &str)]| -> Imported {
        let changed = all.iter().fold(log.to_string(), |log, (from, to)| {
            assert!(log.contains(from), "{from}");
            log.replace(from, to)
        });
        fs::write(&path, changed).expect("room");
        whole(&path, "mysql-slow", &[])
    };
    let examined = ("Rows_examined: 1 ", "Rows_examined: 5000 ");
    let in_order = ("Read_rnd_next: 0 ", "Read_rnd_next: 5001 ");
    let some = ("Read_rnd_next: 0 ", "Read_rnd_next: 10 ");
    let temporary = ("Created_tmp_tables: 0 ", "Created_tmp_tables: 1 ");
    let wait = json!(1000);
    let many = json!(5000);
    for (changes, expected) in [
        (&[][..], [&one, &wait, &no, &zero, &zero, &zero]),
        (
            &[examined, in_order],
            [&many, &wait, &yes, &zero, &zero, &zero],
        ),
        (&[examined, some], [&many, &wait, &no, &zero, &zero, &zero]),
        // The rows in order may be those of the temporary table.
        (
            &[examined, in_order, temporary],
            [&many, &wait, none, &zero, &one, &zero],
        ),
        (&[temporary], [&one, &wait, &no, &zero, &one, &zero]),
        (
            &[("Version: 9.7.4 ", "Version: 8.0.27 ")],
            [&one, none, &no, &zero, &zero, &zero],
        ),
    ] {
        let imported = change(changes);
        let select = imported.one("where id = 1 -- end");
        assert_eq!(counts(select), expected, "{changes:?}");
    }
}

#[test]
fn a_general_log_has_requests_and_no_times_of_answers() {
    let imported = whole(&kept("mysql-general.log"), "mysql-general", &[]);
    let requests = imported.requests();
    assert_eq!(requests[0], "- quit");
    let mut application = APPLICATION.map(str::to_owned);
    application[2] = "- init_db shop".to_owned();
    assert_eq!(requests[1..14], application);
    // SQL's PREPARE and EXECUTE are logged twice, and are one request each.
    let after = requests
        .iter()
        .position(|each| each.contains("PREPARE p"))
        .expect("it");
    assert_eq!(
        requests[after..after + 4],
        [
            "- query PREPARE p FROM ...",
            "- query set @a=2",
            "- query execute p using @a",
            "- query deallocate prepare p"
        ]
    );
    assert!(imported.lacks().contains("answer_times"));
    assert!(!imported.lacks().contains("logins"));
    assert!(
        imported
            .exchanges()
            .all(|each| each["last_byte_ns"].is_null())
    );
    assert_eq!(
        imported.said["next"]
            .as_str()
            .map(|next| next.contains("stack plans")),
        Some(true)
    );
}

#[test]
fn logs_of_mariadb_have_seconds_and_rows_that_changed() {
    let imported = whole(&kept("mariadb-slow.log"), "mysql-slow", &[]);
    let requests = imported.requests();
    let body = |each: &String| each.split_once(' ').expect("two").1.to_owned();
    let statements: Vec<_> = requests.iter().map(body).collect();
    let known = APPLICATION.map(|each| body(&each.to_owned()));
    assert_eq!(statements[..2], known[..2]);
    assert_eq!(statements[2..11], known[3..12]);
    assert_eq!(imported.one("insert into item values (1")["affected"], 3);
    let lacks = imported.lacks();
    assert!(
        lacks.contains("gaps") && !lacks.contains("affected"),
        "{lacks}"
    );
    assert_eq!(imported.said["clock"], "local time");
    let imported = whole(&kept("mariadb-general.log"), "mysql-general", &[]);
    assert_eq!(imported.requests()[4], APPLICATION[4]);
    // The log has the password; the trace has not.
    assert!(!format!("{:?}", imported.records).contains("sesame"));
}

#[test]
fn postgres_logs_say_the_same_in_each_format() {
    let lines = whole(&kept("postgres.log"), "postgres", &[]);
    let rows = whole(&kept("postgres.csv"), "postgres-csv", &[]);
    let objects = whole(&kept("postgres.json"), "postgres-json", &[]);
    let least = [&lines, &rows, &objects].map(|each| each.requests().len());
    let least = *least.iter().min().expect("three");
    assert!(least > 30, "{least}");
    for other in [&rows, &objects] {
        assert_eq!(lines.requests()[..least], other.requests()[..least]);
        assert_eq!(lines.lacks(), other.lacks());
        let when = |imported: &Imported| -> Vec<_> {
            let each = imported.exchanges().take(least);
            each.map(|each| (us(each, "request_ns"), us(each, "last_byte_ns")))
                .collect()
        };
        assert_eq!(when(&lines), when(other));
    }
    assert_eq!(lines.said["clock"], "CET");
    let requests = lines.requests();
    assert_eq!(
        requests[..8],
        [
            "0 query drop table if exists item;",
            "1 query create table item(id int primary key, name text);",
            "2 query insert into item values (1, E'a\\nb'), (2, 'two');",
            "3 query select *|from item|\twhere id = 1 -- end|;",
            "4 query begin;",
            "4 query update item set name='x' where id=2;",
            "4 query select pg_sleep(0.01);",
            "4 query commit;"
        ]
    );
    assert_eq!(
        requests[8..13],
        [
            "5 query select nope from item;",
            "6 query begin;",
            "6 query select 1/0;",
            "6 query select 1;",
            "6 query rollback;"
        ]
    );
    assert_eq!(rows.one("select 1/0;")["error"]["sqlstate"], "22012");
    assert!(!format!("{:?}", lines.records).contains("sesame"));
    assert!(
        requests
            .iter()
            .any(|each| each.ends_with("copy copy item to stdout;"))
    );
    let update = rows
        .exchanges()
        .find(|each| each["kind"] == "execute" && each["verb"] == "update");
    let update = update.expect("a prepared one");
    assert_eq!(
        update["sql"],
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;"
    );
    assert_eq!(update["parameters"], serde_json::json!(["-616", "95918"]));
    // The bind is a part of it: 0.378 ms and 0.160 ms.
    assert_eq!(us(update, "last_byte_ns") - us(update, "request_ns"), 538);
    let clients: Vec<_> = rows
        .records
        .iter()
        .filter_map(|record| record["client"].as_str())
        .collect();
    assert!(
        clients.contains(&"psql") && clients.contains(&"pgbench"),
        "{clients:?}"
    );
}

#[test]
fn statements_and_times_in_lines_of_their_own_are_put_together() {
    let prefix = "%t [%p]: user=%u,db=%d,app=%a,client=%h ";
    let imported = whole(&kept("postgres-all.log"), "postgres", &["--prefix", prefix]);
    let sleep = imported.one("pg_sleep");
    assert_eq!(us(sleep, "last_byte_ns") - us(sleep, "request_ns"), 10_380);
    let lacks = imported.lacks();
    // The prefix has seconds, and a log of all statements names no prepares.
    assert!(
        lacks.contains("gaps") && lacks.contains("prepares"),
        "{lacks}"
    );
    assert!(imported.said["unnamed_times"].as_u64() > Some(0));
    // The last statement has no time, and stands there without an end.
    let last = imported.exchanges().last().expect("one");
    assert_eq!(
        (&last["kind"], &last["last_byte_ns"]),
        (&"execute".into(), &Value::Null)
    );
    assert_eq!(last["parameters"], serde_json::json!(["48000"]));
}

#[test]
fn a_masked_trace_of_a_log_has_no_values() {
    let imported = whole(&kept("postgres.csv"), "postgres-csv", &["--mask"]);
    let all = format!("{:?}", imported.records);
    assert!(!all.contains("95918") && !all.contains("'two'"), "{all}");
}

#[test]
fn what_is_no_such_log_is_refused_with_a_hint() {
    let folder = Folder::new();
    let file = |name: &str, content: &[u8]| {
        let path = folder.file(name);
        fs::write(&path, content).expect("room");
        path
    };
    let cases = [
        (file("empty", b""), "mysql-slow", &[][..], 1, "is empty"),
        (
            file("other", b"nothing\nof it\n"),
            "mysql-slow",
            &[],
            1,
            "none of the 2 lines",
        ),
        (
            kept("postgres.log"),
            "mysql-general",
            &[],
            1,
            "none of the 75 lines",
        ),
        (
            kept("postgres-all.log"),
            "postgres",
            &[],
            1,
            "none of the 60 lines",
        ),
        (
            kept("postgres-all.log"),
            "postgres",
            &["--prefix", "%p "],
            2,
            "it has no time",
        ),
        (
            kept("postgres.csv"),
            "postgres-csv",
            &["--prefix", "%m [%p] "],
            2,
            "--prefix is for --format postgres alone",
        ),
        (
            kept("postgres.csv"),
            "postgres-json",
            &[],
            1,
            "none of the 63 lines",
        ),
        (
            file("packed", b"\x1f\x8b\x08\x00"),
            "mysql-slow",
            &[],
            1,
            "is compressed",
        ),
        (folder.file("gone"), "mysql-slow", &[], 1, "cannot read"),
        (
            folder.0.path().to_owned(),
            "mysql-slow",
            &[],
            1,
            "cannot read",
        ),
        (
            kept("mysql-slow.log"),
            "oracle",
            &[],
            2,
            "invalid value 'oracle'",
        ),
    ];
    for (log, format, more, code, said) in cases {
        let imported = import(&log, format, more);
        assert_eq!(imported.code, Some(code), "{}", imported.stderr);
        assert!(imported.stderr.contains(said), "{}", imported.stderr);
        assert!(
            code == 2 && format == "oracle" || imported.stderr.contains("hint: "),
            "{}",
            imported.stderr
        );
    }
    let taken = file("taken", b"");
    let done = program()
        .args([
            "import",
            text(&kept("mysql-slow.log")),
            text(&taken),
            "--format",
            "mysql-slow",
        ])
        .output()
        .expect("runs");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(fs::read(&taken).expect("still there"), b"");
}

#[test]
fn logs_cut_anywhere_are_read_up_to_there_or_refused() {
    let folder = Folder::new();
    for (name, format) in [
        ("mysql-slow-extra.log", "mysql-slow"),
        ("mysql-general.log", "mysql-general"),
        ("postgres.log", "postgres"),
        ("postgres.csv", "postgres-csv"),
        ("postgres.json", "postgres-json"),
    ] {
        let all = fs::read(kept(name)).expect("kept");
        let requests = whole(&kept(name), format, &[]).requests();
        for part in 2..6 {
            let path = folder.file("cut");
            // Never at a line's end, so that something is cut.
            let end = (all.len() * part / 6..)
                .find(|end| all[*end - 1] != b'\n')
                .expect("one");
            fs::write(&path, &all[..end]).expect("room");
            let imported = whole(&path, format, &[]);
            let found = imported.requests();
            assert_eq!(found[..], requests[..found.len()], "{name} {part}");
            assert!(
                imported.said["cut_entries"].as_u64() > Some(0),
                "{name} {part}"
            );
            // A log may begin within an entry, too.
            fs::write(&path, &all[end..]).expect("room");
            let imported = whole(&path, format, &[]);
            assert!(
                imported.said["unread_lines"].as_u64() > Some(0),
                "{name} {part}"
            );
        }
    }
}
