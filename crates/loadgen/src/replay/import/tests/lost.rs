//! What a capture does not have whole is not in a trace, and is counted.

use trace::{Ending, TraceWriter};
use wire::passive::{Exchange, Kind, Observed, Verb};

use super::super::{Imported, LeftOut};
use super::captured::captured;
use super::{query, transactions};

/// The import of a capture of two connections, and its transactions.
fn imported(name: &str, capture: impl FnOnce(&TraceWriter) -> Ending) -> (Imported, Vec<String>) {
    captured(name, capture, |trace| transactions(&trace))
}

fn send(writer: &TraceWriter, connection: u32, exchange: Exchange) {
    writer.observed(connection, &Observed::Exchange(Box::new(exchange)));
}

fn begin(ms: u64) -> Exchange {
    query("BEGIN", Verb::Begin, (ms, ms), true)
}

fn update(ms: u64) -> Exchange {
    query("UPDATE t SET a = b", Verb::Update, (ms, ms), true)
}

fn select(ms: u64) -> Exchange {
    query("SELECT a FROM t", Verb::Select, (ms, ms), false)
}

/// The capture ended before the answer was there.
fn unanswered(mut exchange: Exchange) -> Exchange {
    exchange.incomplete = true;
    exchange.in_transaction_after = None;
    exchange.answer_ns = None;
    exchange
}

#[test]
fn a_request_without_its_answer_is_left_out_with_its_transaction() {
    let (made, found) = imported("unanswered", |capture| {
        send(capture, 1, begin(1));
        send(capture, 1, update(2));
        send(capture, 2, select(3));
        send(capture, 1, unanswered(update(4)));
        send(capture, 2, unanswered(select(5)));
        Ending::default()
    });
    assert_eq!(found, ["1 read after 0: SELECT a FROM t"]);
    assert_eq!(made.ending.lost, 1);
    assert_eq!(made.left_out, [(LeftOut::Unanswered, 2)].into());
    assert!(made.whole);
}

#[test]
fn transactions_in_which_requests_may_be_missing_are_lost() {
    let (made, found) = imported("lost", |capture| {
        send(capture, 1, begin(1));
        send(capture, 1, update(2));
        send(capture, 2, select(3));
        capture.lost(7);
        send(capture, 1, query("COMMIT", Verb::Commit, (4, 4), false));
        Ending {
            lost: 7,
            ..Ending::default()
        }
    });
    assert_eq!(found, ["1 read after 0: SELECT a FROM t"]);
    assert_eq!((made.ending.lost, made.whole), (1, false));
}

#[test]
fn another_user_does_not_go_on_with_a_transaction() {
    let (made, found) = imported("change-user", |capture| {
        send(capture, 1, begin(1));
        send(capture, 1, update(2));
        let mut change = Exchange::new(Kind::ChangeUser, 3_000_000);
        change.in_transaction_after = Some(false);
        send(capture, 1, change);
        send(capture, 1, select(4));
        Ending::default()
    });
    assert_eq!(found, ["0 read after 0: SELECT a FROM t"]);
    assert_eq!(made.ending.lost, 1);
    assert_eq!(made.left_out, [(LeftOut::Session, 1)].into());
}
