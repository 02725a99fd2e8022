//! `replay`: from a trace to measurements, a digest and a comparison.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value, json};
use wire::{Family, ServerUrl};

use super::load::{Target, interrupt_flag, parse, perform};
use super::options::{KnobOptions, OutputOptions, ServerOptions, cpus, seconds};
use super::server::look;
use crate::drive::{ArrivalProcess, Arrivals, Finished, OnDisconnect, OnError, Plan};
use crate::failure::{Failure, Usage};
use crate::output::{self, About, file_name};
use crate::replay::{
    Answers, Choices, Differences, DigestHead, DigestReader, DigestWriter, Earlier, Loop, Order,
    Pace, Replay, Sent, Trace,
};
use crate::workload::Workload;

/// What to replay and what to do with the answers.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("until").multiple(true))]
pub(super) struct ReplayOptions {
    /// The trace to replay.
    trace: PathBuf,
    #[command(flatten)]
    server: ServerOptions,
    /// Connections; with 1, transactions run one after the other in the order in which they ended, regardless of --order.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
    /// Threads that drive the connections; default: as many as CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    client_threads: Option<u32>,
    #[command(flatten)]
    knobs: KnobOptions,
    /// Which other transactions have to end before one begins. Default: serial with one connection, commit with more.
    #[arg(long, value_enum)]
    order: Option<Order>,
    /// When transactions begin: `fast`: each when --order lets it; `recorded`: as when they were recorded, with latency counted from
    /// then, and with the recorded pauses between their requests; `2x`, `0.5x`: at a multiple of the recorded pace.
    #[arg(long, default_value_t = Pace::Fast)]
    pace: Pace,
    /// End after this number of seconds; without it, at the end of the trace.
    #[arg(long, value_name = "S", value_parser = seconds, group = "until", conflicts_with_all = ["digest", "compare"])]
    seconds: Option<f64>,
    /// End after this number of transactions.
    #[arg(long, value_name = "N", group = "until", conflicts_with_all = ["digest", "compare"])]
    max_transactions: Option<u64>,
    /// Begin again at the trace's end, until --seconds are over or --max-transactions were sent. `reads` (also without a value): only a trace that changes nothing;
    /// `always`: any.
    #[arg(long = "loop", value_enum, value_name = "WHICH", num_args = 0..=1, default_missing_value = "reads", requires = "until")]
    loops: Option<Loop>,
    /// What to do when a result differs from the recording: `fail` at the end, or `count` it and succeed.
    #[arg(long, value_enum, default_value_t = OnDifference::Fail)]
    on_difference: OnDifference,
    /// What to do when a connection is lost.
    #[arg(long, value_enum, default_value_t = OnDisconnect::Reconnect)]
    on_disconnect: OnDisconnect,
    /// Write a digest of every answer to this file.
    #[arg(long, value_name = "FILE")]
    digest: Option<PathBuf>,
    /// Compare the answers with those of this earlier digest, and list what differs.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// The digest of a second replay, made in the same way as that of --compare. Requests that these two answer differently differ by
    /// themselves: they count as unsteady, unless their outcome or number of rows differs now.
    #[arg(long, value_name = "FILE", requires = "compare")]
    again: Option<PathBuf>,
    /// Rows may arrive in any order: for statements without ORDER BY.
    #[arg(long)]
    unordered: bool,
    /// Treat values that two engines write differently as equal: zeros after the point, spaces at the end, errors of one class.
    #[arg(long)]
    lenient: bool,
    /// Send requests that set or query the session: pings, resets, SET, SHOW, SAVEPOINT, `SELECT @@...` (the default).
    #[arg(long, overrides_with = "no_chatter")]
    chatter: bool,
    /// Leave out requests that set or query the session.
    #[arg(long, overrides_with = "chatter")]
    no_chatter: bool,
    /// Log in anew for each recorded connection.
    #[arg(long, overrides_with = "no_reconnect")]
    reconnect: bool,
    /// Log in once for each connection of the replay (the default).
    #[arg(long, overrides_with = "reconnect")]
    no_reconnect: bool,
    /// Replay the complete part of a truncated trace.
    #[arg(long)]
    allow_truncated: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// What to do when a replay went otherwise than the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum OnDifference {
    /// Exit with 1.
    Fail,
    /// Report the number, and succeed.
    Count,
}

