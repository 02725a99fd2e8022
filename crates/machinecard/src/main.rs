//! `upshift-card`: measures what this machine's memory, code, kernel and disk cost a server, and prints it as JSON.

mod budget;
mod calls;
mod card;
mod chase;
mod counter;
mod cpus;
mod disk;
mod disk_figures;
mod exchange;
mod facts;
mod failure;
mod file_system;
mod kernel;
mod region;
mod stopwatch;
mod usage;

use std::io::Write;
use std::path::PathBuf;

use clap::Parser;

use failure::Failure;

/// Measure what memory, code, the kernel and the disk of this machine cost a server, and print it as JSON.
#[derive(Parser)]
#[command(name = "upshift-card", version)]
struct Arguments {
    /// Folder whose disk is measured. A file is made in it, and removed.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seconds for the whole card, 5 to 600.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

fn main() {
    let arguments = Arguments::parse();
    if let Err(Failure {
        message,
        hint,
        exit_code,
    }) = run(&arguments)
    {
        eprintln!("ERROR: {message}");
        if !hint.is_empty() {
            eprintln!("hint: {hint}");
        }
        std::process::exit(exit_code);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let card = card::measure(&arguments.folder, arguments.seconds)?;
    let printed = serde_json::to_string_pretty(&card)
        .map_err(std::io::Error::other)
        .and_then(|text| writeln!(std::io::stdout(), "{text}"));
    printed.map_err(|error| Failure::failed(format!("stdout: {error}"), ""))
}
