//! The version of a slot: even while its page may be read, odd while it may not.
//!
//! A reader copies between `begin` and `unchanged` without a lock; what it copied counts only if the
//! version stayed. Writers hold the lock of the shard for `close` and `open`.

use crate::sync::{AtomicU32, Ordering, fence};

/// The version to read under; None while nobody may read.
#[inline]
pub fn begin(version: &AtomicU32) -> Option<u32> {
    let seen = version.load(Ordering::Acquire);
    (seen & 1 == 0).then_some(seen)
}

/// Whether everything read since `begin` belongs to that version.
#[inline]
pub fn unchanged(version: &AtomicU32, seen: u32) -> bool {
    fence(Ordering::Acquire);
    version.load(Ordering::Relaxed) == seen
}

/// Ends reading; true if the slot could be read. The slot may be overwritten after this.
#[inline]
pub fn close(version: &AtomicU32) -> bool {
    let seen = version.load(Ordering::Relaxed);
    if seen & 1 == 0 {
        version.store(seen.wrapping_add(1), Ordering::Relaxed);
    }
    // Orders the odd version before whatever is written into the slot.
    fence(Ordering::Release);
    seen & 1 == 0
}

/// Lets readers in again: everything written before is seen with the new version.
#[inline]
pub fn open(version: &AtomicU32) {
    let seen = version.load(Ordering::Relaxed);
    version.store((seen | 1).wrapping_add(1), Ordering::Release);
}
