//! Any workload, recorded while it runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use wire::{Connection, Error};

use super::tape::Tape;
use super::writer::{Ended, TraceWriter};
use crate::session::{Knobs, Session, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

/// A workload whose transactions go into a trace.
///
/// A transaction is recorded when it has ended: at its COMMIT, its ROLLBACK, or a statement that the server refused. One that the
/// server rolled back for a deadlock or the like had no effect and is run again: only the run that ended it is in the trace.
pub struct Recording {
    inner: Arc<dyn Workload>,
    writer: Arc<TraceWriter>,
}

impl Recording {
    /// Record `inner` into `writer`.
    #[must_use]
    pub fn new(inner: Arc<dyn Workload>, writer: Arc<TraceWriter>) -> Self {
        Self { inner, writer }
    }
}

impl Workload for Recording {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn statements(&self) -> &[StatementSpec] {
        self.inner.statements()
    }

    fn transactions(&self) -> &[&'static str] {
        self.inner.transactions()
    }

    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        self.inner.check(connection)
    }

    fn client(&self, number: u32, connections: u32) -> Box<dyn Client> {
        Box::new(RecordingClient {
            inner: self.inner.client(number, connections),
            writer: Arc::clone(&self.writer),
            number,
            kind: TransactionKind(0),
            began_ns: None,
            written_before: 0,
            tape: None,
        })
    }

    fn tpmc(&self) -> Option<TransactionKind> {
        self.inner.tpmc()
    }

    fn options(&self) -> Map<String, Value> {
        self.inner.options()
    }

    fn statements_prepared(&self, knobs: &Knobs) -> usize {
        self.inner.statements_prepared(knobs)
    }

    fn missed(&self, end: Duration) -> Box<dyn Iterator<Item = Duration>> {
        self.inner.missed(end)
    }

    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
}

struct RecordingClient {
    inner: Box<dyn Client>,
    writer: Arc<TraceWriter>,
    number: u32,
    kind: TransactionKind,
    /// When the first attempt at the transaction at hand began.
    began_ns: Option<u64>,
    /// How many transactions had ended when its last attempt began.
    written_before: u64,
    /// What its last attempt has sent.
    tape: Option<Tape>,
}

impl Client for RecordingClient {
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        self.kind = self.inner.draw(random)?;
        self.began_ns = None;
        Some(self.kind)
    }

    fn is_ready(&mut self) -> bool {
        self.inner.is_ready()
    }

    fn due(&self) -> Option<Duration> {
        self.inner.due()
    }

    fn keying(&mut self) -> Duration {
        self.inner.keying()
    }

    fn thinking(&mut self, random: &mut Random) -> Duration {
        self.inner.thinking(random)
    }

    fn retries(&self, error: &Error) -> bool {
        self.inner.retries(error)
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        session.tape().get_or_insert_with(Tape::default).clear();
        let now_ns = session.clock().now_ns();
        self.began_ns.get_or_insert(now_ns);
        self.written_before = self.writer.written();
        let outcome = self.inner.run(session);
        // What undoes a failed attempt is no part of the transaction.
        self.tape = session.tape().take();
        outcome
    }

    fn ended(&mut self, outcome: &Result<Outcome, Error>, session: &mut Session) {
        self.inner.ended(outcome, session);
        let ended = match outcome {
            Ok(Outcome::Committed) => Ended::Committed,
            Ok(Outcome::RolledBack) => Ended::RolledBack,
            Err(error) if error.is_disconnect() => return self.writer.lost(),
            Err(_) => Ended::Refused,
        };
        let began_ns = self.began_ns.unwrap_or_default();
        let tape = self.tape.take().unwrap_or_default();
        self.writer.add(
            self.number,
            self.kind,
            began_ns / 1000,
            self.written_before,
            ended,
            &tape,
        );
        *session.tape() = Some(tape);
    }
}
