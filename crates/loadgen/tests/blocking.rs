//! Without io_uring each connection has a thread and blocks: results mean the same, and cost more.

mod common;

use std::process::Command;

use common::{command, ended, filled, without_io_uring};
use testserver::Server;

/// (Round trips, system calls) of 400 point selects over four connections.
fn point_selects(url: &str, hinder: fn(Command) -> Command) -> (u64, u64) {
    let line = "oltp point_select run --table-size 200 -c 4 --client-threads 2 --max-transactions 400 --json";
    let result = ended(hinder(command(line, &["--server", url]))).json(0);
    let cpu = &result["client_cpu_us_per_statement"];
    assert!(cpu.as_f64().expect("a time") > 0.0);
    let statement = &result["statements"]["point_select"];
    assert_eq!(
        (&statement["count"], &statement["errors"]),
        (&400.into(), &0.into())
    );
    let count = |key: &str| statement[key].as_u64().expect("a count");
    (count("round_trips"), count("syscalls"))
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn each_round_trip_takes_two_system_calls() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        let url = filled(&server, 1, 200);
        assert_eq!(point_selects(&url, without_io_uring), (400, 800));
        let (trips, calls) = point_selects(&url, |command| command);
        assert!(trips == 400 && calls <= 404, "{trips} {calls}");
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn more_connections_than_cpus_keep_a_rate() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, 200);
    let line = "oltp point_select run --table-size 200 -c 16 --rate 50 --arrivals uniform --seconds 2 --json";
    let result = ended(without_io_uring(command(line, &["--server", &url]))).json(0);
    let open = &result["open_loop"];
    let due: u64 = ["begun", "not_begun"]
        .iter()
        .map(|name| open[name].as_u64().expect("a count"))
        .sum();
    assert_eq!(due, 100, "{result:#}");
}
