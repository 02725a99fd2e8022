//! What users and servers do wrong: a clear error or a counted event, the exit code, and the results so far.

mod common;

use std::fs;
use std::path::Path;

use common::{command, filled, interrupt, load, start, wait};
use testserver::{Kind, Server, one, run};

const POINT: &str = "oltp point_select run --table-size 200 --seconds 2 --json";

/// A user with a password in MariaDB.
fn with_user(server: &Server) {
    let mut connection = server.connect("t").expect("a login");
    run(
        &mut *connection,
        "CREATE USER me@localhost IDENTIFIED BY 'secret'",
    );
    run(&mut *connection, "GRANT ALL ON t.* TO me@localhost");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial/shop.toml");
    let mut check = command(&format!("script {file} check"), &[]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = check.stdout(writer).output().expect("starts");
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_wrong_password() {
    let server = Server::mariadb(&[]);
    let _ = filled(&server, 1, 200);
    with_user(&server);
    load(POINT, &server.url_as("me:wrong", "t"))
        .refused(1, &["cannot connect", "Access denied", "password"]);
    let right = load(POINT, &server.url_as("me:secret", "t")).json(0);
    assert!(right["tps"].as_f64().expect("a rate") > 0.0);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_certificate_for_another_host() {
    for kind in [Kind::MariaDb, Kind::Postgres] {
        let server = Server::start_with_tls(kind, &[]);
        let right = server.url_over_tcp("nobody", "t");
        let ca = server.certificates().ca.display().to_string();
        let wrong = right.replace("127.0.0.1", "localhost");
        let url = format!("{wrong}?tls=verify&tls-ca={ca}");
        load(POINT, &url).refused(1, &["cannot connect", "localhost", "tls=verify-ca"]);
        let url = format!("{right}?tls=verify&tls-ca=/no/such/file");
        load(POINT, &url).refused(1, &["cannot connect", "/no/such/file"]);
        load(POINT, &format!("{right}?tls=verify")).refused(2, &["needs tls-ca=FILE"]);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn no_such_database() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        load(POINT, &server.url("nowhere"))
            .refused(1, &["cannot connect", "nowhere", "CREATE DATABASE"]);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn no_server() {
    let url = "mysql://root@/t?socket=/no/such/socket";
    load(POINT, url).refused(1, &["cannot connect", "the server is running"]);
    load(POINT, "oracle://x/y").refused(2, &["scheme is not mysql"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn files_that_cannot_be_written_are_refused_before_the_load() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    for option in ["--hdr", "--parquet", "--record"] {
        let ran = load(&format!("{POINT} {option} /no/such/folder/file"), &url);
        ran.refused(1, &["cannot write /no/such/folder/file"]);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn more_connections_than_the_server_takes() {
    for (server, said) in [
        (
            Server::mariadb(&["--max-connections=10"]),
            "Too many connections",
        ),
        (Server::postgres(&["-c", "max_connections=10"]), "53300"),
    ] {
        let url = filled(&server, 1, 200);
        let many = load(
            "oltp point_select run --table-size 200 -c 40 --seconds 2 --json",
            &url,
        );
        many.refused(1, &[said, "of 40 connections", "max_connections"]);
        server.wait_until_alone();
        load(
            "oltp point_select run --table-size 200 -c 5 --seconds 1 --json",
            &url,
        )
        .json(0);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_rate_that_cannot_be_kept() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let fast = load(
        "oltp read_write run --table-size 200 --rate 50000 --seconds 2 --json",
        &url,
    );
    let result = fast.json(0);
    assert!(
        fast.stderr.contains("WARNING") && fast.stderr.contains("cannot keep --rate"),
        "{}",
        fast.stderr
    );
    let open = &result["open_loop"];
    let due =
        open["begun"].as_u64().expect("a count") + open["not_begun"].as_u64().expect("a count");
    // Poisson arrivals: within 5 standard deviations of what was asked.
    assert!((98_400..101_600).contains(&due), "{open:#}");
    assert!(
        open["not_begun"].as_u64().expect("a count") > due / 2,
        "{open:#}"
    );
    // Those that never began have waited up to the whole time.
    assert!(
        result["latency_us_max"].as_f64().expect("a latency") > 1_900_000.0,
        "{result:#}"
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn more_prepared_statements_than_the_server_takes() {
    let server = Server::mariadb(&["--max-prepared-stmt-count=20"]);
    let url = filled(&server, 1, 200);
    let line = "oltp read_write run --table-size 200 -c 4 --max-transactions 20 --json";
    load(line, &url).refused(
        1,
        &[
            "the server allows 20",
            "max_prepared_stmt_count",
            "--protocol text",
        ],
    );
    load(&format!("{line} --protocol text"), &url).json(0);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn rows_that_the_server_changes_are_not_loaded_silently() {
    let server = Server::mariadb(&["--init-connect=SET SESSION sql_mode=''"]);
    let url = filled(&server, 1, 200);
    let mut connection = server.connect("t").expect("a login");
    let narrow = "CREATE TABLE narrow (id INT PRIMARY KEY, c CHAR(5))";
    run(&mut *connection, narrow);
    let rows = || {
        (1..=3).map(|id| {
            vec![
                wire::Value::Int(id / 2),
                wire::Value::Text("12345678".into()),
            ]
        })
    };
    let columns = ["id", "c"];
    let loaded = loadgen::sql::fill(&mut *connection, "narrow", &columns, rows, 100);
    let why = loaded.expect_err("too long, and a duplicate").to_string();
    assert!(why.contains("narrow") && why.contains("warnings"), "{why}");
    drop(url);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_that_begins_sessions_with_autocommit_off_keeps_what_fills_its_tables() {
    let server = Server::mariadb(&["--autocommit=0"]);
    let url = server.create("t");
    load("commit prepare --accounts 20", &url).done();
    let mut connection = server.connect("t").expect("a login");
    let count = one(&mut *connection, "SELECT COUNT(*) FROM commit_account");
    assert_eq!(count, "20");
    load("commit run --accounts 20", &url).refused(2, &["autocommit off"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn tables_half_loaded_or_missing() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        let url = filled(&server, 1, 200);
        let mut connection = server.connect("t").expect("a login");
        run(&mut *connection, "DELETE FROM sbtest1 WHERE id > 120");
        load(POINT, &url).refused(1, &["end at 120, not at 200", "prepare"]);
        load("oltp point_select run --tables 2 --table-size 120", &url)
            .refused(1, &["sbtest2", "prepare"]);
        load("commit run", &url).refused(1, &["commit_account", "commit prepare"]);
        load("oltp point_select prepare --table-size 200", &url).refused(1, &["sbtest1", "--drop"]);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_statement_that_is_refused_ends_the_run_or_is_counted() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let mut connection = server.connect("t").expect("a login");
    // A server whose disk is full says so in the same way: an error of a statement that went well before.
    run(
        &mut *connection,
        "CREATE TRIGGER full BEFORE UPDATE ON sbtest1 FOR EACH ROW \
         SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
    );
    let write = "oltp read_write run --table-size 200 --seconds 2 --json";
    let stopped = load(write, &url);
    stopped.refused(1, &["1114", "The table is full", "--on-error continue"]);
    let result = stopped.json(1);
    assert!(
        result["statements"]["point_select"]["count"]
            .as_u64()
            .expect("a count")
            >= 10
    );
    let counted = load(&format!("{write} --on-error continue"), &url).json(0);
    let errors = counted["errors"]["1114"]["count"]
        .as_u64()
        .expect("a count");
    assert!(errors > 10, "{counted:#}");
    assert_eq!(
        counted["transactions"]["read_write"]["errors"].as_u64(),
        Some(errors)
    );
}

/// The longest file below a folder, in bytes.
fn longest_file(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => longest_file(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .max()
        .unwrap_or_default()
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_full_disk_on_the_server() {
    let small_log = [
        "--innodb-log-file-size=4M",
        "--innodb-flush-log-at-trx-commit=0",
    ];
    for (mut server, said) in [
        (Server::mariadb(&small_log), "is full"),
        (Server::postgres(&[]), "could not extend file"),
    ] {
        let url = filled(&server, 1, 80_000);
        server.stop();
        // A limit on files stands for the disk: 256 KiB more than the table, the longest of them, has now.
        let blocks = longest_file(&server.data()).div_ceil(512) + 512;
        let limit = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        server.set_prefix(&["sh", "-c", &limit, "sh"].map(str::to_owned));
        server.restart();
        let insert = "oltp insert run --table-size 80000 -c 4 --seconds 120 --json";
        let stopped = load(insert, &url);
        stopped.refused(1, &[said, "--on-error continue"]);
        let result = stopped.json(1);
        assert!(result["statements"]["insert"]["count"].as_u64() > Some(0));
        assert!(result["duration_s"].as_f64() < Some(110.0), "{result:#}");
        let line =
            "oltp insert run --table-size 80000 --max-transactions 100 --on-error continue --json";
        let result = load(line, &url).json(0);
        assert_eq!(result["reconnects"], 0, "{result:#}");
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn ctrl_c_leaves_the_results_so_far() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let child = start(
        "oltp point_select run --table-size 200 --seconds 60 --json",
        &url,
    );
    server.wait_for_work(1, 100);
    interrupt(&child);
    let result = wait(child).json(130);
    assert_eq!(result["interrupted"], true);
    let count = &result["transactions"]["point_select"]["count"];
    assert!(count.as_u64() >= Some(100), "{result:#}");
    assert!(result["duration_s"].as_f64() < Some(60.0), "{result:#}");
}
