//! The result as JSON. docs/reference/load.md explains each key.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use wire::{Counters, ServerUrl};

use super::replay::Replay;
use crate::drive::{ArrivalProcess, Arrivals, Finished, Plan};
use crate::measure::{Errors, Names, ServerTime};
use crate::session::{Knobs, Shared};
use crate::workload::{TransactionKind, Workload};

/// Raised when a key changes its meaning or goes.
const SCHEMA_VERSION: u32 = 3;

/// One run.
#[derive(Debug, Serialize)]
#[allow(
    missing_docs,
    reason = "docs/reference/load.md is the one place that explains the keys"
)]
pub struct Result {
    pub schema_version: u32,
    pub workload: String,
    pub options: Map<String, Value>,
    pub ran: Ran,
    pub server: Server,
    pub duration_s: f64,
    pub interrupted: bool,
    pub failure: Option<String>,
    pub tpmc: Option<f64>,
    pub tps: f64,
    pub qps: f64,
    #[serde(flatten, serialize_with = "as_latency")]
    pub latency: Latency,
    pub latency_us_histogram: Option<Vec<(f64, u64)>>,
    pub client_cpu_us_per_statement: Option<f64>,
    pub open_loop: Option<OpenLoop>,
    pub transactions: BTreeMap<String, TransactionResult>,
    pub statements: BTreeMap<String, StatementResult>,
    pub errors: Errors,
    pub reconnects: u64,
    pub stuck_connections: u32,
    pub comparable: bool,
    pub server_time: ServerTime,
    pub replay: Option<Replay>,
    pub notes: Vec<String>,
}

/// What was run, as far as results tell of it.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// Name of the workload.
    pub name: String,
    /// Its kinds of transactions.
    pub transactions: Vec<&'a str>,
    /// Which of them are the `tpmc`.
    pub tpmc: Option<TransactionKind>,
    /// What was asked of it, by the names of its options.
    pub options: Map<String, Value>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl<'a> From<&'a dyn Workload> for About<'a> {
    fn from(workload: &'a dyn Workload) -> Self {
        Self {
            name: workload.name().to_owned(),
            transactions: workload.transactions().to_vec(),
            tpmc: workload.tpmc(),
            options: workload.options(),
            notes: workload.notes(),
        }
    }
}

/// How it ran, where the machine decides.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Ran {
    pub engine: &'static str,
    pub client_threads: u32,
}

/// What answered.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Server {
    pub family: String,
    pub version: String,
    #[serde(flatten)]
    pub transport: Transport,
    pub isolation: Option<String>,
    pub durability: BTreeMap<String, String>,
}

/// How it was reached.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Transport {
    pub transport: &'static str,
    pub tls: &'static str,
}

impl From<&ServerUrl> for Transport {
    fn from(url: &ServerUrl) -> Self {
        Self {
            transport: if url.socket.is_some() {
                "socket"
            } else {
                "tcp"
            },
            tls: url.tls.name(),
        }
    }
}

/// Percentiles in microseconds. In JSON each is a key of what has them: `latency_us_p99`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "as above")]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
    pub mean: f64,
}

impl From<&Histogram<u64>> for Latency {
    fn from(nanoseconds: &Histogram<u64>) -> Self {
        let at = |quantile| nanoseconds.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: nanoseconds.max() as f64 / 1000.0,
            mean: nanoseconds.mean() / 1000.0,
        }
    }
}

/// The values, in microseconds, with how often each came: rising, each the upper limit of its bucket.
#[must_use]
pub fn histogram(nanoseconds: &Histogram<u64>) -> Vec<(f64, u64)> {
    let recorded = nanoseconds.iter_recorded();
    recorded
        .map(|at| {
            let us = at.value_iterated_to() as f64 / 1000.0;
            (us, at.count_since_last_iteration())
        })
        .collect()
}

fn as_latency<S: Serializer>(latency: &Latency, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(latency.keyed("latency_us"))
}

fn as_lag<S: Serializer>(lag: &Latency, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(lag.keyed("lag_us"))
}

impl Latency {
    fn keyed(&self, of: &str) -> [(String, f64); 7] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p999", self.p999),
            ("p9999", self.p9999),
            ("max", self.max),
            ("mean", self.mean),
        ]
        .map(|(name, us)| (format!("{of}_{name}"), us))
    }
}

/// How an open loop's schedule was kept.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct OpenLoop {
    pub rate: f64,
    pub arrivals: Arrival,
    pub begun: u64,
    pub not_begun: u64,
    #[serde(flatten, serialize_with = "as_lag")]
    pub lag: Latency,
}

/// The name of an arrival process.
pub type Arrival = ArrivalProcess;

/// One kind of transaction.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct TransactionResult {
    pub count: u64,
    pub rolled_back: u64,
    pub errors: u64,
    pub retries: u64,
    #[serde(flatten)]
    pub wire: Wire,
    #[serde(flatten, serialize_with = "as_latency")]
    pub latency: Latency,
}

/// One statement.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct StatementResult {
    pub count: u64,
    pub errors: u64,
    pub retries: u64,
    pub rows: u64,
    pub affected: u64,
    #[serde(flatten)]
    pub wire: Wire,
    #[serde(flatten, serialize_with = "as_latency")]
    pub latency: Latency,
}

/// What crossed the wire.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Wire {
    pub round_trips: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub syscalls: u64,
}

