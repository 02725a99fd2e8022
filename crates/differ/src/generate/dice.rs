//! Random choices, the same for the same seed.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator of choices.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// The same choices for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// 0 to `end` - 1.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.random_range(0..end.max(1))
    }

    /// An index of something that long.
    pub fn index(&mut self, length: usize) -> usize {
        self.0.random_range(0..length.max(1))
    }

    /// One of them; there must be one.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// One of them by its weight.
    pub fn weighted<'a, T>(&mut self, choices: &'a [(u32, T)]) -> &'a T {
        let mut at = self.below(choices.iter().map(|each| each.0).sum());
        for (weight, choice) in choices {
            if at < *weight {
                return choice;
            }
            at -= weight;
        }
        &choices[0].1
    }
}
