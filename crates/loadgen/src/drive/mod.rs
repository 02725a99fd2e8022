//! Runs a workload: the connections shared out among a few threads, all begun together after every one has logged in.

#[cfg(test)]
pub(crate) mod fakes;
mod plan;
mod run;
mod schedule;
#[cfg(test)]
mod tests;
mod thread;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use wire::Error;

pub use plan::{ArrivalProcess, Arrivals, OnDisconnect, OnError, Plan};

use crate::failure::Failure;
use crate::measure::{Collector, Totals};
use crate::session::Shared;
use crate::workload::Workload;
use run::Run;
use thread::Thread;
use worker::is_full;

/// So often the live line is renewed and Ctrl-C looked for.
const TICK: Duration = Duration::from_millis(100);
/// So long is waited for the last answers at least: those that are on their way when the load ends belong to it.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// So long is waited for each other connection where one was refused.
const OTHERS: Duration = Duration::from_secs(1);

/// What a run left.
#[derive(Debug)]
pub struct Finished {
    /// All measurements.
    pub totals: Totals,
    /// Length of the measured part.
    pub duration_s: f64,
    /// Ctrl-C ended it early.
    pub interrupted: bool,
    /// Why it ended early otherwise, or without its server.
    pub failure: Option<String>,
    /// That is because no connection could be made in place of a lost one: no option would have helped.
    pub is_gone: bool,
    /// Connections that still waited for an answer when the plan's wait after the end was over.
    pub stuck_connections: u32,
}

/// Holds the threads back until all are connected.
#[derive(Default)]
struct Gate {
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    /// Let the threads go: to work, or home.
    fn open(&self, to_work: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(to_work);
        self.changed.notify_all();
    }

