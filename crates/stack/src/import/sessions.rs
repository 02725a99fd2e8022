//! Makes connections, transactions and exchanges of a log's events, and writes them.

use std::collections::HashMap;

use trace::TraceWriter;
use wire::passive::{
    Exchange, Kept, Kind, Observed, Parameters, SessionFacts, Totals, Transactions, Verb,
};
use wire::sql::{autocommit, is_of_temporary, statements, verb};
use wire::{Dialect, Family};

use super::event::{Event, Request, When};
use super::lines::has_word;

/// A connection whose end was not seen.
struct Connection {
    number: u32,
    facts: SessionFacts,
    transactions: Transactions,
    state: State,
    /// When its last request ended.
    before_ns: u64,
}

/// What the session is in, by its own statements: a log does not say what the server answered.
#[derive(Debug, Clone, Copy)]
struct State {
    open: bool,
    autocommit: bool,
}

impl State {
    const NEW: Self = Self {
        open: false,
        autocommit: true,
    };

    /// Behind an exchange.
    fn after(self, family: Family, exchange: &Exchange) -> Self {
        let failed = exchange.error.is_some();
        let runs = matches!(
            exchange.kind,
            Kind::Query | Kind::Execute | Kind::BulkExecute | Kind::Copy
        );
        let text = exchange.text.as_ref().map_or(&[][..], |text| &text.bytes);
        let several =
            family == Family::Postgres && exchange.kind == Kind::Query && text.contains(&b';');
        let (verb, text) = match several.then(|| last_of_transactions(text)).flatten() {
            Some((verb, text)) => (Some(verb), text),
            None => (exchange.verb, text),
        };
        let closed = Self {
            open: false,
            ..self
        };
        let opened = Self { open: true, ..self };
        match (exchange.kind, verb) {
            (Kind::ChangeUser | Kind::ResetConnection, _) => Self::NEW,
            _ if failed || !runs => self,
            (_, Some(Verb::Begin)) => opened,
            (_, Some(Verb::Commit | Verb::Rollback)) => match has_word(text, "CHAIN") {
                true if !has_word(text, "NO") => opened,
                _ => closed,
            },
            (_, Some(Verb::Set)) if family == Family::Mysql => {
                match autocommit(family.into(), text) {
                    // MySQL commits where it was off.
                    Some(true) if !self.autocommit => Self::NEW,
                    Some(autocommit) => Self { autocommit, ..self },
                    None => self,
                }
            }
            // MySQL commits before and after it.
            (_, Some(Verb::Ddl)) if family == Family::Mysql => {
                match is_of_temporary(family.into(), text) {
                    true => self,
                    false => closed,
                }
            }
            (
                _,
                Some(
                    Verb::Select
                    | Verb::Insert
                    | Verb::Update
                    | Verb::Delete
                    | Verb::Replace
                    | Verb::Call
                    | Verb::Load,
                ),
            ) if !self.autocommit => opened,
            _ => self,
        }
    }
}

/// The last statement of a PostgreSQL client's text that begins or ends a transaction.
fn last_of_transactions(text: &[u8]) -> Option<(Verb, &[u8])> {
    let all = statements(Family::Postgres, text).into_iter().rev();
    all.map(|each| (verb(Family::Postgres, each), each))
        .find(|(verb, _)| matches!(verb, Verb::Begin | Verb::Commit | Verb::Rollback))
}

