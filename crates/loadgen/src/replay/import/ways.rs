//! How the application sent each statement of a capture.

use std::collections::{HashMap, HashSet};

use wire::Family;
use wire::passive::{Exchange, Kind, Verb};
use wire::sql::statements;

use super::request::dialect;
use crate::session::{Protocol, Way};

/// How one request came, as far as it shows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    Text,
    /// Text of several statements.
    Several,
    /// Prepared.
    Execute,
    /// Prepared, and its rows are fetched in parts.
    Cursor,
}

impl Sort {
    /// Of a statement's request.
    pub(super) fn of(family: Family, exchange: &Exchange) -> Self {
        match exchange.kind {
            Kind::Query if is_several(family, exchange) => Self::Several,
            Kind::Query => Self::Text,
            _ if exchange.cursor || exchange.fetch_size.is_some() => Self::Cursor,
            _ => Self::Execute,
        }
    }
}

/// Whether a text held several statements. A procedure's results are one statement's.
pub(super) fn is_several(family: Family, exchange: &Exchange) -> bool {
    exchange.kind == Kind::Query
        && match exchange.results {
            // A log does not say.
            0 => has_several(family, exchange),
            results => results > 1 && exchange.verb != Some(Verb::Call),
        }
}

fn has_several(family: Family, exchange: &Exchange) -> bool {
    let text = exchange.text.as_ref().map_or(&[][..], |text| &text.bytes);
    let all = statements(dialect(family, exchange), text).into_iter();
    all.filter(|one| !one.trim_ascii().is_empty()).count() > 1
}

/// What all requests of a prepared text have in common.
#[derive(Debug, Default)]
struct Habit {
    /// Connections that have prepared it.
    connections: HashSet<u32>,
    prepares: u64,
    /// Those of a connection that had prepared it before.
    again: u64,
    executes: u64,
    /// Executions that share a flight with what came before them: their preparation.
    shared: u64,
    /// Rows of its largest fetch.
    fetch_size: u32,
    /// Some of its results came in parts. A portal of `PostgreSQL`'s has a size that nobody sees until its rows are more.
    in_parts: bool,
}

/// The habits of an application, by the text that it prepares.
#[derive(Debug, Default)]
pub(super) struct Ways(HashMap<Box<[u8]>, Habit>);

impl Ways {
    /// Learn from a request.
    pub(super) fn learn(&mut self, connection: u32, exchange: &Exchange) {
        let Some(text) = exchange.text.as_ref() else {
            return;
        };
        let is_prepared = matches!(
            exchange.kind,
            Kind::Prepare | Kind::Execute | Kind::BulkExecute | Kind::Fetch
        );
        if !is_prepared {
            return;
        }
        let habit = match self.0.get_mut(&*text.bytes) {
            Some(habit) => habit,
            None => self.0.entry((*text.bytes).into()).or_default(),
        };
        match exchange.kind {
            Kind::Prepare => {
                habit.prepares += 1;
                habit.again += u64::from(!habit.connections.insert(connection));
            }
            Kind::Fetch => {}
            _ => {
                habit.executes += 1;
                habit.shared += u64::from(exchange.round_trips == 0);
            }
        }
        let fetched = exchange.fetch_size.unwrap_or_default();
        habit.in_parts |= exchange.cursor
            || exchange.kind == Kind::Fetch
            || fetched > 0 && exchange.rows >= fetched;
        habit.fetch_size = habit
            .fetch_size
            .max(u32::try_from(fetched).unwrap_or(u32::MAX));
    }

    /// How the requests of a sort and text are sent.
    pub(super) fn way(&self, sort: Sort, text: &[u8]) -> Way {
        let unknown = Habit::default();
        let habit = self.0.get(text).unwrap_or(&unknown);
        let fetch_size = match sort {
            // A cursor of which nothing was fetched has the protocol's smallest.
            Sort::Cursor if habit.in_parts => habit.fetch_size.max(1),
            _ => 0,
        };
        Way {
            protocol: match sort {
                Sort::Text | Sort::Several => Protocol::Text,
                Sort::Execute | Sort::Cursor => habit.protocol(fetch_size > 0),
            },
            fetch_size,
            several: sort == Sort::Several,
        }
    }
}

