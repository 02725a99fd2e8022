//! The order of a replay: which ones leave what the recording left.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use common::{Ran, file, load, path};
use loadgen::replay::{Event, Trace};
use serde_json::Value;
use testserver::{Server, rows};
use wire::Value as Parameter;

/// The history of an account depends on the order of its transfers, each of which has a number of its own.
const TRANSFERS: &str = r#"
prepare = [
  "CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL, history BIGINT NOT NULL)",
  { repeat = 40, redraw = ["new"], sql = "INSERT INTO account VALUES (:new, 1000, 0)" },
]
cleanup = ["DROP TABLE IF EXISTS account"]
[variables]
new = { sequence = 1 }
giver = { uniform = [1, 40] }
taker = { uniform = [1, 40] }
n = { sequence = 1 }
[transactions.transfer]
statements = [
  "UPDATE account SET balance = balance - :n, history = MOD(history * 31 + :n, 1000003) WHERE id = :giver",
  "UPDATE account SET balance = balance + :n, history = MOD(history * 31 + :n, 1000003) WHERE id = :taker",
]
"#;
const COUNT: i64 = 300;

type State = BTreeMap<i64, Vec<Option<String>>>;

fn state(server: &Server) -> State {
    let connection = &mut *server.connect("t").expect("a login");
    let rows = rows(connection, "SELECT id, balance, history FROM account");
    let id = |row: &[Option<String>]| row[0].as_ref().and_then(|id| id.parse().ok());
    rows.into_iter()
        .map(|row| (id(&row).expect("an id"), row))
        .collect()
}

/// The accounts of which the trace knows the order of all transfers: none of them overlapped another one of the same account.
fn certain(trace: &Path) -> BTreeSet<i64> {
    let trace = Trace::open(trace, false).expect("whole");
    let mut reader = trace.reader().expect("opens");
    let mut transfers = Vec::new();
    while let Some(recorded) = reader.next_transaction().expect("reads") {
        let events = recorded.events().expect("decodes");
        let account = |event: &Event| match event {
            Event::Statement { parameters, .. } => match parameters[..] {
                [_, _, Parameter::Int(account)] => account,
                _ => panic!("{parameters:?}"),
            },
            other => panic!("{other:?}"),
        };
        transfers.push((recorded.after, [&events[1], &events[2]].map(account)));
    }
    let mut certain: BTreeSet<i64> = transfers.iter().flat_map(|(_, both)| *both).collect();
    for (place, (after, accounts)) in transfers.iter().enumerate() {
        for (_, others) in &transfers[*after as usize..place] {
            let shared = accounts.iter().filter(|account| others.contains(account));
            shared.for_each(|account| {
                certain.remove(account);
            });
        }
    }
    certain
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn commit_leaves_what_the_recording_left_and_off_does_not() {
    for server in [
        Server::mariadb(&["--innodb-flush-log-at-trx-commit=0"]),
        Server::postgres(&[]),
    ] {
        let url = server.create("t");
        let script = file(&server, "transfers.toml");
        std::fs::write(&script, TRANSFERS).expect("writes");
        let prepare = format!("script {} prepare --drop", path(&script));
        load(&prepare, &url).done();
        let trace = file(&server, "trace");
        let line = format!(
            "script {} run --record {} -c 8 --rate 150 --arrivals uniform --max-transactions {COUNT} --seconds 60",
            path(&script),
            path(&trace)
        );
        load(&line, &url).done();
        let recorded = state(&server);
        let certain = certain(&trace);
        assert!(
            certain.len() >= 3,
            "{certain:?}: a machine that stands still"
        );
        let differing = |order: &str| {
            load(&prepare, &url).done();
            let line = format!("replay {} -c 8 --order {order} --json", path(&trace));
            let ran = load(&line, &url);
            let result = ran.json(0);
            assert_eq!(result["options"]["order"], order);
            let done = &result["transactions"]["transfer"]["count"];
            assert_eq!(done.as_i64(), Some(COUNT), "{result:#}");
            let now = state(&server);
            let differ = |account: &&i64| recorded[*account] != now[*account];
            certain.iter().filter(differ).count()
        };
        assert_eq!(differing("serial"), 0);
        assert_eq!(differing("commit"), 0);
        // So that the two above can fail.
        assert!(differing("off") > 0);
        assert!(differing("own") > 0);
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .args(["-a", "--reflink=auto", "--", path(from), path(to)])
        .status();
    assert!(copied.expect("cp").success());
}

/// All eight connections have transactions in the trace, and for most of these it knows the order; for how many it does not.
fn mostly_ordered(trace: &Path) -> u64 {
    let trace = Trace::open(trace, false).expect("whole");
    assert_eq!((trace.ending.transactions, trace.ending.lost), (200, 0));
    let mut reader = trace.reader().expect("opens");
    let mut connections = BTreeSet::new();
    while let Some(recorded) = reader.next_transaction().expect("reads") {
        connections.insert(recorded.connection);
    }
    assert_eq!(connections.len(), 8);
    let overlapped = trace.overlapped;
    assert!(overlapped <= 50, "{overlapped} of 200 overlapped others");
    overlapped
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn tpcc_of_eight_connections_differs_only_where_transactions_overlapped() {
    let options = [
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=256M",
        "--skip-log-bin",
    ];
    let server = &mut Server::mysql(&options).unwrap_or_else(|| Server::mariadb(&options));
    let url = server.create("t");
    load("tpcc prepare --warehouses 1", &url).done();
    let saved = server.folder().join("saved");
    server.stop();
    copy(&server.data(), &saved);
    server.restart();
    let again = |server: &mut Server| {
        server.stop();
        std::fs::remove_dir_all(server.data()).expect("removes");
        copy(&saved, &server.data());
        server.restart();
    };
    let trace = file(server, "trace");
    let (trace, digest) = (
        path(&trace).to_owned(),
        path(&file(server, "digest")).to_owned(),
    );
    let line = format!(
        "tpcc run --warehouses any -c 8 --rate 20 --arrivals uniform --record {trace} --max-transactions 200 --seconds 60"
    );
    load(&line, &url).done();
    let overlapped = mostly_ordered(Path::new(&trace));
    let replay = |line: &str| -> (Ran, Value) {
        let ran = load(&format!("replay {trace} -c 8 {line} --json"), &url);
        let result = ran.json(ran.code.expect("a code"));
        (ran, result["replay"].clone())
    };
    again(server);
    replay(&format!("--order serial --digest {digest}"));
    again(server);
    let (_, told) = replay(&format!("--order commit --compare {digest}"));
    let ordered = |told: &Value, what: &str| {
        let number = |name: &str| told[name].as_u64().expect("a count");
        number(what) - number(&format!("{what}_overlapped"))
    };
    assert_eq!(told["overlapped"], overlapped);
    for what in ["differences", "counted_otherwise", "ended_otherwise"] {
        assert_eq!(ordered(&told, what), 0, "{what}: {told:#}");
    }
    again(server);
    let (ran, told) = replay(&format!("--order off --compare {digest}"));
    assert!(ordered(&told, "differences") > 0, "{told:#}");
    ran.refused(1, &["answered differently", "ordered"]);
}
