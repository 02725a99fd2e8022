//! How connections end: by us, by the server, and not by a refusal.

use std::time::{Duration, Instant};

use testserver::{ALL, one, rows as texts};
use wire::{Connection, Error, ServerUrl};

use testserver::Server;

pub fn everything(server: &Server, connection: &mut dyn Connection) {
    we_say_goodbye(server, connection);
    for tls in ["off", "required"] {
        idle_for_too_long(server, connection, tls);
    }
    killed(server, connection);
    a_packet_that_is_too_large(server, connection);
}

fn status(connection: &mut dyn Connection, name: &str) -> u64 {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let value = texts(connection, &sql)[0][1].clone();
    value.expect("a value").parse().expect("a number")
}

fn over_tcp(server: &Server, tls: &str) -> Box<dyn Connection> {
    let url = server.url_over_tcp("safe:se%40cret", "mysql");
    let url = format!("{url}?tls={tls}");
    wire::connect(&ServerUrl::parse(&url).expect("valid")).expect("login")
}

const CONNECTIONS: &str =
    "SELECT COUNT(*) FROM information_schema.processlist WHERE user IN ('root', 'safe', 'far')";

/// Ask until the answer is this; how often it was asked.
fn ask_until(connection: &mut dyn Connection, sql: &str, answer: &str) -> u64 {
    let begin = Instant::now();
    let mut asked = 0;
    loop {
        asked += 1;
        let found = one(connection, sql);
        if found == answer {
            return asked;
        }
        let waited = begin.elapsed();
        assert!(waited < Duration::from_secs(60), "{sql}: {found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A connection that is closed is no aborted one, and no statement: the server counts one of its `Questions`, and no `Com_*`.
fn we_say_goodbye(server: &Server, connection: &mut dyn Connection) {
    // A connection that ended before counts when the server comes to it.
    ask_until(connection, CONNECTIONS, "1");
    let aborted = status(connection, "Aborted_clients");
    let before = ["Questions", "Com_select"].map(|name| status(connection, name));
    drop(server.connect("mysql").expect("login"));
    let asked = ask_until(connection, CONNECTIONS, "1");
    let after = ["Questions", "Com_select"].map(|name| status(connection, name));
    // The two that ask for it count as well.
    assert_eq!(after[0] - before[0], asked + 2 + 1);
    assert_eq!(after[1] - before[1], asked);
    assert_eq!(status(connection, "Aborted_clients"), aborted);
}

/// MySQL says why it hung up, MariaDB does not.
fn idle_for_too_long(server: &Server, connection: &mut dyn Connection, tls: &str) {
    let mut idle = match tls {
        "off" => server.connect("mysql").expect("login"),
        _ => over_tcp(server, tls),
    };
    texts(&mut *idle, "SET SESSION wait_timeout = 1");
    ask_until(connection, CONNECTIONS, "1");
    let lost = idle.query("SELECT 1", ALL, &mut ()).expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
    if !idle.server_version().contains("MariaDB") {
        assert!(matches!(lost, Error::Server { code: 4031, .. }), "{lost}");
    }
}

fn killed(server: &Server, connection: &mut dyn Connection) {
    let mut victim = server.connect("mysql").expect("login");
    let id = one(&mut *victim, "SELECT CONNECTION_ID()");
    texts(connection, &format!("KILL {id}"));
    ask_until(connection, CONNECTIONS, "1");
    let lost = victim.query("SELECT 1", ALL, &mut ()).expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
    let mut victim = server.connect("mysql").expect("login");
    let id = one(&mut *victim, "SELECT CONNECTION_ID()");
    let killed = std::thread::spawn(move || victim.query("SELECT SLEEP(30)", ALL, &mut ()));
    let sleeps = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info LIKE 'SELECT SLEEP%'"
    );
    ask_until(connection, &sleeps, "1");
    texts(connection, &format!("KILL {id}"));
    let lost = killed.join().expect("thread").expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
}

fn a_packet_that_is_too_large(server: &Server, connection: &mut dyn Connection) {
    texts(connection, "SET GLOBAL max_allowed_packet = 1048576");
    let mut large = server.connect("mysql").expect("login");
    let sql = format!("SELECT LENGTH('{}')", "x".repeat(2 << 20));
    let lost = large.query(&sql, ALL, &mut ()).expect_err("too large");
    assert!(matches!(lost, Error::Server { code: 1153, .. }), "{lost}");
    assert!(lost.is_disconnect());
    assert!(large.query("SELECT 1", ALL, &mut ()).is_err());
}
