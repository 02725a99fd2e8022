//! How statements are sent: each choice of a driver that has a cost, alone.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use wire::{Family, Fetch, RowsWanted};

use super::StatementSpec;
use crate::failure::Usage;

/// How a statement with parameters reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Parameters written into the text.
    Text,
    /// Prepared on the server once for each connection, then executed.
    Prepared,
    /// Prepared, executed and closed for each request.
    PreparePerRequest,
    /// In a replay: each as the application sent it, where the trace says how; else prepared.
    Recorded,
    /// The same, but statements that were prepared each time are prepared once for each connection.
    RecordedKept,
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
    /// The rows that the statement's definition asks for.
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
    /// Rows a round trip; 0: all at once. `None`: as many as the application fetched, where a trace says so; else all at once.
    pub fetch_size: Option<u32>,
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
            fetch_size: Some(0),
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
        if family == Family::Mysql && self.protocol == Protocol::Text && self.fetch_size > Some(0) {
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
                "PostgreSQL has no choice of metadata: none comes with prepared statements, always some with text",
                "leave --no-metadata out",
            ));
        }
        if self.binary_results && family == Family::Mysql {
            return Err(Usage::new(
                "on MySQL the protocol decides the format of results: binary for prepared statements, text for text",
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

    /// How a statement is sent, and what to ask of the connection for it.
    pub(super) fn way(&self, statement: &StatementSpec, family: Family) -> (Protocol, Fetch) {
        let recorded = statement.way;
        let protocol = match (self.protocol, recorded) {
            _ if !statement.is_preparable() => Protocol::Text,
            (Protocol::Recorded, Some(way)) => way.protocol,
            (Protocol::RecordedKept, Some(way)) if way.protocol != Protocol::PreparePerRequest => {
                way.protocol
            }
            (Protocol::Recorded | Protocol::RecordedKept, _) => Protocol::Prepared,
            (all, _) => all,
        };
        let is_text = protocol == Protocol::Text;
        let size = match self.fetch_size {
            // MySQL has none for text, and no application of its can have asked for one. PostgreSQL fetches from a portal, which
            // holds one statement.
            _ if is_text && (family == Family::Mysql || !statement.is_preparable()) => 0,
            Some(size) => size,
            None if is_text => 0,
            None => recorded.map_or(0, |way| way.fetch_size),
        };
        let rows = match self.rows {
            RowsMode::Stated => statement.rows,
            RowsMode::All => RowsWanted::All,
            RowsMode::First => RowsWanted::First,
        };
        (protocol, Fetch { size, rows })
    }

    /// Whether a statement stays prepared on its connection.
    #[must_use]
    pub fn keeps_prepared(&self, statement: &StatementSpec) -> bool {
        // What a family has no fetch size for changes nothing here.
        self.way(statement, Family::Mysql).0 == Protocol::Prepared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Way;

    #[test]
    fn a_statement_goes_as_it_was_recorded_unless_the_knobs_say_another_way() {
        let spec = |way| StatementSpec {
            way,
            ..StatementSpec::new("a", "SELECT 1")
        };
        let recorded = |protocol, fetch_size| {
            let several = false;
            spec(Some(Way {
                protocol,
                fetch_size,
                several,
            }))
        };
        let as_recorded = Knobs {
            protocol: Protocol::Recorded,
            fetch_size: None,
            ..Knobs::default()
        };
        let sent = |knobs: &Knobs, spec: &StatementSpec, family| {
            let (protocol, fetch) = knobs.way(spec, family);
            (protocol, fetch.size)
        };
        let each = Protocol::PreparePerRequest;
        let mysql = Family::Mysql;
        assert_eq!(
            sent(&as_recorded, &spec(None), mysql),
            (Protocol::Prepared, 0)
        );
        assert_eq!(sent(&as_recorded, &recorded(each, 7), mysql), (each, 7));
        let text = recorded(Protocol::Text, 0);
        assert_eq!(sent(&as_recorded, &text, mysql), (Protocol::Text, 0));
        assert!(as_recorded.keeps_prepared(&spec(None)) && !as_recorded.keeps_prepared(&text));
        let whole = Knobs {
            fetch_size: Some(0),
            ..as_recorded
        };
        assert_eq!(sent(&whole, &recorded(each, 7), mysql), (each, 0));
        let fetched = Knobs {
            fetch_size: Some(5),
            ..as_recorded
        };
        assert_eq!(sent(&fetched, &text, mysql), (Protocol::Text, 0));
        assert_eq!(sent(&fetched, &text, Family::Postgres), (Protocol::Text, 5));
        let prepared = Knobs::default();
        assert_eq!(
            sent(&prepared, &recorded(each, 7), mysql),
            (Protocol::Prepared, 0)
        );
        let several = Way {
            protocol: Protocol::Text,
            fetch_size: 0,
            several: true,
        };
        assert_eq!(
            sent(&prepared, &spec(Some(several)), mysql),
            (Protocol::Text, 0)
        );
        let several = sent(&fetched, &spec(Some(several)), Family::Postgres);
        assert_eq!(several, (Protocol::Text, 0), "one portal has one statement");
    }

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
