//! What ends a transaction on `PostgreSQL`.

use wire::Family;
use wire::passive::{Exchange, Kind, ServerError, Verb};

use super::{imported_on, query};

fn imported(name: &str, exchanges: Vec<Exchange>) -> (Vec<String>, u64, usize) {
    let of_one: Vec<_> = exchanges.into_iter().map(|each| (1, each)).collect();
    imported_on(Family::Postgres, name, &of_one)
}

/// Within transaction `number`; `after` is what a Sync behind it says of the transaction.
fn of(number: u64, sql: &str, verb: Verb, ms: u64, after: Option<bool>) -> Exchange {
    let mut exchange = query(sql, verb, (ms, ms + 1), false);
    exchange.transaction = Some(number);
    exchange.in_transaction_after = after;
    exchange
}

fn insert(number: u64, row: u64, ms: u64, after: Option<bool>) -> Exchange {
    let sql = format!("INSERT INTO t VALUES ({row})");
    of(number, &sql, Verb::Insert, ms, after)
}

fn refused(mut exchange: Exchange, sqlstate: &str) -> Exchange {
    exchange.error = Some(ServerError {
        code: 0,
        sqlstate: sqlstate.to_owned(),
    });
    exchange
}

#[test]
fn commit_of_a_failed_transaction_rolls_back() {
    let open = Some(true);
    let begin = |number, ms| of(number, "BEGIN", Verb::Begin, ms, open);
    let commit = |number, ms| of(number, "COMMIT", Verb::Commit, ms, Some(false));
    let savepoint = |sql, ms| of(1, sql, Verb::Savepoint, ms, open);
    let mut copy = refused(of(2, "COPY t FROM STDIN", Verb::Load, 26, open), "22P02");
    copy.kind = Kind::Copy;
    let (found, lost, left_out) = imported(
        "postgres-failed",
        vec![
            begin(0, 0),
            insert(0, 1, 2, open),
            refused(insert(0, 1, 4, open), "23505"),
            refused(insert(0, 2, 6, open), "25P02"),
            commit(0, 8),
            begin(1, 10),
            savepoint("SAVEPOINT a", 12),
            refused(insert(1, 1, 14, open), "23505"),
            savepoint("ROLLBACK TO a", 16),
            insert(1, 3, 18, open),
            commit(1, 20),
            // import leaves COPY out, and yet it fails.
            begin(2, 22),
            insert(2, 4, 24, open),
            copy,
            commit(2, 28),
        ],
    );
    assert_eq!(
        found,
        [
            "0 write after 0: BEGIN; INSERT INTO t VALUES (1); ROLLBACK",
            "0 write after 1: BEGIN; SAVEPOINT a; ROLLBACK TO a; INSERT INTO t VALUES (3); COMMIT",
            "0 write after 2: BEGIN; INSERT INTO t VALUES (4); ROLLBACK",
        ]
    );
    // The test's own walk takes the COPY for refused, too.
    assert_eq!((lost, left_out), (0, 4));
}

#[test]
fn begin_within_a_transaction_ends_nothing() {
    let open = Some(true);
    let (found, lost, left_out) = imported(
        "postgres-begin",
        vec![
            of(0, "BEGIN", Verb::Begin, 0, open),
            insert(0, 1, 2, open),
            of(0, "BEGIN", Verb::Begin, 4, open),
            insert(0, 2, 6, open),
            of(0, "ROLLBACK", Verb::Rollback, 8, Some(false)),
        ],
    );
    assert_eq!(
        found,
        ["0 write after 0: BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); ROLLBACK"]
    );
    assert_eq!((lost, left_out), (0, 0));
}

