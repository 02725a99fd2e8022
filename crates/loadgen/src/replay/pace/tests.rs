//! Pauses between a transaction's requests, on a clock that stands still but for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{Clock, MonotonicClock};
use crate::drive::fakes::{Asked, FakeClock, Faults, MS, against, plan};
use crate::drive::{Arrivals, Finished};
use crate::replay::tests::{Scratch, meta};
use crate::replay::writer::Ended;
use crate::replay::{Choices, Counts, Order, Pace, Replay, Tape, Trace, TraceWriter};
use crate::session::{Knobs, StatementId};
use crate::workload::TransactionKind;

const HOUR_MS: u64 = 3_600_000;

/// A transaction of three statements; the second is about the session.
fn write(path: &Path, pauses_ms: [u64; 3], transactions: u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(path, &meta(), stop).expect("creates");
    for number in 0..transactions {
        let mut tape = Tape::default();
        tape.begin();
        for (id, pause_ms) in [0, 1, 0].into_iter().zip(pauses_ms) {
            tape.pause(Duration::from_millis(pause_ms));
            tape.statement(StatementId(id), &[]);
            tape.answered(Counts {
                rows: 1,
                affected: 0,
            });
        }
        tape.commit();
        let began_us = number * 10_000_000;
        writer.add(
            0,
            TransactionKind(0),
            began_us,
            number,
            Ended::Committed,
            &tape,
        );
    }
    writer.finish().expect("writes");
}

struct Asks {
    pauses_ms: [u64; 3],
    pace: Pace,
    chatter: bool,
    knobs: Knobs,
    seconds: u64,
    faults: Faults,
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            pauses_ms: [100, 40, 0],
            pace: Pace::Recorded(1.0),
            chatter: true,
            knobs: Knobs::default(),
            seconds: HOUR_MS,
            faults: Faults::default(),
        }
    }
}

/// Two transactions that began ten seconds after one another, replayed.
fn replayed(name: &str, asks: Asks, clock: Arc<dyn Clock>) -> (Finished, Arc<Asked>) {
    let file = Scratch::new(name);
    write(&file.path, asks.pauses_ms, 2);
    let trace = Arc::new(Trace::open(&file.path, false).expect("opens"));
    let choices = Choices {
        order: Order::Serial,
        pace: asks.pace,
        loops: None,
        unordered: false,
        lenient: false,
        chatter: asks.chatter,
        reconnect: false,
        follows: false,
    };
    let replay = Replay::new(&trace, wire::Family::Mysql, 1, choices).expect("replays");
    let time = Duration::from_secs(asks.seconds);
    let plan = plan(1, Arrivals::Closed, time);
    against(Arc::new(replay), asks.faults, asks.knobs, plan, clock)
}

/// When the server was asked each statement, in milliseconds; it answers a statement within one.
fn moments_ms(name: &str, asks: Asks) -> Vec<u64> {
    let (finished, asked) = replayed(name, asks, Arc::new(FakeClock::default()));
    assert_eq!(finished.failure, None);
    let moments = asked.moments_ns.lock().expect("whole");
    moments.iter().map(|moment_ns| moment_ns / MS).collect()
}

#[test]
fn a_pause_lasts_from_answer_to_request() {
    let at = |pace| Asks {
        pace,
        ..Asks::default()
    };
    // BEGIN, 100 ms after its answer a statement, 40 ms after that one's another, and one at once; COMMIT takes no time.
    let recorded = moments_ms("pace-recorded", at(Pace::Recorded(1.0)));
    assert_eq!(recorded, [0, 101, 142, 143, 10_000, 10_101, 10_142, 10_143]);
    let twice = moments_ms("pace-twice", at(Pace::Recorded(2.0)));
    assert_eq!(twice, [0, 51, 72, 73, 5000, 5051, 5072, 5073]);
    let slower = moments_ms("pace-slower", at(Pace::Recorded(0.5)));
    assert_eq!(slower, [0, 201, 282, 283, 20_000, 20_201, 20_282, 20_283]);
    let fast = moments_ms("pace-fast", at(Pace::Fast));
    assert_eq!(fast, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_pauses_around_what_is_not_sent_are_kept() {
    let asks = Asks {
        chatter: false,
        ..Asks::default()
    };
    let without_chatter = moments_ms("pace-chatter", asks);
    assert_eq!(without_chatter, [0, 101, 142, 10_000, 10_101, 10_142]);
    // Without a BEGIN the pause before the first statement counts from the transaction's start.
    let asks = Asks {
        knobs: Knobs {
            autocommit: Some(true),
            ..Knobs::default()
        },
        ..Asks::default()
    };
    let recorded = [100, 141, 142, 10_100, 10_141, 10_142];
    assert_eq!(moments_ms("pace-autocommit", asks), recorded);
}

#[test]
fn the_end_of_the_load_ends_a_pause_and_not_its_transaction() {
    let asks = Asks {
        pauses_ms: [0, 5000, 7000],
        seconds: 2,
        ..Asks::default()
    };
    // The first transaction's are cut at 2 s; the second, of 10 s, does not begin.
    assert_eq!(moments_ms("pace-end", asks), [0, 1, 2000, 2001]);
}

#[test]
fn what_was_due_and_did_not_begin_is_told() {
    let asks = Asks {
        pauses_ms: [0, 0, HOUR_MS],
        seconds: 25,
        ..Asks::default()
    };
    let clock = Arc::new(FakeClock::default());
    let (finished, _) = replayed("pace-missed", asks, clock);
    // The second was due after 10 s.
    let totals = finished.totals;
    assert_eq!((totals.not_begun, totals.latency.len()), (1, 2));
    let waited_ms = totals.lag.max() / MS;
    assert!((14_990..15_010).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn nobody_waits_for_a_pause_when_the_run_is_interrupted() {
    let asks = Asks {
        pauses_ms: [0, HOUR_MS, HOUR_MS],
        faults: Faults {
            interrupted: Some(1),
            ..Faults::default()
        },
        ..Asks::default()
    };
    let clock = Arc::new(MonotonicClock::start());
    let (finished, asked) = replayed("pace-interrupted", asks, clock);
    assert!(finished.interrupted);
    assert_eq!(finished.stuck_connections, 0);
    assert_eq!(
        asked.statements.load(Ordering::SeqCst),
        4,
        "it is sent to its end"
    );
    assert_eq!(finished.totals.transactions[0].errors, 0);
}
