//! The open loop's schedule: when each transaction should begin.

use std::sync::{Mutex, PoisonError};

use rand::{RngExt, SeedableRng};

use super::plan::ArrivalProcess;
use crate::workload::Random;

/// Hands out scheduled starts in order, to whichever connection is free: as a queue before a pool of connections.
#[derive(Debug)]
pub(super) struct Schedule {
    gap_ns: f64,
    process: ArrivalProcess,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Nanoseconds after the start of the next arrival; a float keeps the rate exact over time.
    next_ns: f64,
    random: Random,
}

impl Schedule {
    /// None for a trace, whose transactions bring their own moments.
    pub(super) fn new(rate: f64, process: ArrivalProcess, seed: u64) -> Option<Self> {
        if process == ArrivalProcess::Recorded {
            return None;
        }
        let state = State {
            next_ns: 0.0,
            random: Random::seed_from_u64(seed),
        };
        Some(Self {
            gap_ns: 1e9 / rate,
            process,
            state: Mutex::new(state),
        })
    }

    /// The next scheduled start, in nanoseconds after the start of the load.
    pub(super) fn next_ns(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival_ns = state.next_ns;
        state.next_ns += match self.process {
            ArrivalProcess::Uniform | ArrivalProcess::Recorded => self.gap_ns,
            // Inverse of the exponential distribution; 1 - u lies in (0, 1].
            ArrivalProcess::Poisson => -(1.0 - state.random.random::<f64>()).ln() * self.gap_ns,
        };
        arrival_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_processes_keep_the_rate() {
        for process in [ArrivalProcess::Uniform, ArrivalProcess::Poisson] {
            let schedule = Schedule::new(1000.0, process, 1).expect("a schedule");
            let last_ns = (0..100_000)
                .map(|_| schedule.next_ns())
                .last()
                .expect("100,000 arrivals");
            let seconds = last_ns as f64 / 1e9;
            assert!((99.0..101.0).contains(&seconds), "{process:?}: {seconds}");
        }
    }
}