#[test]
fn all_up_to_a_sync_is_one_transaction() {
    let done = Some(false);
    let of_kind = |kind, number, ms, after| {
        let mut exchange = of(number, "", Verb::Other, ms, after);
        exchange.kind = kind;
        exchange.text = None;
        exchange
    };
    let (found, lost, left_out) = imported(
        "postgres-sync",
        vec![
            insert(0, 1, 0, None),
            insert(0, 2, 2, None),
            insert(0, 3, 4, done),
            // The server skips what follows the refused one.
            insert(1, 4, 6, None),
            refused(insert(1, 4, 8, None), "23505"),
            refused(insert(1, 5, 10, None), "23505"),
            refused(insert(1, 6, 12, done), "23505"),
            refused(insert(2, 4, 14, None), "23505"),
            refused(insert(2, 5, 16, done), "23505"),
            // A Sync alone, behind a Flush.
            insert(3, 7, 18, None),
            of_kind(Kind::Other, 3, 20, done),
            // The second one could not be prepared.
            insert(4, 8, 22, None),
            refused(of_kind(Kind::Prepare, 4, 24, None), "42601"),
            refused(insert(4, 9, 26, done), "42601"),
            // BEGIN, statements and COMMIT in one flight.
            of(5, "BEGIN", Verb::Begin, 28, Some(true)),
            insert(5, 10, 30, None),
            insert(5, 11, 32, None),
            of(5, "COMMIT", Verb::Commit, 34, done),
            // BEGIN takes what is before it along.
            insert(6, 12, 36, None),
            of(7, "BEGIN", Verb::Begin, 38, Some(true)),
            of(7, "COMMIT", Verb::Commit, 40, done),
            insert(8, 13, 42, done),
            // The Sync comes with the statement that could not be prepared.
            insert(9, 14, 44, None),
            refused(of_kind(Kind::Prepare, 9, 46, done), "42601"),
            // What COMMIT checks was wrong.
            insert(10, 15, 48, None),
            refused(of(10, "COMMIT", Verb::Commit, 50, done), "23503"),
            insert(11, 16, 52, None),
            of_kind(Kind::Other, 11, 54, done),
            of(12, "BEGIN", Verb::Begin, 56, Some(true)),
            of(12, "ROLLBACK", Verb::Rollback, 58, done),
            insert(13, 17, 60, None),
            of_kind(Kind::Other, 13, 62, done),
        ],
    );
    let row = |row: u64| format!("INSERT INTO t VALUES ({row})");
    assert_eq!(
        found,
        [
            format!(
                "0 write after 0: BEGIN; {}; {}; {}; COMMIT",
                row(1),
                row(2),
                row(3)
            ),
            format!("0 write after 1 refused: BEGIN; {}; {}", row(4), row(4)),
            format!("0 write after 2 refused: {}", row(4)),
            format!("0 write after 3: {}", row(7)),
            format!("0 write after 4: BEGIN; {}; ROLLBACK", row(8)),
            format!("0 write after 5: BEGIN; {}; {}; COMMIT", row(10), row(11)),
            format!("0 write after 6: BEGIN; {}; COMMIT", row(12)),
            format!("0 write after 7: {}", row(13)),
            format!("0 write after 8: BEGIN; {}; ROLLBACK", row(14)),
            format!("0 write after 9 refused: BEGIN; {}; COMMIT", row(15)),
            format!("0 write after 10: {}", row(16)),
            "0 read after 11: BEGIN; ROLLBACK".to_owned(),
            format!("0 write after 12: {}", row(17)),
        ]
    );
    assert_eq!((lost, left_out), (0, 4));
    // A COMMIT that was refused, and whose Sync came with what the server skipped.
    let (found, _, _) = imported(
        "postgres-refused-commit",
        vec![
            of(0, "BEGIN", Verb::Begin, 0, None),
            insert(0, 1, 2, None),
            refused(of(0, "COMMIT", Verb::Commit, 4, None), "40001"),
            refused(insert(0, 2, 6, done), "40001"),
            of(1, "BEGIN", Verb::Begin, 8, Some(true)),
            insert(1, 3, 10, Some(true)),
            of(1, "COMMIT", Verb::Commit, 12, done),
        ],
    );
    assert_eq!(
        found.last(),
        Some(&format!("0 write after 1: BEGIN; {}; COMMIT", row(3)))
    );
    // Another connection's transaction that begins after the Sync of the first comes behind it.
    let (found, _, _) = imported_on(
        Family::Postgres,
        "postgres-two",
        &[
            (1, insert(0, 1, 0, None)),
            (1, of_kind(Kind::Other, 0, 2, done)),
            (2, insert(1, 2, 20, done)),
            (1, insert(2, 3, 40, done)),
        ],
    );
    assert_eq!(
        found,
        [
            format!("0 write after 0: {}", row(1)),
            format!("1 write after 1: {}", row(2)),
            format!("0 write after 2: {}", row(3)),
        ]
    );
    let (found, lost, _) = imported("postgres-no-sync", vec![insert(0, 1, 0, None)]);
    assert_eq!((found.len(), lost), (0, 1));
}
