//! Blocks, and what a trace begins and ends with.

use serde::{Deserialize, Serialize};
use wire::Family;
use xxhash_rust::xxh3::Xxh3;

/// The first bytes of every trace.
pub const MAGIC: &[u8; 8] = b"UPSHTRCE";
/// Raised when an older program could not read what a newer one writes; below [`LOAD_FROM`].
pub const VERSION: u32 = 7;
/// Files of the load client begin with the same bytes, and have versions from here on.
pub const LOAD_FROM: u32 = 20;

/// Kind, stored length, length and checksum stand before a block's payload.
pub(crate) const BLOCK_HEAD_BYTES: usize = 1 + 4 + 4 + 8;
/// No block is longer: one record more than what closes it.
pub(crate) const BLOCK_BYTES_MAX: usize = 16 << 20;

pub(crate) const BEGIN: u8 = b'B';
pub(crate) const RECORDS: u8 = b'R';
pub(crate) const END: u8 = b'E';

/// A block as it stands in the file.
pub(crate) fn block(kind: u8, length: usize, stored: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_HEAD_BYTES + stored.len());
    bytes.push(kind);
    bytes.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    let checksum = checksum(&bytes, stored);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(stored);
    bytes
}

/// Checksum of a block: of its kind, its lengths and its payload.
pub(crate) fn checksum(head: &[u8], stored: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(head);
    hash.update(stored);
    hash.digest()
}

/// How traffic was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// By a proxy: counts are exact, and times include the proxy's own.
    Proxy,
    /// From packets.
    Pcap,
    /// Not at all: the trace was made of a server's log.
    Log,
}

/// What a trace that was made of a log has not, because the log has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// When answers came.
    AnswerTimes,
    /// Statements that the server was not asked to log, such as short ones.
    ShortStatements,
    /// How long the client took between two statements: the clock is too coarse, or statements between them are not logged.
    Gaps,
    /// Round trips.
    RoundTrips,
    /// Packets and messages.
    Packets,
    /// Bytes.
    Bytes,
    /// Descriptions of columns, warnings, results of a text, flags of indexes, hashes of rows.
    Answers,
    /// Rows of an answer.
    Rows,
    /// Rows changed.
    Affected,
    /// Cursors, and how many rows a fetch asks for.
    Fetches,
    /// What is prepared, and when.
    Prepares,
    /// Whether a statement came as text or was prepared.
    Protocol,
    /// When connections begin.
    Logins,
    /// Statements that failed.
    Errors,
}

/// The log that a trace was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Its format, as `upshift stack import --format` has it.
    pub format: String,
    /// The name of its clock where that is not known to be UTC; times are taken as they stand.
    pub clock: Option<String>,
    /// The least time of a statement in microseconds; none without times.
    pub shortest_us: Option<u64>,
    /// What the trace has not.
    pub lacks: Vec<Lack>,
}

/// What a trace begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// `mysql` or `postgres`.
    pub family: String,
    /// The trace's begin, microseconds since 1970-01-01 00:00 UTC.
    pub began_unix_us: u64,
    /// How.
    pub capture: Capture,
    /// Literals and parameters are left out.
    pub masked: bool,
    /// Of a trace that was made of a log; none of a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
}

impl Begin {
    /// [`Self::family`] as wire has it.
    #[must_use]
    pub fn family(&self) -> Family {
        match self.family.as_str() {
            "postgres" => Family::Postgres,
            _ => Family::Mysql,
        }
    }

    /// Whether the trace has not this.
    #[must_use]
    pub fn lacks(&self, lack: Lack) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| log.lacks.contains(&lack))
    }
}

/// What a whole trace ends with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// From the trace's begin to its end.
    pub duration_us: u64,
    /// The proxy's own added time, median; none for packets.
    pub added_us_p50: Option<f64>,
    /// The proxy's own added time, 99th percentile.
    pub added_us_p99: Option<f64>,
    /// Exchanges in the trace. The writer fills it.
    pub exchanges: u64,
    /// Exchanges that were observed and could not be written. The writer adds its own.
    pub lost: u64,
    /// Why writing ended before the capture did, in words. The writer puts its own reason in its place.
    pub stopped: Option<String>,
}

impl Ending {
    /// Whether nothing was lost while the trace was written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stopped.is_none() && self.lost == 0
    }
}
