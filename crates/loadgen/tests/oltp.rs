//! Every OLTP script on real servers, and our counts against the servers' own.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use loadgen::clock::MonotonicClock;
use loadgen::drive::{self, Arrivals, OnDisconnect, OnError, Plan};
use loadgen::measure::{Names, StatementTally, Totals};
use loadgen::oltp::{Distribution, Oltp, Options, Script};
use loadgen::session::{Knobs, Protocol, Shared};
use loadgen::workload::Workload;
use testserver::{Kind, Server, one, rows, run};
use wire::{Connection, Counters, ServerUrl};

const SCRIPTS: [&str; 10] = [
    "point_select",
    "read_only",
    "read_write",
    "write_only",
    "update_index",
    "update_non_index",
    "insert",
    "delete",
    "select_random_points",
    "select_random_ranges",
];

const CONNECTIONS: u32 = 3;
const TRANSACTIONS: u64 = 90;
/// What the protocol takes to say goodbye: four bytes of header and COM_QUIT.
const QUIT_BYTES: u64 = 5;

fn everything(server: &Server) {
    let url = common::filled(server, 2, 500);
    every_script_runs(&url);
    every_statement_commits_by_itself(&url);
    isolation_is_set(server, &url);
    commits(&url);
    if server.kind() != Kind::Postgres {
        nothing_is_left_uncommitted(server, &url);
    }
    for statements in [
        Protocol::Text,
        Protocol::Prepared,
        Protocol::PreparePerRequest,
    ] {
        match server.kind() {
            Kind::MariaDb | Kind::MySql => counts_are_mysqls(server, &url, statements),
            Kind::Postgres => counts_are_postgres(server, &url, statements),
        }
    }
}

fn every_script_runs(url: &str) {
    for script in SCRIPTS {
        for statements in ["prepared", "text"] {
            let line = format!(
                "oltp {script} run --tables 2 --table-size 500 -c 2 --max-transactions 20 --protocol {statements} --json"
            );
            let result = common::load(&line, url).json(0);
            let transactions = &result["transactions"][script];
            assert_eq!(
                transactions["count"], 20,
                "{script} {statements}: {result:#}"
            );
            assert_eq!(
                transactions["errors"], 0,
                "{script} {statements}: {result:#}"
            );
            assert!(result["failure"].is_null());
        }
    }
}

/// Another connection inserts a row between our delete of it and our insert: what is permanent is not run again, and the run goes on.
fn every_statement_commits_by_itself(url: &str) {
    let line = "oltp write_only run --tables 1 --table-size 20 -c 4 --max-transactions 200 --autocommit --json";
    let result = common::load(line, url).json(0);
    let transactions = &result["transactions"]["write_only"];
    let count = |name: &str| transactions[name].as_u64().expect("a count");
    assert_eq!(count("count") + count("errors"), 200, "{result:#}");
    assert!(result["failure"].is_null(), "{result:#}");
    let deletes = result["statements"]["delete"]["count"].as_u64();
    assert!(deletes <= Some(200 + count("retries")), "{result:#}");
}

/// With autocommit off each single statement is committed too, and stays.
fn nothing_is_left_uncommitted(server: &Server, url: &str) {
    let mut connection = server.connect("t").expect("a login");
    let sum = |connection: &mut dyn Connection| -> u64 {
        let sql = "SELECT SUM(k) FROM sbtest1";
        one(connection, sql).parse().expect("a sum")
    };
    let before = sum(&mut *connection);
    let line = "oltp update_index run --tables 1 --table-size 500 -c 2 --max-transactions 50 --no-autocommit --json";
    let result = common::load(line, url).json(0);
    assert_eq!(result["transactions"]["update_index"]["count"], 50);
    assert_eq!(result["statements"]["commit"]["count"], 50, "{result:#}");
    // Some of the rows were deleted before.
    let changed = result["statements"]["index_update"]["affected"].as_u64();
    let changed = changed.expect("a count");
    assert!(changed > 0, "{result:#}");
    assert_eq!(sum(&mut *connection), before + changed);
}

fn commits(url: &str) {
    common::load("commit prepare --accounts 100", url).done();
    let line = "commit run --accounts 100 -c 2 --max-transactions 50 --json";
    let result = common::load(line, url).json(0);
    assert_eq!(result["transactions"]["commit"]["count"], 50, "{result:#}");
    assert_eq!(result["statements"]["log_insert"]["affected"], 50);
    common::every_option_is_told(&["commit", "run"], &result);
}