impl Habit {
    fn protocol(&self, fetches: bool) -> Protocol {
        let most = |some: u64| 2 * some > self.executes;
        if most(self.prepares) && most(self.shared) {
            // Prepared and executed at once: one round trip and one look at the text, as text has them.
            return match fetches {
                false => Protocol::Text,
                true => Protocol::Prepared,
            };
        }
        match self.again > 0 && 2 * self.again >= self.executes {
            true => Protocol::PreparePerRequest,
            false => Protocol::Prepared,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::passive::Text;

    use super::*;

    fn exchange(kind: Kind, round_trips: u32) -> Exchange {
        let mut exchange = Exchange::new(kind, 0);
        exchange.text = Some(Text {
            bytes: b"SELECT ?"[..].into(),
            length: 8,
        });
        exchange.round_trips = round_trips;
        exchange
    }

    fn learned(requests: &[(Kind, u32)]) -> Ways {
        let mut ways = Ways::default();
        for (kind, round_trips) in requests {
            ways.learn(1, &exchange(*kind, *round_trips));
        }
        ways
    }

    fn protocol(requests: &[(Kind, u32)], sort: Sort) -> Protocol {
        learned(requests).way(sort, b"SELECT ?").protocol
    }

    #[test]
    fn a_statement_is_prepared_once_or_each_time() {
        let (prepare, execute) = ((Kind::Prepare, 1), (Kind::Execute, 1));
        let once = [prepare, execute, execute, execute];
        assert_eq!(protocol(&once, Sort::Execute), Protocol::Prepared);
        assert_eq!(protocol(&once, Sort::Text), Protocol::Text);
        let each = [prepare, execute, prepare, execute];
        assert_eq!(protocol(&each, Sort::Execute), Protocol::PreparePerRequest);
        let at_once = [prepare, (Kind::Execute, 0), prepare, (Kind::Execute, 0)];
        assert_eq!(protocol(&at_once, Sort::Execute), Protocol::Text);
        assert_eq!(protocol(&at_once, Sort::Cursor), Protocol::Text);
        let fetched = [&at_once[..], &[(Kind::Fetch, 1)]].concat();
        assert_eq!(protocol(&fetched, Sort::Cursor), Protocol::Prepared);
        // It was prepared before the capture began; or it was executed once on each of two connections.
        assert_eq!(protocol(&[execute], Sort::Execute), Protocol::Prepared);
        let mut ways = learned(&[prepare, execute]);
        ways.learn(2, &exchange(Kind::Prepare, 1));
        ways.learn(2, &exchange(Kind::Execute, 1));
        let way = ways.way(Sort::Execute, b"SELECT ?");
        assert_eq!(way.protocol, Protocol::Prepared);
        // Executions in one flight, of a statement that was prepared before them.
        let pipelined = [prepare, (Kind::Execute, 0), (Kind::Execute, 0)];
        assert_eq!(protocol(&pipelined, Sort::Execute), Protocol::Prepared);
    }

    #[test]
    fn a_cursor_fetches_as_much_as_it_did() {
        let mut ways = learned(&[(Kind::Prepare, 1), (Kind::Execute, 1), (Kind::Execute, 1)]);
        let mut execute = exchange(Kind::Execute, 1);
        (execute.fetch_size, execute.rows) = (Some(10), 9);
        ways.learn(1, &execute);
        assert_eq!(ways.way(Sort::Cursor, b"SELECT ?").fetch_size, 0);
        execute.rows = 10;
        ways.learn(1, &execute);
        assert_eq!(ways.way(Sort::Cursor, b"SELECT ?").fetch_size, 10);
        let mut fetch = exchange(Kind::Fetch, 1);
        fetch.fetch_size = Some(50);
        ways.learn(1, &fetch);
        assert_eq!(ways.way(Sort::Cursor, b"SELECT ?").fetch_size, 50);
        assert_eq!(ways.way(Sort::Execute, b"SELECT ?").fetch_size, 0);
        let mut execute = exchange(Kind::Execute, 1);
        assert_eq!(Sort::of(Family::Mysql, &execute), Sort::Execute);
        execute.cursor = true;
        assert_eq!(Sort::of(Family::Mysql, &execute), Sort::Cursor);
    }

    #[test]
    fn several_statements_of_one_text_are_none_of_a_procedure() {
        let mut query = exchange(Kind::Query, 1);
        assert_eq!(Sort::of(Family::Mysql, &query), Sort::Text);
        query.results = 2;
        assert_eq!(Sort::of(Family::Mysql, &query), Sort::Several);
        let way = Ways::default().way(Sort::Several, b"SELECT 1; SELECT 2");
        assert!(way.several && way.protocol == Protocol::Text);
        query.verb = Some(Verb::Call);
        assert_eq!(Sort::of(Family::Mysql, &query), Sort::Text);
        // Of a log.
        query.results = 0;
        for (sql, sort) in [
            ("BEGIN; UPDATE t SET a = ';'; COMMIT", Sort::Several),
            ("UPDATE t SET a = ';';", Sort::Text),
        ] {
            query.text = Some(Text {
                bytes: sql.as_bytes().into(),
                length: sql.len() as u64,
            });
            assert_eq!(Sort::of(Family::Postgres, &query), sort, "{sql}");
        }
    }
}
