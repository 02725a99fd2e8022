//! The word of the medium's file that it is clean: given at a stop, taken back by the first change after.
//!
//! A change is counted (`Stripe`) before it asks for the seal, and a stop raises the flag before it looks at the counts.
//! In the one order of all these steps, either the stop sees the change and does not save its file, or the change sees
//! the flag. It then waits until the file says that it is unclean: after a power cut, only that tells of the change,
//! because the times of the data file need not have reached the disk.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};

/// Whether the medium's file may say that it is clean.
#[derive(Default)]
pub struct Seal {
    given: AtomicBool,
    /// Held while the file is made clean, and while it is made unclean again.
    changing: Mutex<()>,
}

impl Seal {
    /// Runs `save`, which makes the file clean. It may fail half-way, and the file be clean in spite of that.
    pub fn give(&self, save: impl FnOnce()) {
        let _changing = self.lock();
        self.given.store(true, Ordering::SeqCst);
        save();
    }

    /// Before a change, once it is counted: runs `undo`, which makes the file unclean, if it may be clean. Returns when it
    /// is not, whoever made it so.
    #[inline]
    pub fn take_back(&self, undo: impl FnOnce()) {
        if self.given.load(Ordering::SeqCst) {
            self.take_back_now(undo);
        }
    }

    #[cold]
    fn take_back_now(&self, undo: impl FnOnce()) {
        let _changing = self.lock();
        if self.given.load(Ordering::SeqCst) {
            undo();
            // Only now: others go on by this alone.
            self.given.store(false, Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
