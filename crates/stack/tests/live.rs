//! `--interface`: the packets of a real server and a real client on loopback, captured by a real tcpdump as they pass.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Capture, Ended, Folder, program, records, statements, text, until};
use testserver::{Kind, Server, one, run};
use wire::ServerUrl;

/// A capture of loopback; none, with the reason on stderr, where this machine lets nobody capture.
fn on_loopback(arguments: &[&str]) -> Option<Capture> {
    let all = [&["--interface", "lo", "--json"], arguments].concat();
    match Capture::try_start(&all) {
        Ok(capture) => Some(capture),
        Err(Ended { stderr, .. }) if stderr.contains("not on PATH") || stderr.contains("permi") => {
            eprintln!("NOT RUN: packets of loopback are not captured: {stderr}");
            None
        }
        Err(Ended { stderr, .. }) => panic!("{stderr}"),
    }
}

fn server() -> (Server, String) {
    let server = Server::start_with_tls(Kind::MariaDb, &[]);
    let url = format!("mysql://127.0.0.1:{}", server.port());
    let mut root = server.connect("").expect("a login");
    run(&mut *root, "CREATE USER app@'127.0.0.1'");
    run(&mut *root, "GRANT ALL ON *.* TO app@'127.0.0.1'");
    run(&mut *root, "CREATE DATABASE shop");
    (server, url)
}

/// What a client does over TCP.
fn work(server: &Server) {
    let url = ServerUrl::parse(&server.url_over_tcp("app", "shop")).expect("valid");
    let mut client = wire::connect(&url).expect("a login");
    run(&mut *client, "CREATE OR REPLACE TABLE t (a INT, b TEXT)");
    run(&mut *client, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    // Many packets each way.
    let large = format!("SELECT LENGTH('{}')", "x".repeat(300_000));
    assert_eq!(one(&mut *client, &large), "300000");
    let many = one(&mut *client, "SELECT REPEAT('y', 1000000)");
    assert_eq!(many.len(), 1_000_000);
    assert_eq!(one(&mut *client, "SELECT b FROM t WHERE a = 2"), "two");
}

fn summary(ended: &Ended) -> serde_json::Value {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    found.split_whitespace().flat_map(str::parse).collect()
}

#[test]
fn all_that_passed_before_the_end_is_in_the_trace() {
    let (server, url) = server();
    let folder = Folder::new();
    let trace = folder.file("t");
    let Some(capture) = on_loopback(&["--server", &url, text(&trace)]) else {
        return;
    };
    let tcpdump = children(capture.pid());
    assert_eq!(tcpdump.len(), 1);
    work(&server);
    // At once: what the kernel still holds belongs to the trace.
    let said = summary(&capture.stop());
    assert!(!std::path::Path::new(&format!("/proc/{}", tcpdump[0])).exists());
    assert_eq!(
        (&said["gap_bytes"], &said["packets"]["dropped"]),
        (&0.into(), &0.into())
    );
    assert_eq!(said["packets"]["broken"], serde_json::Value::Null);
    assert_eq!(said["connections"], 1);
    assert!(said["bytes_received"].as_u64() > Some(1_000_000));
    let all = records(&trace);
    assert_eq!(all[0]["capture"], "pcap");
    let statements: Vec<_> = statements(&all).into_iter().map(|(_, sql)| sql).collect();
    let begins = |sql: &str| {
        statements
            .iter()
            .filter(|each| each.starts_with(sql))
            .count()
    };
    for sql in [
        "CREATE OR REPLACE TABLE t",
        "INSERT INTO t VALUES (1, 'one')",
        "SELECT LENGTH('xxx",
        "SELECT REPEAT(",
        "SELECT b FROM t WHERE a = 2",
    ] {
        assert_eq!(begins(sql), 1, "{sql}: {statements:?}");
    }
    let last = &all[all.len() - 1];
    assert_eq!(
        (&last["whole"], &last["ending"]["lost"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn a_capture_ends_by_the_clock_whether_or_not_packets_come() {
    let (server, url) = server();
    let folder = Folder::new();
    let trace = folder.file("t");
    let arguments = ["--server", url.as_str(), "--seconds", "2", text(&trace)];
    let Some(capture) = on_loopback(&arguments) else {
        return;
    };
    let began = Instant::now();
    let ended = capture.wait();
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(ended.code, Some(1));
    let none = format!("no packet of port {} passed lo in", server.port());
    assert!(ended.stderr.contains(&none), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: ") && !trace.exists());
    let capture = on_loopback(&arguments).expect("as before");
    work(&server);
    let said = summary(&capture.wait());
    assert!(said["requests"].as_u64() > Some(4), "{said}");
}

#[test]
fn a_tcpdump_that_ends_is_said_and_what_it_captured_kept() {
    let (server, url) = server();
    let folder = Folder::new();
    let trace = folder.file("t");
    let Some(capture) = on_loopback(&["--server", &url, text(&trace)]) else {
        return;
    };
    let length = || std::fs::metadata(&trace).map_or(0, |found| found.len());
    let begun = length();
    work(&server);
    until("packets come", || length() > begun);
    // SAFETY: kill touches no memory; the process is the capture's own child.
    unsafe { libc::kill(children(capture.pid())[0], libc::SIGTERM) };
    let said = summary(&capture.wait());
    assert_eq!(said["packets"]["broken"], "tcpdump ended by itself");
    assert!(said["requests"].as_u64() > Some(0), "{said}");
}

#[test]
fn what_cannot_be_captured_is_refused_with_a_hint() {
    let folder = Folder::new();
    let trace = folder.file("t");
    let refused = |path: &str, arguments: &[&str], code: i32, message: &str, hint: &str| {
        let mut command = program();
        command.env("PATH", path).arg("capture").args(arguments);
        let done = command.arg(&trace).output().expect("the program");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert!(said.contains(message) && said.contains(hint), "{said}");
        assert!(!trace.exists());
    };
    let lo = ["--interface", "lo"];
    refused(
        "/nonexistent",
        &lo,
        1,
        "tcpdump is not on PATH",
        "hint: install it",
    );
    let port = [lo[0], lo[1], "--port", "3333"];
    refused(
        "/nonexistent",
        &port,
        2,
        "which protocol",
        "--server mysql://HOST:3333",
    );
    let both = [lo[0], lo[1], "--pcap", "x"];
    refused("/nonexistent", &both, 2, "cannot be used with", "--pcap");
    if Command::new("tcpdump").arg("--version").output().is_ok() {
        let path = std::env::var("PATH").expect("a PATH");
        let nope = ["--interface", "nope0"];
        let message = "tcpdump does not capture on nope0: ";
        refused(&path, &nope, 1, message, "hint: ");
    } else {
        eprintln!("NOT RUN: tcpdump is not on PATH");
    }
}
