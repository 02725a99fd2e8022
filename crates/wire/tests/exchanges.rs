//! Exchanges that `examples/capture_exchange.rs` captured from real servers, played again: as they were, and damaged.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use wire::{Family, ServerUrl};

#[path = "common/exchange.rs"]
mod exchange;
#[path = "common/held.rs"]
mod held;

/// What a connection may hold at once when the server sends some kilobytes, whatever lengths stand in them, in bytes: a quarter of a
/// megabyte are lines of LOAD DATA.
const HELD_BYTES_MAX: usize = 1 << 20;
/// Damaged exchanges of each kind.
const CASES: u32 = 5000;

/// What was captured.
struct Exchange {
    url: ServerUrl,
    sent: Vec<u8>,
    received: Vec<u8>,
    said: Vec<String>,
}

fn captured(name: &str) -> Exchange {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/exchanges")
        .join(name);
    let text = std::fs::read_to_string(&path).expect("a captured exchange");
    let server = match name.split('-').next() {
        Some("postgres") => "postgres://postgres@/postgres",
        _ => "mysql://root@/mysql",
    };
    let options = [
        ("metadata-off", "metadata=off"),
        ("binary-results", "binary-results=on"),
    ];
    let option = options.iter().find(|(words, _)| name.contains(words));
    let url = format!("{server}?{}", option.map_or("", |(_, option)| option));
    let mut exchange = Exchange {
        url: ServerUrl::parse(&url).expect("valid"),
        sent: Vec::new(),
        received: Vec::new(),
        said: Vec::new(),
    };
    for line in text.lines() {
        match line.split_at(2) {
            ("> ", digits) => exchange.sent.extend(bytes(digits)),
            ("< ", digits) => exchange.received.extend(bytes(digits)),
            (_, words) => exchange.said.push(words.to_owned()),
        }
    }
    exchange
}

fn bytes(digits: &str) -> impl Iterator<Item = u8> {
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal"))
}

/// The name of its socket.
const SOCKET: &str = "s";

/// Says to each client what it was given, whatever the client says, and hangs up.
struct Server {
    folder: TempDir,
    answers: mpsc::Sender<Vec<u8>>,
    heard: mpsc::Receiver<Vec<u8>>,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let (answers, to_say) = mpsc::channel::<Vec<u8>>();
        let (hear, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for answer in to_say {
                let (mut client, _) = listener.accept().expect("a client");
                // A client that has had enough hangs up first.
                let _ = client
                    .write_all(&answer)
                    .and_then(|()| client.shutdown(Shutdown::Write));
                let mut all = Vec::new();
                let _ = client.read_to_end(&mut all);
                if hear.send(all).is_err() {
                    return;
                }
            }
        });
        Self {
            folder,
            answers,
            heard,
        }
    }

    /// What the client made of an answer, what it sent, and what it held at most, in bytes.
    fn play(&self, url: &ServerUrl, answer: Vec<u8>) -> (Vec<String>, Vec<u8>, usize) {
        self.answers.send(answer).expect("the server");
        let mut url = url.clone();
        url.socket = Some(self.folder.path().join(SOCKET));
        let mut said = Vec::new();
        let held = held::most(|| said = exchange::talk(&url));
        (said, self.heard.recv().expect("the server"), held)
    }
}

/// Damage to an answer.
#[derive(Debug, Clone)]
enum Damage {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, Index, usize),
    End(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = proptest::collection::vec(any::<u8>(), 1..8);
    prop_oneof![
        8 => (any::<Index>(), prop_oneof![any::<u8>(), Just(0), Just(0xFB), Just(0xFE), Just(0xFF)])
            .prop_map(|(at, byte)| Damage::Set(at, byte)),
        2 => (any::<Index>(), bytes).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => (any::<Index>(), 1..16usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        2 => (any::<Index>(), any::<Index>(), 1..64usize).prop_map(|(from, to, count)| Damage::Repeat(from, to, count)),
        1 => any::<Index>().prop_map(Damage::End),
    ]
}

impl Damage {
    fn apply(&self, answer: &mut Vec<u8>) {
        if answer.is_empty() {
            return;
        }
        let length = answer.len();
        match self {
            Self::Set(at, byte) => answer[at.index(length)] = *byte,
            Self::Insert(at, bytes) => {
                let at = at.index(length);
                answer.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(length);
                answer.drain(at..length.min(at + count));
            }
            Self::Repeat(from, to, count) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = answer[from..length.min(from + count)].to_vec();
                answer.splice(to..to, part);
            }
            Self::End(at) => answer.truncate(at.index(length)),
        }
    }
}

fn play_again(name: &str) {
    let exchange = captured(name);
    let server = Server::start();
    let (said, sent, held) = server.play(&exchange.url, exchange.received.clone());
    assert_eq!(said, exchange.said);
    assert!(
        sent == exchange.sent,
        "other bytes than those that were captured"
    );
    assert!(held <= HELD_BYTES_MAX, "{held} bytes");
    let config = ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let damages = proptest::collection::vec(damage(), 1..4);
    let tested = TestRunner::new(config).run(&damages, |damages| {
        let mut answer = exchange.received.clone();
        for damage in &damages {
            damage.apply(&mut answer);
        }
        let (said, _, held) = server.play(&exchange.url, answer);
        prop_assert!(!said.is_empty());
        prop_assert!(held <= HELD_BYTES_MAX, "{held} bytes");
        Ok(())
    });
    if let Err(failure) = tested {
        panic!("{failure}");
    }
}

#[test]
fn mysql() {
    play_again("mysql-9.7.txt");
}

#[test]
fn mysql_without_metadata() {
    play_again("mysql-9.7-metadata-off.txt");
}

#[test]
fn mariadb() {
    play_again("mariadb-10.11.txt");
}

#[test]
fn mariadb_without_metadata() {
    play_again("mariadb-10.11-metadata-off.txt");
}

#[test]
fn postgres() {
    assert_eq!(captured("postgres-15.txt").url.family, Family::Postgres);
    play_again("postgres-15.txt");
}

#[test]
fn postgres_with_binary_results() {
    play_again("postgres-15-binary-results.txt");
}
