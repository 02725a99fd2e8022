//! How an order's lines and its changes of stock are sent.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use super::catalog::Key;

/// The ways of drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
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

impl BatchMode {
    /// Whether it sends a statement at all.
    pub(super) fn sends(self, key: Key) -> bool {
        match key {
            Key::NewOrderStockUpdate => self != Self::Rewritten,
            Key::NewOrderStockUpdateRewritten => self == Self::Rewritten,
            Key::NewOrderLineInsert => !matches!(self, Self::Multirow | Self::Rewritten),
            Key::NewOrderLineInsertMultirow => matches!(self, Self::Multirow | Self::Rewritten),
            _ => true,
        }
    }

    /// Whether it sends a statement prepared whatever the protocol is.
    pub(super) fn prepares(self, key: Key) -> bool {
        matches!(self, Self::Bulk | Self::Pipeline)
            && matches!(key, Key::NewOrderStockUpdate | Key::NewOrderLineInsert)
    }
}

impl fmt::Display for BatchMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no way is hidden");
        formatter.write_str(value.get_name())
    }
}
