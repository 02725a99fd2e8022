//! `import`: a capture made into a trace.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::output::tell;
use crate::replay::{Imported, import};

#[derive(Args)]
pub(super) struct ImportOptions {
    /// The capture, from `upshift stack capture`.
    capture: PathBuf,
    /// The trace to write, for `replay`.
    trace: PathBuf,
    /// Print what the trace holds as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn import_capture(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    let made = import(&options.capture, &options.trace)?;
    if options.json {
        tell(&serde_json::to_string_pretty(&as_json(&made))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(&format!(
        "{} transactions, {} requests, {} statements of {} connections",
        made.ending.transactions, made.ending.statements, made.statements, made.connections
    ))?;
    for (why, requests) in &made.left_out {
        tell(&format!(
            "left out: {requests} requests that {}",
            why.words()
        ))?;
    }
    if made.ending.lost > 0 {
        tell(&format!(
            "left out: {} transactions whose end the capture does not have",
            made.ending.lost
        ))?;
    }
    if !made.whole {
        eprintln!(
            "WARNING: the capture was truncated, or lost requests while it was written: they are missing in the trace"
        );
    }
    tell(&format!(
        "next: upshift load replay {} --server URL --connections {}",
        options.trace.display(),
        made.connections.min(made.at_once.max(1))
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(made: &Imported) -> serde_json::Value {
    json!({
        "transactions": made.ending.transactions,
        "requests": made.ending.statements,
        "lost": made.ending.lost,
        "statements": made.statements,
        "connections": made.connections,
        "connections_at_once": made.at_once,
        "left_out": made.left_out,
        "whole": made.whole,
    })
}
