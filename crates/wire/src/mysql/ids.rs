//! A map by the numbers that a server gives to its statements.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// By a statement's number. Servers count them up, so that spreading them needs no more than a multiplication; one that chooses them to
/// collide slows its own client down.
pub(super) type ById<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(self.0 as u32 ^ u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 divided by the golden ratio: its high bits differ for numbers that follow each other, and so do its low ones.
        self.0 = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
