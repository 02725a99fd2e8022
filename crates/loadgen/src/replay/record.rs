//! Any workload, recorded while it runs.

use std::sync::Arc;

use wire::{Connection, Error};

use super::tape::Tape;
use super::writer::{Ended, TraceWriter};
use crate::session::{Session, StatementSpec};
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
        })
    }

    fn tpmc(&self) -> Option<TransactionKind> {
        self.inner.tpmc()
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
}

impl Client for RecordingClient {
    fn draw(&mut self, random: &mut Random) -> TransactionKind {
        self.kind = self.inner.draw(random);
        self.began_ns = None;
        self.kind
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        session.tape().get_or_insert_with(Tape::default).clear();
        let now_ns = session.clock().now_ns();
        let began_us = *self.began_ns.get_or_insert(now_ns) / 1000;
        let outcome = self.inner.run(session);
        let ended = match &outcome {
            Ok(Outcome::Committed) => Ended::Committed,
            Ok(Outcome::RolledBack) => Ended::RolledBack,
            Err(error) if error.is_retryable() => return outcome,
            Err(error) if error.is_disconnect() => {
                self.writer.lost();
                return outcome;
            }
            Err(_) => Ended::Refused,
        };
        if let Some(tape) = session.tape() {
            self.writer
                .add(self.number, self.kind, began_us, ended, tape);
        }
        outcome
    }
}
