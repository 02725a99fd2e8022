//! `replay`: from a trace to measurements, a digest and a comparison.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use wire::{Connection, Error};

use super::load::{Live, account, interrupt_flag, look, parse, put_out, target, verdict};
use super::options::{KnobOptions, OutputOptions, ServerOptions};
use crate::clock::MonotonicClock;
use crate::drive::{ArrivalProcess, Arrivals, OnDisconnect, OnError, Plan};
use crate::failure::Failure;
use crate::measure::{Collector, Names, ServerTime, connected_sums};
use crate::output::{self, About};
use crate::replay::{Digest, DigestHead, Pace, Played, PlayerPlan, Trace, play};
use crate::session::{Shared, StatementSpec};

/// What to replay and what to do with the answers.
#[derive(Debug, Args)]
pub(super) struct ReplayOptions {
    /// The trace.
    trace: PathBuf,
    #[command(flatten)]
    server: ServerOptions,
    /// Connections. With 1, transactions run one after the other in the order in which they ended when they were recorded; with more,
    /// each recorded connection keeps its order.
    #[arg(long, short = 'c', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
    #[command(flatten)]
    knobs: KnobOptions,
    /// When transactions begin: each when the one before it has ended, or as when they were recorded, with latency counted from then.
    #[arg(long, value_enum, default_value_t = Pace::Fast)]
    pace: Pace,
    /// When a connection is lost.
    #[arg(long, value_enum, default_value_t = OnDisconnect::Reconnect)]
    on_disconnect: OnDisconnect,
    /// Write a digest of every answer to this file.
    #[arg(long, value_name = "FILE")]
    digest: Option<PathBuf>,
    /// Compare the answers with those of this earlier digest, and list what differs.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Rows may come in any order: for statements without ORDER BY.
    #[arg(long)]
    unordered: bool,
    /// Replay what is whole of a trace that is cut short.
    #[arg(long)]
    allow_truncated: bool,
    #[command(flatten)]
    output: OutputOptions,
}

impl ReplayOptions {
    fn plan(&self) -> PlayerPlan {
        PlayerPlan {
            connections: self.connections,
            pace: self.pace,
            on_disconnect: self.on_disconnect,
            answers: self.digest.is_some() || self.compare.is_some(),
            unordered: self.unordered,
        }
    }
}

/// Replay and put out the results.
///
/// # Errors
/// What stops it before it began; what stops it later, and answers that differ, are in the results and the exit code.
pub(super) fn replay_trace(options: &ReplayOptions) -> anyhow::Result<ExitCode> {
    let family = parse(&options.server)?.family;
    let (connector, knobs) = target(&options.server, &options.knobs)?;
    let trace = Trace::open(&options.trace, options.allow_truncated)?;
    let earlier = options.compare.as_deref().map(Digest::read).transpose()?;
    if let Some(earlier) = &earlier {
        earlier.check(&trace, options.unordered, knobs.rows)?;
    }
    let specs: Vec<StatementSpec> = trace.meta.statements.iter().map(|one| one.spec()).collect();
    let server = look(&connector, |connection| check(connection, &specs, &trace))?;
    let shared = Shared {
        connector,
        names: Arc::new(Names::new(&specs)),
        statements: specs.into(),
        knobs,
        clock: Arc::new(MonotonicClock::start()),
    };
    let (played, server_time) = perform(options, &trace, &shared)?;
    let Played {
        finished,
        answers,
        ended_otherwise,
    } = played;
    let complete = !finished.interrupted && finished.failure.is_none();
    let digest = Digest {
        head: DigestHead {
            trace: trace.id_text(),
            requests: trace.ending.statements,
            unordered: options.unordered,
            rows: knobs.rows,
            family: server.family.clone(),
            version: server.version.clone(),
        },
        answers,
    };
    let differences = match &earlier {
        Some(earlier) if complete => Some(digest.differences(earlier)),
        _ => None,
    };
    let about = about(&trace);
    let plan = run_plan(options, &trace);
    let mut result = output::result(&about, &shared, &plan, server, server_time, &finished);
    let told = output::replay(&trace, family, ended_otherwise, differences.as_deref())?;
    result.replay = Some(told);
    put_out(&result, &about, &shared, &finished, &options.output)?;
    match &options.digest {
        Some(path) if complete => digest.write(path)?,
        Some(path) => eprintln!(
            "WARNING: {} was not written: the replay did not end",
            path.display()
        ),
        None => {}
    }
    let code = verdict(&finished)?;
    judge(
        differences.map_or(0, |all| all.len()),
        ended_otherwise,
        complete,
    )?;
    Ok(code)
}

