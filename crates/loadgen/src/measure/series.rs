//! What happened in each second.

use hdrhistogram::Histogram;

use super::collector::TransactionSample;

const SECOND_NS: u64 = 1_000_000_000;

/// One second.
#[derive(Debug, Clone)]
pub struct Second {
    /// Transactions that ended in it as the workload wanted.
    pub transactions: u64,
    /// Statements; they are attributed to the second in which their connection reported: half a second and a transaction late at most.
    pub statements: u64,
    /// Transactions given up after an error.
    pub errors: u64,
    /// Transactions run again.
    pub retries: u64,
    /// Latencies of its transactions in microseconds, two significant digits: a second takes kilobytes so, and a day fits into memory.
    pub latency_us: Histogram<u32>,
}

impl Default for Second {
    fn default() -> Self {
        let latency_us = Histogram::new(2).expect("2 significant digits are allowed");
        Self {
            transactions: 0,
            statements: 0,
            errors: 0,
            retries: 0,
            latency_us,
        }
    }
}

/// The seconds from the start of the measured part on.
#[derive(Debug, Clone, Default)]
pub struct Series {
    zero_ns: u64,
    seconds: Vec<Second>,
}

impl Series {
    /// Every second so far.
    #[must_use]
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    pub(super) fn set_zero(&mut self, zero_ns: u64) {
        self.zero_ns = zero_ns;
    }

    pub(super) fn statements(&mut self, ended_ns: u64, count: u64) {
        self.second(ended_ns).statements += count;
    }

    pub(super) fn transaction(&mut self, sample: &TransactionSample) {
        let second = self.second(sample.ended_ns);
        second.retries += sample.retries;
        match sample.latency_ns {
            Some(latency_ns) => {
                second.transactions += 1;
                // It grows as needed, which `saturating_record` does not do; its counts reach 2^32.
                let _ = second.latency_us.record((latency_ns / 1000).max(1));
            }
            None => second.errors += 1,
        }
    }

    fn second(&mut self, ended_ns: u64) -> &mut Second {
        let number = (ended_ns.saturating_sub(self.zero_ns) / SECOND_NS) as usize;
        if number >= self.seconds.len() {
            self.seconds.resize_with(number + 1, Second::default);
        }
        &mut self.seconds[number]
    }
}
