//! `run`, `stat`, `mode`, `export`, `audit`, `clear` on a server, and its clean stop.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use testserver::{Kind, rows, run};

use crate::common::{cache, text};
use crate::tiered::Tiered;

/// The tier's ticks, which bring its table of files up to date, are some time apart.
const TICKS: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_real_server_is_served_and_its_tier_changed_while_it_runs() {
    let mut tiered = Tiered::new(Kind::MariaDb);
    let mut connection = tiered.server.connect("mysql").expect("a login");
    for statement in [
        "CREATE DATABASE t",
        "CREATE TABLE t.a (id INT PRIMARY KEY, pad CHAR(200))",
        "INSERT INTO t.a SELECT seq, REPEAT('x', 200) FROM seq_1_to_100000",
    ] {
        run(&mut *connection, statement);
    }
    tiered.server.stop();
    tiered.medium = "memory".into();
    tiered.start();
    let mut connection = tiered.server.connect("t").expect("a login");
    let mut read = || run(&mut *connection, "SELECT SUM(id) FROM a");
    for _ in 0..3 {
        read();
    }
    let now = tiered.stat();
    assert_eq!(now["schema_version"], 2);
    for time in ["hit_latency_us_p50", "hit_latency_us_p99"] {
        assert!(now[time].is_number(), "{now:#}");
    }
    assert_eq!(now["mode"], "write-through");
    assert!(now["counters"]["hits"].as_u64() > Some(0), "{now}");
    let until = Instant::now() + TICKS;
    while !tiered.stat()["files"].to_string().contains("t/a.ibd") {
        assert!(Instant::now() < until, "{}", tiered.stat());
        read();
    }

    let switched = tiered.ask_while(&["mode", "pass-through"], &mut read);
    assert!(switched.status.success(), "{}", text(&switched));
    assert_eq!(tiered.stat()["mode"], "pass-through");
    let exported = text(&tiered.ask(&["export"]));
    for series in [
        "upshift_tier_up 1",
        "hit_latency_seconds_bucket{le=\"+Inf\"}",
        "file_misses_total{file=",
    ] {
        assert!(exported.contains(series), "{series}: {exported}");
    }

    let checked = tiered.ask_while(&["audit", "--seconds", "2"], || {
        run(&mut *connection, "UPDATE a SET pad = id");
        run(&mut *connection, "SELECT SUM(id) FROM a");
    });
    assert!(
        checked.status.success() && text(&checked).contains("none escaped"),
        "{}",
        text(&checked)
    );
    a_reader_that_goes_ends_the_watch(&tiered);
    what_cannot_be_had_is_refused_and_changes_nothing(&tiered);
    let sum = rows(&mut *connection, "SELECT COUNT(*), SUM(id) FROM a");
    let expected = ["100000", "5000050000"].map(|text| Some(text.to_owned()));
    assert_eq!(sum, [expected]);

    tiered.server.stop();
    assert_eq!(tiered.stat()["alive"], false);
    let late = tiered.ask(&["clear"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(text(&late).contains("has stopped"), "{}", text(&late));
}

fn a_reader_that_goes_ends_the_watch(tiered: &Tiered) {
    let mut watch = cache(&["stat", "--watch", "--status"])
        .arg(tiered.status())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("upshift-cache runs");
    let mut first = [0];
    let mut out = watch.stdout.take().expect("piped");
    out.read_exact(&mut first).expect("something is shown");
    drop(out);
    let done = watch.wait_with_output().expect("the command ends");
    assert_eq!((done.status.code(), text(&done)), (Some(0), String::new()));
}

fn what_cannot_be_had_is_refused_and_changes_nothing(tiered: &Tiered) {
    let settings = |now: serde_json::Value| ["size_bytes", "mode"].map(|name| now[name].clone());
    let before = settings(tiered.stat());
    for arguments in [
        ["resize", "0"],
        ["resize", "900T"],
        ["resize", "-1"],
        ["mode", "sideways"],
    ] {
        let refused = tiered.ask(&arguments);
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&refused)
        );
    }
    assert_eq!(settings(tiered.stat()), before);
}
