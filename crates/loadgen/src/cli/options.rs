//! Options that all loads have.

use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use wire::ServerUrl;

use crate::drive::{ArrivalProcess, Arrivals, OnDisconnect, OnError, Plan};
use crate::failure::{Failure, Usage};
use crate::output::file_name;
use crate::session::{Isolation, Knobs, Protocol, RowsMode};

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
    /// How statements are sent. Default: prepared; of a replay: recorded.
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
    /// Each statement commits by itself, without BEGIN and COMMIT around a transaction.
    #[arg(long, overrides_with = "no_autocommit")]
    pub autocommit: bool,
    /// Switch autocommit off once for each connection: no BEGIN, and each transaction ends with COMMIT (MySQL, MariaDB).
    #[arg(long, overrides_with = "autocommit")]
    pub no_autocommit: bool,
    /// Isolation level of every transaction; `default`: the server's own.
    #[arg(long, value_enum, default_value_t = Isolation::Default)]
    pub isolation: Isolation,
    /// Rows to fetch in a round trip; 0: all at once. Default: 0; of a replay: as recorded.
    #[arg(long, value_name = "N")]
    pub fetch_size: Option<u32>,
    /// Which rows of each result are read.
    #[arg(long, value_enum, default_value_t = RowsMode::Stated)]
    pub rows: RowsMode,
    /// Get column definitions with results (the default).
    #[arg(long, overrides_with = "no_metadata")]
    pub metadata: bool,
    /// Get results without column definitions, as `metadata=off` in --server (MySQL, MariaDB).
    #[arg(long, overrides_with = "metadata")]
    pub no_metadata: bool,
    /// Get the results of prepared statements in binary format where the type allows, as `binary-results=on` in --server (`PostgreSQL`).
    #[arg(long, overrides_with = "no_binary_results")]
    pub binary_results: bool,
    /// Get results as text (the default).
    #[arg(long, overrides_with = "binary_results")]
    pub no_binary_results: bool,
}

impl KnobOptions {
    /// How a load's statements are sent.
    ///
    /// # Errors
    /// What only a replay has.
    pub fn knobs(&self) -> Result<Knobs, Usage> {
        if let Some(Protocol::Recorded | Protocol::RecordedKept) = self.protocol {
            return Err(Usage::new(
                "only a replay has --protocol recorded and recorded-kept",
                "choose text, prepared or prepare-per-request",
            ));
        }
        Ok(self.knobs_or(Protocol::Prepared, Some(0)))
    }

    /// How a replay's statements are sent.
    #[must_use]
    pub fn replay_knobs(&self) -> Knobs {
        self.knobs_or(Protocol::Recorded, None)
    }

    fn knobs_or(&self, protocol: Protocol, fetch_size: Option<u32>) -> Knobs {
        Knobs {
            protocol: self.protocol.unwrap_or(protocol),
            autocommit: (self.autocommit || self.no_autocommit).then_some(self.autocommit),
            isolation: self.isolation,
            fetch_size: self.fetch_size.or(fetch_size),
            rows: self.rows,
            // The server's URL has the others.
            ..Knobs::default()
        }
    }

    /// What is chosen here goes before what the URL says.
    pub(super) fn choose_in(&self, url: &mut ServerUrl) {
        if self.metadata || self.no_metadata {
            url.metadata = self.metadata;
        }
        if self.binary_results || self.no_binary_results {
            url.binary_results = self.binary_results;
        }
    }
}

/// Where the results go.
#[derive(Debug, Clone, Args)]
pub struct OutputOptions {
    /// Print the result as JSON to stdout.
    #[arg(long)]
    pub json: bool,
    /// Show retries, p99.9, round trips, bytes and system calls, too, in a table of 132 columns.
    #[arg(long)]
    pub wide: bool,
    /// With --json, also print the number of transactions by latency.
    #[arg(long, requires = "json")]
    pub histogram: bool,
    /// Write all histograms to this `HdrHistogram` log.
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Write a row for each second to this Parquet file.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

impl OutputOptions {
    /// The files by their options' names; how the result is printed shows in itself.
    #[must_use]
    pub fn files(&self) -> Map<String, Value> {
        [("hdr", &self.hdr), ("parquet", &self.parquet)]
            .map(|(name, file)| (name.to_owned(), file_name(file.as_deref())))
            .into_iter()
            .collect()
    }

