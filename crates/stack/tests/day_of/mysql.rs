//! Both sides of MySQL's protocol, as little of it as an application's day needs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const OK_IN_TRANSACTION: &[u8] = b"\0\x01\0\x03\0\0\0";
const ERROR: &[u8] = b"\xff\x28\x04#42000no";
const EOF: &[u8] = b"\xfe\0\0\x02\0";
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0";
/// PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, LONG_PASSWORD.
const CAPABILITIES: u32 = 0x0008_8201;
const QUIT: u8 = 1;
const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE: u8 = 0x19;

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// The next packet's payload; none at the end.
fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

/// A server that answers by how a request begins.
pub fn serve(mut stream: UnixStream) {
    let [a, b, c, d] = CAPABILITIES.to_le_bytes();
    let greeting = [
        &b"\x0a8.0\0\0\0\0\x0012345678\0"[..],
        &[a, b, 45, 2, 0, c, d, 21],
        &[0; 10],
        b"123456789012\0mysql_native_password\0",
    ];
    if stream.write_all(&packet(0, &greeting.concat())).is_err() || receive(&mut stream).is_none() {
        return;
    }
    let mut answer = packet(2, OK);
    loop {
        if stream.write_all(&answer).is_err() {
            return;
        }
        let Some(request) = receive(&mut stream) else {
            return;
        };
        answer = match (request[0], &request[1..]) {
            (QUERY, sql) if sql.starts_with(b"SELECT") => rows(b"\x0212"),
            (QUERY, sql) if sql.starts_with(b"SELEC ") => packet(1, ERROR),
            (QUERY, sql) if sql.starts_with(b"BEGIN") || sql.starts_with(b"UPDATE") => {
                packet(1, OK_IN_TRANSACTION)
            }
            (QUERY, _) => packet(1, OK),
            (PREPARE, _) => [
                packet(1, b"\0\x07\0\0\0\x01\0\x01\0\0\0\0"),
                packet(2, COLUMN),
                packet(3, EOF),
                packet(4, COLUMN),
                packet(5, EOF),
            ]
            .concat(),
            (EXECUTE, _) => rows(b"\0\0\x0c\0\0\0"),
            (CLOSE, _) => Vec::new(),
            _ => return,
        };
    }
}

fn rows(row: &[u8]) -> Vec<u8> {
    let head = [packet(1, b"\x01"), packet(2, COLUMN), packet(3, EOF)].concat();
    [head, packet(4, row), packet(5, row), packet(6, EOF)].concat()
}

struct Client(UnixStream);

impl Client {
    fn login(mut stream: UnixStream) -> Self {
        receive(&mut stream).expect("a greeting");
        let [a, b, c, d] = CAPABILITIES.to_le_bytes();
        let response = [
            &[a, b, c, d, 0, 0, 0, 1, 45][..],
            &[0; 23],
            b"app\0\x06secretmysql_native_password\0",
        ];
        stream
            .write_all(&packet(1, &response.concat()))
            .expect("sent");
        receive(&mut stream).expect("a login");
        Self(stream)
    }

    /// A request, and so many packets of its answer.
    fn ask(&mut self, command: u8, payload: &[u8], packets: usize) {
        let request = packet(0, &[&[command], payload].concat());
        self.0.write_all(&request).expect("sent");
        for _ in 0..packets {
            receive(&mut self.0).expect("an answer");
        }
    }
}

/// Repeated and new texts, a transaction, an error, a statement that is closed and one that is left open, and an end with a farewell or
/// without.
pub fn talk(stream: UnixStream, number: usize) -> u64 {
    let mut client = Client::login(stream);
    let execute = b"\x07\0\0\0\0\x01\0\0\0\0\x01\x03\0\x05\0\0\0";
    client.ask(QUERY, b"SET NAMES utf8mb4", 1);
    client.ask(QUERY, b"SELECT a FROM t WHERE id = 7", 6);
    client.ask(
        QUERY,
        format!("SELECT a FROM t WHERE id = {number}").as_bytes(),
        6,
    );
    client.ask(QUERY, b"BEGIN", 1);
    client.ask(
        QUERY,
        format!("UPDATE t SET a = {number} WHERE id = 1").as_bytes(),
        1,
    );
    client.ask(QUERY, b"COMMIT", 1);
    client.ask(QUERY, b"SELEC 1", 1);
    client.ask(PREPARE, b"SELECT a FROM t WHERE id = ?", 5);
    client.ask(EXECUTE, execute, 6);
    client.ask(EXECUTE, execute, 6);
    client.ask(CLOSE, b"\x07\0\0\0", 0);
    client.ask(
        PREPARE,
        format!("SELECT {number} FROM t WHERE id = ?").as_bytes(),
        5,
    );
    client.ask(EXECUTE, execute, 6);
    if number.is_multiple_of(2) {
        return 13;
    }
    client.ask(QUIT, b"", 0);
    14
}

/// So many requests, sent ahead of their answers.
pub fn ask_all(stream: UnixStream, texts: &[String]) {
    let mut client = Client::login(stream);
    for some in texts.chunks(64) {
        let each = some
            .iter()
            .map(|sql| packet(0, &[&[QUERY], sql.as_bytes()].concat()));
        client
            .0
            .write_all(&each.collect::<Vec<_>>().concat())
            .expect("sent");
        for _ in some {
            receive(&mut client.0).expect("an answer");
        }
    }
}
