//! How statements are sent: each choice of a driver that has a cost, alone.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use wire::{Family, Fetch, RowsWanted};

use crate::failure::Usage;

/// How a statement with parameters reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Parameters written into the text.
    Text,
    /// Prepared on the server once a connection, then executed.
    Prepared,
    /// Prepared, executed and closed for each request: the common mistake.
    PreparePerRequest,
}

/// The isolation level of every transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The server's own: REPEATABLE READ on MySQL and MariaDB, READ COMMITTED on `PostgreSQL`, unless it was configured otherwise.
    Default,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    /// The statement that sets it for the rest of a connection; none for the server's own.
    pub(super) fn sql(self, family: Family) -> Option<String> {
        let level = match self {
            Self::Default => return None,
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        };
        Some(match family {
            Family::Mysql => format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
            Family::Postgres => {
                format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
            }
        })
    }
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
    pub protocol: Protocol,
    /// `None`: BEGIN and COMMIT bound each transaction. `true`: every statement commits by itself. `false`: autocommit is switched off
    /// once a connection, so that only COMMIT costs a round trip (MySQL and MariaDB).
    pub autocommit: Option<bool>,
    /// The isolation level of every transaction.
    pub isolation: Isolation,
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
            protocol: Protocol::Prepared,
            autocommit: None,
            isolation: Isolation::Default,
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
        if family == Family::Mysql && self.protocol == Protocol::Text && self.fetch_size > 0 {
            return Err(Usage::new(
                "MySQL has no fetch size for text statements",
                "use --protocol prepared with --fetch-size, or --fetch-size 0",
            ));
        }
        if family == Family::Postgres && self.autocommit == Some(false) {
            return Err(Usage::new(
                "PostgreSQL cannot switch autocommit off",
                "use --autocommit, or leave --no-autocommit out",
            ));
        }
        if family == Family::Postgres && !self.metadata {
            return Err(Usage::new(
                "PostgreSQL cannot leave metadata out: none comes with prepared statements, always some with text",
                "leave --no-metadata out",
            ));
        }
        if self.binary_results && family == Family::Mysql {
            return Err(Usage::new(
                "MySQL leaves no choice of the results' format: prepared statements' are binary, text ones' are text",
                "leave --binary-results out",
            ));
        }
        if self.binary_results && self.protocol == Protocol::Text {
            return Err(Usage::new(
                "results of text statements come as text",
                "use --protocol prepared with --binary-results",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_statement_for_a_whole_session() {
        for (level, words) in [
            (Isolation::ReadCommitted, "READ COMMITTED"),
            (Isolation::RepeatableRead, "REPEATABLE READ"),
            (Isolation::Serializable, "SERIALIZABLE"),
        ] {
            assert_eq!(
                level.sql(Family::Mysql),
                Some(format!("SET SESSION TRANSACTION ISOLATION LEVEL {words}"))
            );
            assert_eq!(
                level.sql(Family::Postgres),
                Some(format!(
                    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {words}"
                ))
            );
        }
        assert_eq!(Isolation::Default.sql(Family::Postgres), None);
    }
}
