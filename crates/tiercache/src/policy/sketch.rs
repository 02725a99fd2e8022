//! How often a page was missed lately, for promotion at the n-th miss.

use std::sync::atomic::Ordering::Relaxed;

use crate::index::Slots;

/// One word for two slots: 12 bits of fingerprint, 4 bits of count. A newcomer takes over an old count's place.
pub struct Sketch<'a> {
    /// Where it is kept.
    pub slots: &'a Slots,
    /// The shard's first word.
    pub base: usize,
    /// How many it has.
    pub length: usize,
}

impl Sketch<'_> {
    /// Counts a miss of the page and says how many that makes.
    pub fn count(&self, hash: u64) -> u8 {
        let place = ((hash & 0xffff_ffff) as usize * self.length) >> 32;
        let word = &self.slots.sketch[self.base + place];
        let (print, now) = ((hash >> 36) as u16 & 0xfff0, word.load(Relaxed));
        let count = if now & 0xfff0 == print {
            (now & 15).min(14) + 1
        } else {
            1
        };
        word.store(print | count, Relaxed);
        count as u8
    }
}
