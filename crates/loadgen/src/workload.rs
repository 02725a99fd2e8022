//! What a load is made of: the seam that OLTP, TPC-C, the commit stress and replay implement.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Map, Value};
use wire::{Connection, Error};

use crate::session::{Knobs, Session, StatementSpec};

/// The random numbers of a client: seeded, so that a run can be repeated. The generator is named, so that a seed means the same in
/// every version of this program.
pub type Random = Xoshiro256PlusPlus;

/// Which of [`Workload::transactions`] one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionKind(pub u16);

/// How a transaction that met no error ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As meant.
    Committed,
    /// Rolled back because the workload wants so (1 % of TPC-C's NewOrders): counted apart, and no error.
    RolledBack,
}

/// A load, shared by all its connections.
pub trait Workload: Send + Sync {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Every statement that its clients run; `StatementId` is the place in this list. Those of equal name are reported as one
    /// (the same statement on another table, with another number of rows).
    fn statements(&self) -> &[StatementSpec];

    /// The kinds of transactions; `TransactionKind` is the place in this list.
    fn transactions(&self) -> &[&'static str];

    /// Whether the tables are there, whole and as this workload was told they are. Called once, before the load.
    ///
    /// # Errors
    /// What is wrong, and as context what to do about it (see [`crate::failure::Failure`]).
    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()>;

    /// The client of connection `number`, counted from 0, of `connections`.
    fn client(&self, number: u32, connections: u32) -> Box<dyn Client>;

    /// Which transactions a minute are the `tpmc` of the result; none if the workload is not TPC-C.
    fn tpmc(&self) -> Option<TransactionKind> {
        None
    }

    /// What was asked of this workload beside the options of all loads, under the names of its own options.
    fn options(&self) -> Map<String, Value> {
        Map::new()
    }

    /// How many statements a connection may have prepared at once when they are sent so.
    fn statements_prepared(&self, knobs: &Knobs) -> usize {
        let statements = self.statements().iter();
        statements.filter(|each| knobs.keeps_prepared(each)).count()
    }

    /// When transactions were due that no client has drawn, counted from the beginning of the load and before `end`. Asked once, after
    /// the load; the open loop's schedule does not count.
    fn missed(&self, _end: Duration) -> Box<dyn Iterator<Item = Duration>> {
        Box::new(std::iter::empty())
    }

    /// What a reader of the result must know, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One connection's work.
pub trait Client: Send {
    /// Whether [`Client::draw`] can be called yet; if not, it is asked again within a millisecond.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Draw the next transaction and its inputs; none when this connection has nothing more to do.
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind>;

    /// When what was drawn is due, counted from the beginning of the load: its latency counts from then. None: at once, or when the
    /// open loop's schedule says.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// How long the person at the terminal types before what was drawn is sent. No part of its latency.
    fn keying(&mut self) -> Duration {
        Duration::ZERO
    }

    /// How long that person looks at the answer before the next is drawn.
    fn thinking(&mut self, _random: &mut Random) -> Duration {
        Duration::ZERO
    }

    /// Whether a transaction that met this error is rolled back and run again.
    fn retries(&self, error: &Error) -> bool {
        error.is_retryable()
    }

    /// Run the transaction that was drawn, from BEGIN to COMMIT. After an error that [`Client::retries`] it is rolled back and called
    /// again with the same inputs, and counted as a retry; not where autocommit has made a part of it permanent.
    ///
    /// # Errors
    /// What a statement returned; nothing needs to be undone.
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error>;

    /// How the transaction that was drawn ended, after its last retry.
    fn ended(&mut self, _outcome: &Result<Outcome, Error>, _session: &mut Session) {}
}