/// The level that was asked for is the one that statements run at.
fn isolation_is_set(server: &Server, url: &str) {
    let default = match server.kind() {
        Kind::MariaDb | Kind::MySql => "repeatable-read",
        Kind::Postgres => "read-committed",
    };
    for level in [
        "default",
        "read-committed",
        "repeatable-read",
        "serializable",
    ] {
        let line = format!(
            "oltp point_select run --table-size 500 --max-transactions 5 --isolation {level} --json"
        );
        let result = common::load(&line, url).json(0);
        assert_eq!(result["options"]["isolation"], level);
        common::every_option_is_told(&["oltp", "run"], &result);
        assert_eq!(result["server"]["transport"], "socket");
        assert_eq!(result["server"]["isolation"], default, "{result:#}");
        let durable = result["server"]["durability"].as_object();
        assert!(
            durable.is_some_and(|settings| !settings.is_empty()),
            "{result:#}"
        );
    }
}

/// Run `read_write` and return what was counted.
fn read_write(url: &str, statements: Protocol) -> Totals {
    let options = Options {
        tables: 2,
        table_size: 500,
        range_size: 20,
        distribution: Distribution::Uniform,
    };
    let workload: Arc<dyn Workload> = Arc::new(Oltp::new(Script::ReadWrite, options));
    let url = ServerUrl::parse(url).expect("a URL");
    let shared = Shared {
        connector: Arc::new(move || wire::connect(&url)),
        statements: workload.statements().into(),
        names: Arc::new(Names::new(workload.statements())),
        knobs: Knobs {
            protocol: statements,
            ..Knobs::default()
        },
        clock: Arc::new(MonotonicClock::start()),
    };
    let plan = Plan {
        connections: CONNECTIONS,
        client_threads: 2,
        time: None,
        warmup: Duration::ZERO,
        wait: Duration::from_secs(30),
        transactions: Some(TRANSACTIONS),
        arrivals: Arrivals::Closed,
        on_disconnect: OnDisconnect::Stop,
        on_error: OnError::Stop,
        seed: 1,
    };
    let finished = drive::run(
        &workload,
        &shared,
        plan,
        &AtomicBool::new(false),
        &mut |_, _| {},
    );
    let finished = finished.expect("runs");
    assert_eq!(finished.failure, None);
    finished.totals
}

/// What all connections counted, logins included.
fn crossed(totals: &Totals) -> Counters {
    let mut sum = Counters::default();
    for tally in &totals.statements {
        sum += tally.wire;
    }
    sum
}

fn tally<'a>(totals: &'a Totals, names: &[String], name: &str) -> &'a StatementTally {
    let place = names.iter().position(|known| known == name);
    &totals.statements[place.expect(name)]
}

fn names() -> Vec<String> {
    let options = Options {
        tables: 2,
        table_size: 500,
        range_size: 20,
        distribution: Distribution::Uniform,
    };
    let workload = Oltp::new(Script::ReadWrite, options);
    Names::new(workload.statements()).all().to_vec()
}

fn status(connection: &mut dyn Connection) -> BTreeMap<String, u64> {
    let sql = "SHOW GLOBAL STATUS WHERE Variable_name REGEXP '^(Com_.*|Questions|Bytes_.*|Threads_connected)$'";
    let named = rows(connection, sql).into_iter();
    named
        .map(|row| {
            let [name, value] = [0, 1].map(|column| row[column].clone().expect("not NULL"));
            (name.to_lowercase(), value.parse().unwrap_or_default())
        })
        .collect()
}

/// A status, with what was counted on the connection that asked before it did.
struct Look {
    status: BTreeMap<String, u64>,
    watched: Counters,
}

/// A status once no other connection is left, and how many were asked for: a connection's goodbye counts when the server comes to
/// it, however long its client is gone by then.
fn alone(watch: &mut dyn Connection) -> (Look, u64) {
    let begin = Instant::now();
    let mut looks = 1;
    // MariaDB adds the connections' counts up before it counts the connections, so that one may end between the two.
    while status(watch)["threads_connected"] > 1 {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "connections do not end"
        );
        std::thread::sleep(Duration::from_millis(50));
        looks += 1;
    }
    let watched = watch.counters();
    let status = status(watch);
    (Look { status, watched }, looks + 1)
}

