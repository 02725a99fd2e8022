//! Pauses between the requests of captured transactions.

use wire::Family;
use wire::passive::{Exchange, Kind, Verb};

use super::{query, refused, trace_of};

/// The pauses of each transaction, before each of its requests, in milliseconds.
fn pauses_ms(name: &str, exchanges: &[(u32, Exchange)], pauses: bool) -> Vec<Vec<u128>> {
    let (_file, trace, _) = trace_of(Family::Mysql, name, exchanges, pauses);
    let mut reader = trace.reader().unwrap();
    let mut found = Vec::new();
    while let Some(one) = reader.next_transaction().unwrap() {
        let steps = one.steps().unwrap();
        found.push(steps.iter().map(|step| step.pause.as_millis()).collect());
    }
    found
}

#[test]
fn pauses_are_the_times_between_an_answer_and_the_next_request() {
    let select = |ms, open| query("SELECT a FROM t WHERE id = 1", Verb::Select, ms, open);
    let of_kind = |kind, ms: (u64, u64)| {
        let mut exchange = Exchange::new(kind, ms.0 * 1_000_000);
        exchange.answer_ns = Some((ms.1 * 1_000_000, ms.1 * 1_000_000));
        exchange
    };
    let exchanges = [
        (1, query("BEGIN", Verb::Begin, (0, 10), true)),
        (1, select((13, 20), true)),
        // Of another connection, which changes nothing.
        (2, select((14, 22), false)),
        // Fetches and closes are sent by the client itself: what it took before them belongs to its next request.
        (1, of_kind(Kind::Fetch, (25, 30))),
        (1, refused(select((31, 32), true), 1062)),
        (1, select((40, 50), true)),
        // Sent before the answer to the one before had come.
        (1, select((45, 60), true)),
        (1, query("COMMIT", Verb::Commit, (67, 70), false)),
        // Between transactions there are starts and no pauses.
        (1, of_kind(Kind::Ping, (90, 91))),
        (1, select((95, 100), true)),
        (1, of_kind(Kind::Ping, (102, 103))),
        (1, query("ROLLBACK", Verb::Rollback, (107, 108), false)),
        (1, query("BEGIN", Verb::Begin, (200, 201), true)),
        (1, select((202, 203), true)),
        // Commits what is open.
        (1, query("BEGIN", Verb::Begin, (208, 209), true)),
        (1, of_kind(Kind::ResetConnection, (215, 216))),
    ];
    assert_eq!(
        pauses_ms("import-pauses", &exchanges, true),
        [
            vec![0],
            // BEGIN, a select, a select after 5, 1 and 8, one at once, COMMIT.
            vec![0, 3, 14, 0, 7],
            // A ping from before, BEGIN, a select, a ping, ROLLBACK.
            vec![0, 0, 0, 2, 4],
            vec![0, 1, 5],
            // BEGIN, ROLLBACK, reset.
            vec![0, 6, 0],
        ]
    );
    // A log whose clock is too coarse does not know them.
    let without = pauses_ms("import-no-pauses", &exchanges, false);
    assert!(without.iter().flatten().all(|pause_ms| *pause_ms == 0));
}