impl ReplayOptions {
    /// A replay as a run, until the trace or its time has ended.
    fn plan(&self, trace: &Trace) -> Plan {
        let arrivals = match (self.pace, trace.rate()) {
            (Pace::Recorded(times), Some(rate)) => Arrivals::Open {
                rate: rate * times,
                process: ArrivalProcess::Recorded,
            },
            _ => Arrivals::Closed,
        };
        Plan {
            connections: self.connections,
            client_threads: self.client_threads.unwrap_or_else(cpus),
            time: self.seconds.map(Duration::from_secs_f64),
            warmup: Duration::ZERO,
            wait: Duration::from_secs(30),
            transactions: self.max_transactions,
            arrivals,
            on_disconnect: self.on_disconnect,
            on_error: OnError::Continue,
            seed: 0,
        }
    }

    /// The files, by their options' names, and whether all of the trace has to be there.
    fn files(&self) -> Map<String, Value> {
        let mut files = self.output.files();
        files.insert("digest".to_owned(), file_name(self.digest.as_deref()));
        files.insert("compare".to_owned(), file_name(self.compare.as_deref()));
        files.insert("again".to_owned(), file_name(self.again.as_deref()));
        files.insert("allow_truncated".to_owned(), self.allow_truncated.into());
        files.insert("on_difference".to_owned(), json!(self.on_difference));
        files
    }

    fn choices(&self) -> Choices {
        let order = match self.connections {
            1 => Order::Serial,
            _ => Order::Commit,
        };
        Choices {
            order: self.order.unwrap_or(order),
            pace: self.pace,
            loops: self.loops,
            unordered: self.unordered,
            lenient: self.lenient,
            chatter: !self.no_chatter,
            reconnect: self.reconnect,
            follows: false,
        }
    }
}

/// Replay and put out the results.
///
/// # Errors
/// What stops it before it began; what stops it later, and answers that differ, are in the results and the exit code.
pub(super) fn replay_trace(options: &ReplayOptions) -> anyhow::Result<ExitCode> {
    let mut url = parse(&options.server)?;
    options.knobs.choose_in(&mut url);
    let names_none = url.database.is_empty();
    let trace = Arc::new(Trace::open(&options.trace, options.allow_truncated)?);
    let follows = follows(&mut url, &trace)?;
    let target = Target::of(url, options.knobs.replay_knobs())?;
    let open = |file: &Option<PathBuf>| file.as_deref().map(DigestReader::open).transpose();
    let (earlier, again) = (open(&options.compare)?, open(&options.again)?);
    let replay = Arc::new(Replay::new(
        &trace,
        target.family,
        options.connections,
        Choices {
            follows,
            ..options.choices()
        },
    )?);
    let plan = options.plan(&trace);
    let server = look(&target, &*replay, &plan)?;
    options.output.check()?;
    let knobs = target.knobs;
    let head = DigestHead {
        trace: trace.id_text(),
        requests: trace.ending.statements,
        unordered: options.unordered,
        lenient: options.lenient,
        sent: Sent::from(knobs),
        family: server.family.clone(),
        version: server.version.clone(),
    };
    for earlier in earlier.iter().chain(&again) {
        head.check(earlier.head(), &trace)?;
    }
    let earlier = earlier.map(|digest| Earlier {
        likeness: head.likeness(digest.head()),
        digest,
        again,
    });
    let digest = options.digest.as_deref();
    let digest = digest.map(|path| DigestWriter::create(path, &head));
    let digest = digest.transpose()?;
    if digest.is_some() || earlier.is_some() {
        replay.keep(Answers::new(digest, earlier));
    }
    let driven: Arc<dyn Workload> = Arc::clone(&replay) as Arc<dyn Workload>;
    let ran = perform(&driven, target, plan, &*interrupt_flag()?)?;
    let finished = &ran.finished;
    let complete =
        !finished.interrupted && finished.failure.is_none() && finished.stuck_connections == 0;
    let found = if complete { replay.finish() } else { Ok(None) };
    let found_now = found.as_ref().ok().and_then(Option::as_ref);
    let mut about = About::from(&*driven);
    about.options.extend(options.files());
    let databases = trace.meta.databases();
    if names_none && !databases.is_empty() {
        let note = "--server names no database: statements ran in those of the capture";
        about
            .notes
            .push(format!("{note}, {}", databases.join(", ")));
    }
    about.notes.extend(ended_early(options, &replay, finished));
    let mut result = ran.result(&about, server, &options.output);
    result.replay = Some(output::replay(&trace, &replay, found_now)?);
    ran.put_out(&result, &about, &options.output)?;
    if let (Some(path), false) = (&options.digest, complete) {
        eprintln!(
            "WARNING: {} was not written: the replay ended early",
            path.display()
        );
    }
    let code = ran.verdict()?;
    let found = found?;
    if options.on_difference == OnDifference::Fail {
        judge(found, &replay, complete)?;
    }
    Ok(code)
}

