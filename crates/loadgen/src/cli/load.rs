//! From options to a run and its results.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use wire::{Family, ServerUrl};

use super::options::{LoadOptions, OutputOptions, ServerOptions};
use super::server::look;
use crate::clock::MonotonicClock;
use crate::drive::{self, Finished, OnError};
use crate::failure::{Failure, Usage};
use crate::measure::{Collector, Names, ServerTime, connected_sums, server_time};
use crate::output::{self, About};
use crate::replay::{Meta, Recording, TraceWriter};
use crate::session::{Connector, Knobs, Shared};
use crate::sql::say;
use crate::workload::Workload;

/// How long to wait for the server's own account where the URL says nothing.
const ACCOUNT: Duration = Duration::from_secs(10);
/// What a shell expects of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// How to connect to the server that was named, for what is no load.
///
/// # Errors
/// A URL that cannot be used.
pub fn connector(server: &ServerOptions) -> Result<Connector, Usage> {
    let url = parse(server)?;
    Ok(Arc::new(move || {
        let mut connection = wire::connect(&url)?;
        // A server can begin its sessions with autocommit off, and nobody commits the rows that fill a table.
        if url.family == Family::Mysql {
            say(&mut *connection, "SET autocommit=1")?;
        }
        Ok(connection)
    }))
}

/// The server that a load is for, and how its statements are sent.
pub(super) struct Target {
    pub(super) family: Family,
    pub(super) connector: Connector,
    /// For the server's own account. Nothing waits long for it: the server may be standing still.
    account: Connector,
    pub(super) knobs: Knobs,
    pub(super) transport: output::Transport,
}

impl Target {
    /// # Errors
    /// What the server's protocol does not have.
    pub(super) fn of(url: ServerUrl, mut knobs: Knobs) -> Result<Self, Usage> {
        knobs.metadata = url.metadata;
        knobs.binary_results = url.binary_results;
        knobs.check(url.family)?;
        let hasty = hasty(&url);
        Ok(Self {
            family: url.family,
            transport: output::Transport::from(&url),
            connector: Arc::new(move || wire::connect(&url)),
            account: Arc::new(move || wire::connect(&hasty)),
            knobs,
        })
    }
}

/// The same server, with a limit on every wait.
fn hasty(url: &ServerUrl) -> ServerUrl {
    let mut hasty = url.clone();
    hasty.limits.connect = url.limits.connect.or(Some(ACCOUNT));
    hasty.limits.read = url.limits.read.or(Some(ACCOUNT));
    hasty
}

pub(super) fn parse(server: &ServerOptions) -> Result<ServerUrl, Usage> {
    let example = "for example mysql://root@/test?socket=/run/mysqld/mysqld.sock or postgres://user:password@127.0.0.1/test";
    ServerUrl::parse(&server.server).map_err(|error| Usage::new(error.to_string(), example))
}

/// Check the tables, run the load and put out its results.
///
/// # Errors
/// What stops the load before it began; what stops it later is in the results and the exit code.
pub fn run_workload(
    workload: Arc<dyn Workload>,
    options: &LoadOptions,
) -> anyhow::Result<ExitCode> {
    let plan = options.plan()?;
    let mut url = parse(&options.server)?;
    options.knobs.choose_in(&mut url);
    let target = Target::of(url, options.knobs.knobs()?)?;
    let server = look(&target, &*workload, &plan)?;
    options.output.check()?;
    let interrupt = interrupt_flag()?;
    let writer = match &options.record {
        None => None,
        Some(path) => {
            let meta = meta(&*workload, &server, &plan, &target.knobs)?;
            Some(TraceWriter::create(path, &meta, Arc::clone(&interrupt))?)
        }
    };
    let driven: Arc<dyn Workload> = match &writer {
        None => Arc::clone(&workload),
        Some(writer) => Arc::new(Recording::new(Arc::clone(&workload), Arc::clone(writer))),
    };
    let mut ran = perform(&driven, target, plan, &interrupt)?;
    let recorded = writer.map(|writer| writer.finish()).transpose();
    if let Err(failure) = &recorded {
        // It was the trace that ended the load, not Ctrl-C.
        ran.finished.interrupted = false;
        ran.finished.failure = Some(failure.message.clone());
    }
    let mut about = About::from(&*workload);
    about.options.extend(options.files());
    let result = ran.result(&about, server, &options.output);
    ran.put_out(&result, &about, &options.output)?;
    if let Some(ending) = recorded? {
        eprintln!(
            "recorded {} transactions, {} requests",
            ending.transactions, ending.statements
        );
    }
    ran.verdict()
}

/// A run that has ended.
pub(super) struct Ran {
    plan: drive::Plan,
    shared: Shared,
    pub(super) finished: Finished,
    server_time: ServerTime,
}

