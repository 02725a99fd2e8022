//! Both sides of a connection, read as they pass and never spoken: a proxy, a packet capture and a client put the same bytes in and get
//! the same exchanges out.
//!
//! [`Stream`] takes the bytes of one connection and tells what it [`Observed`]. It holds no more of a message than what an
//! [`Exchange`] keeps, however long the message is, and takes any bytes: what it cannot read it says once ([`Observed::Broken`]) and
//! then only counts.

mod exchange;
mod session;

pub use exchange::{
    Exchange, Kind, Parameter, ParameterValue, Parameters, ServerError, Text, Verb,
};
pub use session::{Compression, SessionFacts, Totals, Why};

use crate::Family;

/// Who sent bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application.
    Client,
    /// The database server.
    Server,
}

/// What a [`Stream`] tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// What is known of the session, once: when its login has ended, when encryption begins, or with the first request of a
    /// connection that was joined late.
    Session(SessionFacts),
    /// A request with its complete answer.
    Exchange(Box<Exchange>),
    /// From here on the stream is passed through unread, and counted in [`Totals`]. Nothing else comes after it.
    Broken {
        /// What made it so.
        why: Why,
        /// When, in nanoseconds.
        at_ns: u64,
    },
}

/// One connection, MySQL's, MariaDB's or PostgreSQL's.
pub struct Stream {
    totals: Totals,
}

impl Stream {
    /// A connection from its first byte on.
    #[must_use]
    pub fn new(family: Family) -> Self {
        let _ = family;
        Self {
            totals: Totals::default(),
        }
    }

    /// A connection that was there before: statements that were prepared before have no text, and what passes before the next
    /// boundary of packets is unread.
    #[must_use]
    pub fn joined_late(family: Family) -> Self {
        Self::new(family)
    }

    /// The caller ends TLS itself: after the request for it, [`Self::bytes`] gets what was decrypted. Without this a stream is
    /// [`Why::Encrypted`] from there on.
    pub fn decrypts(&mut self) {}

    /// Bytes as they passed, in order for each side; `at_ns` on any steady clock. Bytes of both sides come in the order in which they
    /// were seen.
    pub fn bytes(&mut self, side: Side, bytes: &[u8], at_ns: u64, out: &mut dyn FnMut(Observed)) {
        let _ = (at_ns, out);
        match side {
            Side::Client => self.totals.bytes_sent += bytes.len() as u64,
            Side::Server => self.totals.bytes_received += bytes.len() as u64,
        }
    }

    /// So many bytes of a side are missing, because a capture lost packets. What they were part of is lost: the stream goes on at the
    /// next request that begins after it.
    pub fn gap(&mut self, side: Side, missing: u64, at_ns: u64, out: &mut dyn FnMut(Observed)) {
        let _ = (side, at_ns, out);
        self.totals.missing += missing;
    }

    /// The connection has ended: a request without its whole answer is told as it stands.
    pub fn end(&mut self, at_ns: u64, out: &mut dyn FnMut(Observed)) {
        let _ = (at_ns, out);
    }

    /// What passed so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }
}
