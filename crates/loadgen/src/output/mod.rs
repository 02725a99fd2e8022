//! Results: for people, for machines, for other tools.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

mod hdr;
mod json;
mod replay;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use hdr::write_hdr;
pub use json::{
    About, Arrival, Latency, OpenLoop, Ran, Result, Server, StatementResult, TransactionResult,
    Transport, histogram, result,
};
pub use replay::{AnswerResult, DifferingRequest, RecordedOn, Replay, replay};
pub use series::write_parquet;
pub use table::table;

/// A file's name in a result. It may be no text, and JSON is.
#[must_use]
pub fn file_name(path: Option<&Path>) -> Value {
    path.map(|path| path.display().to_string()).into()
}

/// A line on stdout. A reader that has gone (`| head`) is no failure; `println!` would end the program there.
///
/// # Errors
/// The system's.
pub fn tell(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to stdout"),
    }
}