impl From<Counters> for Wire {
    fn from(counters: Counters) -> Self {
        let Counters {
            round_trips,
            packets_sent,
            packets_received,
            bytes_sent,
            bytes_received,
            syscalls,
        } = counters;
        Self {
            round_trips,
            packets_sent,
            packets_received,
            bytes_sent,
            bytes_received,
            syscalls,
        }
    }
}

/// Put the result of a run together.
#[must_use]
pub fn result(
    about: &About<'_>,
    shared: &Shared,
    plan: &Plan,
    server: Server,
    server_time: ServerTime,
    finished: &Finished,
) -> Result {
    let totals = &finished.totals;
    let rate = |count: u64| {
        if finished.duration_s > 0.0 {
            count as f64 / finished.duration_s
        } else {
            0.0
        }
    };
    let statements_run = totals.work_statements();
    let completed = totals.completed.iter().sum::<u64>() + totals.completed_rolled_back;
    let cpu_us = totals.client_cpu_ns as f64 / 1000.0;
    let mut notes = about.notes.clone();
    if finished.duration_s <= 0.0 && !plan.warmup.is_zero() {
        notes.push("the load ended within its warm-up: nothing was measured".to_owned());
    }
    let tpmc = about
        .tpmc
        .map(|kind| rate(totals.completed[usize::from(kind.0)]) * 60.0);
    Result {
        schema_version: SCHEMA_VERSION,
        workload: about.name.clone(),
        options: options(about, plan, &shared.knobs),
        ran: Ran {
            // A thread with a single connection blocks.
            engine: if plan.connections > plan.threads() {
                "io_uring"
            } else {
                "threads"
            },
            client_threads: plan.threads(),
        },
        server,
        duration_s: finished.duration_s,
        interrupted: finished.interrupted,
        failure: finished.failure.clone(),
        tpmc,
        tps: rate(completed),
        qps: rate(totals.completed_statements),
        latency: Latency::from(&totals.latency),
        latency_us_histogram: None,
        client_cpu_us_per_statement: (statements_run > 0).then(|| cpu_us / statements_run as f64),
        open_loop: open_loop(plan, finished),
        transactions: transactions(about, finished),
        statements: statements(&shared.names, finished),
        errors: totals.errors.clone(),
        reconnects: totals.reconnects,
        stuck_connections: finished.stuck_connections,
        comparable: false,
        server_time,
        replay: None,
        notes,
    }
}

/// Everything that was asked for, by the names of the options.
fn options(about: &About<'_>, plan: &Plan, knobs: &Knobs) -> Map<String, Value> {
    let (rate, arrivals) = match plan.arrivals {
        Arrivals::Closed => (None, None),
        Arrivals::Open { rate, process } => (Some(rate), Some(process)),
    };
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| options.insert(name.to_owned(), value);
    set("connections", plan.connections.into());
    set("client_threads", plan.client_threads.into());
    set("seconds", json!(plan.time.map(|time| time.as_secs_f64())));
    set("warmup_s", json!(plan.warmup.as_secs_f64()));
    set("wait_s", json!(plan.wait.as_secs_f64()));
    set("max_transactions", json!(plan.transactions));
    set("rate", json!(rate));
    set("arrivals", json!(arrivals));
    set("on_disconnect", json!(plan.on_disconnect));
    set("on_error", json!(plan.on_error));
    set("seed", plan.seed.into());
    if let Ok(Value::Object(knobs)) = serde_json::to_value(knobs) {
        options.extend(knobs);
    }
    options.extend(about.options.clone());
    options
}

fn open_loop(plan: &Plan, finished: &Finished) -> Option<OpenLoop> {
    let Arrivals::Open { rate, process } = plan.arrivals else {
        return None;
    };
    let totals = &finished.totals;
    let begun = totals.lag.len() - totals.not_begun + totals.unanswered;
    Some(OpenLoop {
        rate,
        arrivals: process,
        begun,
        not_begun: totals.not_begun,
        lag: Latency::from(&totals.lag),
    })
}

fn transactions(about: &About<'_>, finished: &Finished) -> BTreeMap<String, TransactionResult> {
    let measured = finished
        .totals
        .transactions
        .iter()
        .zip(&finished.totals.transaction_latency);
    let named = about.transactions.iter().zip(measured);
    named
        .map(|(name, (tally, latency))| {
            let result = TransactionResult {
                count: tally.count,
                rolled_back: tally.rolled_back,
                errors: tally.errors,
                retries: tally.retries,
                wire: tally.wire.into(),
                latency: Latency::from(latency),
            };
            ((*name).to_owned(), result)
        })
        .collect()
}

fn statements(names: &Names, finished: &Finished) -> BTreeMap<String, StatementResult> {
    let measured = finished
        .totals
        .statements
        .iter()
        .zip(&finished.totals.statement_latency);
    let used = names
        .all()
        .iter()
        .zip(measured)
        .filter(|(_, (tally, _))| tally.count > 0);
    let none = Histogram::new(3).expect("3 significant digits are allowed");
    used.map(|(name, (tally, latency))| {
        let result = StatementResult {
            count: tally.count,
            errors: tally.errors,
            retries: tally.retries,
            rows: tally.rows,
            affected: tally.affected,
            wire: tally.wire.into(),
            latency: Latency::from(latency.histogram().unwrap_or(&none)),
        };
        (name.clone(), result)
    })
    .collect()
}
