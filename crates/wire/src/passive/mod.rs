//! Both sides of a connection, read as they pass and never spoken: a proxy and a packet capture put the same bytes in and get the same
//! exchanges out.
//!
//! [`Stream`] takes the bytes of one connection and tells what it [`Observed`]. It holds no more of a message than what an
//! [`Exchange`] keeps, however long the message is, and takes any bytes: what it cannot read it says once ([`Observed::Broken`]) and
//! then only counts.

mod exchange;
mod mysql;
mod postgres;
mod session;
mod transactions;

pub use exchange::{
    Counted, Exchange, Kept, Kind, Parameter, ParameterValue, Parameters, ServerError, Text, Verb,
};
pub use mysql::{character_set, names_a_user};
pub use session::{Compression, SessionFacts, Totals, Why};
pub use transactions::Transactions;

use crate::Family;
use mysql::Mysql;
use postgres::Postgres;

/// Who sent bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application.
    Client,
    /// The database server.
    Server,
}

impl Side {
    /// Whom it speaks to.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What a [`Stream`] tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// What is known of the session, once: when its login has ended, when encryption begins, or with the first request of a
    /// connection that was joined late.
    Session(Box<SessionFacts>),
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
    protocol: Protocol,
    totals: Totals,
}

enum Protocol {
    Mysql(Box<Mysql>),
    Postgres(Box<Postgres>),
    /// Passed through.
    Unread,
}

impl Stream {
    /// A connection from its first byte on.
    #[must_use]
    pub fn new(family: Family) -> Self {
        Self::of(family, false)
    }

    /// A connection that was there before: statements that were prepared before have no text, and what passes before the next
    /// boundary of packets is unread.
    #[must_use]
    pub fn joined_late(family: Family) -> Self {
        Self::of(family, true)
    }

    fn of(family: Family, joined_late: bool) -> Self {
        Self {
            protocol: match family {
                Family::Mysql => Protocol::Mysql(Box::new(Mysql::new(joined_late))),
                Family::Postgres => Protocol::Postgres(Box::new(Postgres::new(joined_late))),
            },
            totals: Totals::default(),
        }
    }

    /// The caller ends TLS itself: after the request for it, [`Self::bytes`] gets what was decrypted. Without this a stream is
    /// [`Why::Encrypted`] from there on.
    pub fn decrypts(&mut self) {
        match &mut self.protocol {
            Protocol::Mysql(mysql) => mysql.decrypts(),
            Protocol::Postgres(postgres) => postgres.decrypts(),
            Protocol::Unread => {}
        }
    }

    /// Bytes as they passed, in order for each side; `at_ns` on any steady clock. Bytes of both sides come in the order in which they
    /// were seen.
    pub fn bytes(&mut self, side: Side, bytes: &[u8], at_ns: u64, out: &mut dyn FnMut(Observed)) {
        if bytes.is_empty() {
            return;
        }
        match side {
            Side::Client => self.totals.bytes_sent += bytes.len() as u64,
            Side::Server => self.totals.bytes_received += bytes.len() as u64,
        }
        let read = match &mut self.protocol {
            Protocol::Mysql(mysql) => mysql.bytes(side, bytes, at_ns, out),
            Protocol::Postgres(postgres) => postgres.bytes(side, bytes, at_ns, out),
            Protocol::Unread => {
                self.totals.unread += bytes.len() as u64;
                return;
            }
        };
        if let Err(why) = read {
            self.totals.unread = self.totals().unread;
            self.protocol = Protocol::Unread;
            out(Observed::Broken { why, at_ns });
        }
    }

    /// So many bytes of a side are missing, because a capture lost packets. What they were part of is lost: the stream goes on at the
    /// next request that begins after it.
    pub fn gap(&mut self, side: Side, missing: u64, at_ns: u64, out: &mut dyn FnMut(Observed)) {
        let _ = side;
        self.totals.missing += missing;
        match &mut self.protocol {
            Protocol::Mysql(mysql) => mysql.gap(at_ns, out),
            Protocol::Postgres(postgres) => postgres.gap(at_ns, out),
            Protocol::Unread => {}
        }
    }

    /// The connection has ended: a request without its whole answer is told as it stands.
    pub fn end(&mut self, at_ns: u64, out: &mut dyn FnMut(Observed)) {
        match &mut self.protocol {
            Protocol::Mysql(mysql) => mysql.end(at_ns, out),
            Protocol::Postgres(postgres) => postgres.end(at_ns, out),
            Protocol::Unread => {}
        }
    }

    /// What passed so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let more = match &self.protocol {
            Protocol::Mysql(mysql) => mysql.unread,
            Protocol::Postgres(postgres) => postgres.unread,
            Protocol::Unread => 0,
        };
        Totals {
            unread: self.totals.unread + more,
            ..self.totals
        }
    }
}
