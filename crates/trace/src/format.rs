//! What a trace begins and ends with.

use serde::{Deserialize, Serialize};

/// The first bytes of every trace.
pub const MAGIC: &[u8; 8] = b"UPSHTRCE";
/// Raised when an older program could not read what a newer one writes. 4 is the load client's.
pub const VERSION: u32 = 5;

/// How traffic was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// By a proxy: counts and times are exact, and include the proxy's own.
    Proxy,
    /// From packets.
    Pcap,
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
    /// Exchanges that were observed and could not be written. The writer fills it.
    pub lost: u64,
    /// Why writing ended before the capture did, in words. The writer fills it.
    pub stopped: Option<String>,
}
