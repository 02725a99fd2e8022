//! How statements are sent: each choice of a driver that has a cost, alone.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use wire::{Family, Fetch, RowsWanted};

use crate::failure::Usage;

/// How a statement with parameters reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatementMode {
    /// Parameters written into the text.
    Text,
    /// Prepared on the server once a connection, then executed.
    Prepared,
    /// Prepared, executed and closed for each request: the common mistake.
    PreparePerRequest,
}

/// How transactions are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransactionMode {
    /// BEGIN and COMMIT, a round trip each.
    Begin,
    /// Autocommit switched off once: no BEGIN, and COMMIT costs a round trip (MySQL and MariaDB).
    Implicit,
    /// Every statement commits by itself.
    Autocommit,
}

/// How much of each result is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowsMode {
    /// What the statement is for.
    Stated,
    /// All rows of every statement.
    All,
    /// The first row of every statement.
    First,
}

/// All choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Knobs {
    /// Text or prepared.
    pub statements: StatementMode,
    /// How transactions are bounded.
    pub transaction: TransactionMode,
    /// Rows a round trip; 0: all at once.
    pub fetch_size: u32,
    /// How much of each result is read.
    pub rows: RowsMode,
    /// Column definitions come with results.
    pub metadata: bool,
    /// Prepared statements' results come in binary format where the type allows (PostgreSQL; MySQL's always do).
    pub binary_results: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            statements: StatementMode::Prepared,
            transaction: TransactionMode::Begin,
            fetch_size: 0,
            rows: RowsMode::Stated,
            metadata: true,
            binary_results: false,
        }
    }
}

impl Knobs {
    /// Refuse what a server's protocol does not have.
    ///
    /// # Errors
    /// The choice that cannot be, and what to choose.
    pub fn check(&self, family: Family) -> Result<(), Usage> {
        if family == Family::Mysql && self.statements == StatementMode::Text && self.fetch_size > 0
        {
            return Err(Usage::new(
                "MySQL has no fetch size for text statements",
                "use --statements prepared with --fetch-size, or --fetch-size 0",
            ));
        }
        if family == Family::Postgres && self.transaction == TransactionMode::Implicit {
            return Err(Usage::new(
                "PostgreSQL cannot switch autocommit off",
                "use --transaction begin or --transaction autocommit",
            ));
        }
        if family == Family::Postgres && !self.metadata {
            return Err(Usage::new(
                "PostgreSQL cannot leave metadata out: none comes with prepared statements, always some with text",
                "use --metadata on",
            ));
        }
        if self.binary_results && family == Family::Mysql {
            return Err(Usage::new(
                "MySQL leaves no choice of the results' format: prepared statements' are binary, text ones' are text",
                "leave --binary-results off",
            ));
        }
        if self.binary_results && self.statements == StatementMode::Text {
            return Err(Usage::new(
                "results of text statements come as text",
                "use --statements prepared with --binary-results on",
            ));
        }
        Ok(())
    }

    /// What to ask of the connection for a statement that wants `stated`.
    pub(super) fn fetch(&self, stated: RowsWanted) -> Fetch {
        let rows = match self.rows {
            RowsMode::Stated => stated,
            RowsMode::All => RowsWanted::All,
            RowsMode::First => RowsWanted::First,
        };
        Fetch {
            size: self.fetch_size,
            rows,
        }
    }
}
