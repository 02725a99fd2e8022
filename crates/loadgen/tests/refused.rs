//! A captured application whose server refused some of its statements, replayed.

mod common;

use common::relay::Relay;
use common::{command, ended, file, load, path};
use serde_json::Value;
use testserver::{Server, rows, run};
use wire::{BatchWay, Connection, ServerUrl};

const TABLE: &str = "CREATE TABLE t (a INT PRIMARY KEY)";

fn refused(connection: &mut dyn Connection, sql: &str) {
    let answer = connection.query(sql, testserver::ALL, &mut ());
    answer.expect_err(sql);
}

/// Statements alone and in a transaction.
fn application(connection: &mut dyn Connection) {
    refused(connection, "SELECT a FROM missing");
    // Row 9 is there.
    refused(connection, "INSERT INTO t VALUES (9)");
    run(connection, "CREATE TEMPORARY TABLE made (a INT)");
    run(connection, "INSERT INTO made VALUES (1)");
    run(connection, "BEGIN");
    run(connection, "INSERT INTO t VALUES (1)");
    refused(connection, "INSERT INTO t VALUES (9)");
    refused(connection, "no statement");
    run(connection, "COMMIT");
}

/// One flight up to a Sync, whose third row is refused.
fn flight(connection: &mut dyn Connection) {
    let insert = connection.prepare("INSERT INTO t VALUES (?)");
    let insert = insert.expect("prepares");
    let rows: Vec<_> = [2, 3, 3, 4].map(|a| vec![wire::Value::Int(a)]).into();
    let done = connection.execute_batch(&insert, &rows, BatchWay::Pipeline);
    done.expect_err("a row twice");
}

/// The result of a replay on one connection, on a table with these rows, and the rows that it has then.
fn replayed(server: &Server, trace: &str, before: &str, code: i32) -> (Value, usize) {
    let connection = &mut *server.connect("t").expect("a login");
    run(connection, "DROP TABLE t");
    run(connection, TABLE);
    if !before.is_empty() {
        run(connection, &format!("INSERT INTO t VALUES {before}"));
    }
    let line = format!("replay {trace} --json -c 1");
    let result = load(&line, &server.url("t")).json(code);
    (result, rows(connection, "SELECT a FROM t").len())
}

/// What an application sends, on a server with this table, as a trace.
fn captured(server: &Server, table: &str, application: impl FnOnce(&mut dyn Connection)) -> String {
    drop(server.create("t"));
    let own = &mut *server.connect("t").expect("a login");
    run(own, table);
    run(own, "INSERT INTO t VALUES (9)");
    let (capture, replay) = (file(server, "app.trace"), file(server, "app.replay"));
    let relay = Relay::start(server, &capture);
    let url = ServerUrl::parse(&relay.url(server)).expect("valid");
    let mut connection = wire::connect(&url).expect("a login");
    application(&mut *connection);
    // The relay ends with its last connection.
    drop(connection);
    relay.finish();
    let import = command("import", &[path(&capture), path(&replay), "--json"]);
    ended(import).json(0);
    path(&replay).to_owned()
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    let server = Server::postgres(&[]);
    let trace = captured(&server, TABLE, |connection| {
        application(connection);
        flight(connection);
    });
    let (result, count) = replayed(&server, &trace, "(9)", 0);
    assert_eq!(
        (&result["replay"]["ended_otherwise"], count),
        (&0.into(), 1)
    );
    // The INSERT that was refused alone succeeds, and is undone.
    let (result, count) = replayed(&server, &trace, "", 1);
    assert_eq!(
        (&result["replay"]["ended_otherwise"], count),
        (&1.into(), 0)
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_refused_commit_leaves_nothing() {
    let server = Server::postgres(&[]);
    let table = "CREATE TABLE t (a INT UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    let trace = captured(&server, table, |connection| {
        run(connection, "BEGIN");
        run(connection, "INSERT INTO t VALUES (1), (1)");
        refused(connection, "COMMIT");
    });
    let own = &mut *server.connect("t").expect("a login");
    run(own, "ALTER TABLE t DROP CONSTRAINT t_a_key");
    let result = load(&format!("replay {trace} --json"), &server.url("t")).json(0);
    assert_eq!(result["replay"]["ended_otherwise"], 0, "{result:#}");
    assert_eq!(result["statements"]["commit"], Value::Null, "{result:#}");
    assert_eq!(rows(own, "SELECT a FROM t").len(), 1);
}