fn counts_are_mysqls(server: &Server, url: &str, statements: Protocol) {
    let mut watch = server.connect("t").expect("a login");
    // A status holds its own request and not its own answer: between two of them lie one request and one answer for each of ours.
    let (before, _) = alone(&mut *watch);
    let totals = read_write(url, statements);
    let (after, looks) = alone(&mut *watch);
    let own = after.watched - before.watched;
    let grown = |name: &str| after.status[name] - before.status[name];
    let names = names();
    let ours = |name: &str| tally(&totals, &names, name).count;
    let ends = u64::from(CONNECTIONS);
    let crossed = crossed(&totals);
    assert_eq!(
        grown("bytes_received"),
        crossed.bytes_sent + own.bytes_sent + ends * QUIT_BYTES,
        "{statements:?}"
    );
    assert_eq!(
        grown("bytes_sent"),
        crossed.bytes_received + own.bytes_received,
        "{statements:?}"
    );
    // COM_QUIT counts as a question; COM_STMT_PREPARE and COM_STMT_CLOSE do not.
    assert_eq!(
        grown("questions"),
        totals.work_statements() + looks + ends,
        "{statements:?}"
    );
    let reads = [
        "point_select",
        "simple_range",
        "sum_range",
        "order_range",
        "distinct_range",
    ];
    for (com, ours) in [
        ("com_select", reads.map(ours).iter().sum()),
        (
            "com_update",
            ours("index_update") + ours("non_index_update"),
        ),
        ("com_delete", ours("delete")),
        ("com_insert", ours("insert")),
        ("com_begin", ours("begin")),
        ("com_commit", ours("commit")),
        ("com_rollback", ours("rollback")),
    ] {
        assert_eq!(grown(com), ours, "{com}, {statements:?}");
    }
    let bounds = ours("begin") + ours("commit") + ours("rollback");
    let executed = match statements {
        Protocol::Text => 0,
        _ => totals.work_statements() - bounds,
    };
    assert_eq!(grown("com_stmt_execute"), executed, "{statements:?}");
    let prepared = match statements {
        Protocol::PreparePerRequest => executed,
        _ => ours("prepare"),
    };
    assert_eq!(grown("com_stmt_prepare"), prepared, "{statements:?}");
    assert!(ours("begin") >= TRANSACTIONS);
}

fn counts_are_postgres(server: &Server, url: &str, statements: Protocol) {
    let mut watch = server.connect("t").expect("a login");
    run(
        &mut *watch,
        "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
    );
    run(&mut *watch, "SELECT pg_stat_statements_reset()");
    let totals = read_write(url, statements);
    let names = names();
    // A statement that failed, by a deadlock or a duplicate between two transactions, is no call there.
    let ours = |name: &str| {
        let tally = tally(&totals, &names, name);
        (tally.count - tally.errors - tally.retries).to_string()
    };
    let calls = |watch: &mut dyn Connection, pattern: &str| {
        let sql = format!(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ~* '{pattern}'"
        );
        one(watch, &sql)
    };
    for (pattern, name) in [
        ("^select c from sbtest. where id=", "point_select"),
        ("^select c .* and .[0-9]$", "simple_range"),
        ("^select sum", "sum_range"),
        ("^select c .* order by c$", "order_range"),
        ("^select distinct", "distinct_range"),
        ("^update sbtest. set k", "index_update"),
        ("^update sbtest. set c", "non_index_update"),
        ("^delete", "delete"),
        ("^insert", "insert"),
        ("^begin", "begin"),
        ("^commit", "commit"),
    ] {
        assert_eq!(
            calls(&mut *watch, pattern),
            ours(name),
            "{name}, {statements:?}"
        );
    }
    assert!(totals.work_statements() >= 20 * TRANSACTIONS);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    everything(&Server::mariadb(&[]));
}

#[test]
#[ignore = "needs a MySQL: UPSHIFT_TEST_MYSQLD names a mysqld 8.0 or newer"]
fn mysql() {
    if let Some(server) = Server::mysql(&[]) {
        everything(&server);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    everything(&Server::postgres(&[]));
}
