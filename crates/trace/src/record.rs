//! What a trace consists of.

use wire::passive::{Exchange, SessionFacts, Side, Totals, Why};

/// One entry of a trace. Times are nanoseconds since the trace's begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A connection began, or was seen for the first time.
    Connected {
        /// Its number, from 1.
        connection: u32,
        /// When.
        at_ns: u64,
        /// It was there before.
        joined_late: bool,
    },
    /// What its login told.
    Session {
        /// Whose.
        connection: u32,
        /// What.
        facts: Box<SessionFacts>,
    },
    /// A request with its answer.
    Exchange {
        /// On which connection.
        connection: u32,
        /// What.
        exchange: Box<Exchange>,
    },
    /// Bytes that a capture lost.
    Gap {
        /// On which connection.
        connection: u32,
        /// When.
        at_ns: u64,
        /// Whose bytes.
        side: Side,
        /// How many.
        bytes: u64,
    },
    /// The connection is not read any more.
    Unread {
        /// Which.
        connection: u32,
        /// When.
        at_ns: u64,
        /// Why.
        why: Why,
    },
    /// A connection ended.
    Closed {
        /// Which.
        connection: u32,
        /// When.
        at_ns: u64,
        /// What passed on it.
        totals: Totals,
    },
    /// So many exchanges were observed here and could not be written in time.
    Lost {
        /// How many.
        exchanges: u64,
    },
}

impl Record {
    /// The time that the next record's is relative to.
    pub(crate) fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Connected { at_ns, .. }
            | Self::Gap { at_ns, .. }
            | Self::Unread { at_ns, .. }
            | Self::Closed { at_ns, .. } => Some(*at_ns),
            Self::Exchange { exchange, .. } => Some(exchange.request_ns),
            Self::Session { .. } | Self::Lost { .. } => None,
        }
    }
}
