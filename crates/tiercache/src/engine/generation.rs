//! Whether a page may have changed since a moment: writes begun and ended, by stripes of pages.
//!
//! A fill may land only if, since before the file was read, no write to its pages was under way and none
//! began. Pages share stripes: a collision costs a fill, never a stale page.

use crate::sync::{AtomicU64, Ordering};

/// Pages next to each other that share a stripe.
const GROUP_PAGES: u64 = 8;

/// Writes begun and ended; both only grow.
#[derive(Default)]
pub struct Stripe {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Stripe {
    /// Writes begun, if all of them have ended.
    pub fn quiet(&self) -> Option<u64> {
        // Ended first: it never passes begun, so equality proves that nothing was under way at the first load.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }

    /// Writes begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Writes ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Begins a write: how many that makes, and whether no other was under way.
    pub fn begin(&self) -> (u64, bool) {
        let before = self.begun.fetch_add(1, Ordering::SeqCst);
        (before + 1, self.ended.load(Ordering::SeqCst) == before)
    }

    /// Ends a write.
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The stripes of all files.
pub struct Generations {
    stripes: Box<[Stripe]>,
}

impl Generations {
    /// One stripe for so many pages, within reason.
    pub fn new(pages: u64) -> Self {
        let count = (pages / 64).clamp(256, 1 << 20);
        Self {
            stripes: (0..count).map(|_| Stripe::default()).collect(),
        }
    }

    /// The stripes of pages `first..=last` of a file. Neighbouring groups have different stripes.
    pub fn stripes(&self, row: u32, first: u64, last: u64) -> impl Iterator<Item = &Stripe> {
        let start = u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let count = self.stripes.len() as u64;
        (first / GROUP_PAGES..=last / GROUP_PAGES)
            .map(move |group| &self.stripes[((start + group) % count) as usize])
    }
}
