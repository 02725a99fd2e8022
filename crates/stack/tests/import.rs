//! Logs of real servers made into traces: kept ones of which each line is known, and those of servers that run beside the test.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testserver::{ALL, Kind, Server, run};
use wire::ServerUrl;

use common::{Folder, program, records, text};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/logs")
        .join(name)
}

struct Imported {
    code: Option<i32>,
    said: Value,
    stderr: String,
    records: Vec<Value>,
}

fn import(log: &Path, format: &str, more: &[&str]) -> Imported {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    let mut command = program();
    command.args(["import", text(log), text(&trace), "--format", format]);
    let done = command.arg("--json").args(more).output().expect("runs");
    Imported {
        code: done.status.code(),
        said: serde_json::from_slice(&done.stdout).unwrap_or_default(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        records: match done.status.success() {
            true => records(&trace),
            false => Vec::new(),
        },
    }
}

fn whole(log: &Path, format: &str, more: &[&str]) -> Imported {
    let imported = import(log, format, more);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    imported
}

impl Imported {
    fn exchanges(&self) -> impl Iterator<Item = &Value> {
        self.records
            .iter()
            .filter(|record| record["record"] == "exchange")
    }

    /// Transaction, kind and text of each.
    fn requests(&self) -> Vec<String> {
        let words = |each: &Value| {
            let number = each["transaction"].as_u64();
            let transaction = number.map_or("-".to_owned(), |number| number.to_string());
            let sql = each["sql"].as_str().unwrap_or_default().replace('\n', "|");
            let kind = each["kind"].as_str().expect("a kind");
            format!("{transaction} {kind} {sql}").trim_end().to_owned()
        };
        self.exchanges().map(words).collect()
    }

    fn lacks(&self) -> String {
        let lacks = self.said["lacks"].as_array().expect("a list").iter();
        let lacks: Vec<_> = lacks.filter_map(Value::as_str).collect();
        lacks.join(" ")
    }

    fn one(&self, sql: &str) -> &Value {
        let mut found = self.exchanges().filter(|each| {
            each["sql"]
                .as_str()
                .is_some_and(|found| found.contains(sql))
        });
        let one = found.next().expect("it is there");
        assert!(found.next().is_none(), "{sql} is there once");
        one
    }
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
        (folder.0.clone(), "mysql-slow", &[], 1, "cannot read"),
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
