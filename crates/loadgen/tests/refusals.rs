//! What users and servers do wrong: a clear error or a counted event, the exit code, and the results so far.

mod common;

use std::process::Command;
use std::time::Duration;

use common::{filled, load, start, wait};
use testserver::{Server, run};

const POINT: &str = "oltp point_select run --table-size 200 --time 2 --json";

/// A user with a password in MariaDB.
fn with_user(server: &Server) {
    let mut connection = server.connect("t").expect("a login");
    run(
        &mut *connection,
        "CREATE USER me@localhost IDENTIFIED BY 'secret'",
    );
    run(&mut *connection, "GRANT ALL ON t.* TO me@localhost");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_wrong_password() {
    let server = Server::mariadb(&[]);
    let _ = filled(&server, 1, 200);
    with_user(&server);
    load(POINT, &server.url_as("me:wrong", "t"))
        .refused(1, &["cannot connect", "Access denied", "password"]);
    let right = load(POINT, &server.url_as("me:secret", "t")).json(0);
    assert!(right["tps"].as_f64().expect("a rate") > 0.0);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn no_such_database() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        load(POINT, &server.url("nowhere"))
            .refused(1, &["cannot connect", "nowhere", "CREATE DATABASE"]);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn no_server() {
    let url = "mysql://root@/t?socket=/no/such/socket";
    load(POINT, url).refused(1, &["cannot connect", "is the server running"]);
    load(POINT, "oracle://x/y").refused(2, &["oracle"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn more_connections_than_the_server_takes() {
    for (server, said) in [
        (
            Server::mariadb(&["--max-connections=10"]),
            "Too many connections",
        ),
        (Server::postgres(&["-c", "max_connections=10"]), "53300"),
    ] {
        let url = filled(&server, 1, 200);
        let many = load(
            "oltp point_select run --table-size 200 -c 40 --time 2 --json",
            &url,
        );
        many.refused(1, &[said, "of 40 connections", "max_connections"]);
        server.wait_until_alone();
        load(
            "oltp point_select run --table-size 200 -c 5 --time 1 --json",
            &url,
        )
        .json(0);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_rate_that_cannot_be_kept() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let fast = load(
        "oltp read_write run --table-size 200 --rate 50000 --time 2 --json",
        &url,
    );
    let result = fast.json(0);
    assert!(
        fast.stderr.contains("WARNING") && fast.stderr.contains("cannot keep --rate"),
        "{}",
        fast.stderr
    );
    let open = &result["open_loop"];
    let due =
        open["begun"].as_u64().expect("a count") + open["not_begun"].as_u64().expect("a count");
    // Poisson arrivals: within 5 standard deviations of what was asked.
    assert!((98_400..101_600).contains(&due), "{open:#}");
    assert!(
        open["not_begun"].as_u64().expect("a count") > due / 2,
        "{open:#}"
    );
    // Those that never began have waited up to the whole time.
    assert!(
        result["latency_us"]["max"].as_f64().expect("a latency") > 1_900_000.0,
        "{result:#}"
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn tables_half_loaded_or_missing() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        let url = filled(&server, 1, 200);
        let mut connection = server.connect("t").expect("a login");
        run(&mut *connection, "DELETE FROM sbtest1 WHERE id > 120");
        load(POINT, &url).refused(1, &["ends at id 120, not 200", "half loaded", "prepare"]);
        load("oltp point_select run --tables 2 --table-size 120", &url)
            .refused(1, &["sbtest2", "prepare"]);
        load("commit run", &url).refused(1, &["commit_account", "commit prepare"]);
        load("oltp point_select prepare --table-size 200", &url).refused(1, &["sbtest1", "--drop"]);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_statement_that_is_refused_ends_the_run_or_is_counted() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let mut connection = server.connect("t").expect("a login");
    // A server whose disk is full says so in the same way: an error of a statement that went well before.
    run(
        &mut *connection,
        "CREATE TRIGGER full BEFORE UPDATE ON sbtest1 FOR EACH ROW \
         SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
    );
    let write = "oltp read_write run --table-size 200 --time 2 --json";
    let stopped = load(write, &url);
    stopped.refused(1, &["1114", "The table is full", "--on-error continue"]);
    let result = stopped.json(1);
    assert!(
        result["statements"]["point_select"]["count"]
            .as_u64()
            .expect("a count")
            >= 10
    );
    let counted = load(&format!("{write} --on-error continue"), &url).json(0);
    let errors = counted["errors"]["1114"]["count"]
        .as_u64()
        .expect("a count");
    assert!(errors > 10, "{counted:#}");
    assert_eq!(
        counted["transactions"]["read_write"]["errors"].as_u64(),
        Some(errors)
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn ctrl_c_leaves_the_results_so_far() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let child = start(
        "oltp point_select run --table-size 200 --time 60 --json",
        &url,
    );
    std::thread::sleep(Duration::from_secs(2));
    let interrupted = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status();
    assert!(interrupted.expect("sh").success());
    let result = wait(child).json(130);
    assert_eq!(result["interrupted"], true);
    let seconds = result["duration_s"].as_f64().expect("seconds");
    assert!((0.5..30.0).contains(&seconds), "{seconds}");
}
