//! How ids are drawn: sysbench 1.0's distributions, with its default parameters.

use clap::ValueEnum;
use rand::RngExt;
use rand_distr::{Distribution as _, Zipf};
use serde::Serialize;

use crate::workload::Random;

/// Which ids are hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// None.
    Uniform,
    /// 75 % of draws hit the middle 1 % of ids, the others a bell curve (sysbench's default).
    Special,
    /// 20 % of ids take 80 % of draws, the lowest most.
    Pareto,
    /// Zipf with exponent 0.8.
    Zipf,
}

/// Draws numbers from 1 to a maximum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    distribution: Distribution,
    max: u64,
    zipf: Zipf<f64>,
}

impl Draw {
    pub(super) fn new(distribution: Distribution, max: u64) -> Self {
        let zipf = Zipf::new(max.max(1) as f64, 0.8)
            .expect("at least one element and a positive exponent");
        Self {
            distribution,
            max: max.max(1),
            zipf,
        }
    }

    pub(super) fn one(&self, random: &mut Random) -> i64 {
        let max = self.max as f64;
        let zero_based = match self.distribution {
            Distribution::Uniform => return random.random_range(1..=self.max) as i64,
            Distribution::Zipf => return self.zipf.sample(random) as i64,
            Distribution::Special if random.random_bool(0.75) => {
                let hot = (max / 100.0).max(1.0);
                (max - hot) / 2.0 + random.random::<f64>() * hot
            }
            // The mean of twelve uniform numbers.
            Distribution::Special => {
                (0..12).map(|_| random.random::<f64>()).sum::<f64>() / 12.0 * max
            }
            // P(x < h * max) = 1 - h for h = 0.2.
            Distribution::Pareto => random.random::<f64>().powf(0.2_f64.ln() / 0.8_f64.ln()) * max,
        };
        (zero_based as u64).min(self.max - 1) as i64 + 1
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn share(distribution: Distribution, hot: std::ops::RangeInclusive<i64>) -> f64 {
        let draw = Draw::new(distribution, 10_000);
        let mut random = Random::seed_from_u64(1);
        let draws: Vec<i64> = (0..20_000).map(|_| draw.one(&mut random)).collect();
        assert!(
            draws.iter().all(|id| (1..=10_000).contains(id)),
            "{distribution:?}"
        );
        draws.iter().filter(|id| hot.contains(id)).count() as f64 / draws.len() as f64
    }

    #[test]
    fn each_distribution_is_hot_where_it_says() {
        assert!((0.18..0.22).contains(&share(Distribution::Uniform, 1..=2000)));
        assert!((0.75..0.80).contains(&share(Distribution::Special, 4951..=5050)));
        assert!((0.78..0.82).contains(&share(Distribution::Pareto, 1..=2000)));
        assert!(share(Distribution::Zipf, 1..=2000) > 0.5);
    }
}
