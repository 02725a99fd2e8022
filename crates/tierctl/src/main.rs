//! `upshift-cache`: runs a server with the tier, watches it, changes it and measures it.

mod audit;
mod bench;
mod control;
mod export;
mod failure;
mod memory;
mod options;
mod output;
mod pages;
mod preflight;
mod process;
mod run;
mod server;
mod stat;
mod unit;
mod user;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A page cache on a fast medium under an unmodified mysqld.
#[derive(Parser)]
#[command(name = "upshift cache", bin_name = "upshift cache", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a server with the tier.
    Run(run::Options),
    /// Print the counters of a running server's tier.
    Stat(stat::Options),
    /// Change the size of the running tier.
    Resize(control::Resize),
    /// Change the mode of the running tier.
    Mode(control::SwitchMode),
    /// Write what the medium holds to stable storage.
    Sync(control::Plain),
    /// Empty the running tier.
    Clear(control::Plain),
    /// Trace a running server to find I/O on its data files that bypasses the tier unseen (needs strace).
    Audit(audit::Options),
    /// Print the counters as text for Prometheus.
    Export(export::Options),
    /// Measure random reads of each size without the tier and with it (needs fio).
    Bench(bench::Options),
}

fn main() {
    let done = match Arguments::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Stat(options) => stat::stat(&options),
        Verb::Resize(options) => control::resize(&options),
        Verb::Mode(options) => control::mode(&options),
        Verb::Sync(options) => control::sync(&options),
        Verb::Clear(options) => control::clear(&options),
        Verb::Audit(options) => audit::audit(&options),
        Verb::Export(options) => export::export(&options),
        Verb::Bench(options) => bench::bench(&options),
    };
    if let Err(Failure {
        message,
        hint,
        exit_code,
    }) = done
    {
        eprintln!("ERROR: {}", output::shown(&message));
        if !hint.is_empty() {
            eprintln!("hint: {}", output::shown(&hint));
        }
        std::process::exit(exit_code);
    }
}
