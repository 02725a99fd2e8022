//! Options that all loads have.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::drive::{ArrivalProcess, Arrivals, OnDisconnect, OnError, Plan};
use crate::failure::Usage;
use crate::session::{Knobs, RowsMode, StatementMode, TransactionMode};

/// Which server.
#[derive(Debug, Clone, Args)]
pub struct ServerOptions {
    /// `mysql://user:password@host:port/database?socket=PATH&tls=required`, or postgres://...
    #[arg(long, env = "UPSHIFT_LOAD_SERVER", hide_env_values = true)]
    pub server: String,
}

/// How statements are sent.
#[derive(Debug, Clone, Args)]
pub struct KnobOptions {
    /// How statements reach the server.
    #[arg(long, value_enum, default_value_t = StatementMode::Prepared)]
    pub statements: StatementMode,
    /// How transactions are bounded.
    #[arg(long, value_enum, default_value_t = TransactionMode::Begin)]
    pub transaction: TransactionMode,
    /// Rows a round trip; 0: all at once.
    #[arg(long, default_value_t = 0)]
    pub fetch_size: u32,
    /// How much of each result is read.
    #[arg(long, value_enum, default_value_t = RowsMode::Stated)]
    pub rows: RowsMode,
    /// Column definitions with results; `off` is `metadata=off` in --server (MySQL, MariaDB).
    #[arg(long, default_value = "on", value_parser = on_or_off, action = ArgAction::Set)]
    pub metadata: bool,
    /// Prepared statements' results in binary format where the type allows; `on` is `binary-results=on` in --server (PostgreSQL).
    #[arg(long, default_value = "off", value_parser = on_or_off, action = ArgAction::Set)]
    pub binary_results: bool,
}

impl KnobOptions {
    /// How statements are sent.
    #[must_use]
    pub fn knobs(&self) -> Knobs {
        Knobs {
            statements: self.statements,
            transaction: self.transaction,
            fetch_size: self.fetch_size,
            rows: self.rows,
            metadata: self.metadata,
            binary_results: self.binary_results,
        }
    }
}

/// Where the results go.
#[derive(Debug, Clone, Args)]
pub struct OutputOptions {
    /// The result as JSON on stdout.
    #[arg(long)]
    pub json: bool,
    /// Write the histograms to this `HdrHistogram` log.
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Write the seconds to this Parquet file.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

/// How to load it and where the results go.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// Which server.
    #[command(flatten)]
    pub server: ServerOptions,
    /// Connections.
    #[arg(long, short = 'c', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: u32,
    /// Threads that drive the connections; as many as CPUs by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub client_threads: Option<u32>,
    /// Seconds of measured load.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub time: f64,
    /// Seconds of load before that are not measured.
    #[arg(long, default_value_t = 0.0, value_parser = seconds)]
    pub warmup: f64,
    /// End after so many transactions, whichever comes first.
    #[arg(long)]
    pub transactions: Option<u64>,
    /// Open loop: begin so many transactions a second, whatever the server does; latency counts from the scheduled start.
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Distances between the starts of an open loop.
    #[arg(long, value_enum, default_value_t = ArrivalProcess::Poisson)]
    pub arrivals: ArrivalProcess,
    /// How statements are sent.
    #[command(flatten)]
    pub knobs: KnobOptions,
    /// When a connection is lost.
    #[arg(long, value_enum, default_value_t = OnDisconnect::Reconnect)]
    pub on_disconnect: OnDisconnect,
    /// When the server refuses a statement, other than for a deadlock.
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    pub on_error: OnError,
    /// For the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputOptions,
    /// Record the statements into this trace: set by `record`.
    #[arg(skip)]
    pub record: Option<PathBuf>,
}

impl LoadOptions {
    /// How the load is run.
    ///
    /// # Errors
    /// A time of 0.
    pub fn plan(&self) -> Result<Plan, Usage> {
        if self.time <= 0.0 {
            return Err(Usage::new(
                "--time is 0: nothing to measure",
                "give --time in seconds",
            ));
        }
        Ok(Plan {
            connections: self.connections,
            client_threads: self.client_threads.unwrap_or_else(cpus),
            time: Some(Duration::from_secs_f64(self.time)),
            warmup: Duration::from_secs_f64(self.warmup),
            transactions: self.transactions,
            arrivals: match self.rate {
                None => Arrivals::Closed,
                Some(rate) => Arrivals::Open {
                    rate,
                    process: self.arrivals,
                },
            },
            on_disconnect: self.on_disconnect,
            on_error: self.on_error,
            seed: self.seed,
        })
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// A week is longer than any load.
const SECONDS_MAX: f64 = 604_800.0;

/// `on` or `off`.
pub(crate) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a number of seconds from 0 to {SECONDS_MAX}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e8 => Ok(rate),
        _ => Err("transactions a second, above 0".to_owned()),
    }
}
