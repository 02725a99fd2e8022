//! Hands a trace's transactions out to the connections that run them again: one pass over the file, whoever asks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::tape::Event;
use super::trace::{Reader, Trace};
use crate::workload::TransactionKind;

/// The trace is read so many requests ahead of the oldest transaction that has not ended: what bounds the memory of a replay in which
/// one connection waits and the others go on.
const AHEAD_REQUESTS: u64 = 1 << 20;

/// One transaction to be run.
#[derive(Debug)]
pub(super) struct Job {
    /// Its own number, counted from 1.
    number: u64,
    /// The first so many transactions of the trace had ended when it began: they have to before it begins again.
    after: u64,
    /// The number of its first request, counted from 1 over the whole trace.
    pub(super) ordinal: u64,
    pub(super) kind: TransactionKind,
    /// When it began, after the first of the trace.
    pub(super) since_first: Duration,
    /// Whether the recorded server refused it.
    pub(super) refused: bool,
    pub(super) events: Vec<Event>,
}

/// The trace, read as far as a connection had to look for its next transaction.
pub(super) struct Feed {
    state: Mutex<State>,
    ahead: u64,
}

struct State {
    reader: Reader,
    /// By connection.
    queues: Vec<VecDeque<Job>>,
    /// The transactions that were read and have not ended: their numbers and first requests.
    unended: BTreeMap<u64, u64>,
    /// The first request that was not read.
    next: u64,
    at_end: bool,
    failure: Option<String>,
}

impl Feed {
    /// # Errors
    /// A file that has changed since it was opened.
    pub(super) fn new(trace: &Trace, connections: u32) -> anyhow::Result<Self> {
        Ok(Self {
            state: Mutex::new(State {
                reader: trace.reader()?,
                queues: (0..connections).map(|_| VecDeque::new()).collect(),
                unended: BTreeMap::new(),
                next: 1,
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

    /// A connection's next transaction; none at the end of the trace.
    pub(super) fn next(&self, connection: usize) -> Option<Job> {
        self.with(|state| {
            state.look_for(connection, u64::MAX);
            state.queues[connection].pop_front()
        })
    }

    /// A transaction has ended.
    pub(super) fn ended(&self, job: &Job) {
        self.with(|state| state.unended.remove(&job.number));
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
    /// Read on until a connection has a transaction or there is none; false if that would be too far ahead.
    fn look_for(&mut self, connection: usize, ahead: u64) -> bool {
        while self.queues[connection].is_empty() && !self.at_end {
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

    /// Whether all that had ended when a connection's next transaction was recorded have ended now.
    fn is_in_order(&self, connection: usize) -> bool {
        let oldest = self.unended.first_key_value();
        match (self.queues[connection].front(), oldest) {
            (Some(job), Some((oldest, _))) => *oldest > job.after,
            _ => true,
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let Some(recorded) = self.reader.next_transaction()? else {
            self.at_end = true;
            return Ok(());
        };
        let place = recorded.connection as usize % self.queues.len();
        let job = Job {
            number: recorded.number,
            after: recorded.after,
            ordinal: recorded.ordinal,
            kind: recorded.kind,
            since_first: recorded.since_first(),
            refused: recorded.refused,
            events: recorded.events()?,
        };
        self.next = recorded.ordinal + recorded.events;
        self.unended.insert(job.number, job.ordinal);
        self.queues[place].push_back(job);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, write};
    use super::*;

    /// A trace of six connections, two requests a transaction; each transaction began when the one before it ended, or all at once.
    fn feed(name: &str, connections: u32, ahead: u64, in_turn: bool) -> Feed {
        let scratch = Scratch::new(name);
        let transactions = vec![vec![Event::Begin, Event::Commit]; 6];
        write(&scratch.0, &transactions, in_turn);
        let trace = Trace::open(&scratch.0, false).expect("whole");
        let mut feed = Feed::new(&trace, connections).expect("opens");
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
}
