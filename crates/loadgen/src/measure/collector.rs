//! All connections' measurements, merged as they come.
//!
//! Histograms live here and not in each connection, because 512 connections with 50 statements each would need gigabytes of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use super::series::Series;
use super::tally::{Errors, StatementTally, TransactionTally, merge_errors};
use super::{Latencies, Names, new_histogram};

/// The measured part of a run, in nanoseconds of its clock.
#[derive(Debug)]
pub struct Window {
    /// When the measured part begins.
    pub begin_ns: AtomicU64,
    /// When it ends; moved back to now by Ctrl-C and by a failure.
    pub end_ns: AtomicU64,
}

impl Window {
    /// Whether something that ended at `moment_ns` was completed within it.
    pub(super) fn holds(&self, moment_ns: u64) -> bool {
        moment_ns >= self.begin_ns.load(Ordering::Relaxed)
            && moment_ns <= self.end_ns.load(Ordering::Relaxed)
    }
}

/// What a recorder hands over. All of it is added to what the collector has, and then empty again.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) statements: Vec<StatementTally>,
    pub(super) transactions: Vec<TransactionTally>,
    pub(super) errors: Errors,
    /// Name and latency.
    pub(super) statement_samples: Vec<(u16, u64)>,
    pub(super) transaction_samples: Vec<TransactionSample>,
    pub(super) not_begun_ns: Vec<u64>,
    /// What was completed within the window, whenever it began: transactions committed, by kind, and rolled back as meant; statements.
    pub(super) completed: Vec<u64>,
    pub(super) completed_rolled_back: u64,
    pub(super) completed_statements: u64,
    pub(super) reconnects: u64,
    pub(super) client_cpu_ns: u64,
}

/// One transaction's times.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransactionSample {
    pub(super) kind: u16,
    pub(super) ended_ns: u64,
    /// `None` after an error.
    pub(super) latency_ns: Option<u64>,
    pub(super) lag_ns: u64,
    pub(super) retries: u64,
}

/// Everything measured so far.
#[derive(Debug, Clone)]
pub struct Totals {
    /// Counts by statement name.
    pub statements: Vec<StatementTally>,
    /// Latencies by statement name, in nanoseconds, those that failed included.
    pub statement_latency: Vec<Latencies>,
    /// Counts by kind of transaction.
    pub transactions: Vec<TransactionTally>,
    /// Latencies by kind of transaction, in nanoseconds, from the scheduled start, retries included, failures not.
    pub transaction_latency: Vec<Histogram<u64>>,
    /// By kind of transaction: how many were committed within the measured part, whenever they began.
    pub completed: Vec<u64>,
    /// How many were rolled back there, as the workload wanted.
    pub completed_rolled_back: u64,
    /// How many of the workload's statements ended within the measured part.
    pub completed_statements: u64,
    /// Latencies of all transactions, and the waits so far of those that were never begun or never answered.
    pub latency: Histogram<u64>,
    /// How long after its scheduled start each transaction began, and the waits of arrivals never begun.
    pub lag: Histogram<u64>,
    /// Errors by code.
    pub errors: Errors,
    /// Arrivals that were due within the load and never begun.
    pub not_begun: u64,
    /// Transactions that began and got no answer; their lags are not known.
    pub unanswered: u64,
    /// Connections lost and made again.
    pub reconnects: u64,
    /// CPU time of the connections' threads.
    pub client_cpu_ns: u64,
    /// By second.
    pub series: Series,
}

impl Totals {
    /// Statements that are the workload's work.
    #[must_use]
    pub fn work_statements(&self) -> u64 {
        let numbered = self.statements.iter().enumerate();
        numbered
            .filter(|(number, _)| Names::is_work(*number as u16))
            .map(|(_, tally)| tally.count)
            .sum()
    }

    /// Transactions that ended as the workload wanted, those that ended after the measured part included.
    #[must_use]
    pub fn done_transactions(&self) -> u64 {
        self.transactions
            .iter()
            .map(|tally| tally.count + tally.rolled_back)
            .sum()
    }
}

/// A recorder that panicked has at worst left a part of a measurement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where all recorders of a run hand over.
pub struct Collector {
    totals: Mutex<Totals>,
    /// Every recorder's batch, so that nothing is lost of a connection that never comes back.
    batches: Mutex<Vec<Arc<Mutex<Batch>>>>,
    window: Window,
    names: usize,
    kinds: usize,
}

