//! The command line of `upshift-load tpcc`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::check::{CheckArgs, check};
use super::one::{self, OneArgs};
use super::{BatchMode, Choice, How, Pace, Tpcc, Warehouses, prepare};
use crate::cli::{LoadOptions, ServerOptions, connector, run_workload};
use crate::failure::Usage;
use crate::session::RowsMode;

/// `upshift load tpcc`.
#[derive(Args)]
pub struct TpccArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create and fill the tables.
    Prepare {
        #[command(flatten)]
        server: ServerOptions,
        /// Warehouses; each takes about 100 MB.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        warehouses: i64,
        /// Connections that fill the tables in parallel.
        #[arg(long, short = 'c', value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
        connections: u32,
        /// Drop tables of these names first.
        #[arg(long)]
        drop: bool,
        /// Seed of the random values.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Run the load.
    Run {
        #[command(flatten)]
        choice: ChoiceOptions,
        /// How an order's lines and its changes of stock are sent.
        #[arg(long, value_enum, default_value_t = BatchMode::Multirow)]
        batch: BatchMode,
        /// Which warehouses the terminals work for.
        #[arg(long, value_enum, default_value_t = Warehouses::Home)]
        warehouses: Warehouses,
        /// Wait before each transaction for the specification's keying time.
        #[arg(long, overrides_with = "no_keying_time")]
        keying_time: bool,
        /// Send each transaction without keying time (the default).
        #[arg(long, overrides_with = "keying_time")]
        no_keying_time: bool,
        /// Wait after each transaction for the specification's think time.
        #[arg(long, overrides_with = "no_think_time")]
        think_time: bool,
        /// Begin the next transaction without think time (the default).
        #[arg(long, overrides_with = "think_time")]
        no_think_time: bool,
        #[command(flatten)]
        load: Box<LoadOptions>,
    },
    /// Run one statement of a transaction alone.
    One(Box<OneArgs>),
    /// Check the consistency conditions.
    Check(CheckArgs),
    /// Drop the tables.
    Cleanup {
        #[command(flatten)]
        server: ServerOptions,
    },
}

/// Which statement files.
#[derive(Args)]
pub(super) struct ChoiceOptions {
    /// `benchmarksql`, `tuned`, or a folder's name in --statements-dir.
    #[arg(long, default_value = "tuned")]
    flavour: String,
    /// Take one statement from another flavour; can be given several times.
    #[arg(long, value_name = "NAME=FLAVOUR", value_parser = switch)]
    statement: Vec<(String, String)>,
    /// A folder of flavours of your own: FLAVOUR/NAME.sql.
    #[arg(long, value_name = "FOLDER")]
    statements_dir: Option<PathBuf>,
}

impl ChoiceOptions {
    pub(super) fn choice(&self) -> Choice {
        Choice {
            flavour: self.flavour.clone(),
            statements: self.statement.clone(),
            folder: self.statements_dir.clone(),
        }
    }
}

fn switch(text: &str) -> Result<(String, String), String> {
    let (name, flavour) = text
        .split_once('=')
        .ok_or("NAME=FLAVOUR, for example delivery.oldest_new_order=tuned")?;
    Ok((name.to_owned(), flavour.to_owned()))
}

/// Do what was asked.
///
/// # Errors
/// Usage errors, and what stops the load.
pub fn run(args: TpccArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Prepare {
            server,
            warehouses,
            connections,
            drop,
            seed,
        } => prepare::prepare(&connector(&server)?, warehouses, connections, drop, seed)?,
        Action::Run {
            choice,
            batch,
            warehouses,
            keying_time,
            think_time,
            load,
            ..
        } => {
            let pace = Pace {
                keying: keying_time,
                thinking: think_time,
            };
            if load.rate.is_some() && (pace.keying || pace.thinking) {
                let hint = "leave out --rate, or --keying-time and --think-time";
                return Err(Usage::new(
                    "--rate does not go with keying or think time: the terminals set the rate",
                    hint,
                )
                .into());
            }
            let how = How {
                batch,
                pace,
                warehouses,
            };
            if load.knobs.autocommit {
                let hint = "leave --autocommit out";
                return Err(
                    Usage::new("TPC-C's transactions are several statements each", hint).into(),
                );
            }
            if load.knobs.rows == RowsMode::First {
                let hint = "use --rows stated or all; tpcc one takes --rows first";
                let message = "TPC-C's transactions need every row that their statements ask for";
                return Err(Usage::new(message, hint).into());
            }
            return run_workload(
                Arc::new(Tpcc::new(
                    &choice.choice(),
                    how,
                    load.connections,
                    load.seed,
                )?),
                &load,
            );
        }
        Action::One(args) => return one::run(&args),
        Action::Check(args) => return check(&args),
        Action::Cleanup { server } => prepare::cleanup(&connector(&server)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn a_transaction_that_reads_first_rows_alone_is_refused_before_the_login() {
        let words = "tpcc run --rows first --server mysql://root@/t?socket=/no/such/socket";
        let command = TpccArgs::augment_args(clap::Command::new("tpcc"));
        let matches = command.get_matches_from(words.split(' '));
        let args = TpccArgs::from_arg_matches(&matches).expect("a load");
        let error = run(args).expect_err("every order would be rolled back");
        let Usage(failure) = error.downcast_ref().expect("before the login");
        assert!(failure.hint.contains("--rows stated"), "{}", failure.hint);
    }
}
