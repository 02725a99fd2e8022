//! Hands a trace's transactions out to the connections that run them again: one pass over the file, whoever asks.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::tape::Step;
use super::trace::{Reader, Trace};
use crate::workload::TransactionKind;

/// Which transactions have to have ended before one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All that stand before it in the trace: one after the other, in the order in which they ended.
    Serial,
    /// Those before it on its own connection.
    Own,
    /// All that had ended in the recording when it began.
    Commit,
    /// None: any free connection takes the next.
    Off,
}

/// The trace is read so many requests ahead of the oldest transaction that has not ended: what bounds the memory of a replay in which
/// one connection waits and the others go on.
const AHEAD_REQUESTS: u64 = 1 << 20;

/// One transaction to be run.
#[derive(Debug)]
pub(super) struct Job {
    /// Its own number, counted from 1.
    number: u64,
    /// The first so many transactions have to have ended before it begins.
    after: u64,
    /// The number of its first request, counted from 1 over the whole trace.
    pub(super) ordinal: u64,
    /// The first of its recorded connection in this lap.
    pub(super) is_first: bool,
    pub(super) kind: TransactionKind,
    /// When it began, after the first of the trace's first lap.
    pub(super) since_first: Duration,
    /// It ran beside others in the recording: nobody knows in which order the server did.
    pub(super) overlapped: bool,
    /// Whether the recorded server refused it.
    pub(super) refused: bool,
    pub(super) steps: Vec<Step>,
}

impl Job {
    /// The number of its last request.
    pub(super) fn last(&self) -> u64 {
        self.ordinal + self.steps.len() as u64 - 1
    }
}

/// The trace, read as far as a connection had to look for its next transaction.
pub(super) struct Feed {
    state: Mutex<State>,
    ahead: u64,
}

/// When transactions were due that nobody was given; memory for one lap, however many there are.
pub(super) struct Missed {
    /// In the recording's time, as all but `end`.
    rest: VecDeque<Duration>,
    /// When each transaction of a lap begins, after the lap; empty where no lap follows.
    lap: Vec<Duration>,
    /// When the next lap begins.
    lap_begin: Duration,
    lap_length: Duration,
    recorded_end: Duration,
    end: Duration,
    times: f64,
}

impl Missed {
    fn new(end: Duration, times: f64, lap_length: Duration) -> Self {
        Self {
            rest: VecDeque::new(),
            lap: Vec::new(),
            lap_begin: Duration::ZERO,
            lap_length,
            recorded_end: end.mul_f64(times),
            end,
            times,
        }
    }
}

impl Iterator for Missed {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        loop {
            if let Some(since_first) = self.rest.pop_front() {
                let due = since_first.div_f64(self.times);
                if due < self.end {
                    return Some(due);
                }
            } else {
                // Laps without a length would follow without an end.
                let begins = self.lap_begin < self.recorded_end && !self.lap_length.is_zero();
                if self.lap.is_empty() || !begins {
                    return None;
                }
                let begin = self.lap_begin;
                self.rest
                    .extend(self.lap.iter().map(|since| begin + *since));
                self.lap_begin += self.lap_length;
            }
        }
    }
}

struct State {
    trace: Arc<Trace>,
    order: Order,
    /// Begin again at the end of the trace.
    loops: bool,
    /// How often it was read to its end.
    laps: u64,
    reader: Reader,
    /// By connection.
    queues: Vec<VecDeque<Job>>,
    /// The recorded connections of this lap so far.
    begun: HashSet<u32>,
    /// The transactions that were read and have not ended: their numbers and first requests.
    unended: BTreeMap<u64, u64>,
    /// The first request that was not read.
    next: u64,
    /// The last transaction that was.
    last: u64,
    at_end: bool,
    failure: Option<String>,
}