/// Drive a workload, with the live line, Ctrl-C and the server's own account.
pub(super) fn perform(
    workload: &Arc<dyn Workload>,
    target: Target,
    plan: drive::Plan,
    interrupt: &AtomicBool,
) -> anyhow::Result<Ran> {
    // Without it the system's refusal of one more connection says what is wrong.
    let _ = crate::sys::raise_file_limit();
    let shared = Shared {
        connector: target.connector,
        statements: workload.statements().into(),
        names: Arc::new(Names::new(workload.statements())),
        knobs: target.knobs,
        clock: Arc::new(MonotonicClock::start()),
    };
    let before = connected_sums(|| (target.account)());
    let mut live = Live::new(plan.warmup);
    let tick = &mut |collector: &Collector, elapsed_s| live.tick(collector, elapsed_s);
    let finished = drive::run(workload, &shared, plan.clone(), interrupt, tick)?;
    live.end();
    let after = connected_sums(|| (target.account)());
    Ok(Ran {
        server_time: server_time(before, after, &shared.statements),
        plan,
        shared,
        finished,
    })
}

impl Ran {
    pub(super) fn result(
        &self,
        about: &About<'_>,
        server: output::Server,
        options: &OutputOptions,
    ) -> output::Result {
        let time = self.server_time.clone();
        let latency = &self.finished.totals.latency;
        output::Result {
            latency_us_histogram: options.histogram.then(|| output::histogram(latency)),
            ..output::result(
                about,
                &self.shared,
                &self.plan,
                server,
                time,
                &self.finished,
            )
        }
    }

    /// The result on stdout, and the files that were asked for.
    pub(super) fn put_out(
        &self,
        result: &output::Result,
        about: &About<'_>,
        options: &OutputOptions,
    ) -> anyhow::Result<()> {
        let told = if options.json {
            output::tell(&serde_json::to_string_pretty(result)?)
        } else {
            output::tell(output::table(result, options.wide).trim_end())
        };
        let (names, finished) = (&self.shared.names, &self.finished);
        let hdr = options.hdr.as_deref().map_or(Ok(()), |path| {
            output::write_hdr(path, &about.transactions, names, finished)
        });
        let parquet = options.parquet.as_deref();
        let parquet = parquet.map_or(Ok(()), |path| output::write_parquet(path, finished));
        // All are tried: each may be on another disk.
        told.and(hdr).and(parquet)
    }

    /// How the run ended, as an exit code.
    pub(super) fn verdict(&self) -> anyhow::Result<ExitCode> {
        let finished = &self.finished;
        if let Some(failure) = &finished.failure {
            let goes_on = goes_on(finished.is_gone, self.plan.on_error);
            let hint = format!("the results so far are on stdout; {goes_on}");
            return Err(Failure::new(failure.clone(), hint).into());
        }
        if finished.stuck_connections > 0 {
            let message = format!(
                "{} connections got no answer within {} s after the end",
                finished.stuck_connections,
                self.plan.wait.as_secs_f64()
            );
            return Err(Failure::new(
                message,
                "check whether the server is stopped, or waits for a lock or a disk",
            )
            .into());
        }
        if is_behind(finished.totals.not_begun, self.plan.connections) {
            eprintln!(
                "WARNING: {} transactions were due and did not begin: the server was slow at the end, or it and these connections cannot keep --rate or --pace; the latencies include their waits",
                finished.totals.not_begun
            );
        }
        Ok(if finished.interrupted {
            ExitCode::from(INTERRUPTED)
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Whether so many that were due and did not begin tell something of the server. Any load ends in the midst of arrivals: each
/// connection may be about to begin one.
fn is_behind(not_begun: u64, connections: u32) -> bool {
    not_begun > u64::from(connections)
}

/// How a load goes on where this one ended. A replay goes on after errors in any case, and has no such option.
fn goes_on(is_gone: bool, on_error: OnError) -> &'static str {
    match on_error {
        _ if is_gone => "check whether the server is running and takes logins, and read its log",
        OnError::Stop => {
            "with --on-error continue and --on-disconnect reconnect the load counts such errors and goes on"
        }
        OnError::Continue => {
            "with --on-disconnect reconnect the load counts lost connections and goes on"
        }
    }
}

/// What stands at the beginning of a trace.
fn meta(
    workload: &dyn Workload,
    server: &output::Server,
    plan: &drive::Plan,
    knobs: &Knobs,
) -> anyhow::Result<Meta> {
    let names = workload.transactions().iter();
    Ok(Meta {
        workload: workload.name().to_owned(),
        family: server.family.clone(),
        version: server.version.clone(),
        connections: plan.connections,
        seed: plan.seed,
        knobs: serde_json::to_value(knobs)?,
        transactions: names.map(|name| (*name).to_owned()).collect(),
        statements: workload.statements().iter().map(Into::into).collect(),
    })
}

/// A flag that the first Ctrl-C sets; the second one ends the process at once.
pub(super) fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&interrupt),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&interrupt))?;
    }
    Ok(interrupt)
}

