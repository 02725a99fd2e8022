//! What has passed so far, for the line of progress and the summary.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::passive::Side;

use crate::output::counted;

/// Counted by the threads that forward and observe, read by the others.
#[derive(Debug, Default)]
pub struct Counts {
    /// Clients that came.
    pub connections: AtomicU64,
    /// Connections that are open now.
    pub open: AtomicU64,
    /// Clients whom the server could not be reached for.
    pub unreached: AtomicU64,
    /// Connections whose TLS failed.
    pub tls_broken: AtomicU64,
    /// Why the first of them did.
    pub tls_why: OnceLock<String>,
    /// Bytes of clients.
    pub sent: AtomicU64,
    /// Bytes of servers.
    pub received: AtomicU64,
    /// Sends that the receiver was not ready for.
    pub held: AtomicU64,
    /// Requests read.
    pub requests: AtomicU64,
    /// Connections that are not read any more.
    pub unread: AtomicU64,
    /// Bytes missing.
    pub gap_bytes: AtomicU64,
    /// Why nothing is written any more.
    pub failure: OnceLock<String>,
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

    /// One line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!(
            "{} ({} open), {}, {} sent, {} received",
            counted(self.connections.load(Relaxed), "connection"),
            self.open.load(Relaxed),
            counted(self.requests.load(Relaxed), "request"),
            bytes(self.sent.load(Relaxed)),
            bytes(self.received.load(Relaxed)),
        );
        let (gaps, unread) = (self.gap_bytes.load(Relaxed), self.unread.load(Relaxed));
        if gaps > 0 {
            line.push_str(&format!(", {} missing", bytes(gaps)));
        }
        if unread > 0 {
            line.push_str(&format!(", {} not read", counted(unread, "connection")));
        }
        line
    }
}

/// A number of bytes for people.
#[must_use]
pub fn bytes(number: u64) -> String {
    let mut scaled = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled < 1024.0 {
            return match unit {
                "B" => format!("{number} B"),
                _ => format!("{scaled:.1} {unit}"),
            };
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_passed_and_what_could_not_be_read() {
        let counts = Counts::default();
        counts.connections.store(3, Relaxed);
        counts.sent.store(1536, Relaxed);
        assert_eq!(
            counts.line(),
            "3 connections (0 open), 0 requests, 1.5 KiB sent, 0 B received"
        );
        counts.gap_bytes.store(5 << 30, Relaxed);
        counts.unread.store(1, Relaxed);
        let line = counts.line();
        assert!(
            line.ends_with(", 5.0 GiB missing, 1 connection not read"),
            "{line}"
        );
    }
}
