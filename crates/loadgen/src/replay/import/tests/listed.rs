//! Which statements of a capture a trace lists.

use trace::{Ending, TraceWriter};
use wire::passive::{Exchange, Observed, Verb};

use super::captured::captured;
use super::{query, refused};

/// The names and texts of the statements in the trace of a capture of these.
fn listed(name: &str, exchanges: Vec<(u32, Exchange)>) -> Vec<(String, String)> {
    let capture = |writer: &TraceWriter| {
        for (connection, exchange) in exchanges {
            writer.observed(connection, &Observed::Exchange(Box::new(exchange)));
        }
        Ending::default()
    };
    let (made, statements) = captured(name, capture, |trace| trace.meta.statements);
    assert_eq!(made.statements, statements.len());
    let statements = statements.into_iter();
    statements.map(|one| (one.name, one.sql)).collect()
}

#[test]
fn a_statement_that_no_transaction_sends_is_not_listed() {
    let wrong = |ms, open| query("SELECT a FROM missing", Verb::Select, ms, open);
    let select = |ms, open| query("SELECT a FROM t", Verb::Select, ms, open);
    let found = listed(
        "listed",
        vec![
            (1, query("BEGIN", Verb::Begin, (0, 1), true)),
            (1, refused(wrong((2, 3), true), 1146)),
            (1, select((4, 5), true)),
            (1, query("COMMIT", Verb::Commit, (6, 7), false)),
            // Nobody knows how it ended.
            (2, query("BEGIN", Verb::Begin, (8, 9), true)),
            (2, select((10, 11), true)),
            (2, query("SELECT b FROM t", Verb::Select, (12, 13), true)),
            // Refused, and a transaction of its own: it is sent.
            (
                1,
                refused(query("DROP TABLE u", Verb::Ddl, (14, 15), false), 1051),
            ),
        ],
    );
    let found: Vec<_> = found.iter().map(|(name, sql)| (&**name, &**sql)).collect();
    assert_eq!(
        found,
        [("select_1", "SELECT a FROM t"), ("ddl_2", "DROP TABLE u")]
    );
}
