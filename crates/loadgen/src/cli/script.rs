//! `script`: a file of the user's own statements.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::load::{connector, parse, run_workload};
use super::options::{LoadOptions, ServerOptions};
use crate::drive::refused;
use crate::failure::Usage;
use crate::output::tell;
use crate::script::Script;
use crate::workload::Workload;

#[derive(Args)]
pub(super) struct ScriptArgs {
    /// The file (TOML).
    file: PathBuf,
    #[command(subcommand)]
    action: ScriptAction,
}

#[derive(Subcommand)]
enum ScriptAction {
    /// Report what is wrong with the file, with lines, columns and hints, and run nothing.
    Check {
        /// Also have this server prepare every statement; a URL as for run.
        #[arg(long, env = "UPSHIFT_LOAD_SERVER", hide_env_values = true)]
        server: Option<String>,
    },
    /// Run the statements of the file's `prepare`.
    Prepare {
        #[command(flatten)]
        server: ServerOptions,
        /// Run the statements of the file's `cleanup` first.
        #[arg(long)]
        drop: bool,
        /// Seed of the random values.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Run the load.
    Run {
        #[command(flatten)]
        load: LoadOptions,
    },
    /// Run the statements of the file's `cleanup`.
    Cleanup {
        #[command(flatten)]
        server: ServerOptions,
    },
}

impl ScriptArgs {
    /// The file as this server would read it, with its remarks on stderr.
    fn open(&self, server: &ServerOptions) -> anyhow::Result<Script> {
        let script = Script::open(&self.file, Some(parse(server)?.family))?;
        remark(&script);
        Ok(script)
    }
}

fn remark(script: &Script) {
    for remark in script.remarks() {
        eprintln!("NOTE: {remark}");
    }
}

pub(super) fn script(args: &ScriptArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        ScriptAction::Check { server: None } => {
            let script = Script::open(&args.file, None)?;
            remark(&script);
            tell(&script.summary())?;
        }
        ScriptAction::Check {
            server: Some(server),
        } => {
            let server = ServerOptions {
                server: server.clone(),
            };
            let script = args.open(&server)?;
            let mut connection = connector(&server)?().map_err(|error| refused(&error, 0, 1))?;
            script.check(&mut *connection)?;
            let summary = script.summary();
            tell(&format!("{summary}; the server accepts all statements"))?;
        }
        ScriptAction::Prepare { server, drop, seed } => {
            args.open(server)?
                .prepare(&connector(server)?, *drop, *seed)?;
        }
        ScriptAction::Run { load } => {
            let script = args.open(&load.server)?;
            script.check_connections(load.connections).map_err(Usage)?;
            script.check_knobs(&load.knobs.knobs()?).map_err(Usage)?;
            script.check_rate(load.rate).map_err(Usage)?;
            return run_workload(Arc::new(script), load);
        }
        ScriptAction::Cleanup { server } => {
            args.open(server)?.cleanup(&connector(server)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