    fn wait(&self) -> bool {
        let closed = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self
            .changed
            .wait_while(closed, |open| open.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        *open == Some(true)
    }
}

/// What a connection says; the last one says it for its thread.
enum Report {
    Connected,
    Refused(Error),
    Done,
    /// No memory for the stacks, or the like.
    NoThread(std::io::Error),
}

/// Run `workload` as planned. `tick` is called ten times a second with what was measured so far and the seconds since the load began.
///
/// # Errors
/// A connection that cannot be made, before anything was run. What goes wrong later is in [`Finished`].
pub fn run(
    workload: &Arc<dyn Workload>,
    shared: &Shared,
    plan: Plan,
    interrupt: &AtomicBool,
    tick: &mut dyn FnMut(&Collector, f64),
) -> anyhow::Result<Finished> {
    let collector = Collector::new(shared.names.all().len(), workload.transactions().len());
    let clock = Arc::clone(&shared.clock);
    let run = Arc::new(Run::new(plan, clock, collector));
    let gate = Arc::new(Gate::default());
    let (reports, inbox) = channel();
    let threads = run.plan.threads();
    for first in 0..threads {
        let thread = Thread {
            numbers: (first..run.plan.connections)
                .step_by(threads as usize)
                .collect(),
            workload: Arc::clone(workload),
            shared: shared.clone(),
            run: Arc::clone(&run),
            gate: Arc::clone(&gate),
            reports: reports.clone(),
        };
        if let Err(error) = thread.spawn() {
            gate.open(false);
            return Err(Failure::new(
                format!("cannot start thread {first}: {error}"),
                "use fewer --connections",
            )
            .into());
        }
    }
    drop(reports);
    if let Err(error) = all_connected(&inbox, &run) {
        gate.open(false);
        return Err(error);
    }
    run.begin();
    gate.open(true);
    Ok(finish(&run, &**workload, &inbox, interrupt, tick))
}

/// Wait until every connection has logged in.
fn all_connected(inbox: &Receiver<Report>, run: &Run) -> anyhow::Result<()> {
    for number in 0..run.plan.connections {
        match inbox.recv() {
            Ok(Report::Connected) => {}
            Ok(Report::Refused(error)) => {
                let wanted = run.plan.connections;
                let connected = number + connected_beside(inbox, wanted - number - 1);
                return Err(refused(&error, connected, wanted).into());
            }
            Ok(Report::NoThread(error)) => {
                let hint = "use fewer --connections";
                return Err(
                    Failure::new(format!("cannot run the connections: {error}"), hint).into(),
                );
            }
            Ok(Report::Done) | Err(_) => {
                anyhow::bail!("a connection's thread ended before the load began")
            }
        }
    }
    Ok(())
}

/// How many of so many others have logged in: a refusal is told faster than a login ends. Nobody waits for one that gets no answer.
fn connected_beside(inbox: &Receiver<Report>, others: u32) -> u32 {
    let reports = (0..others).map_while(|_| inbox.recv_timeout(OTHERS).ok());
    let connected = reports.filter(|report| matches!(report, Report::Connected));
    connected.count() as u32
}

/// What a refused login means, and what to do.
#[must_use]
pub fn refused(error: &Error, connected: u32, wanted: u32) -> Failure {
    let hint = match error {
        error if is_full(error) => {
            "raise max_connections on the server, or use fewer --connections"
        }
        Error::Server {
            code: 1045 | 1698, ..
        } => "check user and password in --server mysql://USER:PASSWORD@HOST/DATABASE",
        Error::Server { sqlstate, .. } if sqlstate.starts_with("28") => {
            "check user and password in --server postgres://USER:PASSWORD@HOST/DATABASE, and pg_hba.conf"
        }
        Error::Server {
            code: 1049 | 1044, ..
        } => "create the database first (CREATE DATABASE ...), or name another in --server",
        Error::Server { sqlstate, .. } if sqlstate == "3D000" => {
            "create the database first (CREATE DATABASE ...), or name another in --server"
        }
        Error::Io(_) => "check that the server is running, and host, port and socket in --server",
        Error::Tls(_) => {
            "tls=verify needs a certificate that names the host of --server and that one of tls-ca has signed; tls=verify-ca needs only the second, because the certificates that MySQL and MariaDB make for themselves name no host; tls=required needs neither"
        }
        Error::Unsupported(_) | Error::Url(_) => {
            "docs/reference/load.md has the options of --server, and says which of them allow which passwords"
        }
        _ => "see the server's log",
    };
    let why = unconnected(error);
    let message = match wanted {
        1 => format!("cannot connect: {why}"),
        _ => format!("cannot connect: {why} (after {connected} of {wanted} connections)"),
    };
    Failure::new(message, hint)
}

/// Why a connection could not be made: nothing was lost yet.
fn unconnected(error: &Error) -> String {
    match error {
        Error::Io(why) => why.to_string(),
        other => other.to_string(),
    }
}

/// Wait for the end of the load, and put the results together.
fn finish(
    run: &Run,
    workload: &dyn Workload,
    inbox: &Receiver<Report>,
    interrupt: &AtomicBool,
    tick: &mut dyn FnMut(&Collector, f64),
) -> Finished {
    let mut working = run.plan.connections;
    let wait_ns = run.plan.wait.max(WAIT_MIN).as_nanos() as u64;
    while working > 0 {
        let first = match inbox.recv_timeout(TICK) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => None,
        };
        // Read before all that was told is taken: what came in time is not stuck, however much there is of it.
        let now_ns = run.clock.now_ns();
        for report in first.into_iter().chain(inbox.try_iter()) {
            working = working.saturating_sub(1);
            if let Report::NoThread(error) = report {
                run.fail(format!("cannot run the connections: {error}"));
            }
        }
        if interrupt.load(Ordering::Relaxed) && !run.is_interrupted() {
            run.interrupt();
        }
        let elapsed_ns = now_ns.saturating_sub(run.begin_ns());
        tick(&run.collector, elapsed_ns as f64 / 1e9);
        // Those that are parked have nothing to tell and would sleep on after Ctrl-C.
        let ended = now_ns >= run.end_ns();
        if ended && working == run.parked.load(Ordering::SeqCst) {
            working = 0;
        }
        if now_ns > run.end_ns().saturating_add(wait_ns) {
            break;
        }
    }
    run.drain(workload);
    let ended_ns = run.end_ns().min(run.clock.now_ns());
    let measured_ns = ended_ns.saturating_sub(run.measure_ns());
    let (failure, is_gone) = run.take_failure().unzip();
    Finished {
        totals: run.collector.totals(),
        duration_s: measured_ns as f64 / 1e9,
        interrupted: run.is_interrupted(),
        failure,
        is_gone: is_gone.unwrap_or_default(),
        stuck_connections: working - run.parked.load(Ordering::SeqCst).min(working),
    }
}
