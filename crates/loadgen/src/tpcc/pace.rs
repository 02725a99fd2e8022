//! Keying and think times (clause 5.2.5.7): what makes a terminal a person.

use std::time::Duration;

use rand::RngExt;

use super::Transaction;
use crate::workload::Random;

/// Think times are cut off at so many times their mean (clause 5.2.5.4).
const LONGEST_MEANS: f64 = 10.0;

/// Which of the two times are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Wait for the keying time before each transaction.
    pub keying: bool,
    /// Wait for a random think time after each.
    pub thinking: bool,
}

impl Pace {
    /// The least that the specification allows; nothing if it is not kept.
    pub(super) fn keying(self, transaction: Transaction) -> Duration {
        let seconds = match transaction {
            Transaction::NewOrder => 18,
            Transaction::Payment => 3,
            Transaction::OrderStatus | Transaction::Delivery | Transaction::StockLevel => 2,
        };
        Duration::from_secs(if self.keying { seconds } else { 0 })
    }

    /// Exponentially distributed around the specification's mean; nothing if it is not kept.
    pub(super) fn thinking(self, transaction: Transaction, random: &mut Random) -> Duration {
        if !self.thinking {
            return Duration::ZERO;
        }
        let mean_s = match transaction {
            Transaction::NewOrder | Transaction::Payment => 12.0,
            Transaction::OrderStatus => 10.0,
            Transaction::Delivery | Transaction::StockLevel => 5.0,
        };
        // 1 - u lies in (0, 1].
        let means = -(1.0 - random.random::<f64>()).ln();
        Duration::from_secs_f64(mean_s * means.min(LONGEST_MEANS))
    }

    /// What a reader of tpmC must know.
    pub(super) fn note(self) -> &'static str {
        match (self.keying, self.thinking) {
            (false, false) => "keying and think time off: not comparable with published tpmC",
            (true, false) => "think time off: not comparable with published tpmC",
            (false, true) => "keying time off: not comparable with published tpmC",
            (true, true) => {
                "keying and think time on, but response times, warehouses a terminal and durability were not audited: not comparable with published tpmC"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn nothing_is_waited_for_unless_it_is_asked_for() {
        let pace = Pace::default();
        let mut random = Random::seed_from_u64(1);
        assert!(pace.keying(Transaction::NewOrder).is_zero());
        assert!(pace.thinking(Transaction::NewOrder, &mut random).is_zero());
    }

    #[test]
    fn think_times_have_the_mean_of_the_specification_and_an_end() {
        let pace = Pace {
            keying: true,
            thinking: true,
        };
        assert_eq!(pace.keying(Transaction::Payment).as_secs(), 3);
        let mut random = Random::seed_from_u64(1);
        let drawn: Vec<f64> = (0..100_000)
            .map(|_| {
                pace.thinking(Transaction::OrderStatus, &mut random)
                    .as_secs_f64()
            })
            .collect();
        let mean_s = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((9.9..10.1).contains(&mean_s), "{mean_s}");
        assert!(drawn.iter().all(|&one| one <= 100.0));
    }
}
