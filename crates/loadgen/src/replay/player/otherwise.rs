//! How much of a replay went otherwise than the recording.

use std::sync::atomic::{AtomicU64, Ordering};

/// What went otherwise than in the recording, in two classes.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    ordered: AtomicU64,
    /// In transactions that ran beside others: it may be timing.
    overlapped: AtomicU64,
}

impl Divergence {
    pub(super) fn add(&self, overlapped: bool, count: u64) {
        let class = if overlapped {
            &self.overlapped
        } else {
            &self.ordered
        };
        class.fetch_add(count, Ordering::SeqCst);
    }

    pub(super) fn counts(&self) -> Otherwise {
        let overlapped = self.overlapped.load(Ordering::SeqCst);
        Otherwise {
            count: self.ordered.load(Ordering::SeqCst) + overlapped,
            overlapped,
        }
    }
}

/// How much went otherwise than in the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Otherwise {
    /// In all.
    pub count: u64,
    /// In transactions that overlapped others when they were recorded: it may be timing.
    pub overlapped: u64,
}
