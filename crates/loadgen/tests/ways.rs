//! A captured application, replayed: each statement goes to the server as the application sent it. What both say is captured on the way.

mod common;

use std::path::Path;

use common::relay::{Relay, exchanges};
use common::{Ran, file, load, path};
use testserver::{ALL, Server, run};
use wire::passive::{Kind as Request, Verb};
use wire::{BatchWay, Connection, Fetch, RowsWanted, ServerUrl, Value};

/// A request as it was sent: which, its text, the rows of a fetch.
type Sent = (Request, String, Option<u64>, u64);

/// What the connection asked that did the work: others look at the server before it and after it.
fn sent(trace: &Path) -> Vec<Sent> {
    let mut found: Vec<(u32, Sent)> = Vec::new();
    for (connection, exchange) in exchanges(trace) {
        let is_work = !matches!(exchange.kind, Request::Quit | Request::Other)
            && exchange.verb != Some(Verb::Set);
        if is_work {
            let text = exchange
                .text
                .as_ref()
                .map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
            let text = text.unwrap_or_default();
            found.push((
                connection,
                (exchange.kind, text, exchange.fetch_size, exchange.rows),
            ));
        }
    }
    let works = found.iter().find(|(_, sent)| sent.1 == "COMMIT");
    let works = works.expect("a transaction").0;
    let its = found
        .into_iter()
        .filter(|(connection, _)| *connection == works);
    its.map(|(_, sent)| sent).collect()
}

/// The table as it is before each of the two.
fn fill(server: &Server) {
    let connection = &mut *server.connect("t").expect("a login");
    run(connection, "DROP TABLE IF EXISTS t");
    run(
        connection,
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))",
    );
    let rows: Vec<String> = (1..=30)
        .map(|number| format!("({number}, 'row {number}')"))
        .collect();
    run(
        connection,
        &format!("INSERT INTO t VALUES {}", rows.join(", ")),
    );
}

/// An application that sends statements in all ways.
fn application(connection: &mut dyn Connection, has_bulk: bool) {
    run(connection, "BEGIN");
    run(connection, "SELECT a, b FROM t WHERE a = 9");
    let once = connection
        .prepare("SELECT a, b FROM t WHERE a = ?")
        .expect("prepares");
    for number in 1..=3 {
        let done = connection.execute(&once, &[Value::Int(number)], ALL, &mut ());
        assert_eq!(done.expect("a row").rows, 1);
    }
    for _ in 0..3 {
        let each = connection
            .prepare("SELECT b FROM t WHERE a > ?")
            .expect("prepares");
        let done = connection.execute(&each, &[Value::Int(27)], ALL, &mut ());
        assert_eq!(done.expect("rows").rows, 3);
        connection.close(each).expect("closes");
    }
    let cursor = connection
        .prepare("SELECT a FROM t ORDER BY a")
        .expect("prepares");
    let fetch = Fetch {
        size: 7,
        rows: RowsWanted::All,
    };
    let done = connection.execute(&cursor, &[], fetch, &mut ());
    assert_eq!(done.expect("rows").rows, 30);
    let several = "SELECT 1; SELECT 2, ';' AS b; UPDATE t SET b = 'new' WHERE a = 1";
    let done = connection
        .query(several, ALL, &mut ())
        .expect("three answers");
    assert_eq!((done.rows, done.affected), (2, 1));
    run(connection, "COMMIT");
    run(connection, "UPDATE t SET b = 'newer' WHERE a = 2");
    if has_bulk {
        let insert = connection
            .prepare("INSERT INTO t VALUES (?, ?)")
            .expect("prepares");
        let row = |number| vec![Value::Int(number), Value::Text(format!("row {number}"))];
        let rows: Vec<_> = (100..105).map(row).collect();
        let done = connection.execute_batch(&insert, &rows, BatchWay::Bulk);
        assert_eq!(done.expect("a batch").affected, 5);
    }
}

fn replayed(server: &Server, replay: &Path, name: &str, more: &str) -> (Ran, Vec<Sent>) {
    fill(server);
    let trace = file(server, name);
    let relay = Relay::start(server, &trace);
    let ran = load(
        &format!("replay {} --json {more}", path(replay)),
        &relay.url(server),
    );
    relay.finish();
    (ran, sent(&trace))
}

fn each_way(server: &Server, has_bulk: bool) {
    drop(server.create("t"));
    fill(server);
    let (capture, replay) = (file(server, "app.trace"), file(server, "app.replay"));
    let relay = Relay::start(server, &capture);
    let url = ServerUrl::parse(&relay.url(server)).expect("valid");
    application(&mut *wire::connect(&url).expect("a login"), has_bulk);
    relay.finish();
    let original = sent(&capture);
    let mut import = common::command("import", &[path(&capture), path(&replay), "--json"]);
    import.env_remove("UPSHIFT_LOAD_SERVER");
    let made = common::ended(import).json(0);
    assert_eq!(made["left_out"], serde_json::json!({}), "{made}");
    // Each as it was sent, answered with as many rows.
    let (ran, again) = replayed(server, &replay, "again.trace", "");
    let result = ran.json(0);
    assert_eq!(result["options"]["protocol"], "recorded");
    assert_eq!(result["options"]["fetch_size"], serde_json::Value::Null);
    assert_eq!(again, original);
    let kinds = |sent: &[Sent], kind| sent.iter().filter(|each| each.0 == kind).count();
    assert!(
        kinds(&original, Request::Execute) >= 7 && original.iter().any(|each| each.2 == Some(7))
    );
    // One way for all: only what no server prepares, and the boundaries, come as text.
    let (ran, all) = replayed(
        server,
        &replay,
        "all.trace",
        "--protocol prepared --fetch-size 0",
    );
    ran.json(0);
    assert_eq!(kinds(&all, Request::Query), 3, "{all:?}");
    assert!(all.iter().all(|each| each.2.is_none()), "{all:?}");
    let (ran, text) = replayed(
        server,
        &replay,
        "text.trace",
        "--protocol text --fetch-size 0",
    );
    ran.json(0);
    assert_eq!(kinds(&text, Request::Execute), 0, "{text:?}");
    // Several statements of one text have no part.
    let (ran, _) = replayed(server, &replay, "parts.trace", "--fetch-size 7");
    ran.json(0);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    each_way(&Server::mariadb(&[]), true);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mysql() {
    if let Some(server) = Server::mysql(&[]) {
        each_way(&server, false);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    each_way(&Server::postgres(&[]), false);
}
