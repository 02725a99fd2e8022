//! The command line of `upshift-load tpcc`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgAction, Args, Subcommand};

use super::{BatchMode, Choice, Pace, Tpcc, prepare};
use crate::cli::{LoadOptions, ServerOptions, connector, on_or_off, run_workload};
use crate::failure::Usage;
use crate::session::TransactionMode;

/// `upshift-load tpcc`.
#[derive(Args)]
pub struct TpccArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make and fill the tables.
    Prepare {
        #[command(flatten)]
        server: ServerOptions,
        /// Warehouses; each takes about 100 MB.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        warehouses: i64,
        /// Connections that fill side by side.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
        threads: u32,
        /// Drop tables of these names first.
        #[arg(long)]
        drop: bool,
        /// For the random values.
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
        /// Wait before each transaction as long as the specification wants it to be typed.
        #[arg(long, default_value = "off", value_parser = on_or_off, action = ArgAction::Set)]
        keying_time: bool,
        /// Wait after each transaction as long as the specification wants its answer to be looked at.
        #[arg(long, default_value = "off", value_parser = on_or_off, action = ArgAction::Set)]
        think_time: bool,
        #[command(flatten)]
        load: Box<LoadOptions>,
    },
    /// Drop the tables.
    Cleanup {
        #[command(flatten)]
        server: ServerOptions,
    },
}

impl TpccArgs {
    /// The options of its run, if it is one.
    pub fn run_options(&mut self) -> Option<&mut LoadOptions> {
        match &mut self.action {
            Action::Run { load, .. } => Some(load),
            Action::Prepare { .. } | Action::Cleanup { .. } => None,
        }
    }
}

/// Which statement files.
#[derive(Args)]
pub(super) struct ChoiceOptions {
    /// `benchmarksql`, `tuned`, or a folder's name in --statements-dir.
    #[arg(long, default_value = "tuned")]
    flavour: String,
    /// Take one statement from another flavour; can be said again.
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
/// What cannot be meant, and what stops the load.
pub fn run(args: TpccArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Prepare {
            server,
            warehouses,
            threads,
            drop,
            seed,
        } => prepare::prepare(&connector(&server)?, warehouses, threads, drop, seed)?,
        Action::Run {
            choice,
            batch,
            keying_time,
            think_time,
            load,
        } => {
            let pace = Pace {
                keying: keying_time,
                thinking: think_time,
            };
            if load.rate.is_some() && (pace.keying || pace.thinking) {
                let hint = "leave --rate out, or the times off";
                return Err(Usage::new(
                    "with keying or think time the terminals set the rate",
                    hint,
                )
                .into());
            }
            if load.knobs.transaction == TransactionMode::Autocommit {
                let hint = "use --transaction begin or implicit";
                return Err(
                    Usage::new("TPC-C's transactions are several statements each", hint).into(),
                );
            }
            return run_workload(
                Arc::new(Tpcc::new(&choice.choice(), batch, pace, load.seed)?),
                &load,
            );
        }
        Action::Cleanup { server } => prepare::cleanup(&connector(&server)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
