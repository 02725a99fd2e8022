//! Whether a page may have changed since a moment: writes begun and ended, by stripes of pages.
//!
//! A fill may insert only if, since before the file was read, no write to its pages was under way and none
//! began. Pages share stripes: a collision costs a fill, never a stale page.

use crate::sync::{AtomicU64, Ordering};

/// With fewer, writes that are in flight at once share stripes and their pages stay out: InnoDB flushes hundreds of
/// pages in one batch, and how many does not depend on the size of the tier. 1 MiB; more than `WIDE_PAGES`, so that no
/// operation meets a stripe twice.
const STRIPES_MIN: u64 = 1 << 16;
const STRIPES_MAX: u64 = 1 << 20;

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
    /// For a tier of so many pages: a byte for each of them, within reason.
    pub fn new(pages: u64) -> Self {
        let count = (pages / size_of::<Stripe>() as u64).clamp(STRIPES_MIN, STRIPES_MAX);
        Self {
            stripes: (0..count).map(|_| Stripe::default()).collect(),
        }
    }

    /// The stripes of pages `first..=last` of a file: neighbours have different ones.
    pub fn stripes(&self, row: u32, first: u64, last: u64) -> impl Iterator<Item = &Stripe> {
        let start = u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let count = self.stripes.len() as u64;
        (first..=last).map(move |page| &self.stripes[((start + page) % count) as usize])
    }
}
