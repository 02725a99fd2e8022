//! The command line of `upshift-stack`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::Failure;
use crate::{capture, dump, export, import, output};

/// Record what any client sends to a server and what it answers, and convert such traces.
#[derive(Parser)]
#[command(
    name = "upshift-stack",
    bin_name = "upshift stack",
    version,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a trace of what clients send to a server and what it answers.
    Capture(Box<capture::Options>),
    /// Make a trace of a server's own log (MySQL's slow or general log, PostgreSQL's log), or of the lines that dump printed.
    Import(Box<import::Options>),
    /// Write a trace as Parquet tables, and a trace.json that describes the whole.
    Export {
        /// The trace.
        trace: PathBuf,
        /// The folder to write them to. It is created if it does not exist.
        folder: PathBuf,
    },
    /// Print a trace as JSON lines, one for each record.
    Dump {
        /// The trace.
        trace: PathBuf,
    },
    /// Give a server's socket back when a capture has ended.
    #[command(hide = true)]
    Guard {
        /// The socket's path.
        path: PathBuf,
        /// The inode of the capture's socket.
        inode: u64,
    },
}

/// The command line, as clap has it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parse the command line, do what it says and report what went wrong.
#[must_use]
pub fn main() -> ExitCode {
    // A usage error ends the process here, with 2.
    let done = match Cli::parse().command {
        Command::Capture(options) => capture::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Import(options) => import::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Export { trace, folder } => export::run(&trace, &folder)
            .map_or_else(|error| fail(&error), |()| Ok(ExitCode::SUCCESS)),
        Command::Dump { trace } => dump::run(&trace, &mut std::io::stdout().lock())
            .map_or_else(|error| fail(&error), |()| Ok(ExitCode::SUCCESS)),
        Command::Guard { path, inode } => capture::guard_place(&path, inode)
            .map(ExitCode::from)
            .map_err(|error| Failure::failed(error.to_string(), "")),
    };
    done.unwrap_or_else(|failure| report(&failure))
}

/// A reader that has gone (`| head`) is no failure.
fn fail(error: &anyhow::Error) -> Result<ExitCode, Failure> {
    if let Some(error) = error.downcast_ref::<trace::TraceError>() {
        return Err(error.clone().into());
    }
    let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    let gone = error.chain().any(|cause| {
        let json = cause.downcast_ref::<serde_json::Error>();
        json.and_then(serde_json::Error::io_error_kind) == Some(std::io::ErrorKind::BrokenPipe)
            || cause.downcast_ref::<std::io::Error>().is_some_and(is_gone)
    });
    if gone {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!("{error:#}"), ""))
}

/// ERROR and hint on stderr.
fn report(failure: &Failure) -> ExitCode {
    output::say(&format!("ERROR: {}", failure.message));
    if !failure.hint.is_empty() {
        output::say(&format!("hint: {}", failure.hint));
    }
    ExitCode::from(failure.exit_code)
}
