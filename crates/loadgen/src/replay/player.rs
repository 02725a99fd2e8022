//! A trace as a workload: its transactions run again, each recorded connection's in their order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value};
use wire::{BatchWay, Connection, Done, Error};

use super::answers::Answers;
use super::canonical::ResultHash;
use super::digest::{Answer, Differences, State};
use super::feed::{Feed, Job};
use super::tape::Event;
use super::trace::Trace;
use crate::failure::Failure;
use crate::session::{Session, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

/// When a replay's transactions begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Each when the one before it on its connection has ended.
    Fast,
    /// As long after the first as when it was recorded, or as soon after that as its connection is free.
    Recorded,
}

/// How a trace is to be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// When transactions begin.
    pub pace: Pace,
    /// Rows may come in any order.
    pub unordered: bool,
    /// What two engines write differently counts as equal.
    pub lenient: bool,
}

/// A trace that is run again. Recorded connection n runs on connection n modulo their number.
pub struct Replay {
    name: String,
    trace: Arc<Trace>,
    statements: Vec<StatementSpec>,
    kinds: Vec<&'static str>,
    connections: u32,
    shared: Arc<Shared>,
}

/// What the clients share.
struct Shared {
    choices: Choices,
    feed: Feed,
    answers: Mutex<Option<Arc<Answers>>>,
    /// Transactions that ended well when they were recorded and not now, or the other way round.
    ended_otherwise: AtomicU64,
}

impl Replay {
    /// Replay `trace` on so many connections.
    ///
    /// # Errors
    /// A file that has changed since it was opened.
    pub fn new(trace: &Arc<Trace>, connections: u32, choices: Choices) -> anyhow::Result<Self> {
        let kinds = trace.meta.transactions.iter();
        Ok(Self {
            name: format!("replay of {}", trace.meta.workload),
            trace: Arc::clone(trace),
            statements: trace.meta.statements.iter().map(|one| one.spec()).collect(),
            // A handful of names, once a process.
            kinds: kinds.map(|kind| &*kind.clone().leak()).collect(),
            connections,
            shared: Arc::new(Shared {
                choices,
                feed: Feed::new(trace, connections)?,
                answers: Mutex::new(None),
                ended_otherwise: AtomicU64::new(0),
            }),
        })
    }

    /// Keep the answers of the clients that are made from now on.
    pub fn keep(&self, answers: Answers) {
        *self.shared.answers() = Some(Arc::new(answers));
    }

    /// After the run: what the comparison found, if there was one, and the digest is complete.
    ///
    /// # Errors
    /// A trace or digest that could not be read, a digest that could not be written.
    pub fn finish(&self) -> anyhow::Result<Option<Differences>> {
        if let Some(failure) = self.shared.feed.failure() {
            anyhow::bail!(failure);
        }
        let answers = self.shared.answers().take();
        let answers = answers.and_then(Arc::into_inner);
        answers.map_or(Ok(None), Answers::finish)
    }

    /// Transactions that ended well when they were recorded and not now, or the other way round.
    #[must_use]
    pub fn ended_otherwise(&self) -> u64 {
        self.shared.ended_otherwise.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn answers(&self) -> std::sync::MutexGuard<'_, Option<Arc<Answers>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workload for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn transactions(&self) -> &[&'static str] {
        &self.kinds
    }

