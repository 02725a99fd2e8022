//! A trace as JSON, one line for each record.

use std::io::Write;
use std::path::Path;

use trace::TraceReader;

use crate::line::{Line, is_whole};

/// Write the lines: what the trace says at its begin, its records in their order, what it says at its end.
///
/// # Errors
/// The trace's ([`trace::TraceError`]) and the system's.
pub fn run(trace: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(trace)?;
    let begin = reader.begin().clone();
    line(
        out,
        &Line::Begin {
            version: trace::VERSION,
            begin,
        },
    )?;
    while let Some(record) = reader.next()? {
        line(out, &Line::from(&record))?;
    }
    let ending = reader.ending().cloned();
    line(
        out,
        &Line::End {
            whole: is_whole(ending.as_ref()),
            ending,
        },
    )?;
    out.flush()?;
    Ok(())
}

fn line(out: &mut dyn Write, line: &Line) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}
