//! One connection's measurements, handed to the collector a few hundred at a time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use wire::{Counters, Done, Error};

use super::Names;
use super::collector::{Batch, Collector, TransactionSample, lock};
use super::tally::{StatementTally, TransactionTally, count_error};
use crate::workload::{Outcome, TransactionKind};

/// A batch is handed over when it holds so many statements ...
const BATCH_STATEMENTS: usize = 256;
/// ... or is so old, so that the live line is up to date.
const BATCH_AGE_NS: u64 = 500_000_000;

/// Records what one connection does. Before [`Recorder::start`] nothing is recorded but what is completed within the window.
pub struct Recorder {
    collector: Arc<Collector>,
    /// Its own but at the end of the run, so that the lock is free.
    batch: Arc<Mutex<Batch>>,
    flushed_ns: u64,
    on: bool,
    /// What the transaction at hand has sent and received.
    transaction_wire: Counters,
}

/// One transaction that has ended.
#[derive(Debug, Clone, Copy)]
pub struct TransactionRecord {
    /// Its kind.
    pub kind: TransactionKind,
    /// When it should have begun; closed loop: when it began.
    pub scheduled_ns: u64,
    /// When it began.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// How it ended; `None` after an error.
    pub outcome: Option<Outcome>,
    /// How often it was run again.
    pub retries: u64,
}

impl Recorder {
    /// A recorder that is still off.
    #[must_use]
    pub fn new(collector: Arc<Collector>) -> Self {
        let batch = collector.batch();
        Self {
            collector,
            batch,
            flushed_ns: 0,
            on: false,
            transaction_wire: Counters::default(),
        }
    }

    /// When the measured part ends.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.collector.window().end_ns.load(Ordering::Relaxed)
    }

    /// Record from now on.
    pub fn start(&mut self) {
        self.on = true;
        self.transaction_wire = Counters::default();
    }

    /// Record one use of a statement.
    pub fn statement(
        &mut self,
        name: u16,
        began_ns: u64,
        ended_ns: u64,
        wire: Counters,
        outcome: &Result<Done, Error>,
    ) {
        let mut batch = lock(&self.batch);
        if Names::is_work(name) && self.collector.window().holds(ended_ns) {
            batch.completed_statements += 1;
        }
        if !self.on {
            return;
        }
        self.transaction_wire += wire;
        batch.statements[usize::from(name)].add(wire, outcome);
        batch
            .statement_samples
            .push((name, ended_ns.saturating_sub(began_ns)));
        if let Err(error) = outcome {
            count_error(&mut batch.errors, error);
        }
    }

    /// Record a transaction.
    pub fn transaction(&mut self, record: TransactionRecord) {
        let mut batch = lock(&self.batch);
        if self.collector.window().holds(record.ended_ns) {
            match record.outcome {
                Some(Outcome::Committed) => batch.completed[usize::from(record.kind.0)] += 1,
                Some(Outcome::RolledBack) => batch.completed_rolled_back += 1,
                None => {}
            }
        }
        if !self.on {
            return;
        }
        let tally = &mut batch.transactions[usize::from(record.kind.0)];
        tally.retries += record.retries;
        tally.wire += std::mem::take(&mut self.transaction_wire);
        match record.outcome {
            Some(Outcome::Committed) => tally.count += 1,
            Some(Outcome::RolledBack) => tally.rolled_back += 1,
            None => tally.errors += 1,
        }
        batch.transaction_samples.push(TransactionSample {
            kind: record.kind.0,
            ended_ns: record.ended_ns,
            latency_ns: record
                .outcome
                .map(|_| record.ended_ns.saturating_sub(record.scheduled_ns)),
            lag_ns: record.began_ns.saturating_sub(record.scheduled_ns),
            retries: record.retries,
        });
        let full = batch.statement_samples.len() >= BATCH_STATEMENTS;
        if full || record.ended_ns.saturating_sub(self.flushed_ns) >= BATCH_AGE_NS {
            self.flushed_ns = record.ended_ns;
            self.collector.take(&mut batch);
        }
    }

    /// An open-loop arrival of the measured part that was not begun when the load ended, after waiting for `waited_ns`.
    pub fn not_begun(&mut self, waited_ns: u64) {
        lock(&self.batch).not_begun_ns.push(waited_ns);
    }

    /// Note that the connection was lost and made again.
    pub fn reconnected(&mut self) {
        lock(&self.batch).reconnects += u64::from(self.on);
    }

    /// Note CPU time of this connection's thread.
    pub fn cpu(&mut self, cpu_ns: u64) {
        lock(&self.batch).client_cpu_ns += cpu_ns;
    }

    /// Hand over what is still here.
    pub fn flush(&mut self) {
        self.collector.take(&mut lock(&self.batch));
    }
}

impl Batch {
    /// Empty, for so many names and kinds.
    pub(super) fn new(names: usize, kinds: usize) -> Self {
        Self {
            statements: vec![StatementTally::default(); names],
            transactions: vec![TransactionTally::default(); kinds],
            completed: vec![0; kinds],
            ..Self::default()
        }
    }
}