impl Feed {
    /// # Errors
    /// A file that has changed since it was opened.
    pub(super) fn new(
        trace: &Arc<Trace>,
        connections: u32,
        order: Order,
        loops: bool,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            state: Mutex::new(State {
                trace: Arc::clone(trace),
                order,
                // Without a transaction there is nothing to begin again with.
                loops: loops && trace.ending.transactions > 0,
                laps: 0,
                reader: trace.reader()?,
                queues: (0..connections).map(|_| VecDeque::new()).collect(),
                begun: HashSet::new(),
                unended: BTreeMap::new(),
                next: 1,
                last: 0,
                at_end: false,
                failure: None,
            }),
            ahead: AHEAD_REQUESTS,
        })
    }

    /// Whether [`Feed::next`] has something to say to a connection; if not, others have to end their transactions first. The oldest
    /// transaction of all waits for nobody, so that there is always one that goes on.
    pub(super) fn is_ready(&self, connection: usize) -> bool {
        self.with(|state| state.look_for(connection, self.ahead) && state.is_in_order(connection))
    }

    /// How often all of the trace's transactions have ended.
    pub(super) fn laps(&self) -> u64 {
        self.with(|state| {
            let oldest = state.unended.first_key_value();
            let ended = oldest.map_or(state.last, |(number, _)| number - 1);
            let lap = state.trace.ending.transactions;
            ended.checked_div(lap).unwrap_or_default()
        })
    }

    /// A connection's next transaction; none at the end of the trace.
    pub(super) fn next(&self, connection: usize) -> Option<Job> {
        self.with(|state| {
            state.look_for(connection, u64::MAX);
            let queue = state.queue(connection);
            state.queues[queue].pop_front()
        })
    }

    /// A transaction has ended.
    pub(super) fn ended(&self, job: &Job) {
        self.with(|state| state.unended.remove(&job.number));
    }

    /// When transactions that nobody was given were due before `end`, at so many times the recorded pace. Nothing is given afterwards.
    pub(super) fn missed(&self, end: Duration, times: f64) -> Missed {
        self.with(|state| {
            let mut missed = Missed::new(end, times, state.trace.lap());
            for queue in &mut state.queues {
                missed
                    .rest
                    .extend(queue.drain(..).map(|job| job.since_first));
            }
            if let Err(error) = state.read_missed(&mut missed) {
                state.failure = Some(error.to_string());
            }
            state.at_end = true;
            missed
        })
    }

    /// Why the trace could not be read to its end.
    pub(super) fn failure(&self) -> Option<String> {
        self.with(|state| state.failure.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Where a connection's transactions wait.
    fn queue(&self, connection: usize) -> usize {
        match self.order {
            Order::Off => 0,
            Order::Serial | Order::Own | Order::Commit => connection % self.queues.len(),
        }
    }

    /// Read on until a connection has a transaction or there is none; false if that would be too far ahead.
    fn look_for(&mut self, connection: usize, ahead: u64) -> bool {
        let queue = self.queue(connection);
        while self.queues[queue].is_empty() && !self.at_end {
            let oldest = self.unended.first_key_value();
            let oldest = oldest.map_or(self.next, |(_, ordinal)| *ordinal);
            if self.next - oldest > ahead {
                return false;
            }
            if let Err(error) = self.read() {
                self.failure = Some(error.to_string());
                self.at_end = true;
            }
        }
        true
    }

    /// Whether all that have to end before a connection's next transaction have ended.
    fn is_in_order(&self, connection: usize) -> bool {
        let oldest = self.unended.first_key_value();
        match (self.queues[self.queue(connection)].front(), oldest) {
            (Some(job), Some((oldest, _))) => *oldest > job.after,
            _ => true,
        }
    }

    /// Read the rest of the lap at hand, and, where others begin before the end, a whole one.
    fn read_missed(&mut self, missed: &mut Missed) -> anyhow::Result<()> {
        let lap_begin = self.lap_begin();
        if self.at_end || lap_begin >= missed.recorded_end {
            return Ok(());
        }
        while let Some(recorded) = self.reader.next_transaction()? {
            missed.rest.push_back(lap_begin + recorded.since_first());
        }
        self.laps += 1;
        missed.lap_begin = self.lap_begin();
        if self.loops && missed.lap_begin < missed.recorded_end {
            let mut reader = self.trace.reader()?;
            while let Some(recorded) = reader.next_transaction()? {
                missed.lap.push(recorded.since_first());
            }
        }
        Ok(())
    }

    /// When the lap at hand begins.
    fn lap_begin(&self) -> Duration {
        let laps = u32::try_from(self.laps).unwrap_or(u32::MAX);
        self.trace.lap().saturating_mul(laps)
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let lap_begin = self.lap_begin();
        let Some(recorded) = self.reader.next_transaction()? else {
            self.laps += 1;
            self.at_end = !self.loops;
            self.begun.clear();
            if self.loops {
                self.reader = self.trace.reader()?;
            }
            return Ok(());
        };
        // The numbers go on from lap to lap, so that one begins when the one before it has ended.
        let trace = &self.trace;
        let earlier = self.laps * trace.ending.transactions;
        let job = Job {
            number: earlier + recorded.number,
            after: match self.order {
                Order::Serial => earlier + recorded.number - 1,
                Order::Commit => earlier + recorded.after,
                Order::Own | Order::Off => 0,
            },
            ordinal: self.laps * trace.ending.statements + recorded.ordinal,
            is_first: self.begun.insert(recorded.connection),
            kind: recorded.kind,
            since_first: lap_begin + recorded.since_first(),
            overlapped: trace.is_overlapped(recorded.number),
            refused: recorded.refused,
            steps: recorded.steps()?,
        };
        let connection = recorded.connection as usize;
        self.next = job.ordinal + recorded.events;
        self.last = job.number;
        self.unended.insert(job.number, job.ordinal);
        let queue = self.queue(connection);
        self.queues[queue].push_back(job);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tape::Event;
    use super::super::tests::{Scratch, write};
    use super::*;

    /// A trace of six connections, two requests a transaction; each transaction began when the one before it ended, or all at once.
    fn trace(name: &str, in_turn: bool) -> (Scratch, Arc<Trace>) {
        trace_of(6, name, in_turn)
    }

    fn trace_of(number: usize, name: &str, in_turn: bool) -> (Scratch, Arc<Trace>) {
        let scratch = Scratch::new(name);
        let transactions = vec![vec![Event::Begin, Event::Commit]; number];
        write(&scratch.path, &transactions, in_turn);
        let trace = Trace::open(&scratch.path, false).expect("whole");
        (scratch, Arc::new(trace))
    }

    fn feed(name: &str, connections: u32, ahead: u64, in_turn: bool) -> Feed {
        let (_scratch, trace) = trace(name, in_turn);
        let mut feed = Feed::new(&trace, connections, Order::Commit, false).expect("opens");
        feed.ahead = ahead;
        feed
    }

    #[test]
    fn each_connection_gets_its_own_in_order() {
        let feed = feed("feed-order", 2, u64::MAX, false);
        let ordinals = |connection| -> Vec<u64> {
            std::iter::from_fn(|| feed.next(connection))
                .map(|job| job.ordinal)
                .collect()
        };
        // Connections 0, 2 and 4 were recorded on even numbers.
        assert_eq!(ordinals(0), [1, 5, 9]);
        assert_eq!(ordinals(1), [3, 7, 11]);
        assert_eq!(feed.failure(), None);
    }

    #[test]
    fn a_transaction_waits_for_all_that_had_ended_before_it_began() {
        let in_turn = feed("feed-turn", 2, u64::MAX, true);
        for number in 0..6 {
            let (its, other) = (number % 2, (number + 1) % 2);
            assert!(in_turn.is_ready(its) && !in_turn.is_ready(other) || number == 5);
            let job = in_turn.next(its).expect("a transaction");
            assert!(!in_turn.is_ready(other) || number == 5, "{number}");
            in_turn.ended(&job);
        }
        let at_once = feed("feed-at-once", 2, u64::MAX, false);
        assert!(at_once.is_ready(0) && at_once.is_ready(1));
        at_once.next(0).expect("a transaction");
        assert!(at_once.is_ready(1), "they overlapped");
    }

    #[test]
    fn a_connection_that_waits_stops_the_others_before_memory_does() {
        let feed = feed("feed-ahead", 2, 4, false);
        let stuck = feed.next(0).expect("a transaction");
        assert!(feed.is_ready(1));
        let job = feed.next(1).expect("a transaction");
        feed.ended(&job);
        assert!(!feed.is_ready(1), "six requests lie between");
        feed.ended(&stuck);
        assert!(feed.is_ready(1));
    }
    #[test]
    fn each_order_holds_back_what_it_says() {
        let (_scratch, trace) = trace("feed-orders", true);
        let feed = |order| Feed::new(&trace, 2, order, false).expect("opens");
        let serial = feed(Order::Serial);
        let first = serial.next(0).expect("a transaction");
        assert!(!serial.is_ready(1));
        serial.ended(&first);
        assert!(serial.is_ready(1));
        let own = feed(Order::Own);
        own.next(0).expect("a transaction");
        assert!(own.is_ready(0) && own.is_ready(1));
        assert_eq!(own.next(0).map(|job| job.number), Some(3), "its own");
        let off = feed(Order::Off);
        let free = [1, 1, 0, 1, 0, 0].into_iter();
        let taken = free.filter(|&connection| off.is_ready(connection));
        let jobs = taken.filter_map(|connection| off.next(connection));
        let numbers: Vec<u64> = jobs.map(|job| job.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "whoever is free");
        assert!(off.is_ready(0) && off.next(0).is_none());
    }

    #[test]
    fn what_overlapped_on_either_side_is_marked() {
        let (_scratch, in_turn) = trace("feed-beside-turn", true);
        let (_scratch, at_once) = trace("feed-beside-once", false);
        for (trace, expected) in [(in_turn, false), (at_once, true)] {
            let feed = Feed::new(&trace, 1, Order::Commit, false).expect("opens");
            let jobs: Vec<bool> = std::iter::from_fn(|| feed.next(0))
                .map(|job| job.overlapped)
                .collect();
            assert_eq!(jobs, [expected; 6]);
            assert_eq!(trace.overlapped, 6 * u64::from(expected));
        }
    }

    #[test]
    fn laps_without_a_length_do_not_go_on_for_ever() {
        let (_scratch, trace) = trace_of(1, "feed-no-lap", false);
        assert!(trace.lap().is_zero());
        let feed = Feed::new(&trace, 1, Order::Commit, true).expect("opens");
        feed.next(0).expect("a transaction");
        let missed = feed.missed(Duration::from_secs(30), 1.0);
        assert!(missed.take(10).count() <= 1);
    }

    #[test]
    fn a_lap_begins_when_the_one_before_has_ended_and_keeps_the_pace() {
        let (_scratch, trace) = trace("feed-laps", false);
        let feed = Feed::new(&trace, 1, Order::Commit, true).expect("opens");
        let jobs: Vec<Job> = (0..14).filter_map(|_| feed.next(0)).collect();
        for (place, laps) in [(1, 0), (0, 0), (2, 0), (3, 0), (4, 0), (5, 1), (7, 1)] {
            feed.ended(&jobs[place]);
            assert_eq!(feed.laps(), laps, "{place}");
        }
        let told: Vec<_> = [0, 5, 6, 13]
            .map(|place: usize| {
                let job = &jobs[place];
                let since_us = job.since_first.as_micros();
                (job.number, job.after, job.ordinal, since_us)
            })
            .into();
        // Fourteen of eighteen were taken: the last four of the third lap, and the fourth one begins at 4.5 ms.
        let missed = feed.missed(Duration::from_micros(2500), 2.0);
        let missed: Vec<_> = missed.map(|due| due.as_micros()).collect();
        assert_eq!(missed, [1750, 1875, 2000, 2125, 2250, 2375]);
        assert!(feed.next(0).is_none());
        // Each connection has one transaction a lap.
        assert!(jobs.iter().all(|job| job.is_first));
        // Transactions began 250 us after each other, six a lap.
        assert_eq!(
            told,
            [
                (1, 0, 1, 0),
                (6, 0, 11, 1250),
                (7, 6, 13, 1500),
                (14, 12, 27, 3250)
            ]
        );
    }
}
