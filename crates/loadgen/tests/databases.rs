//! A captured application of several databases, replayed in them where the server's URL names none.

mod common;

use std::path::Path;

use common::relay::Relay;
use common::{Ran, command, ended, file, load, path};
use serde_json::{Value, json};
use testserver::{Server, rows, run};
use wire::{Connection, ServerUrl};

/// Databases whose table `t` has as many rows as their place.
const DATABASES: [&str; 2] = ["one", "two"];

fn fill(server: &Server) {
    for (place, database) in DATABASES.iter().enumerate() {
        drop(server.create(database));
        let connection = &mut *server.connect(database).expect("a login");
        run(connection, "CREATE TABLE t (a INT PRIMARY KEY)");
        for row in 0..=place {
            run(connection, &format!("INSERT INTO t VALUES ({row})"));
        }
    }
}

fn log_in(relay: &Relay, server: &Server, database: &str) -> Box<dyn Connection> {
    let url = relay.url(server).replace("/t?", &format!("/{database}?"));
    wire::connect(&ServerUrl::parse(&url).expect("valid")).expect("a login")
}

fn asks(connection: &mut dyn Connection, count: usize) {
    assert_eq!(rows(connection, "SELECT a FROM t").len(), count);
    let select = connection
        .prepare("SELECT a FROM t WHERE a >= 0")
        .expect("prepares");
    let done = connection.execute(&select, &[], testserver::ALL, &mut ());
    assert_eq!(done.expect("rows").rows, count as u64);
}

/// What an application did, as a trace that can be replayed; what the import says.
fn captured(server: &Server, name: &str, application: impl FnOnce(&Relay)) -> (Value, String) {
    let (capture, replay) = (file(server, name), file(server, &format!("{name}.replay")));
    let relay = Relay::start(server, &capture);
    application(&relay);
    relay.finish();
    let import = command("import", &[path(&capture), path(&replay), "--json"]);
    (ended(import).json(0), path(&replay).to_owned())
}

fn replayed(server: &Server, trace: &str, database: &str) -> Ran {
    let line = format!("replay {trace} --json -c 1 --protocol recorded");
    load(&line, &server.url(database))
}

fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

/// Of connections that logged in to one database.
fn one_database(server: &Server) {
    let (made, trace) = captured(server, "one", |relay| {
        asks(&mut *log_in(relay, server, "two"), 2);
    });
    assert_eq!(made["left_out"], json!({}));
    let result = replayed(server, &trace, "").json(0);
    assert!(result["statements"].get("use").is_none(), "{result}");
    assert!(notes(&result).contains("names no database"), "{result}");
    // It stays where it is told to.
    let elsewhere = replayed(server, &trace, "one").json(1);
    assert_eq!(elsewhere["replay"]["counted_otherwise"], 2);
    assert!(!notes(&elsewhere).contains("names no database"));
}

fn several_on_mysql(server: &Server) {
    fill(server);
    one_database(server);
    let (made, trace) = captured(server, "several", |relay| {
        let first = &mut *log_in(relay, server, "one");
        asks(first, 1);
        run(first, "BEGIN");
        run(first, "DELETE FROM t WHERE a = 7");
        run(first, "USE `two`");
        asks(first, 2);
        run(first, "COMMIT");
        asks(&mut *log_in(relay, server, "two"), 2);
        // It stays there.
        first.reset().expect("resets");
        asks(first, 2);
    });
    assert_eq!(made["left_out"], json!({"database": 1}));
    // Two texts in two databases, and the DELETE.
    assert_eq!(made["statements"], 5);
    let result = replayed(server, &trace, "").json(0);
    // To the first, and to the second within the transaction; there it stays.
    assert_eq!(result["statements"]["use"]["count"], 2, "{result}");
    assert!(notes(&result).contains("one, two"), "{result}");
    let one = replayed(server, &trace, "one").json(1);
    assert!(one["replay"]["counted_otherwise"].as_u64() > Some(0));
    run(
        &mut *server.connect("one").expect("a login"),
        "DROP DATABASE two",
    );
    replayed(server, &trace, "").refused(1, &["two"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    several_on_mysql(&Server::mariadb(&[]));
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mysql() {
    if let Some(server) = Server::mysql(&[]) {
        several_on_mysql(&server);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    let server = Server::postgres(&[]);
    fill(&server);
    one_database(&server);
    let (_, trace) = captured(&server, "several", |relay| {
        asks(&mut *log_in(relay, &server, "one"), 1);
        asks(&mut *log_in(relay, &server, "two"), 2);
    });
    assert!(Path::new(&trace).exists());
    replayed(&server, &trace, "").refused(2, &["2 databases", "one, two"]);
}
