//! `replay`: from a trace to measurements, a digest and a comparison.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use wire::{Connection, Error, Family};

use super::load::{Live, account, interrupt_flag, look, parse, put_out, target, verdict};
use super::options::{KnobOptions, OutputOptions, ServerOptions};
use crate::clock::MonotonicClock;
use crate::drive::{Arrivals, OnDisconnect, OnError, Plan};
use crate::failure::Failure;
use crate::measure::{Names, connected_sums};
use crate::output::{self, About, AnswerResult, DifferingRequest};
use crate::replay::{
    Answer, Difference, Digest, DigestHead, Event, Played, PlayerPlan, Trace, play,
};
use crate::session::{Shared, StatementId, StatementSpec};

/// So many differing requests are listed with their statements.
const LISTED_MAX: usize = 100;

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
    let _ = crate::sys::raise_file_limit();
    let specs: Vec<StatementSpec> = trace.meta.statements.iter().map(|one| one.spec()).collect();
    let server = look(&connector, |connection| check(connection, &specs, &trace))?;
    let shared = Shared {
        connector,
        names: Arc::new(Names::new(&specs)),
        statements: specs.into(),
        knobs,
        clock: Arc::new(MonotonicClock::start()),
    };
    let interrupt = interrupt_flag()?;
    let before = connected_sums(|| (shared.connector)());
    let mut live = Live::new();
    let Played {
        finished,
        answers,
        ended_otherwise,
    } = play(
        &trace,
        &shared,
        options.plan(),
        &interrupt,
        &mut |collector, elapsed_s| live.tick(collector, elapsed_s),
    )?;
    live.end();
    let head = DigestHead {
        trace: trace.id_text(),
        requests: trace.ending.statements,
        unordered: options.unordered,
        rows: knobs.rows,
        family: server.family.clone(),
        version: server.version.clone(),
    };
    let digest = Digest { head, answers };
    let complete = !finished.interrupted && finished.failure.is_none();
    if let (Some(path), true) = (&options.digest, complete) {
        digest.write(path)?;
    }
    let differences = match &earlier {
        Some(earlier) if complete => Some(digest.differences(earlier)),
        _ => None,
    };
    let about = about(&trace);
    let server_time = account(&shared, before);
    let plan = run_plan(options);
    let mut result = output::result(&about, &shared, &plan, server, server_time, &finished);
    let listed = differences.as_deref().unwrap_or_default();
    result.replay = Some(output::Replay {
        trace: options.trace.display().to_string(),
        recorded_on: output::Server {
            family: trace.meta.family.clone(),
            version: trace.meta.version.clone(),
        },
        truncated: !trace.whole,
        requests: trace.ending.statements,
        ended_otherwise,
        differences: differences.as_ref().map(|all| all.len() as u64),
        differing: differing(&trace, family, &listed[..listed.len().min(LISTED_MAX)])?,
    });
    put_out(&result, &about, &shared, &finished, &options.output)?;
    let code = verdict(&finished)?;
    judge(listed.len(), ended_otherwise, complete)?;
    Ok(code)
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

/// A replay as a run: closed loop, until the trace has ended.
fn run_plan(options: &ReplayOptions) -> Plan {
    Plan {
        connections: options.connections,
        client_threads: options.connections,
        time: None,
        warmup: Duration::ZERO,
        transactions: None,
        arrivals: Arrivals::Closed,
        on_disconnect: options.on_disconnect,
        on_error: OnError::Continue,
        seed: 0,
    }
}

/// Find the statements of the requests that differ.
fn differing(
    trace: &Trace,
    family: Family,
    differences: &[Difference],
) -> anyhow::Result<Vec<DifferingRequest>> {
    let mut wanted: BTreeMap<u64, &Difference> = differences
        .iter()
        .map(|difference| (difference.now.ordinal, difference))
        .collect();
    let mut found = Vec::new();
    let mut malformed = None;
    trace.each(|recorded| {
        let after = recorded.ordinal + recorded.events;
        if wanted.range(recorded.ordinal..after).next().is_some() {
            match recorded.events() {
                Err(error) => malformed = Some(error),
                Ok(events) => {
                    for (ordinal, event) in (recorded.ordinal..).zip(events) {
                        if let Some(difference) = wanted.remove(&ordinal) {
                            found.push(describe(trace, family, difference, &event));
                        }
                    }
                }
            }
        }
        if wanted.is_empty() || malformed.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    malformed.map_or(Ok(found), |error| Err(error.into()))
}

fn describe(
    trace: &Trace,
    family: Family,
    difference: &Difference,
    event: &Event,
) -> DifferingRequest {
    let named = |id: &StatementId| &trace.meta.statements[usize::from(id.0)];
    let (statement, sql) = match event {
        Event::Begin => ("begin".to_owned(), "BEGIN".to_owned()),
        Event::Commit => ("commit".to_owned(), "COMMIT".to_owned()),
        Event::Rollback => ("rollback".to_owned(), "ROLLBACK".to_owned()),
        Event::Statement { id, parameters } => {
            let known = named(id);
            (
                known.name.clone(),
                wire::render(family, &known.sql, parameters),
            )
        }
        Event::Batch { id, rows, .. } => {
            let known = named(id);
            (
                known.name.clone(),
                format!("{} -- {} rows", known.sql, rows.len()),
            )
        }
    };
    DifferingRequest {
        request: difference.now.ordinal,
        statement,
        sql,
        earlier: answer(&difference.earlier),
        now: answer(&difference.now),
    }
}

fn answer(answer: &Answer) -> AnswerResult {
    AnswerResult {
        answer: answer.state.to_text(),
        rows: answer.rows,
        affected: answer.affected,
        hash: format!("{:016x}", answer.hash),
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
