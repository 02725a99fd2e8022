//! Recorded connections as connections of their own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::{BatchWay, Value};

use crate::drive::fakes::{Asked, FakeClock, Faults, against, plan};
use crate::drive::{Arrivals, Finished};
use crate::replay::tests::{Scratch, meta, tape};
use crate::replay::writer::Ended;
use crate::replay::{Choices, Counts, Event, Order, Pace, Replay, Tape, Trace, TraceWriter};
use crate::session::{Knobs, StatementId};
use crate::workload::TransactionKind;

/// Two connections, each with two transactions of one statement between BEGIN and COMMIT.
fn write(path: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(path, &meta(), stop).expect("creates");
    for number in 0..4 {
        let mut tape = Tape::default();
        tape.begin();
        tape.statement(StatementId(0), &[]);
        tape.answered(Counts {
            rows: 1,
            affected: 0,
        });
        tape.commit();
        let (connection, kind) = (number as u32 / 2, TransactionKind(0));
        writer.add(connection, kind, number, number, Ended::Committed, &tape);
    }
    writer.finish().expect("writes");
}

/// What the server was asked by a replay on one connection, and how often a transaction was run again.
fn replayed(name: &str, reconnect: bool, deadlock_every: u64) -> (Arc<Asked>, u64) {
    let file = Scratch::new(name);
    write(&file.path);
    let faults = Faults {
        deadlock_every,
        ..Faults::default()
    };
    let (finished, asked) = replay_of(&file.path, reconnect, faults, Knobs::default());
    assert_eq!(finished.failure, None);
    (asked, finished.totals.transactions[0].retries)
}

fn replay_of(path: &Path, reconnect: bool, faults: Faults, knobs: Knobs) -> (Finished, Arc<Asked>) {
    let choices = Choices {
        reconnect,
        ..CHOICES
    };
    run(&replay(path, choices), faults, knobs)
}

const CHOICES: Choices = Choices {
    order: Order::Serial,
    pace: Pace::Fast,
    loops: None,
    unordered: false,
    lenient: false,
    chatter: true,
    reconnect: false,
    follows: false,
};

fn replay(path: &Path, choices: Choices) -> Arc<Replay> {
    let trace = Arc::new(Trace::open(path, false).expect("opens"));
    Arc::new(Replay::new(&trace, wire::Family::Mysql, 1, choices).expect("replays"))
}

fn run(replay: &Arc<Replay>, faults: Faults, knobs: Knobs) -> (Finished, Arc<Asked>) {
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(60));
    let clock = Arc::new(FakeClock::default());
    against(replay.clone(), faults, knobs, plan, clock)
}

#[test]
fn each_recorded_connection_logs_in_once() {
    let (asked, _) = replayed("logins-one", false, 0);
    assert_eq!(asked.logins.load(Ordering::SeqCst), 1);
    let (asked, _) = replayed("logins-two", true, 0);
    assert_eq!(asked.logins.load(Ordering::SeqCst), 2);
}

#[test]
fn a_transaction_that_is_run_again_keeps_its_connection() {
    // The sixth statement is of the second connection's first transaction: two statements each, BEGIN among them.
    let (asked, retries) = replayed("logins-again", true, 6);
    assert_eq!((asked.logins.load(Ordering::SeqCst), retries), (2, 1));
    assert_eq!(asked.commits.load(Ordering::SeqCst), 4);
}

#[test]
fn a_batch_that_the_server_has_no_way_for_counts_once() {
    for way in [BatchWay::Bulk, BatchWay::Pipeline] {
        let file = Scratch::new(&format!("batch-{way:?}"));
        let stop = Arc::new(AtomicBool::new(false));
        let writer = TraceWriter::create(&file.path, &meta(), stop).expect("creates");
        let mut tape = Tape::default();
        tape.batch(StatementId(0), &[vec![Value::Int(1)]], way);
        tape.answered(Counts::default());
        writer.add(0, TransactionKind(0), 0, 0, Ended::Committed, &tape);
        writer.finish().expect("writes");
        let (finished, _) = replay_of(&file.path, false, Faults::default(), Knobs::default());
        let totals = finished.totals;
        assert_eq!((totals.work_statements(), totals.errors.len()), (1, 0));
    }
}

