//! A capture that goes on while it is imported, one that must not be overwritten, and one of connections that come and go.

use std::os::unix::fs::MetadataExt;

use trace::{Begin, Capture, Ending, TraceWriter};
use wire::passive::{Observed, Totals, Verb};

use super::super::{Known, import, write};
use super::query;
use crate::replay::tests::Scratch;

fn begin() -> Begin {
    Begin {
        family: "mysql".to_owned(),
        began_unix_us: 0,
        capture: Capture::Proxy,
        masked: false,
        log: None,
    }
}

/// A capture of these statements.
fn capture(name: &str, statements: &[&str]) -> Scratch {
    let scratch = Scratch::new(&format!("import-{name}"));
    let writer = TraceWriter::create(&scratch.path, &begin(), 0).expect("creates");
    writer.connected(0, false);
    for (ms, sql) in (1..).zip(statements) {
        let exchange = query(sql, Verb::Select, (ms, ms), false);
        writer.observed(1, &Observed::Exchange(Box::new(exchange)));
    }
    writer.finish(Ending::default()).expect("writes");
    scratch
}

#[test]
fn what_is_captured_between_the_two_readings_is_left_out() {
    let early = capture("growing", &["SELECT a FROM t"]);
    let known = Known::read(&early.path).expect("a capture");
    drop(early);
    let late = capture("growing", &["SELECT a FROM t", "SELECT b FROM t"]);
    let to = Scratch::new("import-grown");
    let made = write(&known, &late.path, &to.path).expect("a trace");
    let mode = std::fs::metadata(&to.path).expect("a trace").mode();
    assert_eq!(mode & 0o777, 0o600, "as the capture's");
    assert_eq!((made.ending.statements, made.statements), (1, 1));
}

#[test]
fn a_capture_is_not_overwritten() {
    let capture = capture("same", &["SELECT a FROM t"]);
    let before = std::fs::read(&capture.path).expect("a capture");
    let refused = import(&capture.path, &capture.path).expect_err("the same file");
    assert!(refused.to_string().contains("overwrite"), "{refused}");
    assert_eq!(std::fs::read(&capture.path).expect("a capture"), before);
}

#[test]
fn connections_are_counted_that_were_open_at_the_same_time() {
    let (from, to) = (Scratch::new("at-once-capture"), Scratch::new("at-once"));
    let writer = TraceWriter::create(&from.path, &begin(), 0).expect("creates");
    for ms in 0..3 {
        let connection = writer.connected(ms, false);
        let exchange = query("SELECT a FROM t", Verb::Select, (ms, ms), false);
        writer.observed(connection, &Observed::Exchange(Box::new(exchange)));
        writer.closed(connection, ms, Totals::default());
    }
    writer.finish(Ending::default()).expect("writes");
    let made = import(&from.path, &to.path).expect("a trace");
    assert_eq!((made.connections, made.at_once), (3, 1));
}
