//! Requests of many connections, put together into transactions in the order in which they ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use wire::passive::{Exchange, Kind, Verb};
use wire::{BatchWay, Family};

use super::request::{Request, Sent};
use super::ways::Sort;
use crate::replay::tape::Tape;
use crate::replay::writer::{Ended, TraceWriter};
use crate::session::StatementId;
use crate::workload::TransactionKind;

/// Kinds of transactions in a result: those that only read, and the others.
pub(super) const KINDS: [&str; 2] = ["read", "write"];
const READ: TransactionKind = TransactionKind(0);
const WRITE: TransactionKind = TransactionKind(1);

/// Takes a capture's requests in the order of their answers.
pub(super) struct Transactions<'a> {
    /// None in the first reading, which asks only what will be sent.
    writer: Option<&'a TraceWriter>,
    family: Family,
    /// The statements of the transactions that were written.
    sent: HashSet<StatementId>,
    /// By a connection's number in the capture.
    connections: HashMap<u32, Connection>,
    /// When each transaction ended that was written, rising.
    ends_ns: Vec<u64>,
    /// Whether the times between requests are the client's.
    pauses: bool,
    /// `PostgreSQL`: connections on which the server skips what comes before the next Sync, because it refused a request.
    skipping: HashSet<u32>,
    /// It has skipped the request at hand.
    is_skipped: bool,
}

struct Connection {
    /// In the trace, from 0.
    number: u32,
    open: Option<Open>,
    /// Has ended with a cursor, whose rows may still come.
    ended: Option<(Open, Ended, u64)>,
    /// What was about the session since the last transaction, and when it ended: it goes with the next one.
    before: Option<(Open, u64)>,
    /// When its last request was answered, and how long the client took before requests since the one that the tape has last.
    answered_ns: u64,
    pause_ns: u64,
}

/// What all of a capture's requests made.
pub(super) struct Put {
    /// Connections that sent something.
    pub(super) connections: u32,
    /// The statements that a transaction of the trace has.
    pub(super) sent: HashSet<StatementId>,
}

/// A transaction that has not ended.
struct Open {
    began_ns: u64,
    tape: Tape,
    statements: Vec<StatementId>,
    /// BEGIN stands on the tape.
    is_begun: bool,
    kind: TransactionKind,
    /// Its number in the capture, and when its last request was answered.
    number: Option<u64>,
    end_ns: u64,
    /// `PostgreSQL`: no BEGIN of the client's began it, and the next Sync ends it.
    is_implicit: bool,
    /// That Sync has come.
    is_synced: bool,
    /// `PostgreSQL`: a request of it was refused. The server refuses all others up to a ROLLBACK TO, and its COMMIT rolls back.
    is_failed: bool,
    /// The last statement and the pause before it, which go onto the tape when all of its rows have been fetched.
    last: Option<(Sent, StatementId, Duration)>,
}

impl<'a> Transactions<'a> {
    pub(super) fn new(writer: Option<&'a TraceWriter>, family: Family, pauses: bool) -> Self {
        Self {
            writer,
            family,
            skipping: HashSet::new(),
            is_skipped: false,
            sent: HashSet::new(),
            pauses,
            connections: HashMap::new(),
            ends_ns: Vec::new(),
        }
    }

    /// A connection has sent a request, whatever becomes of it.
    pub(super) fn passed(&mut self, connection: u32, exchange: &Exchange) {
        if let (true, Some(at)) = (self.pauses, self.connections.get_mut(&connection)) {
            at.pause_ns += exchange.request_ns.saturating_sub(at.answered_ns);
            at.answered_ns = at.answered_ns.max(end_ns(exchange));
        }
        if self.family == Family::Postgres {
            self.passed_postgres(connection, exchange);
        }
        // COM_CHANGE_USER ends what is open, as a connection's end does.
        if exchange.incomplete || exchange.kind == Kind::ChangeUser {
            self.lose(connection);
        }
    }

