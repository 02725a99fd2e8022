//! How the time is shared out.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Below it the largest footprints alone would take all of the time to fill.
const LEAST_S: f64 = 5.0;
/// Nobody means more; and a duration has its limits.
const MOST_S: f64 = 600.0;

/// Repetitions of each figure: enough to see one that was disturbed, few enough to be long.
pub const REPETITIONS: usize = 5;

/// The time for the whole card.
pub struct Budget {
    started: Instant,
    seconds: f64,
}

impl Budget {
    /// It begins now.
    ///
    /// # Errors
    /// A usage error when it is too small for a card, or no number.
    pub fn begin(seconds: f64) -> Result<Self, Failure> {
        if !(LEAST_S..=MOST_S).contains(&seconds) {
            return Err(Failure::usage(
                format!("a card takes from {LEAST_S} to {MOST_S} seconds, not {seconds}"),
                format!("give --seconds {LEAST_S} or more; figures repeat better with 20"),
            ));
        }
        Ok(Self {
            started: Instant::now(),
            seconds,
        })
    }

    /// Of which this share has passed.
    #[cfg(test)]
    pub fn spent(share: f64) -> Self {
        let seconds = LEAST_S;
        let passed = Duration::from_secs_f64(seconds * share);
        Self {
            started: Instant::now()
                .checked_sub(passed)
                .expect("a machine that was up"),
            seconds,
        }
    }

    /// A share of the whole.
    pub fn share(&self, share: f64) -> Duration {
        Duration::from_secs_f64(self.seconds * share)
    }

    /// Whether this share of the whole has passed since the beginning.
    pub fn is_past(&self, share: f64) -> bool {
        self.started.elapsed() >= self.share(share)
    }

    /// Seconds since the beginning.
    pub fn spent_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Seconds of the whole.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// As many figures as there are repetitions.
pub fn repeated(mut figure: impl FnMut() -> f64) -> Vec<f64> {
    (0..REPETITIONS).map(|_| figure()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_small_is_refused_with_the_least() {
        for seconds in [0.0, -1.0, 4.9, f64::NAN, f64::INFINITY, 1e9] {
            let refused = Budget::begin(seconds).err().expect("refused");
            assert_eq!(refused.exit_code, 2);
            assert!(refused.hint.contains("--seconds 5"), "{}", refused.hint);
        }
        assert!(Budget::begin(5.0).is_ok());
    }

    #[test]
    fn shares_are_of_the_whole() {
        let budget = Budget::begin(20.0).expect("enough");
        assert_eq!(budget.share(0.25), Duration::from_secs(5));
        assert!(budget.is_past(0.0) && !budget.is_past(0.9));
    }

    #[test]
    fn every_repetition_is_kept() {
        let mut number = 0.0;
        let figures = repeated(|| {
            number += 1.0;
            number
        });
        assert_eq!(figures, [1.0, 2.0, 3.0, 4.0, 5.0]);
    }
}