/// Writes a trace of a log's events.
pub(super) struct Sessions<'a> {
    writer: &'a TraceWriter,
    dialect: Dialect,
    family: Family,
    /// The version that the log said last.
    version: String,
    open: HashMap<String, Connection>,
    /// Clients of sessions that have not begun here.
    clients: HashMap<String, String>,
    /// When the last request ended, of all.
    pub(super) last_ns: u64,
    pub(super) connections: u64,
    pub(super) requests: u64,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(writer: &'a TraceWriter, family: Family, version: String) -> Self {
        Self {
            writer,
            dialect: family.into(),
            family,
            version,
            open: HashMap::new(),
            clients: HashMap::new(),
            last_ns: 0,
            connections: 0,
            requests: 0,
        }
    }

    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Version(version) => {
                if self.version != version {
                    self.started(0);
                }
                self.version = version;
            }
            Event::Began { session, at_ns } => {
                self.ended(&session, at_ns);
                self.connection(session, at_ns, false);
            }
            Event::Named { session, client } => match self.open.get_mut(&session) {
                Some(known) => {
                    known.facts.server_version.clone_from(&self.version);
                    known.facts.client = Some(client);
                    let facts = Box::new(known.facts.clone());
                    self.writer
                        .observed(known.number, &Observed::Session(facts));
                }
                None => {
                    self.clients.insert(session, client);
                }
            },
            Event::Request { session, request } => self.request(session, request),
            Event::Ended { session, at_ns } => self.ended(&session, at_ns),
            Event::Opened => self.opened(),
            Event::Started { at_ns } => self.started(at_ns),
        }
    }

    /// A server that starts gives its first connections the numbers that others had before, and in both cases MySQL's header is the same.
    /// Of what was open, nothing that comes says how it ended.
    fn opened(&mut self) {
        for known in self.open.values_mut() {
            known.state.open = false;
            known.transactions.forget();
        }
    }

    fn started(&mut self, at_ns: u64) {
        let mut sessions: Vec<_> = self.open.keys().cloned().collect();
        sessions.sort_unstable();
        for session in sessions {
            self.ended(&session, at_ns);
        }
        self.clients.clear();
    }

    /// Connections whose end the log has not stay open.
    fn connection(&mut self, session: String, at_ns: u64, joined_late: bool) {
        let number = self.writer.connected(at_ns, joined_late);
        let facts = SessionFacts {
            server_version: self.version.clone(),
            client: self.clients.remove(&session),
            joined_late,
            began_ns: at_ns,
            ready_ns: at_ns,
            ..SessionFacts::default()
        };
        self.writer
            .observed(number, &Observed::Session(Box::new(facts.clone())));
        self.connections += 1;
        self.last_ns = self.last_ns.max(at_ns);
        self.open.insert(
            session,
            Connection {
                number,
                facts,
                transactions: Transactions::new(self.family == Family::Mysql),
                state: State::NEW,
                before_ns: at_ns,
            },
        );
    }

    fn ended(&mut self, session: &str, at_ns: u64) {
        self.clients.remove(session);
        if let Some(known) = self.open.remove(session) {
            let at_ns = at_ns.max(known.before_ns);
            self.last_ns = self.last_ns.max(at_ns);
            self.writer.closed(known.number, at_ns, Totals::default());
        }
    }

    fn request(&mut self, session: String, request: Request) {
        if !self.open.contains_key(&session) {
            let (began_ns, _) = request.when.placed_ns(0);
            self.connection(session.clone(), began_ns, true);
        }
        let Some(known) = self.open.get_mut(&session) else {
            return;
        };
        let (placed_ns, ended_ns) = request.when.placed_ns(known.before_ns);
        let began_ns = match request.when {
            // It may have waited for a lock all the time since the request before.
            When::Failed(_) if known.state.open => known.before_ns,
            _ => placed_ns,
        };
        let mut exchange = Exchange::new(request.kind, began_ns);
        // Nobody says how much of that was the client's: it is untold.
        exchange.request_end_ns = placed_ns;
        exchange.answer_ns = ended_ns.map(|ended_ns| (ended_ns, ended_ns));
        match request.text {
            Some(text) if request.kind == Kind::InitDb => {
                exchange.state(self.dialect, &text, None, Kept::BOUNDED);
                exchange.verb = None;
            }
            Some(text) => {
                let parameters = request.values.map(|row| Parameters {
                    rows: vec![row],
                    cut: false,
                });
                exchange.state(self.dialect, &text, parameters, Kept::BOUNDED);
            }
            None => {}
        }
        if self.family == Family::Postgres && copies(&exchange) {
            exchange.kind = Kind::Copy;
        }
        exchange.rows = request.rows.unwrap_or_default();
        exchange.affected = request.affected.unwrap_or_default();
        (exchange.bytes_sent, exchange.bytes_received) = request.bytes.unwrap_or_default();
        exchange.error = request.error;
        exchange.counted = request.counted;
        known.state = known.state.after(self.family, &exchange);
        exchange.in_transaction_after = Some(known.state.open);
        exchange.autocommit_after = Some(known.state.autocommit);
        known.transactions.place(&mut exchange, None);
        // A deadlock has ended it.
        known.state.open = exchange.in_transaction_after == Some(true);
        known.before_ns = ended_ns.unwrap_or(began_ns);
        self.last_ns = self.last_ns.max(known.before_ns);
        self.requests += 1;
        let number = known.number;
        let observed = Observed::Exchange(Box::new(exchange));
        self.writer.observed(number, &observed);
    }
}

fn copies(exchange: &Exchange) -> bool {
    exchange.verb == Some(Verb::Load) && matches!(exchange.kind, Kind::Query | Kind::Execute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_say_what_the_session_is_in() {
        let dialect = Dialect::from(Family::Mysql);
        let after = |state: State, family, sql: &str| {
            let mut exchange = Exchange::new(Kind::Query, 0);
            exchange.state(dialect, sql.as_bytes(), None, Kept::BOUNDED);
            state.after(family, &exchange)
        };
        let mysql = Family::Mysql;
        let mut state = State::NEW;
        for (sql, open, autocommit) in [
            ("SELECT 1", false, true),
            ("BEGIN", true, true),
            ("UPDATE t SET a = 1", true, true),
            ("ROLLBACK TO a", true, true),
            ("COMMIT AND CHAIN", true, true),
            ("COMMIT AND NO CHAIN", false, true),
            ("SET NAMES utf8mb4", false, true),
            ("SET @@session.autocommit = OFF", false, false),
            ("DELETE FROM t", true, false),
            ("DROP TABLE t", false, false),
            ("SELECT a FROM t", true, false),
            ("SET autocommit=1", false, true),
            ("BEGIN", true, true),
            ("SET autocommit=1", true, true),
            ("SET @old = @@autocommit", true, true),
            ("CREATE TEMPORARY TABLE a (b INT)", true, true),
            ("DROP TEMPORARY TABLE a", true, true),
            ("CREATE TABLE a (b INT)", false, true),
            ("SET autocommit='OFF'", false, false),
        ] {
            state = after(state, mysql, sql);
            assert_eq!((state.open, state.autocommit), (open, autocommit), "{sql}");
        }
        let begun = State {
            open: true,
            ..State::NEW
        };
        assert!(after(begun, Family::Postgres, "DROP TABLE t").open);
        assert!(!after(begun, Family::Postgres, "END").open);
        for (sql, open) in [
            ("BEGIN; UPDATE a SET x = 2; COMMIT", false),
            ("BEGIN; UPDATE a SET x = 'chain'; COMMIT;", false),
            ("ROLLBACK; BEGIN", true),
            ("SELECT 1; COMMIT AND CHAIN", true),
            ("SELECT 1; START TRANSACTION; SELECT 2", true),
            ("SELECT ';commit'; ROLLBACK TO a", true),
        ] {
            assert_eq!(after(begun, Family::Postgres, sql).open, open, "{sql}");
        }
        assert!(after(State::NEW, Family::Postgres, "SELECT 1; BEGIN").open);
    }
}
