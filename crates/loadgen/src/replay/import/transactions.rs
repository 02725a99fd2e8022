//! Requests of many connections, put together into transactions in the order in which they ended.

use std::collections::HashMap;

use wire::BatchWay;
use wire::passive::{Exchange, Kind};

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
    writer: &'a TraceWriter,
    /// By a connection's number in the capture.
    connections: HashMap<u32, Connection>,
    /// When each transaction ended that was written, rising.
    ends_ns: Vec<u64>,
}

struct Connection {
    /// In the trace, from 0.
    number: u32,
    open: Option<Open>,
    /// Has ended with a cursor, whose rows may still come.
    ended: Option<(Open, Ended, u64)>,
    /// What was about the session since the last transaction, and when it ended: it goes with the next one.
    before: Option<(Open, u64)>,
}

/// A transaction that has not ended.
struct Open {
    began_ns: u64,
    tape: Tape,
    /// BEGIN stands on the tape.
    is_begun: bool,
    kind: TransactionKind,
    /// The last statement, which goes onto the tape when all of its rows have been fetched.
    last: Option<(Sent, StatementId)>,
}

impl<'a> Transactions<'a> {
    pub(super) fn new(writer: &'a TraceWriter) -> Self {
        Self {
            writer,
            connections: HashMap::new(),
            ends_ns: Vec::new(),
        }
    }

    /// Add a request; false where it was refused and its transaction went on without it.
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
        });
        let number = at.number;
        if request == Request::Begin
            && let Some(mut before) = at.open.take()
        {
            // MySQL commits it.
            before.flush();
            before.tape.commit();
            self.write(number, before, Ended::Committed, exchange.request_ns);
            return self.take(connection, exchange, request, id_of);
        }
        let goes_on = exchange.in_transaction_after == Some(true);
        let is_refused = exchange.error.is_some();
        let was_open = at.open.is_some();
        if is_refused && was_open && exchange.in_transaction_after != Some(false) {
            return false;
        }
        let mut open = match at.open.take() {
            Some(open) => open,
            // A COMMIT of nothing.
            None if matches!(request, Request::Commit | Request::Rollback) => return true,
            None => {
                let before = at.before.take().map(|(open, _)| open);
                let mut open = before.unwrap_or_else(Open::new);
                open.began_ns = exchange.request_ns;
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
                open.flush();
                open.tape.commit();
                Some(if is_refused {
                    Ended::Refused
                } else {
                    Ended::Committed
                })
            }
            Request::Rollback => {
                open.flush();
                open.tape.rollback();
                Some(Ended::RolledBack)
            }
            Request::Ping => {
                open.flush();
                open.tape.ping();
                (!was_open).then_some(Ended::Committed)
            }
            Request::Reset => {
                open.flush();
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
                if goes_on && !open.is_begun {
                    open.begin();
                }
                let id = id_of(&sent);
                open.add(sent, id);
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
            None => at.open = Some(open),
        }
        true
    }

    /// Rows of the cursor that the connection's last statement opened.
    fn fetched(&mut self, connection: u32, rows: u64) {
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        let ended = at.ended.as_mut().map(|(open, ..)| open);
        if let Some((sent, _)) = ended
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
        self.close(connection);
        let Some(at) = self.connections.get_mut(&connection) else {
            return;
        };
        if at.open.take().is_some() {
            self.writer.lost();
        }
        if let (number, Some((before, end_ns))) = (at.number, at.before.take()) {
            self.write(number, before, Ended::Committed, end_ns);
        }
    }

    /// How many connections sent something; what is open is lost.
    pub(super) fn finish(mut self) -> u32 {
        let mut numbers: Vec<u32> = self.connections.keys().copied().collect();
        // What is still to be written stands in the same order every time.
        numbers.sort_unstable();
        for number in &numbers {
            self.lose(*number);
        }
        numbers.len() as u32
    }

    fn write(&mut self, number: u32, mut open: Open, ended: Ended, end_ns: u64) {
        open.flush();
        let before = self.ends_ns.partition_point(|end| *end <= open.began_ns);
        let began_us = open.began_ns / 1000;
        let before = before as u64;
        self.writer
            .add(number, open.kind, began_us, before, ended, &open.tape);
        let last = self.ends_ns.last().copied().unwrap_or_default();
        self.ends_ns.push(last.max(end_ns));
    }
}

impl Open {
    fn new() -> Self {
        Self {
            began_ns: 0,
            tape: Tape::default(),
            is_begun: false,
            kind: READ,
            last: None,
        }
    }

    fn begin(&mut self) {
        self.flush();
        self.tape.begin();
        self.is_begun = true;
    }

    fn add(&mut self, sent: Sent, id: StatementId) {
        self.flush();
        let reads = sent.of_session || matches!(sent.verb, "select" | "show" | "set");
        if !reads || sent.sort == Sort::Several {
            self.kind = WRITE;
        }
        self.last = Some((sent, id));
    }

    /// Put the last statement onto the tape.
    fn flush(&mut self) {
        let Some((sent, id)) = self.last.take() else {
            return;
        };
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
