//! The command line of `upshift-load`.

mod load;
mod options;
mod replay;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};

pub use load::{connector, run_workload};
pub(crate) use options::on_or_off;
pub use options::{LoadOptions, ServerOptions};

use replay::{ReplayOptions, replay_trace};

use crate::commit::{self, Commit};
use crate::failure::{Failure, Usage};
use crate::oltp::{self, Distribution, Oltp, Script};
use crate::tpcc::{self, CheckArgs, OneArgs, TpccArgs};

/// Drive a MySQL, MariaDB or PostgreSQL server and tell what every statement cost.
#[derive(Parser)]
#[command(name = "upshift-load", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Load(Load),
    /// Run a load and write its statements into a trace.
    Record {
        /// The trace to write.
        trace: PathBuf,
        #[command(subcommand)]
        load: Load,
    },
    /// Run a trace's statements again, in order, and tell whether the answers are equal.
    Replay(ReplayOptions),
    /// Whether TPC-C's consistency conditions hold.
    Check(CheckArgs),
}

#[derive(Subcommand)]
enum Load {
    /// sysbench's schema, statements and transactions.
    Oltp(OltpArgs),
    /// Commit stress: transactions a minute and average response time.
    Commit(CommitArgs),
    /// TPC-C: orders, payments, deliveries; NewOrders a minute.
    Tpcc(TpccArgs),
    /// One statement of a TPC-C transaction alone.
    One(OneArgs),
}

impl Load {
    /// The options of its run, if it is one.
    fn run_options(&mut self) -> Option<&mut LoadOptions> {
        match self {
            Self::Oltp(OltpArgs {
                action: OltpAction::Run { load, .. },
                ..
            })
            | Self::Commit(CommitArgs {
                action: CommitAction::Run { load, .. },
            }) => Some(load),
            Self::Tpcc(args) => args.run_options(),
            Self::One(args) => Some(args.run_options()),
            Self::Oltp(_) | Self::Commit(_) => None,
        }
    }
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
    /// Make and fill the tables.
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
    /// Which ids are hot.
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
    /// Tables filled side by side.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Drop tables of these names first.
    #[arg(long)]
    drop: bool,
    /// For the random values.
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
    /// Make and fill the tables.
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
    /// Accounts; fewer make transactions wait for each other.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    accounts: u64,
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
        Command::Load(load) => dispatch_load(load),
        Command::Record { trace, mut load } => {
            let options = load.run_options().ok_or_else(|| {
                Usage::new(
                    "only a run can be recorded",
                    "upshift-load record TRACE oltp SCRIPT run ...; prepare the tables without record",
                )
            })?;
            options.record = Some(trace);
            dispatch_load(load)
        }
        Command::Replay(options) => replay_trace(&options),
        Command::Check(args) => tpcc::check(&args),
    }
}

fn dispatch_load(load: Load) -> anyhow::Result<ExitCode> {
    match load {
        Load::Oltp(OltpArgs { script, action }) => match action {
            OltpAction::Prepare { tables, fill } => {
                oltp::prepare(
                    &connector(&fill.server)?,
                    &tables.options(),
                    fill.threads,
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
        Load::Commit(CommitArgs { action }) => match action {
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
        Load::Tpcc(args) => tpcc::run(args),
        Load::One(args) => tpcc::run_one(&args),
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
