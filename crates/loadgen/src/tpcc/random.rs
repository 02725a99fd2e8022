//! TPC-C's random values (clauses 2.1.6, 4.3.2 and 4.3.3).

use std::time::{SystemTime, UNIX_EPOCH};

use rand::RngExt;
use wire::Value;

use super::scale::{CUSTOMERS, ITEMS};
use crate::workload::Random;

/// Last names are made of three of these.
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
/// Letters of a-strings; digits are those of n-strings.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Last names that NURand draws from.
const LAST_NAMES: i64 = 1000;

/// The constants C of NURand, the same for all terminals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NurandConstants {
    last_name: i64,
    customer: i64,
    item: i64,
}

impl NurandConstants {
    /// Those for loading; C for last names is kept in the tables, since a run's depends on it.
    pub(super) fn for_load(random: &mut Random) -> Self {
        Self {
            last_name: random.random_range(0..=255),
            customer: random.random_range(0..=1023),
            item: random.random_range(0..=8191),
        }
    }

    /// Those for a run on tables loaded with `loaded` as C for last names: the two differ by 65 to 119, but not by 96 or 112.
    pub(super) fn for_run(loaded: i64, random: &mut Random) -> Self {
        let mut constants = Self::for_load(random);
        while !matches!((constants.last_name - loaded).abs(), 65..=95 | 97..=111 | 113..=119) {
            constants.last_name = random.random_range(0..=255);
        }
        constants
    }

    /// C for last names.
    pub(super) fn last_name(&self) -> i64 {
        self.last_name
    }

    /// A customer of a district.
    pub(super) fn customer(&self, random: &mut Random) -> i64 {
        nurand(1023, self.customer, 1, CUSTOMERS, random)
    }

    /// An item.
    pub(super) fn item(&self, random: &mut Random) -> i64 {
        nurand(8191, self.item, 1, ITEMS, random)
    }

    /// A last name.
    pub(super) fn last(&self, random: &mut Random) -> String {
        last_name(nurand(255, self.last_name, 0, LAST_NAMES - 1, random))
    }
}

/// NURand(A, x, y) of clause 2.1.6.
fn nurand(a: i64, c: i64, x: i64, y: i64, random: &mut Random) -> i64 {
    (((random.random_range(0..=a) | random.random_range(x..=y)) + c) % (y - x + 1)) + x
}

/// The last name of a number from 0 to 999 (clause 4.3.2.3).
pub(super) fn last_name(number: i64) -> String {
    [number / 100, number / 10 % 10, number % 10]
        .iter()
        .map(|&digit| SYLLABLES[digit as usize])
        .collect()
}

/// Letters and digits, from `min` to `max` of them.
pub(super) fn letters(min: usize, max: usize, random: &mut Random) -> String {
    from(LETTERS, min, max, random)
}

/// Digits, `count` of them.
pub(super) fn digits(count: usize, random: &mut Random) -> String {
    from(&LETTERS[52..], count, count, random)
}

/// A 64-bit draw makes ten letters: loading is mostly this.
fn from(alphabet: &[u8], min: usize, max: usize, random: &mut Random) -> String {
    let length = random.random_range(min..=max);
    let size = alphabet.len() as u64;
    let mut text = String::with_capacity(length);
    let mut left = 0;
    let mut bits = 0_u64;
    for _ in 0..length {
        if left == 0 {
            (bits, left) = (random.random(), 10);
        }
        text.push(char::from(alphabet[(bits % size) as usize]));
        bits /= size;
        left -= 1;
    }
    text
}

/// Four digits and 11111 (clause 4.3.2.7).
pub(super) fn zip(random: &mut Random) -> String {
    digits(4, random) + "11111"
}

/// `I_DATA` and `S_DATA`: one in ten holds ORIGINAL somewhere.
pub(super) fn data(random: &mut Random) -> String {
    const ORIGINAL: &str = "ORIGINAL";
    let mut text = letters(26, 50, random);
    if random.random_range(0..10) == 0 {
        let at = random.random_range(0..=text.len() - ORIGINAL.len());
        text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
    }
    text
}

/// Cents as money.
pub(super) fn money(cents: i64) -> Value {
    Value::Decimal {
        unscaled: cents,
        scale: 2,
    }
}

/// A tax or discount in ten-thousandths, from 0 to `max`.
pub(super) fn rate(max: i64, random: &mut Random) -> Value {
    Value::Decimal {
        unscaled: random.random_range(0..=max),
        scale: 4,
    }
}

/// Now, as the tables keep it.
pub(super) fn now() -> Value {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Whole seconds: that is what a TIMESTAMP of MySQL keeps.
    Value::Timestamp(since_epoch.as_secs() as i64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn last_names_are_the_specification_s() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn a_run_s_constant_keeps_its_distance_from_the_load_s() {
        for seed in 0..300 {
            let mut random = Random::seed_from_u64(seed);
            let load = NurandConstants::for_load(&mut random);
            let run = NurandConstants::for_run(load.last_name, &mut random);
            let delta = (run.last_name - load.last_name).abs();
            assert!(
                (65..=119).contains(&delta) && delta != 96 && delta != 112,
                "{delta}"
            );
        }
    }

    #[test]
    fn values_stay_in_their_bounds() {
        let mut random = Random::seed_from_u64(1);
        let constants = NurandConstants::for_load(&mut random);
        for _ in 0..10_000 {
            assert!((1..=CUSTOMERS).contains(&constants.customer(&mut random)));
            assert!((1..=ITEMS).contains(&constants.item(&mut random)));
            assert!((26..=50).contains(&data(&mut random).len()));
        }
        assert_eq!(zip(&mut random).len(), 9);
        assert!(
            digits(16, &mut random)
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        );
    }

    #[test]
    fn items_are_drawn_unevenly() {
        let mut random = Random::seed_from_u64(1);
        let constants = NurandConstants::for_load(&mut random);
        let mut counts = vec![0_u32; ITEMS as usize + 1];
        for _ in 0..200_000 {
            counts[constants.item(&mut random) as usize] += 1;
        }
        counts.sort_unstable();
        let hottest: u32 = counts.iter().rev().take(ITEMS as usize / 10).sum();
        assert!(
            hottest > 60_000,
            "the hottest tenth takes {hottest} of 200,000"
        );
    }

    #[test]
    fn a_tenth_of_data_is_original() {
        let mut random = Random::seed_from_u64(1);
        let original = (0..10_000)
            .filter(|_| data(&mut random).contains("ORIGINAL"))
            .count();
        assert!((900..1100).contains(&original), "{original}");
    }
}
