//! Exact counts.

use std::collections::BTreeMap;

use serde::Serialize;
use wire::{Counters, Done, Error};

/// What was counted for one statement name.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatementTally {
    /// Times it was run, those that failed included.
    pub count: u64,
    /// Times it failed, without `retries`.
    pub errors: u64,
    /// Times it lost to a deadlock, a lock wait timeout or a serialization failure.
    pub retries: u64,
    /// Rows that it returned.
    pub rows: u64,
    /// Rows that it changed.
    pub affected: u64,
    /// What crossed the wire.
    pub wire: Counters,
}

impl StatementTally {
    /// Count one use.
    pub(super) fn add(&mut self, wire: Counters, outcome: &Result<Done, Error>) {
        self.count += 1;
        self.wire += wire;
        match outcome {
            Ok(done) => {
                self.rows += done.rows;
                self.affected += done.affected;
            }
            Err(error) if error.is_retryable() => self.retries += 1,
            Err(_) => self.errors += 1,
        }
    }

    /// Add another connection's.
    pub(super) fn merge(&mut self, more: &Self) {
        self.count += more.count;
        self.errors += more.errors;
        self.retries += more.retries;
        self.rows += more.rows;
        self.affected += more.affected;
        self.wire += more.wire;
    }
}

/// What was counted for one kind of transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransactionTally {
    /// Committed.
    pub count: u64,
    /// Rolled back because the workload wanted so.
    pub rolled_back: u64,
    /// Given up after an error.
    pub errors: u64,
    /// Times one was run again after a deadlock or the like.
    pub retries: u64,
    /// What crossed the wire.
    pub wire: Counters,
}

impl TransactionTally {
    /// Add another connection's.
    pub(super) fn merge(&mut self, more: &Self) {
        self.count += more.count;
        self.rolled_back += more.rolled_back;
        self.errors += more.errors;
        self.retries += more.retries;
        self.wire += more.wire;
    }
}

/// How often one kind of error was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorTally {
    /// How often.
    pub count: u64,
    /// The words of the first.
    pub message: String,
}

/// Errors by the server's number (MySQL), SQLSTATE (PostgreSQL), or `disconnect`.
pub type Errors = BTreeMap<String, ErrorTally>;

/// Count one error.
pub(super) fn count_error(errors: &mut Errors, error: &Error) {
    let key = match error {
        Error::Server {
            code: 0, sqlstate, ..
        } => sqlstate.clone(),
        Error::Server { code, .. } => code.to_string(),
        Error::Io(_) | Error::Protocol(_) | Error::Tls(_) => "disconnect".to_owned(),
        Error::Unsupported(_) | Error::Url(_) => "unsupported".to_owned(),
    };
    errors
        .entry(key)
        .or_insert_with(|| ErrorTally {
            count: 0,
            message: error.to_string(),
        })
        .count += 1;
}

/// Add another connection's errors.
pub(super) fn merge_errors(errors: &mut Errors, more: Errors) {
    for (key, tally) in more {
        errors
            .entry(key)
            .and_modify(|known| known.count += tally.count)
            .or_insert(tally);
    }
}