    /// What `PostgreSQL` makes of a request, also of one that is not in the trace.
    fn passed_postgres(&mut self, connection: u32, exchange: &Exchange) {
        let after = exchange.in_transaction_after;
        let is_refused = exchange.error.is_some();
        self.is_skipped = is_refused && self.skipping.contains(&connection);
        // Only what ends with a Sync tells whether a transaction is open.
        if after.is_some() {
            self.skipping.remove(&connection);
        } else if is_refused {
            self.skipping.insert(connection);
        }
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        let number = at.number;
        if let Some(open) = at.open.take_if(|open| open.has_ended_before(exchange)) {
            self.end(number, open);
        } else if let Some(open) = &mut at.open {
            open.is_failed |= is_refused && (open.is_implicit || after != Some(false));
            open.is_synced |= open.is_implicit && after == Some(false);
            if open.is_implicit && after == Some(true) {
                // The capture joined within a transaction of the client's.
                open.bound();
                open.is_implicit = false;
            }
        }
        // What else came with the Sync ends it here, and not at the connection's next request: others may wait for it.
        let is_sent = matches!(
            exchange.kind,
            Kind::Query | Kind::Execute | Kind::BulkExecute | Kind::Fetch
        );
        if let Some(at) = self.connections.get_mut(&connection)
            && let Some(open) = at.open.take_if(|open| open.is_synced && !is_sent)
        {
            self.end(number, open);
        }
    }

    /// A transaction has ended without a request that says so.
    fn end(&mut self, number: u32, mut open: Open) {
        if open.is_failed {
            open.bound();
        }
        open.flush();
        let ended = match open.is_failed {
            true => Ended::RolledBack,
            false => Ended::Committed,
        };
        match ended {
            Ended::Committed if open.is_begun => open.tape.commit(),
            Ended::Committed => {}
            _ => open.tape.rollback(),
        }
        let end_ns = open.end_ns;
        self.write(number, open, ended, end_ns);
    }

