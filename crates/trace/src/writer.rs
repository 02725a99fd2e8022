//! Writes a trace.

use std::path::Path;

use wire::passive::{Observed, Side, Totals};

use crate::{Begin, Ending, TraceError};

/// A trace that is being written. Its methods take any thread and never wait for the disk: where that is too slow, whole blocks are
/// left out and counted.
pub struct TraceWriter {}

/// What a finished trace holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What it says of itself at its end.
    pub ending: Ending,
    /// Its length in bytes.
    pub bytes: u64,
}

impl TraceWriter {
    /// Create the file with mode 0600; one that is there is refused. `began_ns` is the trace's begin on the clock of all later times.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn create(path: &Path, begin: &Begin, began_ns: u64) -> Result<Self, TraceError> {
        let _ = (path, begin, began_ns);
        Ok(Self {})
    }

    /// A connection began, or was seen for the first time (`joined_late`); its number, from 1.
    pub fn connected(&self, at_ns: u64, joined_late: bool) -> u32 {
        let _ = (at_ns, joined_late);
        1
    }

    /// What a connection's stream told.
    pub fn observed(&self, connection: u32, observed: &Observed) {
        let _ = (connection, observed);
    }

    /// Bytes are missing; tell the stream, too.
    pub fn gap(&self, connection: u32, side: Side, bytes: u64, at_ns: u64) {
        let _ = (connection, side, bytes, at_ns);
    }

    /// A connection ended.
    pub fn closed(&self, connection: u32, at_ns: u64, totals: Totals) {
        let _ = (connection, at_ns, totals);
    }

    /// Why nothing is written any more, such as a full disk. The traffic should go on.
    pub fn failure(&self) -> Option<String> {
        None
    }

    /// Write what is still here and the ending. What is observed later is left out.
    ///
    /// # Errors
    /// The first failure of any write; the file has what was written before, and says so where it had room for that.
    pub fn finish(&self, ending: Ending) -> Result<Summary, TraceError> {
        Ok(Summary { ending, bytes: 0 })
    }
}
