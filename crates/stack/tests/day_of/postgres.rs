//! Both sides of PostgreSQL's protocol, as little of it as an application's day needs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &length, body].concat()
}

/// The next message's tag and body; none at the end.
fn receive(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// What stands before the first message: a request for TLS, or what a session begins with. Whether it is the latter.
fn receive_begin(stream: &mut UnixStream) -> Option<bool> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some(body.starts_with(b"\0\x03"))
}

/// A server that answers by how a request begins.
pub fn serve(mut stream: UnixStream) {
    match receive_begin(&mut stream) {
        Some(true) => {}
        // The capture's own look asks for TLS, and leaves.
        _ => return drop(stream.write_all(b"N")),
    }
    let mut answer = [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0017.2\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let mut state = b'I';
    loop {
        if stream.write_all(&answer).is_err() {
            return;
        }
        let Some((tag, body)) = receive(&mut stream) else {
            return;
        };
        answer = match tag {
            b'Q' => {
                if body.starts_with(b"BEGIN") {
                    state = b'T';
                } else if body.starts_with(b"COMMIT") {
                    state = b'I';
                }
                let said = match &body[..] {
                    sql if sql.starts_with(b"SELECT") => rows(),
                    sql if sql.starts_with(b"SELEC ") => message(b'E', b"SERROR\0C42601\0Mno\0\0"),
                    _ => message(b'C', b"DO\0"),
                };
                [said, message(b'Z', &[state])].concat()
            }
            b'P' => message(b'1', b""),
            b'B' => message(b'2', b""),
            b'E' => [row(), message(b'C', b"SELECT 1\0")].concat(),
            b'C' => message(b'3', b""),
            b'S' => message(b'Z', &[state]),
            _ => return,
        };
    }
}

fn row() -> Vec<u8> {
    message(b'D', b"\0\x01\0\0\0\x0212")
}

fn rows() -> Vec<u8> {
    let column = b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
    [message(b'T', column), row(), message(b'C', b"SELECT 1\0")].concat()
}

struct Client(UnixStream);

impl Client {
    fn login(mut stream: UnixStream) -> Self {
        let body = b"\0\x03\0\0user\0app\0application_name\0shop\0\0";
        let length = (body.len() as u32 + 4).to_be_bytes();
        stream
            .write_all(&[&length[..], body].concat())
            .expect("sent");
        let mut client = Self(stream);
        client.ready(1);
        client
    }

    /// Read up to the server's being ready so many times.
    fn ready(&mut self, times: usize) {
        for _ in 0..times {
            while receive(&mut self.0).expect("an answer").0 != b'Z' {}
        }
    }

    fn query(&mut self, sql: &str) {
        let text = format!("{sql}\0");
        self.0
            .write_all(&message(b'Q', text.as_bytes()))
            .expect("sent");
        self.ready(1);
    }

    fn flight(&mut self, messages: &[Vec<u8>]) {
        let all = [messages.concat(), message(b'S', b"")].concat();
        self.0.write_all(&all).expect("sent");
        self.ready(1);
    }
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

fn bind(name: &str) -> Vec<u8> {
    message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes())
}

fn execute() -> Vec<u8> {
    message(b'E', b"\0\0\0\0\0")
}

/// Repeated and new texts, a transaction, an error, a statement that is closed and one that is left open, and an end with a farewell or
/// without.
pub fn talk(stream: UnixStream, number: usize) -> u64 {
    let mut client = Client::login(stream);
    client.query("SELECT a FROM t WHERE id = 7");
    client.query(&format!("SELECT a FROM t WHERE id = {number}"));
    client.query("BEGIN");
    client.query(&format!("UPDATE t SET a = {number} WHERE id = 1"));
    client.query("COMMIT");
    client.query("SELEC 1");
    client.flight(&[
        parse("s", "SELECT a FROM t WHERE id = 1"),
        bind("s"),
        execute(),
    ]);
    client.flight(&[bind("s"), execute()]);
    client.flight(&[message(b'C', b"Ss\0")]);
    let open = format!("s{number}");
    client.flight(&[
        parse(&open, &format!("SELECT {number} FROM t")),
        bind(&open),
        execute(),
    ]);
    if number.is_multiple_of(2) {
        return 12;
    }
    client.0.write_all(&message(b'X', b"")).expect("sent");
    13
}

/// So many requests, sent ahead of their answers.
pub fn ask_all(stream: UnixStream, texts: &[String]) {
    let mut client = Client::login(stream);
    for some in texts.chunks(64) {
        let each = some
            .iter()
            .map(|sql| message(b'Q', format!("{sql}\0").as_bytes()));
        client
            .0
            .write_all(&each.collect::<Vec<_>>().concat())
            .expect("sent");
        client.ready(some.len());
    }
}
