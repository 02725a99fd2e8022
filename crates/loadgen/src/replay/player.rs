//! Runs a trace's transactions again: one thread a connection, each in the recorded order.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use wire::{BatchWay, Done, Error};

use super::canonical::ResultHash;
use super::digest::{Answer, State};
use super::tape::Event;
use super::trace::{Recorded, Trace};
use crate::drive::{Finished, OnDisconnect, refused};
use crate::measure::{Collector, Recorder, TransactionRecord};
use crate::session::{Session, Shared};
use crate::sys;
use crate::workload::Outcome;

/// So often is one transaction run again after a deadlock before it is given up as an error.
const RETRIES_MAX: u64 = 100;
/// So often the live line is renewed and Ctrl-C looked for.
const TICK: Duration = Duration::from_millis(100);
/// A connection that waits, for its turn or for a server that is gone, looks so often whether the replay was stopped.
const LOOK_NS: u64 = 50_000_000;

/// When a replay's transactions begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// Each when the one before it on its connection has ended.
    Fast,
    /// As long after the first as when it was recorded, or as soon after that as its connection is free.
    Recorded,
}

/// How to replay.
#[derive(Debug, Clone, Copy)]
pub struct PlayerPlan {
    /// Connections. Recorded connection n runs on connection n modulo this.
    pub connections: u32,
    /// When transactions begin.
    pub pace: Pace,
    /// When a connection is lost.
    pub on_disconnect: OnDisconnect,
    /// Keep the answers.
    pub answers: bool,
    /// Rows may come in any order.
    pub unordered: bool,
}

/// What a replay left.
#[derive(Debug)]
pub struct Played {
    /// All measurements.
    pub finished: Finished,
    /// The answers, in the order of the requests, if they were to be kept.
    pub answers: Vec<Answer>,
    /// Transactions that ended well when they were recorded and not now, or the other way round.
    pub ended_otherwise: u64,
}