/// Replay, with the live line and Ctrl-C.
fn perform(
    options: &ReplayOptions,
    trace: &Trace,
    shared: &Shared,
) -> anyhow::Result<(Played, ServerTime)> {
    // Without it the system's refusal of one more connection says what is wrong.
    let _ = crate::sys::raise_file_limit();
    let interrupt = interrupt_flag()?;
    let before = connected_sums(|| (shared.connector)());
    let mut live = Live::new();
    let tick = &mut |collector: &Collector, elapsed_s| live.tick(collector, elapsed_s);
    let played = play(trace, shared, options.plan(), &interrupt, tick)?;
    live.end();
    Ok((played, account(shared, before)))
}

/// Whether the server takes every statement of the trace.
fn check(
    connection: &mut dyn Connection,
    specs: &[StatementSpec],
    trace: &Trace,
) -> anyhow::Result<()> {
    for spec in specs {
        match connection.prepare(&spec.sql) {
            Ok(statement) => connection.close(statement)?,
            Err(Error::Server { message, .. }) => {
                let message = format!(
                    "the server does not take {} ({}): {message}",
                    spec.name, spec.sql
                );
                let hint = format!(
                    "make the tables and rows that the recording of {} began with: a copy of that database, or the same prepare",
                    trace.meta.workload
                );
                return Err(Failure::new(message, hint).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn about(trace: &Trace) -> About<'_> {
    let mut notes = Vec::new();
    if !trace.whole {
        notes.push("the trace is cut short: only its whole blocks were replayed".to_owned());
    }
    if trace.ending.lost > 0 {
        notes.push(format!(
            "{} transactions are not in the trace, because their connections were lost while it was recorded",
            trace.ending.lost
        ));
    }
    About {
        name: format!("replay of {}", trace.meta.workload),
        transactions: trace.meta.transactions.iter().map(String::as_str).collect(),
        tpmc: None,
        notes,
    }
}

/// A replay as a run, until the trace has ended.
fn run_plan(options: &ReplayOptions, trace: &Trace) -> Plan {
    let arrivals = match (options.pace, trace.rate()) {
        (Pace::Recorded, Some(rate)) => Arrivals::Open {
            rate,
            process: ArrivalProcess::Recorded,
        },
        _ => Arrivals::Closed,
    };
    Plan {
        connections: options.connections,
        client_threads: options.connections,
        time: None,
        warmup: Duration::ZERO,
        transactions: None,
        arrivals,
        on_disconnect: options.on_disconnect,
        on_error: OnError::Continue,
        seed: 0,
    }
}

fn judge(differences: usize, ended_otherwise: u64, complete: bool) -> Result<(), Failure> {
    if differences > 0 {
        return Err(Failure::new(
            format!("{differences} requests were answered differently"),
            "the requests are above; --unordered if only the order of rows without ORDER BY differs; both servers need equal tables before the replay",
        ));
    }
    if ended_otherwise > 0 && complete {
        return Err(Failure::new(
            format!("{ended_otherwise} transactions ended otherwise than when they were recorded"),
            "the errors are above; the replay needs the tables as they were when the recording began",
        ));
    }
    Ok(())
}