/// What the server was asked by the replay of one refused transaction; it refuses nothing.
fn undone(name: &str, sql: &str, begins: bool, autocommit: Option<bool>) -> Vec<String> {
    let file = Scratch::new(&format!("undone-{name}"));
    let mut meta = meta();
    sql.clone_into(&mut meta.statements[0].sql);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(&file.path, &meta, stop).expect("creates");
    let mut tape = Tape::default();
    // About the session.
    tape.statement(StatementId(1), &[]);
    tape.answered(Counts::default());
    if begins {
        tape.begin();
    }
    tape.statement(StatementId(0), &[]);
    tape.answered(Counts::default());
    writer.add(0, TransactionKind(0), 0, 0, Ended::Refused, &tape);
    writer.finish().expect("writes");
    let knobs = Knobs {
        autocommit,
        ..Knobs::default()
    };
    let (_, asked) = replay_of(&file.path, false, Faults::default(), knobs);
    let mut texts = asked.texts.lock().expect("whole");
    std::mem::take(&mut *texts)
}

#[test]
fn a_refused_statement_that_succeeds_is_undone() {
    let insert = "INSERT INTO t VALUES (1)";
    let bounded = ["SELECT ?", "BEGIN", "execute", "ROLLBACK"];
    assert_eq!(undone("alone", insert, false, None), bounded);
    assert_eq!(undone("begun", insert, true, None), bounded);
    let off = undone("off", insert, false, Some(false));
    assert_eq!(off, ["SELECT ?", "execute", "ROLLBACK"]);
    // What a procedure did before it was refused has stayed.
    let call = undone("call", "CALL p()", false, None);
    assert_eq!(call, ["SELECT ?", "execute", "ROLLBACK"]);
}

#[test]
fn a_refused_request_that_is_left_out_ends_nothing_otherwise() {
    let file = Scratch::new("refused-left-out");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(&file.path, &meta(), stop).expect("creates");
    let mut tape = Tape::default();
    // About the session.
    tape.statement(StatementId(1), &[]);
    tape.answered(Counts::default());
    writer.add(0, TransactionKind(0), 0, 0, Ended::Refused, &tape);
    writer.finish().expect("writes");
    for (chatter, otherwise) in [(true, 1), (false, 0)] {
        let replay = replay(&file.path, Choices { chatter, ..CHOICES });
        run(&replay, Faults::default(), Knobs::default());
        assert_eq!(replay.ended_otherwise().count, otherwise, "{chatter}");
    }
}

/// A transaction that was refused in the recording, replayed.
struct Refused {
    ended_otherwise: u64,
    retries: u64,
    texts: Vec<String>,
}

/// Its last request is the one that was refused.
fn refused(name: &str, requests: &[Event], faults: Faults) -> Refused {
    let file = Scratch::new(&format!("refused-{name}"));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(&file.path, &meta(), stop).expect("creates");
    writer.add(0, TransactionKind(0), 0, 0, Ended::Refused, &tape(requests));
    writer.finish().expect("writes");
    let replay = replay(&file.path, CHOICES);
    let (finished, asked) = run(&replay, faults, Knobs::default());
    let mut texts = asked.texts.lock().expect("whole");
    Refused {
        ended_otherwise: replay.ended_otherwise().count,
        retries: finished.totals.transactions[0].retries,
        texts: std::mem::take(&mut *texts),
    }
}

fn statement(id: u16) -> Event {
    Event::Statement {
        id: StatementId(id),
        parameters: Vec::new(),
        counts: Counts::default(),
    }
}

fn deadlocks(deadlock_every: u64) -> Faults {
    Faults {
        deadlock_every,
        ..Faults::default()
    }
}

#[test]
fn a_commit_that_was_refused_is_not_sent() {
    let requests = [Event::Begin, statement(0), Event::Commit];
    let done = refused("commit", &requests, Faults::default());
    assert_eq!(done.texts, ["BEGIN", "execute", "ROLLBACK"]);
    assert_eq!(done.ended_otherwise, 0);
    // What fails before it was not refused there.
    let failed = refused("before-commit", &requests, deadlocks(2));
    assert_eq!(failed.ended_otherwise, 1);
}

#[test]
fn a_refused_transaction_ends_as_recorded_where_its_last_request_is_refused() {
    let requests = [Event::Begin, statement(0), statement(0)];
    let lost = Faults {
        lost_every: 3,
        ..Faults::default()
    };
    for (name, faults, otherwise) in [
        ("last", deadlocks(3), 0),
        ("first", deadlocks(1), 1),
        ("lost", lost, 1),
        ("taken", Faults::default(), 1),
    ] {
        let done = refused(name, &requests, faults);
        assert_eq!(done.ended_otherwise, otherwise, "{name}");
    }
}

#[test]
fn what_a_refused_transaction_has_made_permanent_is_not_sent_again() {
    let both = [statement(0), statement(0)];
    let done = refused("permanent", &both, deadlocks(3));
    assert_eq!(done.texts, ["execute", "BEGIN", "execute", "ROLLBACK"]);
    assert_eq!(done.retries, 0);
    // The first is about the session.
    let done = refused("session", &[statement(1), statement(0)], deadlocks(3));
    assert_eq!(done.retries, 100);
}
