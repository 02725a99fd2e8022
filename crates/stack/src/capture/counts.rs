//! What has passed so far, for the line of progress and the summary.

use std::sync::atomic::AtomicU64;

use super::Side;

/// Counted by the thread that forwards, read by the others.
#[derive(Debug, Default)]
pub struct Counts {
    /// Clients that came.
    pub connections: AtomicU64,
    /// Connections that are open now.
    pub open: AtomicU64,
    /// Clients whom the server could not be reached for.
    pub unreached: AtomicU64,
    /// Clients who could not be taken yet, for want of descriptors.
    pub refused: AtomicU64,
    /// Bytes of clients.
    pub sent: AtomicU64,
    /// Bytes of servers.
    pub received: AtomicU64,
    /// Sends that the receiver was not ready for.
    pub held: AtomicU64,
    /// Requests read by the observer.
    pub exchanges: AtomicU64,
    /// Bytes of the trace.
    pub trace_bytes: AtomicU64,
}

impl Counts {
    /// Bytes of a side.
    #[must_use]
    pub fn bytes(&self, side: Side) -> &AtomicU64 {
        match side {
            Side::Client => &self.sent,
            Side::Server => &self.received,
        }
    }
}
