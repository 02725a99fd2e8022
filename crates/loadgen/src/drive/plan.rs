//! What the user asked of a run.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// When transactions begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Closed loop: each when the one before has ended.
    Closed,
    /// Open loop: on a schedule that knows nothing of the server.
    Open {
        /// Transactions a second, all connections together.
        rate: f64,
        /// How the schedule is drawn.
        process: ArrivalProcess,
    },
}

/// How an open loop's schedule is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Equal distances.
    Uniform,
    /// Exponential distances, as from many clients that know nothing of each other.
    Poisson,
    /// As in a trace: what a replay at the recorded pace has.
    #[value(skip)]
    Recorded,
}

/// What to do when a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDisconnect {
    /// Connect again, as often as needed, and count it; in a run without an end of its own, try for a minute.
    Reconnect,
    /// End the run with the results so far.
    Stop,
}

/// What to do when the server refuses a statement for another reason than a deadlock or the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// End the run with the results so far.
    Stop,
    /// Count it and go on with the next transaction.
    Continue,
}

/// How to run a workload.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Connections.
    pub connections: u32,
    /// Threads that they are shared out among.
    pub client_threads: u32,
    /// Length of the measured part; `None`: until `transactions` are done.
    pub time: Option<Duration>,
    /// Load before the measured part.
    pub warmup: Duration,
    /// How long after the end the last answers may come.
    pub wait: Duration,
    /// End after so many transactions, warm-up included.
    pub transactions: Option<u64>,
    /// When transactions begin.
    pub arrivals: Arrivals,
    /// When a connection is lost.
    pub on_disconnect: OnDisconnect,
    /// When a statement is refused.
    pub on_error: OnError,
    /// For the random numbers; connection n uses `seed` + n.
    pub seed: u64,
}

impl Plan {
    /// How many threads there are: never more than connections, and one for each where the system has no fibers.
    #[must_use]
    pub fn threads(&self) -> u32 {
        match wire::fibers::available() {
            Ok(()) => self.client_threads.clamp(1, self.connections),
            Err(_) => self.connections,
        }
    }
}
