//! Results: for people, for machines, for other tools.

use std::io::{ErrorKind, Write};

use anyhow::Context;

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
