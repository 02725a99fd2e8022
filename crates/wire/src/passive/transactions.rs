//! Which transaction of its connection an exchange belongs to.

use super::{Exchange, Kind, ServerError, Verb};

/// MySQL's errors that roll the transaction back: a deadlock, and the same inside of a distributed one.
const ROLLED_BACK: [u16; 2] = [1213, 1614];

/// The transactions of a connection.
#[derive(Debug)]
pub struct Transactions {
    /// MySQL commits what is open where another one begins; PostgreSQL only warns.
    commits_at_begin: bool,
    open: bool,
    /// The one that is open or comes next.
    number: u64,
}

impl Transactions {
    /// None is open yet. Whether a BEGIN commits what is open.
    #[must_use]
    pub fn new(commits_at_begin: bool) -> Self {
        Self {
            commits_at_begin,
            open: false,
            number: 0,
        }
    }

    /// Number the exchange by what the server says that it has left behind, or by what the caller knows of that where it does not.
    pub fn place(&mut self, exchange: &mut Exchange, known: Option<bool>) {
        let rolled_back = exchange.error.as_ref().is_some_and(is_rolled_back);
        if rolled_back {
            exchange.in_transaction_after = Some(false);
        }
        let after = exchange.in_transaction_after.or(known).unwrap_or(self.open);
        // A statement that is only prepared or closed begins and ends nothing.
        let has_run = works(exchange.kind) && exchange.error.is_none();
        let ends = has_run && matches!(exchange.verb, Some(Verb::Commit | Verb::Rollback));
        let begins = has_run && exchange.verb == Some(Verb::Begin);
        if begins && self.open && self.commits_at_begin {
            self.number += 1;
        }
        // A text that begins a transaction and leaves none open has a whole one.
        let is_whole = begins && exchange.in_transaction_after == Some(false);
        let alone = is_statement(exchange) || is_whole;
        exchange.transaction = if self.open || after || alone {
            Some(self.number)
        } else if exchange.kind == Kind::Fetch {
            self.number.checked_sub(1)
        } else {
            None
        };
        let was_one = self.open || alone;
        // COMMIT AND CHAIN leaves the next one open.
        if (was_one && !after) || (self.open && after && ends) {
            self.number += 1;
        }
        self.open = after;
    }

    /// What was open is not known any more.
    pub fn forget(&mut self) {
        if std::mem::take(&mut self.open) {
            self.number += 1;
        }
    }
}

fn is_rolled_back(error: &ServerError) -> bool {
    ROLLED_BACK.contains(&error.code)
}

/// Whether a statement runs.
fn works(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Query | Kind::Execute | Kind::BulkExecute | Kind::Copy
    )
}

/// Whether it is a transaction of its own where none is open.
fn is_statement(exchange: &Exchange) -> bool {
    let verb = exchange.verb.unwrap_or(Verb::Select);
    works(exchange.kind)
        && !matches!(
            verb,
            Verb::Set
                | Verb::Begin
                | Verb::Commit
                | Verb::Rollback
                | Verb::Savepoint
                | Verb::Show
                | Verb::Explain
                | Verb::Use
                | Verb::Other
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(steps: &[(Kind, Verb, Option<bool>, u16)]) -> Vec<Option<u64>> {
        numbers_of(Transactions::new(true), steps)
    }

    fn numbers_of(
        mut transactions: Transactions,
        steps: &[(Kind, Verb, Option<bool>, u16)],
    ) -> Vec<Option<u64>> {
        let place = |&(kind, verb, after, code): &(Kind, Verb, Option<bool>, u16)| {
            let mut exchange = Exchange::new(kind, 0);
            exchange.verb = Some(verb);
            exchange.in_transaction_after = after;
            exchange.error = (code > 0).then(|| ServerError {
                code,
                sqlstate: "HY000".to_owned(),
            });
            transactions.place(&mut exchange, None);
            exchange.transaction
        };
        steps.iter().map(place).collect()
    }

    #[test]
    fn a_text_with_a_whole_transaction_is_one() {
        let (query, closed) = (Kind::Query, Some(false));
        let steps = [
            (query, Verb::Begin, closed, 0),
            (query, Verb::Select, closed, 0),
        ];
        assert_eq!(numbers(&steps), [Some(0), Some(1)]);
    }

    #[test]
    fn a_begin_within_a_transaction_ends_it_on_mysql_alone() {
        let (query, open) = (Kind::Query, Some(true));
        let steps = [
            (query, Verb::Begin, open, 0),
            (query, Verb::Begin, open, 0),
            (query, Verb::Commit, Some(false), 0),
        ];
        assert_eq!(numbers(&steps), [Some(0), Some(1), Some(1)]);
        let postgres = Transactions::new(false);
        assert_eq!(numbers_of(postgres, &steps), [Some(0); 3]);
    }

    #[test]
    fn statements_alone_and_together_are_numbered() {
        let (query, open, closed) = (Kind::Query, Some(true), Some(false));
        let steps = [
            (query, Verb::Select, closed, 0),
            (query, Verb::Set, closed, 0),
            (Kind::Ping, Verb::Other, closed, 0),
            (query, Verb::Begin, open, 0),
            (query, Verb::Insert, None, 1062),
            (query, Verb::Commit, closed, 0),
            (query, Verb::Commit, closed, 0),
            (query, Verb::Begin, open, 0),
            (query, Verb::Begin, open, 0),
            (query, Verb::Update, None, 1213),
            (Kind::Execute, Verb::Select, closed, 0),
            (Kind::Fetch, Verb::Select, closed, 0),
            (query, Verb::Begin, open, 0),
            (Kind::Prepare, Verb::Commit, None, 0),
            (Kind::CloseStatement, Verb::Begin, None, 0),
            (query, Verb::Commit, open, 0),
            (query, Verb::Rollback, closed, 0),
        ];
        let expected = [
            Some(0),
            None,
            None,
            Some(1),
            Some(1),
            Some(1),
            None,
            Some(2),
            Some(3),
            Some(3),
            Some(4),
            Some(4),
            Some(5),
            Some(5),
            Some(5),
            Some(5),
            Some(6),
        ];
        assert_eq!(numbers(&steps), expected);
    }
}
