//! The statements of a workload.

use serde::{Deserialize, Serialize};
use wire::RowsWanted;

use super::Protocol;

/// Which of [`crate::workload::Workload::statements`] one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatementId(pub u16);

/// A statement that has a name in the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementSpec {
    /// `point_select`, `new_order.stock_update`. Statements of one name are reported as one.
    pub name: String,
    /// With `?` for parameters, on PostgreSQL too.
    pub sql: String,
    /// Types of its parameters, as [`wire::Connection::prepare_typed`] takes them.
    pub types: Vec<u32>,
    /// How much of its result the workload needs.
    pub rows: RowsWanted,
    /// It sets or asks the session and touches no row of a table. It goes as text in every protocol, as drivers send it.
    pub of_session: bool,
    /// How an application sent it, where that is known.
    pub way: Option<Way>,
    /// The session goes to this database before it; none: it stays where it is. MySQL's alone.
    pub database: Option<String>,
}

/// How an application sent a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Text or prepared.
    pub protocol: Protocol,
    /// Rows a round trip; 0: all at once.
    #[serde(default)]
    pub fetch_size: u32,
    /// Its text holds several statements, which no server prepares.
    #[serde(default)]
    pub several: bool,
}

impl StatementSpec {
    /// A statement all of whose rows are read.
    #[must_use]
    pub fn new(name: impl Into<String>, sql: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            sql: sql.into(),
            types: Vec::new(),
            rows: RowsWanted::All,
            of_session: false,
            way: None,
            database: None,
        }
    }

    /// What goes to its database.
    #[must_use]
    pub fn use_sql(&self) -> Option<String> {
        let database = self.database.as_ref()?;
        Some(format!("USE `{}`", database.replace('`', "``")))
    }

    /// Whether a server can prepare it: not several statements, nor all that is about the session.
    #[must_use]
    pub fn is_preparable(&self) -> bool {
        !self.of_session && !self.way.is_some_and(|way| way.several)
    }

    /// The same, of whose result only the first row is read.
    #[must_use]
    pub fn first_row(mut self) -> Self {
        self.rows = RowsWanted::First;
        self
    }

    /// The same, about the session.
    #[must_use]
    pub fn of_session(mut self) -> Self {
        self.of_session = true;
        self
    }
}
