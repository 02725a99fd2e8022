//! Logs of a server that was started again, and gives numbers of sessions again.

use std::fs;

use crate::common::Folder;
use crate::imported::{Imported, whole};

fn import(log: &str, format: &str) -> Imported {
    let folder = Folder::new();
    let path = folder.file("log");
    fs::write(&path, log).expect("room");
    whole(&path, format, &[])
}

/// The connection of each request.
fn connections(imported: &Imported) -> Vec<u64> {
    let all = imported.exchanges();
    all.map(|each| each["connection"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn no_session_of_postgres_outlives_its_server() {
    let line = |second: u32, pid: u32, what: &str| {
        format!("2026-11-23 07:50:{second} UTC [{pid}] LOG:  {what}\n")
    };
    let statement = |second: u32, pid: u32, sql: &str| {
        line(second, pid, &format!("duration: 0.1 ms  statement: {sql}"))
    };
    for started in [
        "starting PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu",
        "all server processes terminated; reinitializing",
    ] {
        let log = [
            statement(10, 7, "BEGIN"),
            statement(11, 8, "SELECT 8"),
            statement(12, 7, "UPDATE a SET x = 1"),
            // Its time never comes.
            line(13, 8, "statement: SELECT 9"),
            line(20, 1, started),
            statement(21, 7, "SELECT 1"),
            statement(22, 7, "SELECT 2"),
        ];
        let imported = import(&log.concat(), "postgres");
        assert_eq!(connections(&imported), [1, 2, 1, 2, 3, 3], "{started}");
        let requests = imported.requests();
        assert_eq!(requests[4..], ["0 query SELECT 1", "1 query SELECT 2"]);
        let closed = imported.records.iter();
        let closed = closed.filter(|record| record["record"] == "closed");
        let closed: Vec<_> = closed.map(|record| record["connection"].as_u64()).collect();
        assert_eq!(closed, [Some(1), Some(2)], "{started}");
    }
}

/// A header that opens a slow log.
fn header(version: &str) -> String {
    format!(
        "/usr/sbin/mysqld, Version: {version} (Source distribution). started with:\n\
        Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\n\
        Time                 Id Command    Argument\n"
    )
}

fn entries(statements: &[&str]) -> String {
    let entry = |statement: &&str| {
        format!(
            "# Time: 2026-11-23T07:50:23.430719Z\n\
            # User@Host: root[root] @ localhost []  Id:     9\n\
            # Query_time: 0.000108  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 0\n\
            SET timestamp=1795420223;\n\
            {statement};\n"
        )
    };
    statements.iter().map(entry).collect()
}

/// FLUSH LOGS writes the header, too: the session may be the same, and its autocommit stays off.
#[test]
fn no_transaction_goes_on_behind_the_header_of_a_slow_log() {
    let before = ["BEGIN", "UPDATE a SET x = 1"];
    let after = ["SELECT 1", "SELECT 2"];
    let log = |second: &str| header("9.7.4") + &entries(&before) + &header(second);
    let imported = import(&(log("9.7.4") + &entries(&after)), "mysql-slow");
    let requests = imported.requests();
    assert_eq!(requests[2..], ["1 query SELECT 1", "2 query SELECT 2"]);
    assert_eq!(connections(&imported), [1; 4]);
    let off = header("9.7.4") + &entries(&["SET autocommit=0", "SELECT 0"]);
    let log_of_off = off + &header("9.7.4") + &entries(&after);
    let requests = import(&log_of_off, "mysql-slow").requests();
    assert_eq!(
        requests[1..],
        ["0 query SELECT 0", "1 query SELECT 1", "1 query SELECT 2"]
    );
    // Another version is another server.
    let imported = import(&(log("9.7.5") + &entries(&after)), "mysql-slow");
    assert_eq!(connections(&imported), [1, 1, 2, 2]);
    let versions = imported.records.iter();
    let versions: Vec<_> = versions
        .filter_map(|record| record["server_version"].as_str())
        .collect();
    assert_eq!(versions, ["9.7.4", "9.7.5"]);
}
