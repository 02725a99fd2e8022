//! Answers that servers give rarely, said by a server that is none.

#[path = "common/script.rs"]
mod script;

#[path = "common/columns.rs"]
mod columns;

use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use columns::Columns;
use script::{CAPABILITIES, greeting, heard, packet};
use testserver::{ALL, Texts, one};
use wire::{Connection, Error, ServerUrl};

/// The status of an answer behind which another one follows.
const MORE_RESULTS: u8 = 8;

/// A server may leave column definitions out.
const OPTIONAL_METADATA: u32 = 1 << 25;

/// Log in to a server that gives these answers, one to each request; it returns what it was sent.
fn connect(options: &str, says: Vec<Vec<u8>>) -> (Box<dyn Connection>, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("set");
        std::io::Write::write_all(&mut stream, &greeting(CAPABILITIES | OPTIONAL_METADATA))
            .expect("said");
        let login = vec![packet(2, &ended(0, 0))];
        heard(stream, &[login, says].concat())
    });
    let url = format!("mysql://me@127.0.0.1:{port}/{options}");
    let connection = wire::connect(&ServerUrl::parse(&url).expect("valid"));
    (connection.expect("a login"), server)
}

/// An answer without rows, or the end of rows: its first byte tells them apart.
fn ended(first: u8, status: u8) -> Vec<u8> {
    vec![first, 0, 0, status, 0, 0, 0]
}

/// A column of text with this name.
fn column(name: &[u8]) -> Vec<u8> {
    let length = (name.len() as u32).to_le_bytes();
    let mut payload = vec![0, 0, 0, 0, 0xFD];
    payload.extend_from_slice(&length[..3]);
    payload.extend_from_slice(name);
    payload.extend_from_slice(&[0, 12, 45, 0, 9, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
    payload
}

/// A result of one row and one column of text, from this packet on.
fn result(number: u8, text: &[u8], status: u8) -> Vec<u8> {
    let row = [&[text.len() as u8], text].concat();
    let payloads = [vec![1], column(b"n"), row, ended(0xFE, status)];
    let packets = (number..).zip(&payloads);
    packets
        .flat_map(|(at, payload)| packet(at, payload))
        .collect()
}

#[test]
fn what_follows_a_load_in_one_text_is_read() {
    let rows = [
        packet(3, &ended(0, MORE_RESULTS)),
        result(4, b"lost", MORE_RESULTS),
        // The text's second load.
        packet(8, b"\xfby"),
    ];
    let says = vec![
        packet(1, b"\xfbx"),
        rows.concat(),
        packet(10, &ended(0, 0)),
        result(1, b"7", 0),
    ];
    let (mut connection, server) = connect("", says);
    let mut rows = Texts::default();
    let load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT 'lost'; LOAD DATA LOCAL INFILE 'y' INTO TABLE t";
    let refused = connection.query(load, ALL, &mut rows);
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    assert!(
        rows.0.is_empty(),
        "a statement that is not supported has no rows"
    );
    assert_eq!(one(&mut *connection, "SELECT 7"), "7");
    drop(connection);
    let heard = server.join().expect("server");
    assert!(
        heard.windows(8).any(|sent| sent == b"\0\0\0\x02\0\0\0\x09"),
        "two empty files"
    );
}

#[test]
fn columns_that_are_not_told_are_no_result_without_columns() {
    for (name_bytes, is_told) in [(600, true), (600 << 10, false)] {
        let name = vec![b'n'; name_bytes];
        let (prepared, row) = (
            [0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
            [0, 0, 1, b'x', 1, b'y'],
        );
        let definitions = [packet(2, &column(&name)), packet(3, &column(&name))];
        // Two columns, no definitions.
        let rows = [
            packet(1, &[2, 0]),
            packet(2, &row),
            packet(3, &ended(0xFE, 0)),
        ];
        let says = vec![
            [packet(1, &prepared), definitions.concat()].concat(),
            packet(1, &ended(0, 0)),
            rows.concat(),
            rows.concat(),
        ];
        let (mut connection, server) = connect("?metadata=off", says);
        let select = connection.prepare("SELECT * FROM t").expect("prepare");
        let mut rows = Texts::default();
        let done = connection.execute(&select, &[], ALL, &mut rows);
        assert_eq!(done.expect("rows alone").rows, 1);
        let mut told = Columns::default();
        match connection.execute(&select, &[], ALL, &mut told) {
            Ok(_) => assert!(is_told && told.0.len() == 2, "{} columns", told.0.len()),
            Err(error) => assert!(!is_told && error.is_disconnect(), "{error}"),
        }
        drop(connection);
        server.join().expect("server");
    }
}
