//! Fingerprints of pages that left the small queue unread: when one comes again, it goes to the main queue.

use std::sync::atomic::Ordering::Relaxed;

use crate::index::Slots;

/// Fingerprints in one place: the oldest of them makes room.
const WAYS: usize = 4;

/// The ghosts of a shard: as many as it has slots, two bytes each.
pub struct Ghosts<'a> {
    /// Where they are kept.
    pub slots: &'a Slots,
    /// The shard's first.
    pub base: usize,
    /// How many it has.
    pub length: usize,
}

impl Ghosts<'_> {
    /// Remembers a page.
    pub fn put(&self, hash: u64) {
        let Some((place, print)) = self.place(hash) else {
            return;
        };
        for way in (1..WAYS).rev() {
            let moved = self.slots.ghosts[place + way - 1].load(Relaxed);
            self.slots.ghosts[place + way].store(moved, Relaxed);
        }
        self.slots.ghosts[place].store(print, Relaxed);
    }

    /// Whether the page is remembered; forgets it. Wrong for one in 2^14: it then starts in the main queue.
    pub fn take(&self, hash: u64) -> bool {
        let Some((place, print)) = self.place(hash) else {
            return false;
        };
        let found = (0..WAYS).find(|way| self.slots.ghosts[place + way].load(Relaxed) == print);
        if let Some(way) = found {
            self.slots.ghosts[place + way].store(0, Relaxed);
        }
        found.is_some()
    }

    fn place(&self, hash: u64) -> Option<(usize, u16)> {
        let places = self.length / WAYS;
        let place = ((hash & 0xffff_ffff) as usize * places) >> 32;
        (places > 0).then_some((self.base + place * WAYS, (hash >> 40) as u16 | 1))
    }
}