    /// Whether the server takes every statement of the trace.
    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        for spec in &self.statements {
            match connection.prepare(&spec.sql) {
                Ok(statement) => connection.close(statement)?,
                Err(Error::Server { message, .. }) => {
                    let message = format!(
                        "the server does not take {} ({}): {message}",
                        spec.name, spec.sql
                    );
                    let hint = format!(
                        "make the tables and rows that the recording of {} began with: a copy of that database, or the same prepare",
                        self.trace.meta.workload
                    );
                    return Err(Failure::new(message, hint).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn client(&self, number: u32, _connections: u32) -> Box<dyn Client> {
        let answers = self.shared.answers().clone();
        Box::new(Player {
            hash: ResultHash::new(self.shared.choices.unordered, self.shared.choices.lenient),
            shared: Arc::clone(&self.shared),
            place: number as usize,
            job: None,
            kept: Vec::new(),
            answers,
        })
    }

    fn options(&self) -> Map<String, Value> {
        let Choices {
            pace,
            unordered,
            lenient,
        } = self.shared.choices;
        let mut options = Map::new();
        options.insert(
            "trace".into(),
            self.trace.path().display().to_string().into(),
        );
        options.insert("pace".into(), serde_json::json!(pace));
        options.insert("unordered".into(), unordered.into());
        options.insert("lenient".into(), lenient.into());
        options
    }

    fn notes(&self) -> Vec<String> {
        let trace = &self.trace;
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
        if trace.overlapped > 0 {
            let how = if self.connections == 1 {
                "they ran one after the other, in the order in which they ended"
            } else {
                "what they read of each other can differ from the recording"
            };
            notes.push(format!(
                "{} of {} transactions overlapped another one when they were recorded: {how}",
                trace.overlapped, trace.ending.transactions
            ));
        }
        if self.connections > 1 {
            notes.push("each connection keeps its recorded order; the connections are not ordered among each other".to_owned());
        }
        notes
    }
}

/// One connection.
struct Player {
    shared: Arc<Shared>,
    place: usize,
    hash: ResultHash,
    job: Option<Job>,
    /// The answers to the transaction at hand.
    kept: Vec<Answer>,
    answers: Option<Arc<Answers>>,
}

impl Client for Player {
    fn is_ready(&mut self) -> bool {
        self.shared.feed.is_ready(self.place)
    }

    fn draw(&mut self, _random: &mut Random) -> Option<TransactionKind> {
        self.job = self.shared.feed.next(self.place);
        self.job.as_ref().map(|job| job.kind)
    }

    fn due(&self) -> Option<Duration> {
        match self.shared.choices.pace {
            Pace::Fast => None,
            Pace::Recorded => self.job.as_ref().map(|job| job.since_first),
        }
    }

    /// Send the requests up to the first that fails; the others count as skipped.
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        let Some(job) = self.job.take() else {
            return Ok(Outcome::Committed);
        };
        self.kept.clear();
        let mut outcome = Ok(Outcome::Committed);
        for (ordinal, event) in (job.ordinal..).zip(&job.events) {
            if outcome.is_err() {
                self.note(ordinal, State::Skipped, Done::default());
                continue;
            }
            match self.send(session, event) {
                Ok(done) => self.note(ordinal, State::Ok, done),
                Err(error) => {
                    self.note(ordinal, state(&error), Done::default());
                    outcome = Err(error);
                    continue;
                }
            }
            if *event == Event::Rollback {
                outcome = Ok(Outcome::RolledBack);
            }
        }
        let undo = job.refused && outcome.is_ok();
        self.job = Some(job);
        if undo {
            // The recorded client rolled back here: what went well this time must not stay.
            session.rollback()?;
            return Ok(Outcome::RolledBack);
        }
        outcome
    }

    fn ended(&mut self, outcome: &Result<Outcome, Error>, _session: &mut Session) {
        let Some(job) = self.job.take() else { return };
        if outcome.is_err() != job.refused {
            self.shared.ended_otherwise.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(answers) = &self.answers {
            answers.add(job.ordinal, std::mem::take(&mut self.kept));
        }
        self.shared.feed.ended(job.ordinal);
    }
}

impl Player {
    fn send(&mut self, session: &mut Session, event: &Event) -> Result<Done, Error> {
        let nothing = |()| Done::default();
        match event {
            Event::Begin => session.begin().map(nothing),
            Event::Commit => session.commit().map(nothing),
            Event::Rollback => session.rollback().map(nothing),
            Event::Statement { id, parameters } if self.answers.is_some() => {
                session.rows(*id, parameters, &mut self.hash)
            }
            Event::Statement { id, parameters } => session.run(*id, parameters),
            Event::Batch { id, rows, way } => match session.batch(*id, rows, *way) {
                // The recorded server offered another way than this one.
                Err(Error::Unsupported(_)) => session.batch(*id, rows, BatchWay::Single),
                done => done,
            },
        }
    }

    fn note(&mut self, ordinal: u64, state: State, done: Done) {
        if self.answers.is_none() {
            return;
        }
        let (rows, hash) = self.hash.take();
        // What was read of a result before it failed depends on the server's buffers.
        let (rows, hash) = if state == State::Ok {
            (rows, hash)
        } else {
            (0, 0)
        };
        self.kept.push(Answer {
            ordinal,
            state,
            rows,
            affected: done.affected,
            warnings: done.warnings,
            last_insert_id: done.last_insert_id,
            hash,
        });
    }
}

fn state(error: &Error) -> State {
    match error {
        Error::Server { code, sqlstate, .. } if !error.is_disconnect() => State::Refused {
            code: *code,
            sqlstate: sqlstate.clone(),
        },
        Error::Unsupported(_) => State::Refused {
            code: 0,
            sqlstate: "0A000".to_owned(),
        },
        _ => State::Lost,
    }
}
