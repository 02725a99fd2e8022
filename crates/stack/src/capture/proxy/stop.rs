//! The word that ends a capture, from whatever thread.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use mio::{Registry, Token, Waker};

/// Asked once, the proxy lets everything end that is under way; asked twice, it ends at once.
pub struct Stop {
    asked: AtomicUsize,
    waker: Waker,
}

impl Stop {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self {
            asked: AtomicUsize::new(0),
            waker: Waker::new(registry, token)?,
        })
    }

    /// End.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // It cannot fail while the proxy is there, and nobody needs to wake afterwards.
        let _ = self.waker.wake();
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody asked again.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 1
    }
}
