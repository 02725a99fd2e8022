//! What sysbench's tables hold.

use rand::RngExt;
use wire::Value;

use crate::workload::Random;

/// Column `c`: ten groups of eleven digits, 119 characters.
const C_GROUPS: usize = 10;
/// Column `pad`: five groups of eleven digits, 59 characters.
const PAD_GROUPS: usize = 5;

/// A value of column `c`.
pub(super) fn c(random: &mut Random) -> Value {
    Value::Text(groups(random, C_GROUPS))
}

/// A value of column `pad`.
pub(super) fn pad(random: &mut Random) -> Value {
    Value::Text(groups(random, PAD_GROUPS))
}

fn groups(random: &mut Random, count: usize) -> String {
    let mut text = String::with_capacity(count * 12);
    for group in 0..count {
        if group > 0 {
            text.push('-');
        }
        let mut digits = random.random_range(0..100_000_000_000_u64);
        for _ in 0..11 {
            text.push(char::from(b'0' + (digits % 10) as u8));
            digits /= 10;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn lengths_are_sysbench_s() {
        let mut random = Random::seed_from_u64(1);
        for (value, length) in [(c(&mut random), 119), (pad(&mut random), 59)] {
            assert!(
                matches!(&value, Value::Text(text) if text.len() == length),
                "{value:?}"
            );
        }
    }
}
