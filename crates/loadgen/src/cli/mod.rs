//! The command line of `upshift-load`.

mod import;
mod load;
mod options;
mod replay;
mod script;
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub use load::{connector, run_workload};
pub use options::{LoadOptions, ServerOptions};

use import::{ImportOptions, import_capture};
use replay::{ReplayOptions, replay_trace};
use script::{ScriptArgs, script};

use crate::commit::{self, Commit};
use crate::failure::{Failure, Usage};
use crate::oltp::{self, Distribution, Oltp, Script};
use crate::tpcc::{self, TpccArgs};

/// Load a MySQL, MariaDB or PostgreSQL server and measure what each statement costs.
#[derive(Parser)]
#[command(
    name = "upshift-load",
    bin_name = "upshift load",
    version,
    arg_required_else_help = true,
    // The last one counts: a variant's options stand behind those of its workload.
    args_override_self = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// sysbench's schema, statements and transactions.
    Oltp(OltpArgs),
    /// Commit stress: transactions a minute and average response time.
    Commit(CommitArgs),
    /// TPC-C: orders, payments, deliveries; `NewOrders` a minute.
    Tpcc(TpccArgs),
    /// Your own statements, from a file with weights and variables.
    Script(ScriptArgs),
    /// Send the statements of a trace again, in order, and compare the answers.
    Replay(ReplayOptions),
    /// Convert a capture of `upshift stack capture` into a trace for replay.
    Import(ImportOptions),
}

#[derive(Args)]
struct OltpArgs {
    /// Which of sysbench's scripts.
    script: Script,
    #[command(subcommand)]
    action: OltpAction,
}

#[derive(Subcommand)]
enum OltpAction {
    /// Create and fill the tables.
    Prepare {
        #[command(flatten)]
        tables: TableOptions,
        #[command(flatten)]
        fill: FillOptions,
    },
    /// Run the load.
    Run {
        #[command(flatten)]
        tables: TableOptions,
        #[command(flatten)]
        load: LoadOptions,
    },
    /// Drop the tables.
    Cleanup {
        #[command(flatten)]
        tables: TableOptions,
        #[command(flatten)]
        server: ServerOptions,
    },
}

#[derive(Args)]
struct TableOptions {
    /// Tables.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Rows in each table.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    table_size: u64,
    /// Ids in a range.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    range_size: u32,
    /// How ids are drawn.
    #[arg(long, value_enum, default_value_t = Distribution::Special)]
    distribution: Distribution,
}

impl TableOptions {
    fn options(&self) -> oltp::Options {
        oltp::Options {
            tables: self.tables,
            table_size: self.table_size,
            range_size: self.range_size,
            distribution: self.distribution,
        }
    }
}

#[derive(Args)]
struct FillOptions {
    #[command(flatten)]
    server: ServerOptions,
    /// Connections that fill tables in parallel.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Drop tables of these names first.
    #[arg(long)]
    drop: bool,
    /// Seed of the random values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct CommitArgs {
    #[command(subcommand)]
    action: CommitAction,
}

#[derive(Subcommand)]
enum CommitAction {
    /// Create and fill the tables.
    Prepare {
        #[command(flatten)]
        accounts: AccountOptions,
        #[command(flatten)]
        server: ServerOptions,
        /// Drop tables of these names first.
        #[arg(long)]
        drop: bool,
    },
    /// Run the load.
    Run {
        #[command(flatten)]
        accounts: AccountOptions,
        #[command(flatten)]
        load: LoadOptions,
    },
    /// Drop the tables.
    Cleanup {
        #[command(flatten)]
        server: ServerOptions,
    },
}

#[derive(Args)]
struct AccountOptions {
    /// Accounts; with fewer accounts, transactions wait for each other.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    accounts: u64,
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
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Oltp(OltpArgs { script, action }) => match action {
            OltpAction::Prepare { tables, fill } => {
                oltp::prepare(
                    &connector(&fill.server)?,
                    &tables.options(),
                    fill.connections,
                    fill.drop,
                    fill.seed,
                )?;
                Ok(ExitCode::SUCCESS)
            }
            OltpAction::Run { tables, load } => {
                run_workload(Arc::new(Oltp::new(script, tables.options())), &load)
            }
            OltpAction::Cleanup { tables, server } => {
                oltp::cleanup(&connector(&server)?, tables.tables)?;
                Ok(ExitCode::SUCCESS)
            }
        },
        Command::Commit(CommitArgs { action }) => match action {
            CommitAction::Prepare {
                accounts,
                server,
                drop,
            } => {
                commit::prepare(&connector(&server)?, accounts.accounts, drop)?;
                Ok(ExitCode::SUCCESS)
            }
            CommitAction::Run { accounts, load } => {
                run_workload(Arc::new(Commit::new(accounts.accounts)), &load)
            }
            CommitAction::Cleanup { server } => {
                commit::cleanup(&connector(&server)?)?;
                Ok(ExitCode::SUCCESS)
            }
        },
        Command::Tpcc(args) => tpcc::run(args),
        Command::Script(args) => script(&args),
        Command::Replay(options) => replay_trace(&options),
        Command::Import(options) => import_capture(&options),
    }
}

/// ERROR and hint on stderr.
fn report(error: &anyhow::Error) {
    eprintln!("ERROR: {error:#}");
    let hint = match (
        error.downcast_ref::<Usage>(),
        error.downcast_ref::<Failure>(),
    ) {
        (Some(Usage(failure)), _) | (None, Some(failure)) => Some(failure.hint.as_str()),
        (None, None) => error.downcast_ref::<wire::Error>().and_then(hint),
    };
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
}

/// What to do about an error of the server.
fn hint(error: &wire::Error) -> Option<&'static str> {
    match error {
        wire::Error::Server { code: 1050, .. } => Some("--drop drops tables of these names first"),
        wire::Error::Server { sqlstate, .. } if sqlstate == "42P07" => {
            Some("--drop drops tables of these names first")
        }
        wire::Error::Io(_) => Some("see the server's log"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn arrivals_are_those_of_a_rate() {
        let is_taken = |more: &str| {
            let words = format!("upshift-load commit run --server mysql://h/d {more}");
            let found = command().try_get_matches_from(words.split_whitespace());
            found.is_ok()
        };
        assert!(is_taken("") && is_taken("--rate 10 --arrivals uniform"));
        assert!(!is_taken("--arrivals uniform"));
    }

    #[test]
    fn the_last_of_two_options_counts_and_statements_add_up() {
        let words = "upshift-load tpcc run --server mysql://root@/t --fetch-size 10 --batch none \
                     --fetch-size 0 --batch rewritten \
                     --statement delivery.oldest_new_order=tuned --statement stock_level.low_stock=tuned";
        let found = command()
            .try_get_matches_from(words.split_whitespace())
            .expect("a load");
        let (_, tpcc) = found.subcommand().expect("tpcc");
        let (_, run) = tpcc.subcommand().expect("run");
        let given = |name: &str| -> Vec<String> {
            let raw = run.get_raw(name).expect(name);
            raw.map(|each| each.to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(given("fetch_size"), ["0"]);
        assert_eq!(given("batch"), ["rewritten"]);
        assert_eq!(given("statement").len(), 2);
    }
}
