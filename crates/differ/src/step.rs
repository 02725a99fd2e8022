//! What is sent: one request on one of a server's connections.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::compare::Rule;
use crate::param::Param;

/// How many connections a server has in lockstep.
pub const CONNECTIONS: usize = 2;

/// One request to both servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Which of the connections.
    pub on: usize,
    /// The group that it is counted under.
    pub group: Cow<'static, str>,
    /// What is sent.
    pub what: What,
    /// More requests, sent before any of the step's answers is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<What>,
    /// SQL leaves the order of its rows open: they are compared as a multiset.
    pub unordered: bool,
    /// It reads the data dictionary: of its answer rows in any order and errors alone are compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dictionary: bool,
    /// After a warning or an error SHOW WARNINGS is compared, too.
    pub diagnose: bool,
    /// Before it an episode begins: an empty database, and new connections of a client that wants these capabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<u32>,
    /// Of the first step of a report: the database in which all of them ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A request. Statements are named by slots: the servers' own numbers for them need not agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// COM_QUERY.
    Query(String),
    /// COM_STMT_PREPARE.
    Prepare(u32, String),
    /// COM_STMT_EXECUTE.
    Execute {
        /// Of the statement.
        slot: u32,
        /// As many as the statement takes; too few are filled up with NULL, too many are left out.
        values: Vec<Param>,
        /// Open a cursor.
        cursor: bool,
        /// Announce the types again where they are those of the execution before.
        rebind: bool,
    },
    /// COM_STMT_SEND_LONG_DATA for a parameter; nothing is answered.
    LongData(u32, u16, Vec<u8>),
    /// COM_STMT_FETCH of so many rows.
    Fetch(u32, u32),
    /// COM_STMT_RESET.
    ResetStatement(u32),
    /// COM_STMT_CLOSE; nothing is answered.
    Close(u32),
    /// COM_INIT_DB.
    Database(String),
    /// COM_PING.
    Ping,
    /// COM_RESET_CONNECTION.
    ResetConnection,
    /// COM_SET_OPTION: several statements in a request, or not.
    MultiStatements(bool),
}

impl Step {
    /// A request on the first connection, compared as it is.
    #[must_use]
    pub fn new(group: &'static str, what: What) -> Self {
        Self {
            on: 0,
            group: Cow::Borrowed(group),
            what,
            ahead: Vec::new(),
            unordered: false,
            dictionary: false,
            diagnose: true,
            fresh: None,
            database: None,
        }
    }

    /// All that is sent.
    pub fn requests(&self) -> impl Iterator<Item = &What> + Clone {
        std::iter::once(&self.what).chain(&self.ahead)
    }

    /// What of its answers must be equal.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match (self.dictionary, self.unordered) {
            (true, _) => Rule::Dictionary,
            (_, true) => Rule::AnyOrder,
            _ => Rule::Whole,
        }
    }

    /// All of it for a reader.
    #[must_use]
    pub fn shown(&self) -> String {
        let all: Vec<String> = self.requests().map(shown).collect();
        all.join("\n-- sent with it: ")
    }

    /// SQL as text.
    #[must_use]
    pub fn query(group: &'static str, sql: impl Into<String>) -> Self {
        Self::new(group, What::Query(sql.into()))
    }
}

/// Steps as a script for a reader: SQL where a step is SQL, and comments for what only the binary protocol has.
#[must_use]
pub fn script(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        if let Some(wanted) = step.fresh {
            let named = step.database.iter();
            let named: String = named.map(|name| format!(" {name}")).collect();
            text.push_str(&format!(
                "-- an empty database{named}, and new connections that want {wanted:#x}\n"
            ));
        }
        if step.on > 0 {
            text.push_str(&format!("/* connection {} */ ", step.on + 1));
        }
        text.push_str(&step.shown());
        text.push('\n');
    }
    text
}

/// One request for a reader.
#[must_use]
pub fn shown(what: &What) -> String {
    match what {
        What::Query(sql) => format!("{sql};"),
        What::Prepare(slot, sql) => format!("-- COM_STMT_PREPARE s{slot}: {sql}"),
        What::Execute {
            slot,
            values,
            cursor,
            ..
        } => {
            let values: Vec<String> = values.iter().map(Param::shown).collect();
            let how = if *cursor { ", with a cursor" } else { "" };
            format!("-- COM_STMT_EXECUTE s{slot} ({}){how}", values.join(", "))
        }
        What::LongData(slot, at, data) => {
            format!(
                "-- COM_STMT_SEND_LONG_DATA s{slot}, parameter {at}: {} bytes",
                data.len()
            )
        }
        What::Fetch(slot, rows) => format!("-- COM_STMT_FETCH s{slot}: {rows} rows"),
        What::ResetStatement(slot) => format!("-- COM_STMT_RESET s{slot}"),
        What::Close(slot) => format!("-- COM_STMT_CLOSE s{slot}"),
        What::Database(name) => format!("-- COM_INIT_DB {name}"),
        What::Ping => "-- COM_PING".to_owned(),
        What::ResetConnection => "-- COM_RESET_CONNECTION".to_owned(),
        What::MultiStatements(on) => {
            format!(
                "-- COM_SET_OPTION: several statements {}",
                if *on { "ON" } else { "OFF" }
            )
        }
    }
}
