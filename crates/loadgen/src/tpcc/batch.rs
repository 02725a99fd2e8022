//! How an order's lines and its changes of stock are sent.

use std::fmt;

use clap::ValueEnum;

/// The ways of drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BatchMode {
    /// One statement a row.
    None,
    /// The lines as one INSERT of many rows, the changes of stock one by one: what rewriting drivers do.
    Multirow,
    /// As `multirow`, and the changes of stock as one UPDATE with CASE.
    Rewritten,
    /// Bulk execution of the single-row statements (MariaDB).
    Bulk,
    /// All single-row statements sent, then all answers read (PostgreSQL).
    Pipeline,
}

impl fmt::Display for BatchMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no way is hidden");
        formatter.write_str(value.get_name())
    }
}
