//! Time, as a seam: the tests of open-loop honesty bring their own.

use std::time::{Duration, Instant};

/// A monotonic clock that can wait.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;

    /// Return at `moment_ns` or as soon after as the system manages; at once when it has passed.
    fn sleep_until(&self, moment_ns: u64);
}

/// The machine's monotonic clock, zero at its creation.
#[derive(Debug)]
pub struct MonotonicClock {
    zero: Instant,
}

impl MonotonicClock {
    /// A clock that shows 0 now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            zero: Instant::now(),
        }
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        // 584 years of nanoseconds fit.
        self.zero.elapsed().as_nanos() as u64
    }

    fn sleep_until(&self, moment_ns: u64) {
        let now_ns = self.now_ns();
        if moment_ns > now_ns {
            wire::fibers::sleep(Duration::from_nanos(moment_ns - now_ns));
        }
    }
}
