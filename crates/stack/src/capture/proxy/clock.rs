//! The capture's clock: nanoseconds since it began, steady.

use std::time::Instant;

/// Counts from the moment it was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// A moment on this clock; 0 for one before it began.
    #[must_use]
    pub fn at_ns(self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.0).as_nanos()).unwrap_or(u64::MAX)
    }
}