    /// Add a request that has [`Self::passed`]; false where it was refused and its transaction went on without it, or the
    /// server skipped it.
    pub(super) fn take(
        &mut self,
        connection: u32,
        exchange: &Exchange,
        request: Request,
        id_of: impl Fn(&Sent) -> StatementId,
    ) -> bool {
        if exchange.kind == Kind::Fetch {
            self.fetched(connection, exchange.rows);
        }
        if matches!(request, Request::Implied) {
            return true;
        }
        self.close(connection);
        let next = self.connections.len() as u32;
        let at = self.connections.entry(connection).or_insert(Connection {
            number: next,
            open: None,
            ended: None,
            before: None,
            answered_ns: end_ns(exchange),
            pause_ns: 0,
        });
        if self.is_skipped {
            return false;
        }
        let number = at.number;
        let is_refused = exchange.error.is_some();
        let is_postgres = self.family == Family::Postgres;
        if request == Request::Begin
            && let Some(open) = at.open.as_mut().filter(|_| is_postgres)
        {
            // PostgreSQL only warns. What was to end with a Sync goes on to a COMMIT.
            if !is_refused {
                open.bound();
                open.is_implicit = false;
                open.number = exchange.transaction;
            }
            return !is_refused;
        }
        if request == Request::Begin
            && let Some(mut before) = at.open.take()
        {
            // MySQL commits it.
            before.flush();
            before.tape.pause(at.pause());
            before.tape.commit();
            self.write(number, before, Ended::Committed, exchange.request_ns);
            return self.take(connection, exchange, request, id_of);
        }
        let was_open = at.open.is_some();
        let goes_on = match exchange.in_transaction_after {
            // No Sync has come.
            None if is_postgres => was_open || exchange.transaction.is_some(),
            after => after == Some(true),
        };
        let ends_implicit = matches!(request, Request::Statement(_))
            && at.open.as_ref().is_some_and(|open| open.is_implicit);
        let ends = exchange.in_transaction_after == Some(false) || ends_implicit;
        if is_refused && was_open && !ends {
            return false;
        }
        // The start of a transaction is a time of its own.
        let pause = at.pause();
        let pause = if was_open { pause } else { Duration::ZERO };
        let mut open = match at.open.take() {
            Some(open) => open,
            // A COMMIT of nothing.
            None if matches!(request, Request::Commit | Request::Rollback) => return true,
            None => {
                let before = at.before.take().map(|(open, _)| open);
                let mut open = before.unwrap_or_else(Open::new);
                open.began_ns = exchange.request_ns;
                open.number = exchange.transaction;
                open
            }
        };
        let of_session = match &request {
            Request::Ping | Request::Reset => true,
            Request::Statement(sent) => sent.of_session,
            _ => false,
        };
        let ended = match request {
            Request::Begin => {
                open.begin();
                is_refused.then_some(Ended::Refused)
            }
            Request::Commit => {
                open.bound();
                open.flush();
                open.tape.pause(pause);
                if open.is_failed && !is_refused {
                    open.tape.rollback();
                    Some(Ended::RolledBack)
                } else {
                    open.tape.commit();
                    Some(if is_refused {
                        Ended::Refused
                    } else {
                        Ended::Committed
                    })
                }
            }
            Request::Rollback => {
                open.bound();
                open.flush();
                open.tape.pause(pause);
                open.tape.rollback();
                Some(Ended::RolledBack)
            }
            Request::Ping => {
                open.flush();
                open.tape.pause(pause);
                open.tape.ping();
                (!was_open).then_some(Ended::Committed)
            }
            Request::Reset => {
                open.flush();
                open.tape.pause(pause);
                if was_open {
                    open.tape.rollback();
                }
                open.tape.reset();
                Some(if was_open {
                    Ended::RolledBack
                } else {
                    Ended::Committed
                })
            }
            Request::Statement(sent) => {
                if open.is_implicit {
                    open.bound();
                } else if goes_on && !open.is_begun {
                    // A statement that is alone up to its Sync needs no BEGIN.
                    open.is_implicit = is_postgres && exchange.in_transaction_after.is_none();
                    if !open.is_implicit {
                        open.begin();
                    }
                }
                // ROLLBACK TO: a transaction that has failed takes no other.
                open.is_failed &= is_refused || exchange.verb != Some(Verb::Savepoint);
                let id = id_of(&sent);
                open.add(sent, id, pause);
                match (is_refused, goes_on) {
                    (true, _) => Some(Ended::Refused),
                    (false, true) => None,
                    (false, false) => {
                        // A statement such as CREATE TABLE has committed what was open.
                        if open.is_begun {
                            open.flush();
                            open.tape.commit();
                        }
                        Some(Ended::Committed)
                    }
                }
            }
            Request::Implied | Request::Leave(_) => None,
        };
        match ended {
            Some(Ended::Committed) if of_session && !was_open => {
                at.before = Some((open, end_ns(exchange)));
            }
            Some(ended) if exchange.cursor => at.ended = Some((open, ended, end_ns(exchange))),
            Some(ended) => self.write(number, open, ended, end_ns(exchange)),
            None => {
                open.end_ns = end_ns(exchange);
                at.open = Some(open);
            }
        }
        true
    }

    /// Rows of the cursor that the connection's last statement opened.
    fn fetched(&mut self, connection: u32, rows: u64) {
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        let ended = at.ended.as_mut().map(|(open, ..)| open);
        if let Some((sent, ..)) = ended
            .or(at.open.as_mut())
            .and_then(|open| open.last.as_mut())
        {
            sent.counts.rows += rows;
        }
    }

    /// The connection goes on: what has ended has all of its rows.
    fn close(&mut self, connection: u32) {
        let at = self.connections.get_mut(&connection);
        if let Some((number, (open, ended, end_ns))) =
            at.and_then(|at| Some((at.number, at.ended.take()?)))
        {
            self.write(number, open, ended, end_ns);
        }
    }

