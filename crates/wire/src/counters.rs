//! What crossed the wire.

use std::ops::{AddAssign, Sub};

/// What one connection did so far. Counts only grow; the difference of two readings is what lay between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that the client sent something and then had to wait for the server.
    pub round_trips: u64,
    /// Protocol packets (MySQL) or messages (PostgreSQL) to the server.
    pub packets_sent: u64,
    /// Protocol packets or messages from the server.
    pub packets_received: u64,
    /// Bytes to the server, as the socket takes them: protocol headers and, with TLS, its handshake and records included. Without TLS
    /// that is what MySQL's `Bytes_received` counts; with TLS 1.3, `Bytes_received` and 22 bytes for each record, of which a request
    /// of at most 16 KiB is one.
    pub bytes_sent: u64,
    /// Bytes from the server, as for `bytes_sent`; MySQL's `Bytes_sent`, and a record for each answer of at most 16 KiB.
    pub bytes_received: u64,
    /// System calls that the client made on the socket. One that several connections share (see [`crate::fibers`]) is counted to one of
    /// them, so that the sum is exact.
    pub syscalls: u64,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            round_trips: self.round_trips - earlier.round_trips,
            packets_sent: self.packets_sent - earlier.packets_sent,
            packets_received: self.packets_received - earlier.packets_received,
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            bytes_received: self.bytes_received - earlier.bytes_received,
            syscalls: self.syscalls - earlier.syscalls,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.round_trips += more.round_trips;
        self.packets_sent += more.packets_sent;
        self.packets_received += more.packets_received;
        self.bytes_sent += more.bytes_sent;
        self.bytes_received += more.bytes_received;
        self.syscalls += more.syscalls;
    }
}
