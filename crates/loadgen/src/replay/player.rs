//! A trace as a workload: its transactions run again, each after all that had ended when it began.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use wire::passive::Verb;
use wire::{BatchWay, Connection, Done, Error, Family};

use super::answers::Answers;
use super::canonical::ResultHash;
use super::cells::Cells;
use super::choices::{Choices, Loop, Pace};
use super::digest::{Answer, Differences, State};
use super::feed::{Feed, Job, Order};
use super::pace::Pauses;
use super::reads;
use super::tape::{Event, Step};
use super::trace::Trace;
use crate::failure::Failure;
use crate::session::{RowsMode, Session, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

mod check;
mod otherwise;

pub use otherwise::Otherwise;

use otherwise::Divergence;

/// A trace that is run again. Recorded connection n runs on connection n modulo their number, unless there is no order to keep.
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
    trace: Arc<Trace>,
    choices: Choices,
    feed: Feed,
    answers: Mutex<Option<Arc<Answers>>>,
    /// Transactions that ended well when they were recorded and not now, or the other way round.
    ended_otherwise: Divergence,
    /// Requests that returned or changed another number of rows than when they were recorded.
    counted_otherwise: Divergence,
}

impl Replay {
    /// Replay `trace` on so many connections.
    ///
    /// # Errors
    /// A file that has changed since it was opened; a trace that changes rows where only reads may begin again.
    pub fn new(
        trace: &Arc<Trace>,
        family: Family,
        connections: u32,
        choices: Choices,
    ) -> anyhow::Result<Self> {
        if choices.loops == Some(Loop::Reads)
            && let Some(change) = reads::first_change(trace)?
        {
            let message = format!(
                "{change} changes rows or the session: a second lap would not find the same data as the first"
            );
            let hint =
                "--loop always repeats any trace; without --loop the replay ends with the trace";
            return Err(Failure::new(message, hint).into());
        }
        let kinds = trace.meta.transactions.iter();
        let statements = trace.meta.statements.iter();
        Ok(Self {
            name: format!("replay of {}", trace.meta.workload),
            trace: Arc::clone(trace),
            statements: statements
                .map(|one| StatementSpec {
                    database: one.database.clone().filter(|_| choices.follows),
                    ..one.spec(family)
                })
                .collect(),
            // A handful of names, once a process.
            kinds: kinds.map(|kind| &*kind.clone().leak()).collect(),
            connections,
            shared: Arc::new(Shared {
                trace: Arc::clone(trace),
                choices,
                feed: Feed::new(trace, connections, choices.order, choices.loops.is_some())?,
                answers: Mutex::new(None),
                ended_otherwise: Divergence::default(),
                counted_otherwise: Divergence::default(),
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
    pub fn ended_otherwise(&self) -> Otherwise {
        self.shared.ended_otherwise.counts()
    }

    /// Requests that returned or changed another number of rows than when they were recorded.
    #[must_use]
    pub fn counted_otherwise(&self) -> Otherwise {
        self.shared.counted_otherwise.counts()
    }

    /// How often the trace was sent from its beginning to its end.
    #[must_use]
    pub fn laps(&self) -> u64 {
        self.shared.feed.laps()
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

    /// Whether the server takes the statements of the trace.
    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        check::check(&self.trace, &self.statements, connection)
    }

    fn client(&self, number: u32, _connections: u32) -> Box<dyn Client> {
        let answers = self.shared.answers().clone();
        Box::new(Player {
            hash: ResultHash::new(self.shared.choices.unordered, self.shared.choices.lenient),
            shared: Arc::clone(&self.shared),
            place: number as usize,
            is_used: false,
            job: None,
            failed: None,
            kept: Vec::new(),
            counted_otherwise: 0,
            answers,
        })
    }

    fn options(&self) -> Map<String, Value> {
        let Choices {
            order,
            pace,
            loops,
            unordered,
            lenient,
            chatter,
            reconnect,
            follows: _,
        } = self.shared.choices;
        let mut options = Map::new();
        options.insert(
            "trace".into(),
            self.trace.path().display().to_string().into(),
        );
        options.insert("order".into(), serde_json::json!(order));
        options.insert("pace".into(), pace.to_string().into());
        options.insert("loop".into(), serde_json::json!(loops));
        options.insert("unordered".into(), unordered.into());
        options.insert("lenient".into(), lenient.into());
        options.insert("chatter".into(), chatter.into());
        options.insert("reconnect".into(), reconnect.into());
        options
    }

    fn missed(&self, end: Duration) -> Box<dyn Iterator<Item = Duration>> {
        match self.shared.choices.pace {
            Pace::Fast => Box::new(std::iter::empty()),
            Pace::Recorded(times) => Box::new(self.shared.feed.missed(end, times)),
        }
    }

    fn notes(&self) -> Vec<String> {
        let trace = &self.trace;
        let mut notes = Vec::new();
        if !trace.whole {
            notes.push("the trace is truncated: only its complete blocks were replayed".to_owned());
        }
        if trace.ending.lost > 0 {
            notes.push(format!(
                "{} transactions are not in the trace, because their connections were lost while it was recorded",
                trace.ending.lost
            ));
        }
        if trace.overlapped > 0 {
            let how = match self.shared.choices.order {
                _ if self.connections == 1 => ONE_BY_ONE,
                Order::Serial => ONE_BY_ONE,
                Order::Commit => {
                    "what they read and change of each other can differ from the recording"
                }
                Order::Own | Order::Off => {
                    "what they read and change of others can differ from the recording, \
                     as it can for all others in this order"
                }
            };
            notes.push(format!(
                "{} of {} transactions overlapped another one when they were recorded: {how}",
                trace.overlapped, trace.ending.transactions
            ));
        }
        notes
    }
}

const ONE_BY_ONE: &str = "they ran one after the other, in the order in which they ended";

/// One connection.
struct Player {
    shared: Arc<Shared>,
    place: usize,
    /// A transaction was sent on the connection.
    is_used: bool,
    hash: ResultHash,
    job: Option<Job>,
    /// The request of the transaction at hand that failed.
    failed: Option<u64>,
    /// The answers to the transaction at hand.
    kept: Vec<Answer>,
    /// Of the transaction at hand.
    counted_otherwise: u64,
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
            Pace::Recorded(times) => {
                let job = self.job.as_ref()?;
                Some(job.since_first.div_f64(times))
            }
        }
    }

    /// Send the requests up to the first that fails; the others count as skipped.
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        let Some(mut job) = self.job.take() else {
            return Ok(Outcome::Committed);
        };
        self.kept.clear();
        self.failed = None;
        self.counted_otherwise = 0;
        let last = job.last();
        let mut outcome = self.log_in(session, &mut job).map(|()| Outcome::Committed);
        let mut pauses = Pauses::new(self.shared.choices.pace, session);
        let begins = job.refused && self.is_alone(&job.steps, session.family());
        for (ordinal, step) in (job.ordinal..).zip(&job.steps) {
            if outcome.is_err() {
                self.note(ordinal, State::Skipped, Done::default());
                continue;
            }
            pauses.wait(step.pause, session);
            let event = &step.event;
            let of_session = self.is_about_session(event);
            let was_refused = job.refused && ordinal == last;
            if self.leaves_out(event, was_refused) {
                self.note(ordinal, State::Session, Done::default());
                continue;
            }
            // Outside of a transaction the statement would commit by itself, and no ROLLBACK would undo it.
            let begun = match begins && ordinal == last {
                true => session.begin(),
                false => Ok(()),
            };
            match begun.and_then(|()| self.send(session, event)) {
                Ok(_) if of_session => self.note(ordinal, State::Session, Done::default()),
                Ok(done) => {
                    if !was_refused && self.counts_otherwise(event, done, session) {
                        self.counted_otherwise += 1;
                    }
                    self.note(ordinal, State::Ok, done);
                }
                Err(error) => {
                    let state = match of_session && !error.is_disconnect() {
                        true => State::Session,
                        false => state(&error),
                    };
                    self.note(ordinal, state, Done::default());
                    self.failed = Some(ordinal);
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
        // The refused request is its last, and what is not sent is not refused.
        let last = job.steps.last();
        let left_out = last.is_some_and(|step| self.leaves_out(&step.event, job.refused));
        let as_recorded = match outcome {
            Ok(_) => !job.refused || left_out,
            Err(error) => job.refused && self.failed == Some(job.last()) && !error.is_disconnect(),
        };
        if !as_recorded {
            self.shared.ended_otherwise.add(job.overlapped, 1);
        }
        let counted = &self.shared.counted_otherwise;
        counted.add(job.overlapped, self.counted_otherwise);
        if let Some(answers) = &self.answers {
            answers.add(job.ordinal, job.overlapped, std::mem::take(&mut self.kept));
        }
        self.shared.feed.ended(&job);
    }
}

impl Player {
    /// A connection of its own for each that was recorded, where that is asked for. The first has it already.
    fn log_in(&mut self, session: &mut Session, job: &mut Job) -> Result<(), Error> {
        let was_used = std::mem::replace(&mut self.is_used, true);
        // A transaction that is run again has its connection.
        let is_first = std::mem::take(&mut job.is_first);
        if was_used && is_first && self.shared.choices.reconnect {
            session.reconnect()?;
        }
        Ok(())
    }

    /// Whether a request sets or asks the session, and no row of a table.
    fn is_about_session(&self, event: &Event) -> bool {
        match event {
            Event::Ping | Event::Reset => true,
            Event::Statement { id, .. } => {
                self.shared.trace.meta.statements[usize::from(id.0)].of_session
            }
            _ => false,
        }
    }

    /// Whether a request is not sent. A COMMIT that the recorded server refused may succeed now, and no ROLLBACK would undo it.
    fn leaves_out(&self, event: &Event, was_refused: bool) -> bool {
        let is_chatter = self.is_about_session(event);
        (was_refused && *event == Event::Commit) || (is_chatter && !self.shared.choices.chatter)
    }

    /// Whether the last request is a statement without a BEGIN before it that changes all of its rows or none. Several statements of one text
    /// commit one by one on MySQL, and those of a procedure, too: what came before the refused one has stayed.
    fn is_alone(&self, steps: &[Step], family: Family) -> bool {
        let Some(Event::Statement { id, .. } | Event::Batch { id, .. }) =
            steps.last().map(|step| &step.event)
        else {
            return false;
        };
        let recorded = &self.shared.trace.meta.statements[usize::from(id.0)];
        let several = recorded.way.is_some_and(|way| way.several) && family == Family::Mysql;
        let calls = wire::sql::verb(family, recorded.sql.as_bytes()) == Verb::Call;
        let begun = steps.iter().any(|step| step.event == Event::Begin);
        !(recorded.of_session || several || calls || begun)
    }

    fn send(&mut self, session: &mut Session, event: &Event) -> Result<Done, Error> {
        let nothing = |()| Done::default();
        match event {
            Event::Begin => session.begin().map(nothing),
            Event::Commit => session.commit().map(nothing),
            Event::Rollback => session.rollback().map(nothing),
            Event::Ping => session.ping(),
            Event::Reset => session.reset(),
            Event::Statement { id, parameters, .. } if self.answers.is_some() => {
                session.rows(*id, parameters, &mut self.hash)
            }
            Event::Statement { id, parameters, .. } => session.run(*id, parameters),
            // The recorded server may have offered another way than this one.
            Event::Batch { id, rows, way, .. } => {
                match session.batch(*id, rows, session.offered(*way)) {
                    // A statement without parameters, in bulk.
                    Err(Error::Unsupported(_)) => session.batch(*id, rows, BatchWay::Single),
                    done => done,
                }
            }
        }
    }

    /// Whether an answer counts other rows than the recorded one did. How many rows come where only the first is wanted depends on the
    /// protocol, and what counts as changed on the engine.
    fn counts_otherwise(&self, event: &Event, done: Done, session: &Session) -> bool {
        let (Event::Statement { id, counts, .. } | Event::Batch { id, counts, .. }) = event else {
            return false;
        };
        let meta = &self.shared.trace.meta;
        let first = session.knobs().rows == RowsMode::First
            || meta.knobs["rows"] == serde_json::json!(RowsMode::First)
            || meta.statements[usize::from(id.0)].first_row;
        let rows_max = if first { 1 } else { u64::MAX };
        let one_engine = !self.shared.choices.lenient && meta.family() == session.family();
        done.rows.min(rows_max) != counts.rows.min(rows_max)
            || (one_engine && done.affected != counts.affected)
    }

    fn note(&mut self, ordinal: u64, state: State, done: Done) {
        if self.answers.is_none() {
            return;
        }
        let cells = self.hash.cells();
        let (rows, hash) = self.hash.take();
        // What was read of a result before it failed depends on the server's buffers.
        let (rows, hash, cells) = match state {
            State::Ok => (rows, hash, cells),
            _ => (0, 0, Cells::default()),
        };
        self.kept.push(Answer {
            ordinal,
            state,
            rows,
            affected: done.affected,
            warnings: done.warnings,
            last_insert_id: done.last_insert_id,
            hash,
            cells,
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

#[cfg(test)]
mod tests;
