//! Servers that stall, die and come back.

mod common;

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use common::{command, filled, interrupt, start, started, wait, without_io_uring};
use serde_json::Value;
use testserver::Server;

/// A second of the "1 s in 10", scaled so that two cycles take 10 s.
const STALL: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(4500);
const CYCLES: u32 = 2;

/// What a run reports while the server stands still for a tenth of the time.
fn stalled(server: &Server, url: &str, line: &str) -> Value {
    let child = start(line, url);
    server.wait_for_load(1);
    // The warm-up.
    sleep(Duration::from_millis(1000));
    for _ in 0..CYCLES {
        server.signal(libc::SIGSTOP);
        sleep(STALL);
        server.signal(libc::SIGCONT);
        sleep(PAUSE);
    }
    wait(child).json(0)
}

fn latency_us(result: &Value, name: &str) -> f64 {
    result[format!("latency_us_{name}")]
        .as_f64()
        .expect("a percentile")
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let closed = "oltp point_select run --table-size 200 --warmup-seconds 0.5 --seconds 10 --json";
    let open = format!("{closed} --rate 300");
    let (closed, open) = (
        stalled(&server, &url, closed),
        stalled(&server, &url, &open),
    );
    // A tenth of all arrivals met the stall: the longest-waiting hundredth of all waited more than half of it.
    let stall_us = STALL.as_secs_f64() * 1e6;
    assert!(latency_us(&open, "p99") > stall_us / 2.0, "{open:#}");
    // Of the closed loop's only one a stall did: a machine would have to be slow for a tenth of all to come near.
    assert!(latency_us(&closed, "p90") < stall_us / 4.0, "{closed:#}");
    // Nothing was skipped (a busy machine may not get to the last ones), and the closed loop at least knows the longest.
    let loop_ = &open["open_loop"];
    let due: u64 = ["begun", "not_begun"]
        .iter()
        .map(|name| loop_[name].as_u64().expect("a count"))
        .sum();
    assert!((2700..3300).contains(&due), "{open:#}");
    assert!(closed["latency_us_max"].as_f64().expect("a latency") > 0.9 * stall_us);
}

/// A run of so many connections, during which the server is killed.
fn killed(server: &mut Server, command: Command, connections: u32) -> Child {
    let child = started(command);
    server.wait_for_work(connections, 50);
    server.kill();
    child
}

fn update(url: &str, options: &str) -> Command {
    let line = format!("oltp update_index run --table-size 200 -c 4 {options} --json");
    command(&line, &["--server", url])
}

fn comes_back(mut server: Server, hinder: fn(Command) -> Command) {
    let url = filled(&server, 1, 200);
    // However long the server takes to come back.
    let child = killed(&mut server, hinder(update(&url, "--seconds 300")), 4);
    server.restart();
    server.wait_for_work(4, 20);
    interrupt(&child);
    let result = wait(child).json(130);
    assert_eq!(result["reconnects"], 4, "{result:#}");
    assert!(result["failure"].is_null());
    // Those that wait for the server count each attempt.
    assert!(
        result["errors"]["disconnect"]["count"]
            .as_u64()
            .expect("a count")
            >= 4,
        "{result:#}"
    );
    assert!(
        result["transactions"]["update_index"]["count"]
            .as_u64()
            .expect("a count")
            > 20,
        "{result:#}"
    );
    let errors = result["transactions"]["update_index"]["errors"]
        .as_u64()
        .expect("a count");
    assert!((1..=4).contains(&errors), "{result:#}");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_mariadb_that_is_killed_and_comes_back() {
    comes_back(Server::mariadb(&[]), |command| command);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_mariadb_that_comes_back_to_connections_that_block() {
    comes_back(Server::mariadb(&[]), without_io_uring);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_postgres_that_is_killed_and_comes_back() {
    comes_back(Server::postgres(&[]), |command| command);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_that_stands_still_until_the_end_is_told_in_full() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let line = "oltp point_select run --table-size 200 -c 2 --seconds 4 --wait-seconds 1 --rate 50 --arrivals uniform --json";
    let child = start(line, &url);
    server.wait_for_work(2, 4);
    server.signal(libc::SIGSTOP);
    let ran = wait(child);
    server.signal(libc::SIGCONT);
    ran.refused(1, &["2 connections got no answer"]);
    let result = ran.json(1);
    let open = &result["open_loop"];
    let count = |name: &str| open[name].as_u64().expect("a count");
    assert_eq!(result["stuck_connections"], 2, "{result:#}");
    // 200 were due in four seconds; the two that wait for their answers have begun.
    assert_eq!(count("begun") + count("not_begun"), 200, "{open:#}");
    assert!(count("not_begun") > 0, "{open:#}");
    let max_us = result["latency_us_max"].as_f64().expect("a latency");
    assert!(max_us > 1_000_000.0, "{result:#}");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_that_is_gone_ends_the_run_where_that_is_asked() {
    for mut server in [Server::mariadb(&[]), Server::postgres(&[])] {
        let url = filled(&server, 1, 200);
        let stopped = update(&url, "--seconds 60 --on-disconnect stop");
        let ran = wait(killed(&mut server, stopped, 4));
        ran.refused(1, &["--on-disconnect reconnect"]);
        let result = ran.json(1);
        assert!(
            result["duration_s"].as_f64().expect("seconds") < 50.0,
            "{result:#}"
        );
        assert!(
            result["transactions"]["update_index"]["count"]
                .as_u64()
                .expect("a count")
                > 5
        );
        assert!(!result["failure"].is_null());
        assert_eq!(result["reconnects"], 0);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_that_never_comes_back_ends_the_run_with_the_results_so_far() {
    let mut server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let line = "oltp point_select run --table-size 200 -c 2 --seconds 10 --json";
    let command = command(line, &["--server", &url]);
    let ran = wait(killed(&mut server, command, 2));
    ran.refused(1, &["could not be made again", "the server is running"]);
    let result = ran.json(1);
    assert!(
        result["transactions"]["point_select"]["count"]
            .as_u64()
            .expect("a count")
            > 50
    );
    assert_eq!(result["reconnects"], 0);
    assert!(
        result["errors"]["disconnect"]["count"]
            .as_u64()
            .expect("a count")
            >= 2
    );
}