    /// Whether the files can be written, before the load whose results they are for. What they hold stays until then.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn check(&self) -> Result<(), Failure> {
        for path in [&self.hdr, &self.parquet].into_iter().flatten() {
            // Whoever reads a pipe would take this for its end.
            if path
                .metadata()
                .is_ok_and(|known| known.file_type().is_fifo())
            {
                continue;
            }
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| {
                Failure::new(
                    format!("cannot write {}: {error}", path.display()),
                    "name a file in a folder that is there and can be written to",
                )
            })?;
        }
        Ok(())
    }
}

/// How to load it and where the results go.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// The server.
    #[command(flatten)]
    pub server: ServerOptions,
    /// Client connections.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: u32,
    /// Threads that drive the connections; default: as many as CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub client_threads: Option<u32>,
    /// Seconds of the measured part.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Seconds of load before the measured part.
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = seconds)]
    pub warmup_seconds: f64,
    /// Seconds to wait for the last answers after the end, 0.1 at least.
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    pub wait_seconds: f64,
    /// End after this number of transactions, or after --seconds.
    #[arg(long, value_name = "N")]
    pub max_transactions: Option<u64>,
    /// Open loop: begin this number of transactions a second, however fast the server is; latency counts from the scheduled start.
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// How the starts of an open loop are spaced.
    #[arg(long, value_enum, default_value_t = ArrivalProcess::Poisson, requires = "rate")]
    pub arrivals: ArrivalProcess,
    /// How statements are sent.
    #[command(flatten)]
    pub knobs: KnobOptions,
    /// What to do when a connection is lost.
    #[arg(long, value_enum, default_value_t = OnDisconnect::Reconnect)]
    pub on_disconnect: OnDisconnect,
    /// What to do when the server refuses a statement, except for a deadlock.
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    pub on_error: OnError,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the statements to this trace, for `replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputOptions,
}

impl LoadOptions {
    /// The files that it writes, by their options' names.
    #[must_use]
    pub fn files(&self) -> Map<String, Value> {
        let mut files = self.output.files();
        files.insert("record".to_owned(), file_name(self.record.as_deref()));
        files
    }

    /// How the load is run.
    ///
    /// # Errors
    /// A time of 0.
    pub fn plan(&self) -> Result<Plan, Usage> {
        if self.seconds <= 0.0 {
            return Err(Usage::new("--seconds is 0", "give --seconds above 0"));
        }
        Ok(Plan {
            connections: self.connections,
            client_threads: self.client_threads.unwrap_or_else(cpus),
            time: Some(Duration::from_secs_f64(self.seconds)),
            warmup: Duration::from_secs_f64(self.warmup_seconds),
            wait: Duration::from_secs_f64(self.wait_seconds),
            transactions: self.max_transactions,
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

pub(super) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// A week is longer than any load.
const SECONDS_MAX: f64 = 604_800.0;

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a number of seconds from 0 to {SECONDS_MAX}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e8 => Ok(rate),
        _ => Err("a number of transactions a second, above 0 and up to 100000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_file_whose_name_is_no_text_is_told() {
        let name = OsStr::from_bytes(b"\xFF.hlog");
        let options = OutputOptions {
            json: true,
            wide: false,
            histogram: false,
            hdr: Some(name.into()),
            parquet: None,
        };
        let files = options.files();
        assert_eq!(files["hdr"], "\u{FFFD}.hlog");
        assert!(files["parquet"].is_null());
    }

    #[test]
    fn files_that_cannot_be_written_are_refused_and_what_others_hold_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let mut options = OutputOptions {
            json: false,
            wide: false,
            histogram: false,
            hdr: Some(folder.join("earlier")),
            parquet: Some(folder.join("new")),
        };
        std::fs::write(folder.join("earlier"), "results").expect("writes");
        options.check().expect("both can be written");
        let earlier = std::fs::read_to_string(folder.join("earlier"));
        assert_eq!(earlier.expect("there"), "results");
        for refused in [folder.join("no/such"), folder.to_owned()] {
            options.parquet = Some(refused.clone());
            let failure = options.check().expect_err("no file");
            let name = refused.display().to_string();
            assert!(failure.message.contains(&name), "{}", failure.message);
        }
    }
}