/// Where the URL names no database: log in to the capture's, where it has one alone. Whether connections have to go from one to another.
fn follows(url: &mut ServerUrl, trace: &Trace) -> Result<bool, Usage> {
    if !url.database.is_empty() {
        return Ok(false);
    }
    let databases = trace.meta.databases();
    match databases[..] {
        [] => Ok(false),
        [only] => {
            only.clone_into(&mut url.database);
            Ok(false)
        }
        _ if url.family == Family::Mysql => Ok(true),
        _ => Err(Usage::new(
            format!(
                "the capture has statements of {} databases ({}), and a connection to PostgreSQL stays in one",
                databases.len(),
                databases.join(", ")
            ),
            "name the database in --server whose statements are to be replayed there: postgres://.../DATABASE",
        )),
    }
}

/// What to know of a replay whose trace was over before its time; nobody else has seen it end.
fn ended_early(options: &ReplayOptions, replay: &Replay, finished: &Finished) -> Option<String> {
    let seconds = options.seconds?;
    let early = finished.duration_s < seconds && options.max_transactions.is_none();
    (early && options.loops.is_none() && replay.laps() > 0).then(|| {
        format!(
            "the trace ended after {:.1} of {seconds} s; --loop begins it again",
            finished.duration_s
        )
    })
}

fn judge(found: Option<Differences>, replay: &Replay, complete: bool) -> Result<(), Failure> {
    let found = found.unwrap_or_default();
    if found.count > 0 {
        let message = format!("{} requests were answered differently", found.count);
        return Err(Failure::new(
            message + &classes(found.count, found.overlapped),
            "the result lists the requests; both servers need equal tables before the replay; use --unordered if only the order of rows without ORDER BY differs, and --lenient between two engines",
        ));
    }
    let (ended, counted) = (replay.ended_otherwise(), replay.counted_otherwise());
    if ended.count > 0 && complete {
        let message = format!(
            "{} transactions ended in another way than in the recording",
            ended.count
        );
        return Err(Failure::new(
            message + &classes(ended.count, ended.overlapped),
            "the result lists the errors; the replay needs the tables as they were when the recording began",
        ));
    }
    if counted.count > 0 && complete {
        let message = format!(
            "{} requests returned or changed another number of rows than in the recording",
            counted.count
        );
        return Err(Failure::new(
            message + &classes(counted.count, counted.overlapped),
            "the replay needs the tables as they were when the recording began; transactions that overlapped in the recording can also come in another order",
        ));
    }
    Ok(())
}

/// How many may be timing, and how many may not.
fn classes(count: u64, overlapped: u64) -> String {
    let ordered = count - overlapped;
    format!(
        " ({ordered} ordered; {overlapped} in transactions that overlapped others: these may be timing)"
    )
}