impl Collector {
    /// An empty collector for so many statement names and kinds of transactions, whose first second begins at `zero_ns`.
    #[must_use]
    pub fn new(names: usize, kinds: usize) -> Arc<Self> {
        let totals = Totals {
            statements: vec![StatementTally::default(); names],
            statement_latency: vec![Latencies::default(); names],
            transactions: vec![TransactionTally::default(); kinds],
            transaction_latency: vec![new_histogram(); kinds],
            completed: vec![0; kinds],
            completed_rolled_back: 0,
            completed_statements: 0,
            latency: new_histogram(),
            lag: new_histogram(),
            errors: Errors::default(),
            not_begun: 0,
            unanswered: 0,
            reconnects: 0,
            client_cpu_ns: 0,
            series: Series::default(),
        };
        Arc::new(Self {
            totals: Mutex::new(totals),
            batches: Mutex::new(Vec::new()),
            window: Window {
                begin_ns: AtomicU64::new(0),
                end_ns: AtomicU64::new(u64::MAX),
            },
            names,
            kinds,
        })
    }

    /// The measured part; all of the run until [`Self::measure`] is called.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Say when the measured part begins and ends.
    pub fn measure(&self, begin_ns: u64, end_ns: u64) {
        self.window.begin_ns.store(begin_ns, Ordering::SeqCst);
        self.window.end_ns.store(end_ns, Ordering::SeqCst);
        self.with(|totals| totals.series.set_zero(begin_ns));
    }

    /// Note arrivals that were due and never begun, by how long they have waited.
    pub fn not_begun(&self, waited_ns: impl Iterator<Item = u64>) {
        self.with(|totals| waited_ns.for_each(|waited_ns| totals.add_not_begun(waited_ns)));
    }

    /// Note a transaction that was begun and not answered, by how long it has waited.
    pub fn unanswered(&self, waited_ns: u64) {
        self.with(|totals| {
            totals.unanswered += 1;
            totals.latency.saturating_record(waited_ns);
        });
    }

    /// What has been handed over so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.with(|totals| totals.clone())
    }

    /// Look at what has been handed over so far, without copying it.
    pub fn with<T>(&self, look: impl FnOnce(&mut Totals) -> T) -> T {
        look(&mut lock(&self.totals))
    }

    /// An empty batch for a recorder.
    pub(super) fn batch(&self) -> Arc<Mutex<Batch>> {
        let batch = Arc::new(Mutex::new(Batch::new(self.names, self.kinds)));
        lock(&self.batches).push(Arc::clone(&batch));
        batch
    }

    /// Add what recorders have not handed over, because their connections wait for answers that do not come.
    pub fn gather(&self) {
        for batch in &*lock(&self.batches) {
            self.take(&mut lock(batch));
        }
    }

    /// Add a batch, and empty it.
    pub(super) fn take(&self, batch: &mut Batch) {
        self.with(|totals| totals.add(batch));
    }
}

impl Totals {
    fn add(&mut self, batch: &mut Batch) {
        let mut statements = 0;
        for (number, (total, more)) in self
            .statements
            .iter_mut()
            .zip(&mut batch.statements)
            .enumerate()
        {
            statements += if Names::is_work(number as u16) {
                more.count
            } else {
                0
            };
            total.merge(&std::mem::take(more));
        }
        for (total, more) in self.transactions.iter_mut().zip(&mut batch.transactions) {
            total.merge(&std::mem::take(more));
        }
        merge_errors(&mut self.errors, std::mem::take(&mut batch.errors));
        for (name, latency_ns) in batch.statement_samples.drain(..) {
            self.statement_latency[usize::from(name)].record(latency_ns);
        }
        if let Some(last) = batch.transaction_samples.last() {
            self.series.statements(last.ended_ns, statements);
        }
        for sample in batch.transaction_samples.drain(..) {
            self.series.transaction(&sample);
            self.lag.saturating_record(sample.lag_ns);
            if let Some(latency_ns) = sample.latency_ns {
                self.latency.saturating_record(latency_ns);
                self.transaction_latency[usize::from(sample.kind)].saturating_record(latency_ns);
            }
        }
        for waited_ns in batch.not_begun_ns.drain(..) {
            self.add_not_begun(waited_ns);
        }
        for (total, more) in self.completed.iter_mut().zip(&mut batch.completed) {
            *total += std::mem::take(more);
        }
        self.completed_rolled_back += std::mem::take(&mut batch.completed_rolled_back);
        self.completed_statements += std::mem::take(&mut batch.completed_statements);
        self.reconnects += std::mem::take(&mut batch.reconnects);
        self.client_cpu_ns += std::mem::take(&mut batch.client_cpu_ns);
    }
    fn add_not_begun(&mut self, waited_ns: u64) {
        self.not_begun += 1;
        self.latency.saturating_record(waited_ns);
        self.lag.saturating_record(waited_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of this process, in bytes.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        4096 * pages.unwrap_or(0_usize)
    }

    #[test]
    fn statements_that_never_run_take_little_memory() {
        let before = resident();
        let collector = Collector::new(2000, 1);
        let totals = collector.totals();
        let taken = resident().saturating_sub(before);
        assert!(taken < 100 << 20, "{taken} bytes");
        assert!(
            totals
                .statement_latency
                .iter()
                .all(|one| one.histogram().is_none())
        );
    }
}