/// What the connections share.
struct Stage<'a> {
    trace: &'a Trace,
    plan: PlayerPlan,
    shared: &'a Shared,
    /// When the replay begins.
    begin_ns: u64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Stage<'_> {
    fn fail(&self, message: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(message);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Wait until a transaction may begin; the moment from which its latency counts, none if the replay is stopped first.
    fn wait_for(&self, recorded: &Recorded<'_>) -> Option<u64> {
        let clock = &self.shared.clock;
        let scheduled_ns = match self.plan.pace {
            Pace::Fast => clock.now_ns(),
            Pace::Recorded => self.begin_ns + self.trace.since_first(recorded).as_nanos() as u64,
        };
        while !self.stopped() {
            let now_ns = clock.now_ns();
            if now_ns >= scheduled_ns {
                return Some(scheduled_ns);
            }
            clock.sleep_until(scheduled_ns.min(now_ns + LOOK_NS));
        }
        None
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Replay `trace`. `tick` is called ten times a second with what was measured so far and the seconds since the replay began.
///
/// # Errors
/// A connection that cannot be made, before anything was run. What goes wrong later is in [`Played`].
pub fn play(
    trace: &Trace,
    shared: &Shared,
    plan: PlayerPlan,
    interrupt: &AtomicBool,
    tick: &mut dyn FnMut(&Collector, f64),
) -> anyhow::Result<Played> {
    let collector = Collector::new(shared.names.all().len(), trace.meta.transactions.len());
    let mut sessions = Vec::new();
    for number in 0..plan.connections {
        let mut recorder = Recorder::new(Arc::clone(&collector));
        recorder.start();
        let session = Session::open(shared.clone(), recorder)
            .map_err(|error| refused(&error, number, plan.connections))?;
        sessions.push(session);
    }
    let begin_ns = shared.clock.now_ns();
    let stage = Stage {
        trace,
        plan,
        shared,
        begin_ns,
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    collector.set_zero(begin_ns);
    let elapsed_s = || shared.clock.now_ns().saturating_sub(begin_ns) as f64 / 1e9;
    let (reports, inbox) = channel();
    let mut answers = Vec::new();
    let mut ended_otherwise = 0;
    let mut interrupted = false;
    std::thread::scope(|scope| {
        for (number, session) in sessions.into_iter().enumerate() {
            let (reports, stage) = (reports.clone(), &stage);
            scope.spawn(move || {
                let mut player = Player::new(stage, session);
                player.play(number as u32);
                // The other end outlives all threads.
                let _ = reports.send((player.answers, player.ended_otherwise));
            });
        }
        drop(reports);
        loop {
            match inbox.recv_timeout(TICK) {
                Ok((more, otherwise)) => {
                    answers.extend(more);
                    ended_otherwise += otherwise;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.load(Ordering::Relaxed) {
                interrupted = true;
                stage.stop.store(true, Ordering::Relaxed);
            }
            tick(&collector, elapsed_s());
        }
    });
    answers.sort_unstable_by_key(|answer| answer.ordinal);
    let failure = stage
        .failure
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let finished = Finished {
        totals: collector.totals(),
        duration_s: elapsed_s(),
        interrupted,
        failure,
        stuck_connections: 0,
    };
    Ok(Played {
        finished,
        answers,
        ended_otherwise,
    })
}

/// One connection.
struct Player<'a> {
    stage: &'a Stage<'a>,
    session: Session,
    hash: ResultHash,
    answers: Vec<Answer>,
    ended_otherwise: u64,
}

impl<'a> Player<'a> {
    fn new(stage: &'a Stage<'a>, session: Session) -> Self {
        Self {
            stage,
            session,
            hash: ResultHash::new(stage.plan.unordered),
            answers: Vec::new(),
            ended_otherwise: 0,
        }
    }

    fn play(&mut self, number: u32) {
        // Without it sleeps end up to 50 us late, which the result then shows as lag: worse, but true.
        let _ = sys::sleep_exactly();
        let cpu_ns = sys::thread_cpu_ns();
        let read = self.stage.trace.each(|recorded| {
            if self.stage.stopped() {
                return ControlFlow::Break(());
            }
            if recorded.connection % self.stage.plan.connections == number {
                self.transaction(&recorded);
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.stage.fail(error.to_string());
        }
        let recorder = self.session.recorder();
        recorder.cpu(sys::thread_cpu_ns() - cpu_ns);
        recorder.flush();
    }

    fn transaction(&mut self, recorded: &Recorded<'_>) {
        let events = match recorded.events() {
            Ok(events) => events,
            Err(error) => return self.stage.fail(error.to_string()),
        };
        let Some(scheduled_ns) = self.stage.wait_for(recorded) else {
            return;
        };
        let began_ns = match self.stage.plan.pace {
            Pace::Fast => scheduled_ns,
            Pace::Recorded => self.stage.shared.clock.now_ns(),
        };
        let mut retries = 0;
        let kept = self.answers.len();
        let outcome = loop {
            self.answers.truncate(kept);
            let outcome = self.attempt(recorded, &events);
            match outcome {
                Err(error) if error.is_retryable() && retries < RETRIES_MAX => {
                    match self.session.rollback() {
                        Ok(()) => retries += 1,
                        Err(error) => break Err(error),
                    }
                }
                outcome => break outcome,
            }
        };
        let record = TransactionRecord {
            kind: recorded.kind,
            scheduled_ns,
            began_ns,
            ended_ns: self.stage.shared.clock.now_ns(),
            outcome: outcome.as_ref().ok().copied(),
            retries,
        };
        self.session.recorder().transaction(record);
        if outcome.is_err() != recorded.refused {
            self.ended_otherwise += 1;
        }
        match outcome {
            Err(error) => self.recover(&error),
            // The recorded client rolled back here: what went well this time must not stay.
            Ok(_) if recorded.refused => self.roll_back(),
            Ok(_) => {}
        }
    }

    /// Send the requests up to the first that fails; the others count as skipped.
    fn attempt(&mut self, recorded: &Recorded<'_>, events: &[Event]) -> Result<Outcome, Error> {
        let mut outcome = Outcome::Committed;
        let mut failure = None;
        for (ordinal, event) in (recorded.ordinal..).zip(events) {
            if failure.is_some() {
                self.note(ordinal, State::Skipped, Done::default());
                continue;
            }
            if *event == Event::Rollback {
                outcome = Outcome::RolledBack;
            }
            match self.send(event) {
                Ok(done) => self.note(ordinal, State::Ok, done),
                Err(error) => {
                    self.note(ordinal, state(&error), Done::default());
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(outcome), Err)
    }

    fn send(&mut self, event: &Event) -> Result<Done, Error> {
        let nothing = |()| Done::default();
        match event {
            Event::Begin => self.session.begin().map(nothing),
            Event::Commit => self.session.commit().map(nothing),
            Event::Rollback => self.session.rollback().map(nothing),
            Event::Statement { id, parameters } if self.stage.plan.answers => {
                self.session.rows(*id, parameters, &mut self.hash)
            }
            Event::Statement { id, parameters } => self.session.run(*id, parameters),
            Event::Batch { id, rows, way } => match self.session.batch(*id, rows, *way) {
                // The recorded server offered another way than this one.
                Err(Error::Unsupported(_)) => self.session.batch(*id, rows, BatchWay::Single),
                done => done,
            },
        }
    }

    fn note(&mut self, ordinal: u64, state: State, done: Done) {
        if !self.stage.plan.answers {
            return;
        }
        let (rows, hash) = self.hash.take();
        // What was read of a result before it failed depends on the server's buffers.
        let (rows, hash) = if state == State::Ok {
            (rows, hash)
        } else {
            (0, 0)
        };
        let affected = done.affected;
        self.answers.push(Answer {
            ordinal,
            state,
            rows,
            affected,
            hash,
        });
    }

    fn roll_back(&mut self) {
        if let Err(error) = self.session.rollback() {
            self.recover(&error);
        }
    }

    /// After a transaction that failed: undo it, or connect again.
    fn recover(&mut self, error: &Error) {
        if !error.is_disconnect() {
            return match self.session.rollback() {
                Err(lost) if lost.is_disconnect() => self.recover(&lost),
                _ => {}
            };
        }
        if self.stage.plan.on_disconnect == OnDisconnect::Stop {
            return self.stage.fail(error.to_string());
        }
        let clock = &self.stage.shared.clock;
        while !self.stage.stopped() {
            match self.session.reconnect() {
                Ok(()) => return self.session.recorder().reconnected(),
                Err(error) if !error.is_disconnect() => return self.stage.fail(error.to_string()),
                Err(_) => clock.sleep_until(clock.now_ns() + LOOK_NS),
            }
        }
    }
}

fn state(error: &Error) -> State {
    match error {
        Error::Server { sqlstate, .. } if !error.is_disconnect() => {
            State::Refused(sqlstate.clone())
        }
        Error::Unsupported(_) => State::Refused("0A000".to_owned()),
        _ => State::Lost,
    }
}
