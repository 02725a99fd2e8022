//! How connections end: by us, by the server, and not by a refusal.

use std::time::{Duration, Instant};

use wire::{Connection, Error, ServerUrl};

use crate::common::{ALL, one, texts};
use crate::server::Server;

pub fn everything(server: &Server, connection: &mut dyn Connection) {
    we_say_goodbye(server, connection);
    for tls in ["off", "required"] {
        idle_for_too_long(server, tls);
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
    let url = format!(
        "mysql://safe:se%40cret@127.0.0.1:{}/mysql?tls={tls}",
        server.port
    );
    wire::connect(&ServerUrl::parse(&url).expect("valid")).expect("login")
}

fn connections(connection: &mut dyn Connection) -> String {
    one(
        connection,
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user IN ('root', 'safe', 'far')",
    )
}

/// A connection that is closed is no aborted one, and no statement: the server counts one of its `Questions`, and no `Com_*`.
fn we_say_goodbye(server: &Server, connection: &mut dyn Connection) {
    let aborted = status(connection, "Aborted_clients");
    let before = ["Questions", "Com_select"].map(|name| status(connection, name));
    drop(server.connect("root").expect("login"));
    let begin = Instant::now();
    let mut asked = 0u64;
    loop {
        asked += 1;
        if connections(connection) == "1" {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "the connection is still there"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = ["Questions", "Com_select"].map(|name| status(connection, name));
    // The two that ask for it count as well.
    assert_eq!(after[0] - before[0], asked + 2 + 1);
    assert_eq!(after[1] - before[1], asked);
    assert_eq!(status(connection, "Aborted_clients"), aborted);
}

/// MySQL says why it hung up, MariaDB does not.
fn idle_for_too_long(server: &Server, tls: &str) {
    let mut idle = match tls {
        "off" => server.connect("root").expect("login"),
        _ => over_tcp(server, tls),
    };
    texts(&mut *idle, "SET SESSION wait_timeout = 1");
    std::thread::sleep(Duration::from_millis(2500));
    let lost = idle.query("SELECT 1", ALL, &mut ()).expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
    if !idle.server_version().contains("MariaDB") {
        assert!(matches!(lost, Error::Server { code: 4031, .. }), "{lost}");
    }
}

fn killed(server: &Server, connection: &mut dyn Connection) {
    let mut victim = server.connect("root").expect("login");
    let id = one(&mut *victim, "SELECT CONNECTION_ID()");
    texts(connection, &format!("KILL {id}"));
    std::thread::sleep(Duration::from_millis(500));
    let lost = victim.query("SELECT 1", ALL, &mut ()).expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
    let mut victim = server.connect("root").expect("login");
    let id = one(&mut *victim, "SELECT CONNECTION_ID()");
    let killed = std::thread::spawn(move || victim.query("SELECT SLEEP(30)", ALL, &mut ()));
    std::thread::sleep(Duration::from_millis(500));
    texts(connection, &format!("KILL {id}"));
    let lost = killed.join().expect("thread").expect_err("lost");
    assert!(lost.is_disconnect(), "{lost}");
}

fn a_packet_that_is_too_large(server: &Server, connection: &mut dyn Connection) {
    texts(connection, "SET GLOBAL max_allowed_packet = 1048576");
    let mut large = server.connect("root").expect("login");
    let sql = format!("SELECT LENGTH('{}')", "x".repeat(2 << 20));
    let lost = large.query(&sql, ALL, &mut ()).expect_err("too large");
    assert!(matches!(lost, Error::Server { code: 1153, .. }), "{lost}");
    assert!(lost.is_disconnect());
    assert!(large.query("SELECT 1", ALL, &mut ()).is_err());
}
