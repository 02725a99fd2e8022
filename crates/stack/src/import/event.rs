//! What a log tells, in the order in which it stands there.

use wire::passive::{Counted, Kind, Parameter, ServerError};

/// One thing that a log says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The server's version.
    Version(String),
    /// A session began; what had its name before has ended.
    Began { session: String, at_ns: u64 },
    /// How a session's client calls itself.
    Named { session: String, client: String },
    /// A request of a session.
    Request { session: String, request: Request },
    /// A session ended.
    Ended { session: String, at_ns: u64 },
    /// The log was opened, by a server that starts or that goes on.
    Opened,
    /// A server starts: no session is left of the one before.
    Started { at_ns: u64 },
}

/// A request as a log has it; nothing that it lacks is made up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// The statement with its values, or the name of a database.
    pub(super) text: Option<Vec<u8>>,
    pub(super) values: Option<Vec<Parameter>>,
    pub(super) when: When,
    pub(super) rows: Option<u64>,
    pub(super) affected: Option<u64>,
    /// Of the client, and of the server.
    pub(super) bytes: Option<(u64, u64)>,
    pub(super) error: Option<ServerError>,
    pub(super) counted: Option<Box<Counted>>,
    /// The log has one request of so many.
    pub(super) one_of: Option<u64>,
    /// Only the time that it took can be why the log has it.
    pub(super) by_time: bool,
}

impl Request {
    pub(super) fn new(kind: Kind, when: When) -> Self {
        Self {
            kind,
            text: None,
            values: None,
            when,
            rows: None,
            affected: None,
            bytes: None,
            error: None,
            counted: None,
            one_of: None,
            by_time: true,
        }
    }
}

/// When a request was at work, in nanoseconds since 1970. A log's clock is often coarser than the times that statements took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// From there on; nobody says until when.
    Since(u64),
    /// From there on for so long; the clock may cut the first.
    From(u64, u64),
    /// Until then for so long; the clock may cut the first.
    Until(u64, u64),
    /// Until then; nobody says since when.
    Failed(u64),
}

impl When {
    /// The time that the log's clock shows.
    pub(super) fn shown_ns(self) -> u64 {
        match self {
            Self::Since(at) | Self::From(at, _) | Self::Until(at, _) | Self::Failed(at) => at,
        }
    }

    /// How long it took.
    pub(super) fn lasted_ns(self) -> Option<u64> {
        match self {
            Self::From(_, lasted) | Self::Until(_, lasted) => Some(lasted),
            Self::Since(_) | Self::Failed(_) => None,
        }
    }

    /// Where it began and ended, behind what its session did before: a clock of milliseconds shows the same time for several.
    pub(super) fn placed_ns(self, before: u64) -> (u64, Option<u64>) {
        let (shown, lasted) = match self {
            Self::Since(at) => return (at.max(before), None),
            Self::Failed(at) => (at, 0),
            Self::From(at, lasted) => (at, lasted),
            Self::Until(at, lasted) => (at.saturating_sub(lasted), lasted),
        };
        let began = shown.max(before);
        (began, Some(began.saturating_add(lasted)))
    }
}

/// What was read of a log beside its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) lines: u64,
    /// Lines that are no part of an entry: before the first one, or of another format.
    pub(super) unread_lines: u64,
    /// Entries that broke off.
    pub(super) cut: u64,
    /// Times of statements that the log does not name.
    pub(super) unnamed: u64,
    /// The name of a clock of which nobody knows how far it is from UTC.
    pub(super) clock: Option<String>,
}
