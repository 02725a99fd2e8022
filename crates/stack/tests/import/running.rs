//! Logs of servers that run beside the test.

use testserver::{ALL, Kind, Server, run};
use wire::ServerUrl;

use crate::imported::{Imported, whole};

/// What a client of a running server does; the literals tell the requests apart.
fn work(url: &str) {
    let url = ServerUrl::parse(url).expect("a URL");
    let mut connection = wire::connect(&url).expect("reachable");
    for sql in [
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        "BEGIN",
        "INSERT INTO item VALUES (1, 'one\nline'), (2, 'two')",
        "COMMIT",
        "SELECT name FROM item WHERE id = 2",
    ] {
        run(&mut *connection, sql);
    }
    let failed = connection.query("SELECT nothing FROM item", ALL, &mut ());
    assert!(failed.is_err());
}

const WORK: [&str; 6] = [
    "0 query CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(20))",
    "1 query BEGIN",
    "1 query INSERT INTO item VALUES (1, 'one|line'), (2, 'two')",
    "1 query COMMIT",
    "2 query SELECT name FROM item WHERE id = 2",
    "3 query SELECT nothing FROM item",
];

/// The work among the requests of a log, which has those of the test itself, too.
fn worked(imported: &Imported) -> Vec<String> {
    let created = imported.one("CREATE TABLE item")["connection"].clone();
    let mut requests = imported.requests();
    let mut whose = imported
        .exchanges()
        .map(|each| each["connection"] == created);
    requests.retain(|_| whose.next() == Some(true));
    requests.retain(|each| !each.ends_with("quit") && !each.contains(" SET "));
    requests
}

fn mysql_logs(mut server: Server) {
    let general = server.data().join("general.log");
    let slow = server.data().join("slow.log");
    let url = server.create("shop");
    work(&url);
    server.stop();
    let imported = whole(&general, "mysql-general", &[]);
    assert_eq!(worked(&imported), WORK);
    let imported = whole(&slow, "mysql-slow", &[]);
    assert_eq!(worked(&imported), WORK);
    assert_eq!(imported.one("WHERE id = 2")["rows"], 1);
    let duration_s = imported.said["duration_s"].as_f64().expect("a number");
    assert!((0.0..600.0).contains(&duration_s), "{duration_s}");
}

const LOGS: [&str; 5] = [
    "--general-log",
    "--general-log-file=general.log",
    "--slow-query-log",
    "--slow-query-log-file=slow.log",
    "--long-query-time=0",
];

#[test]
fn a_running_mariadb_writes_what_is_read() {
    mysql_logs(Server::mariadb(&LOGS));
}

#[test]
fn a_running_mysql_writes_what_is_read() {
    if Server::has_mysql() {
        let options = [&LOGS[..], &["--log-slow-extra=ON"]].concat();
        mysql_logs(Server::start(Kind::MySql, &options));
    }
}

#[test]
fn a_running_postgres_writes_what_is_read() {
    let mut server = Server::postgres(&[
        "-c",
        "logging_collector=on",
        "-c",
        "log_directory=logs",
        "-c",
        "log_filename=app.log",
        "-c",
        "log_rotation_size=0",
        "-c",
        "log_destination=stderr,csvlog,jsonlog",
        "-c",
        "log_min_duration_statement=0",
        "-c",
        "log_connections=on",
    ]);
    let url = server.create("shop");
    work(&url);
    server.stop();
    for (name, format) in [
        ("app.log", "postgres"),
        ("app.csv", "postgres-csv"),
        ("app.json", "postgres-json"),
    ] {
        let imported = whole(&server.data().join("logs").join(name), format, &[]);
        assert_eq!(worked(&imported), WORK, "{format}");
        assert!(!imported.lacks().contains("logins"));
    }
}
