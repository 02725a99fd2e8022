//! Results without column definitions.

use testserver::{ALL, Texts, one, rows as texts};
use wire::{Connection, Feature, Fetch, ServerUrl, Value};

use crate::server_bytes;
use testserver::Server;

fn connect(server: &Server, metadata: &str) -> Box<dyn Connection> {
    let socket = server.folder().join("s");
    let url = format!(
        "mysql://root@/mysql?socket={}&metadata={metadata}",
        socket.display()
    );
    wire::connect(&ServerUrl::parse(&url).expect("valid")).expect("login")
}

pub fn everything(server: &Server) {
    let (mut with, mut without) = (connect(server, "on"), connect(server, "off"));
    assert!(without.supports(Feature::OptionalMetadata));
    rows_are_the_same(&mut *with, &mut *without);
    let (full_bytes, full_packets) = point_select(&mut *with);
    let (bare_bytes, bare_packets) = point_select(&mut *without);
    eprintln!("answer to a point select: {full_bytes} bytes with metadata, {bare_bytes} without");
    // A flag more, one definition less.
    assert_eq!((full_packets, bare_packets), (4, 3));
    assert!(bare_bytes < full_bytes / 2, "{bare_bytes} of {full_bytes}");
    // MySQL does not tell that columns have changed since the statement was prepared.
    if without.server_version().contains("MariaDB") {
        a_changed_table(&mut *with, &mut *without);
    }
}

fn rows_are_the_same(with: &mut dyn Connection, without: &mut dyn Connection) {
    let sql = "SELECT * FROM t ORDER BY id";
    let expected = texts(with, sql);
    assert_eq!(texts(without, sql), expected);
    let select = without.prepare(sql).expect("prepare");
    for size in [0, 0, 7] {
        let mut rows = Texts::default();
        let fetch = Fetch { size, ..ALL };
        without
            .execute(&select, &[], fetch, &mut rows)
            .expect("select");
        assert_eq!(rows.0, expected);
    }
    without.close(select).expect("close");
}

/// Bytes and packets of one answer; the server counts as many.
fn point_select(connection: &mut dyn Connection) -> (u64, u64) {
    let select = connection
        .prepare("SELECT words FROM t WHERE id = ?")
        .expect("prepare");
    let select_once = |connection: &mut dyn Connection| {
        let before = connection.counters();
        let done = connection.execute(&select, &[Value::Int(2)], ALL, &mut ());
        assert_eq!(done.expect("select").rows, 1);
        connection.counters() - before
    };
    // Where definitions can be switched off, the first execution does it.
    select_once(connection);
    let ours = connection.counters();
    let servers = server_bytes(connection);
    let counted = select_once(connection);
    assert_eq!(counted.round_trips, 1);
    let ours = connection.counters() - ours;
    let servers_after = server_bytes(connection);
    assert_eq!(ours.bytes_sent, servers_after.0 - servers.0);
    assert_eq!(ours.bytes_received, servers_after.1 - servers.1);
    connection.close(select).expect("close");
    (counted.bytes_received, counted.packets_received)
}

/// A statement that was prepared before a change of its table still returns what the table holds.
fn a_changed_table(other: &mut dyn Connection, connection: &mut dyn Connection) {
    texts(other, "CREATE TABLE changing (n INT)");
    texts(other, "INSERT INTO changing VALUES (7)");
    let select = connection
        .prepare("SELECT n FROM changing")
        .expect("prepare");
    connection
        .execute(&select, &[], ALL, &mut ())
        .expect("before");
    texts(other, "ALTER TABLE changing MODIFY n VARCHAR(20)");
    let mut rows = Texts::default();
    connection
        .execute(&select, &[], ALL, &mut rows)
        .expect("after");
    assert_eq!(rows.0[0][0].as_deref(), Some("7"));
    assert_eq!(one(connection, "SELECT 1"), "1");
}
