//! Threads: a number for each, and how the tier starts its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of this thread, in the order of first asking. The thread-local has no destructor and needs no allocation.
#[inline]
pub fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) });
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// Starts a thread named "upshift-tier" with all signals blocked: the program's own threads get its signals.
/// False where the system has no thread left.
pub fn start(work: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: both sets are plain data with room for the answers; the thread inherits what is set here.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = std::thread::Builder::new()
            .name("upshift-tier".into())
            .spawn(work);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.is_ok()
    }
}
