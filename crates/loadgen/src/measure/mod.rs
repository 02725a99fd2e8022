//! Counts and latencies: recorded by each connection, merged by the collector.

mod collector;
mod names;
mod recorder;
mod series;
mod server_text;
mod server_time;
mod tally;

use hdrhistogram::Histogram;

pub use collector::{Collector, Totals, Window};
pub use names::Names;
pub use recorder::{Recorder, TransactionRecord};
pub use series::{Second, Series};
pub use server_time::{
    ServerTime, StatementServerTime, Sums, Used, connected_sums, server_sums, server_time,
};
pub use tally::{ErrorTally, Errors, StatementTally, TransactionTally};

/// The longest latency that is told apart from longer ones.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds. They take memory once there is one: a trace may name tens of thousands of statements.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Option<Box<Histogram<u64>>>);

impl Latencies {
    fn record(&mut self, latency_ns: u64) {
        let histogram = self.0.get_or_insert_with(|| Box::new(new_histogram()));
        histogram.saturating_record(latency_ns);
    }

    /// None before the first latency.
    #[must_use]
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.0.as_deref()
    }
}

/// A histogram of nanoseconds with 3 significant digits.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds and digits are allowed")
}