/// The live line: renewed each second, and only on a terminal.
struct Live {
    on: bool,
    /// Nothing is counted before.
    warmup_s: f64,
    shown_s: f64,
    transactions: u64,
}

impl Live {
    fn new(warmup: Duration) -> Self {
        Self {
            on: std::io::stderr().is_terminal(),
            warmup_s: warmup.as_secs_f64(),
            shown_s: 0.0,
            transactions: 0,
        }
    }

    fn tick(&mut self, collector: &Collector, elapsed_s: f64) {
        if self.on
            && let Some(line) = self.line(collector, elapsed_s)
        {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        }
    }

    /// None where the one before is not a second old.
    fn line(&mut self, collector: &Collector, elapsed_s: f64) -> Option<String> {
        let is_warming_up = elapsed_s < self.warmup_s;
        if !is_warming_up {
            self.shown_s = self.shown_s.max(self.warmup_s);
        }
        let since_s = elapsed_s - self.shown_s;
        if since_s < 1.0 {
            return None;
        }
        self.shown_s = elapsed_s;
        if is_warming_up {
            return Some(format!("{elapsed_s:.0} s: warm-up"));
        }
        let (transactions, p99_ns, errors) = collector.with(|totals| {
            let errors: u64 = totals.transactions.iter().map(|tally| tally.errors).sum();
            (
                totals.done_transactions(),
                totals.latency.value_at_quantile(0.99),
                errors,
            )
        });
        let tps = (transactions - self.transactions) as f64 / since_s;
        self.transactions = transactions;
        Some(format!(
            "{elapsed_s:.0} s: {tps:.0} transactions/s; so far p99 {} us, {errors} errors",
            p99_ns / 1000
        ))
    }

    fn end(&self) {
        if self.on {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::options::KnobOptions;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        knobs: KnobOptions,
    }

    #[test]
    fn an_option_goes_before_what_the_url_says() {
        for (url, option, expected) in [
            ("mysql://h/d", None, (true, false)),
            ("mysql://h/d", Some("--no-metadata"), (false, false)),
            ("mysql://h/d?metadata=off", None, (false, false)),
            (
                "mysql://h/d?metadata=off",
                Some("--metadata"),
                (true, false),
            ),
            ("postgres://h/d", Some("--binary-results"), (true, true)),
            ("postgres://h/d?binary-results=on", None, (true, true)),
            (
                "postgres://h/d?binary-results=on",
                Some("--no-binary-results"),
                (true, false),
            ),
        ] {
            let line = Line::parse_from(["load"].into_iter().chain(option));
            let mut url = ServerUrl::parse(url).expect("valid");
            line.knobs.choose_in(&mut url);
            let knobs = line.knobs.knobs().expect("choices of a load");
            let knobs = Target::of(url, knobs).expect("the server has it").knobs;
            assert_eq!(
                (knobs.metadata, knobs.binary_results),
                expected,
                "{option:?}"
            );
        }
    }

    #[test]
    fn what_is_due_as_a_load_ends_does_not_put_it_behind() {
        assert!(!is_behind(8, 8));
        assert!(is_behind(9, 8));
    }

    #[test]
    fn the_live_line_has_no_figures_in_the_warm_up() {
        let collector = Collector::new(0, 1);
        let mut live = Live::new(Duration::from_millis(2500));
        let mut line = |elapsed_s| live.line(&collector, elapsed_s);
        assert_eq!(line(2.1).as_deref(), Some("2 s: warm-up"));
        assert_eq!(line(2.4), None);
        collector.with(|totals| totals.transactions[0].count = 300);
        assert_eq!(line(3.4), None, "less than a second of it");
        let told = line(3.5).expect("a second of it");
        assert!(told.contains(" 300 transactions/s"), "{told}");
        let told = line(4.5).expect("a second more");
        assert!(told.contains(" 0 transactions/s"), "{told}");
    }

    #[test]
    fn nothing_waits_for_ever_for_the_servers_account() {
        for (options, connect, read) in [
            ("connect_timeout=0", ACCOUNT, ACCOUNT),
            (
                "connect_timeout=3&read_timeout=60",
                Duration::from_secs(3),
                Duration::from_secs(60),
            ),
        ] {
            let url = ServerUrl::parse(&format!("mysql://h/d?{options}")).expect("valid");
            let limits = hasty(&url).limits;
            assert_eq!((limits.connect, limits.read), (Some(connect), Some(read)));
        }
    }

    #[test]
    fn a_load_that_goes_on_after_errors_is_not_told_to() {
        assert!(goes_on(false, OnError::Stop).contains("--on-error"));
        assert!(!goes_on(false, OnError::Continue).contains("--on-error"));
    }

    #[test]
    fn a_load_whose_server_is_gone_is_told_of_no_option() {
        for on_error in [OnError::Stop, OnError::Continue] {
            assert!(!goes_on(true, on_error).contains("--"), "{on_error:?}");
        }
    }
}
