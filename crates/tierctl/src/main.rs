//! `upshift-cache`: runs a server with the tier, watches it, changes it and measures it.

mod bench;
mod check;
mod control;
mod export;
mod failure;
mod memory;
mod options;
mod output;
mod place;
mod preflight;
mod process;
mod run;
mod server;
mod stat;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A page cache on a fast medium under an unmodified mysqld.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a server with the tier.
    Run(run::Options),
    /// Show what the tier of a running server does.
    Stat(stat::Options),
    /// Give the running tier another size.
    Resize(control::Resize),
    /// Switch the running tier to another mode.
    Mode(control::SwitchMode),
    /// Bring what the medium holds to stable storage.
    Flush(control::Plain),
    /// Empty the running tier.
    Drop(control::Plain),
    /// Audit whether I/O on data files escapes the tier (needs strace).
    Check(check::Options),
    /// The counters as Prometheus text.
    Export(export::Options),
    /// Random reads of each size, without and with the tier (needs fio).
    Bench(bench::Options),
}

fn main() {
    let done = match Arguments::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Stat(options) => stat::stat(&options),
        Verb::Resize(options) => control::resize(&options),
        Verb::Mode(options) => control::mode(&options),
        Verb::Flush(options) => control::flush(&options),
        Verb::Drop(options) => control::drop(&options),
        Verb::Check(options) => check::check(&options),
        Verb::Export(options) => export::export(&options),
        Verb::Bench(options) => bench::bench(&options),
    };
    if let Err(Failure {
        message,
        hint,
        exit_code,
    }) = done
    {
        eprintln!("ERROR: {message}");
        if !hint.is_empty() {
            eprintln!("hint: {hint}");
        }
        std::process::exit(exit_code);
    }
}
