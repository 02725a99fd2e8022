//! A day's conversations in some seconds: the memory of a capture does not grow with what has passed through it.

mod common;
mod day_of {
    pub mod mysql;
    pub mod postgres;
}

use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use common::{Capture, Folder, text};
use day_of::{mysql, postgres};

/// Clients at a time.
const CLIENTS: usize = 4;
const HOURS: usize = 24;
/// Texts that the trace's dictionary holds at most.
const TEXTS: usize = 1 << 16;
/// What allocators and the system may add in half a day, in KiB. A connection or a statement that stayed would add far more.
const SLACK_KIB: u64 = 512;

/// How one side of a protocol speaks.
#[derive(Clone, Copy)]
struct Protocol {
    scheme: &'static str,
    /// The name of the server's socket in its folder.
    socket: &'static str,
    /// A server's part of a connection, to its end.
    serve: fn(UnixStream),
    /// A client's part: log in, say what an application says, leave. `number` is another one each time. How many requests it made.
    talk: fn(UnixStream, number: usize) -> u64,
    /// Send these texts on a connection, ahead of their answers.
    ask_all: fn(UnixStream, texts: &[String]),
}

fn serve_all(path: &Path, serve: fn(UnixStream)) {
    let listener = UnixListener::bind(path).expect("a free path");
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a client");
            std::thread::spawn(move || serve(client));
        }
    });
}

/// The conversations of an hour.
fn hour(listen: &Path, protocol: Protocol, first: usize, connections: usize) -> u64 {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    let numbers = (client..connections).step_by(CLIENTS);
                    numbers
                        .map(|number| {
                            let stream = UnixStream::connect(listen).expect("a proxy");
                            (protocol.talk)(stream, first + number)
                        })
                        .sum::<u64>()
                })
            })
            .collect();
        let each = clients.into_iter().map(|client| client.join());
        each.map(|requests| requests.expect("a client")).sum()
    })
}

fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.expect("a line").split_whitespace();
    words.collect::<Vec<_>>()[1].parse().expect("a number")
}

/// Memory at the end of each hour of a day of so many connections an hour.
fn a_day(protocol: Protocol, an_hour: usize) -> Vec<u64> {
    let folder = Folder::new();
    let (server, listen, trace) = (
        folder.file(protocol.socket),
        folder.file("p"),
        folder.file("t"),
    );
    serve_all(&server, protocol.serve);
    let url = format!("{}://?socket={}", protocol.scheme, server.display());
    let arguments = [
        "--server",
        &url,
        "--listen",
        text(&listen),
        "--json",
        text(&trace),
    ];
    let capture = Capture::start(&arguments);

    // What is bounded is full before the day begins: buffers, by long texts, and the dictionary, by many.
    let long = (0..4_000).map(|number| format!("DO '{}', {number}", "x".repeat(8_000)));
    let many = (0..=TEXTS).map(|number| format!("DO {number}"));
    let texts: Vec<_> = long.chain(many).collect();
    let stream = UnixStream::connect(&listen).expect("a proxy");
    (protocol.ask_all)(stream, &texts);
    let mut requests = texts.len() as u64;
    let mut memory = Vec::new();
    for number in 0..HOURS {
        requests += hour(&listen, protocol, number * an_hour, an_hour);
        // What has passed is read and written within a few milliseconds.
        std::thread::sleep(Duration::from_millis(100));
        memory.push(resident_kib(capture.pid()));
    }

    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(summary["unread_connections"], serde_json::json!({}));
    assert_eq!(summary["lost_requests"], 0);
    assert_eq!(summary["connections"], HOURS * an_hour + 1);
    assert_eq!(summary["requests"], requests);
    memory
}

fn does_not_grow(protocol: Protocol, an_hour: usize) {
    let memory = a_day(protocol, an_hour);
    let (morning, afternoon) = memory.split_at(HOURS / 2);
    let most = |hours: &[u64]| *hours.iter().max().expect("hours");
    let _ = writeln!(std::io::stderr(), "KiB at each hour's end: {memory:?}");
    assert!(
        most(afternoon) <= most(morning) + SLACK_KIB,
        "KiB at each hour's end: {memory:?}"
    );
}

const MYSQL: Protocol = Protocol {
    scheme: "mysql",
    socket: "s",
    serve: mysql::serve,
    talk: mysql::talk,
    ask_all: mysql::ask_all,
};

const POSTGRES: Protocol = Protocol {
    scheme: "postgres",
    socket: ".s.PGSQL.5432",
    serve: postgres::serve,
    talk: postgres::talk,
    ask_all: postgres::ask_all,
};

/// Connections an hour: `UPSHIFT_TEST_DAY`, for a longer day; 5,000 make a hundred thousand connections in minutes.
fn an_hour() -> usize {
    std::env::var("UPSHIFT_TEST_DAY").map_or(400, |given| {
        given.parse().expect("UPSHIFT_TEST_DAY is a number")
    })
}

#[test]
fn a_day_of_mysqls() {
    does_not_grow(MYSQL, an_hour());
}

#[test]
fn a_day_of_postgresqls() {
    does_not_grow(POSTGRES, an_hour());
}