    /// Nobody knows how the connection's transaction ended.
    pub(super) fn lose(&mut self, connection: u32) {
        self.skipping.remove(&connection);
        self.close(connection);
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        let number = at.number;
        match at.open.take() {
            Some(open) if open.is_synced => self.end(number, open),
            Some(_) => {
                if let Some(writer) = self.writer {
                    writer.lost();
                }
            }
            None => {}
        }
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        if let (number, Some((before, end_ns))) = (at.number, at.before.take()) {
            self.write(number, before, Ended::Committed, end_ns);
        }
    }

    /// Requests of nobody knows which connections are missing here.
    pub(super) fn lose_all(&mut self) {
        let mut numbers: Vec<u32> = self.connections.keys().copied().collect();
        // What is still to be written stands in the same order every time.
        numbers.sort_unstable();
        for number in numbers {
            self.lose(number);
        }
    }

    /// The capture has ended; what is open is lost.
    pub(super) fn finish(mut self) -> Put {
        self.lose_all();
        Put {
            connections: self.connections.len() as u32,
            sent: self.sent,
        }
    }

    fn write(&mut self, number: u32, mut open: Open, ended: Ended, end_ns: u64) {
        open.flush();
        let before = self.ends_ns.partition_point(|end| *end <= open.began_ns);
        let began_us = open.began_ns / 1000;
        let before = before as u64;
        if let Some(writer) = self.writer {
            writer.add(number, open.kind, began_us, before, ended, &open.tape);
        }
        self.sent.extend(open.statements);
        let last = self.ends_ns.last().copied().unwrap_or_default();
        self.ends_ns.push(last.max(end_ns));
    }
}

impl Connection {
    /// How long the client took before what goes onto the tape now.
    fn pause(&mut self) -> Duration {
        Duration::from_nanos(std::mem::take(&mut self.pause_ns))
    }
}

impl Open {
    fn new() -> Self {
        Self {
            began_ns: 0,
            tape: Tape::default(),
            statements: Vec::new(),
            is_begun: false,
            kind: READ,
            number: None,
            end_ns: 0,
            is_implicit: false,
            is_synced: false,
            is_failed: false,
            last: None,
        }
    }

    /// Whether the server has ended it before a request that belongs to another transaction or to none. A BEGIN before the Sync that ends
    /// an implicit one has a number of its own in the capture, and yet goes on with it.
    fn has_ended_before(&self, exchange: &Exchange) -> bool {
        let ends_by_itself = self.is_implicit || self.is_failed;
        let is_another = self.number.is_some() && self.number != exchange.transaction;
        let goes_on = self.is_implicit && !self.is_synced && exchange.verb == Some(Verb::Begin);
        ends_by_itself && is_another && !goes_on
    }

    fn begin(&mut self) {
        self.flush();
        self.tape.begin();
        self.is_begun = true;
    }

    /// BEGIN before the last statement, which is the first of its transaction, unless there is one already.
    fn bound(&mut self) {
        if !self.is_begun {
            self.tape.begin();
            self.is_begun = true;
        }
    }

    fn add(&mut self, sent: Sent, id: StatementId, pause: Duration) {
        self.flush();
        let reads = sent.of_session || matches!(sent.verb, "select" | "show" | "set");
        if !reads || sent.sort == Sort::Several {
            self.kind = WRITE;
        }
        self.statements.push(id);
        self.last = Some((sent, id, pause));
    }

    /// Put the last statement onto the tape.
    fn flush(&mut self) {
        let Some((sent, id, pause)) = self.last.take() else {
            return;
        };
        self.tape.pause(pause);
        match sent.rows.as_slice() {
            [row] if !sent.is_bulk => self.tape.statement(id, row),
            rows => self.tape.batch(id, rows, BatchWay::Bulk),
        }
        self.tape.answered(sent.counts);
    }
}

fn end_ns(exchange: &Exchange) -> u64 {
    exchange
        .answer_ns
        .map_or(exchange.request_end_ns, |(_, last)| last)
}
