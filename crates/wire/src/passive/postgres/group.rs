//! Exchanges under way: the client's messages that belong together, and the answers that they wait for.

use super::frames::Message;
use super::names::Parsed;
use crate::passive::{Exchange, Kind};

/// What the server answers to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// To a simple query, and to a function call: anything up to ReadyForQuery.
    UntilReady,
    Parsed,
    Bound,
    /// Of a statement: its parameters, then its columns.
    Described,
    /// Rows, COPY, and how it ended.
    Executed,
    Closed,
    /// ReadyForQuery, for a Sync.
    Ready,
}

/// An answer that is due, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) answer: Answer,
    pub(super) group: u64,
}

/// One exchange under way.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) exchange: Box<Exchange>,
    /// Answers that are due.
    pub(super) due: usize,
    /// More of the client's messages may join it.
    pub(super) is_open: bool,
    /// Of its Bind or Execute.
    pub(super) portal: Option<Vec<u8>>,
    /// Of its Parse or Describe.
    pub(super) statement: Option<Vec<u8>>,
    pub(super) has_execute: bool,
    /// The client sends rows of COPY.
    pub(super) is_copy_in: bool,
    /// It ends with ReadyForQuery.
    pub(super) is_synced: bool,
    /// Bytes of text and parameters that it holds.
    pub(super) held: usize,
    /// How many statements were prepared before it.
    pub(super) prepared: u64,
    /// Of its Parse.
    pub(super) parsed: Option<Parsed>,
}

impl Group {
    pub(super) fn new(kind: Kind, message: Message, prepared: u64) -> Self {
        Self {
            exchange: Box::new(Exchange::new(kind, message.began_ns)),
            due: 0,
            is_open: true,
            portal: None,
            statement: None,
            has_execute: false,
            is_copy_in: false,
            is_synced: false,
            held: 0,
            prepared,
            parsed: None,
        }
    }

    /// A message of the client's that belongs to it.
    pub(super) fn sent(&mut self, message: Message, at_ns: u64) {
        self.exchange.packets_sent += 1;
        self.exchange.bytes_sent += message.bytes;
        self.exchange.request_end_ns = at_ns;
    }

    /// A message of the server's that belongs to it.
    pub(super) fn received(&mut self, message: Message, at_ns: u64) {
        self.exchange.packets_received += 1;
        self.exchange.bytes_received += message.bytes;
        let first_ns = self
            .exchange
            .answer_ns
            .map_or(message.began_ns, |(first, _)| first);
        self.exchange.answer_ns = Some((first_ns, at_ns));
    }

    pub(super) fn is_done(&self) -> bool {
        self.due == 0 && !self.is_open
    }
}
