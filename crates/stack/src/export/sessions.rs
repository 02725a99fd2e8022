//! sessions.parquet: a row a connection.

use std::collections::BTreeMap;
use std::path::Path;

use trace::Record;
use wire::passive::{Compression, SessionFacts};

use super::table::{Table, Type, Value};

const COLUMNS: [(&str, Type); 14] = [
    ("connection", Type::Int),
    ("began_us", Type::Int),
    ("ended_us", Type::Int),
    ("joined_late", Type::Bool),
    ("client", Type::Text),
    ("client_version", Type::Text),
    ("database", Type::Text),
    ("character_set", Type::Text),
    ("attributes", Type::Text),
    ("server_version", Type::Text),
    ("user_hash", Type::Text),
    ("tls", Type::Bool),
    ("compressed", Type::Bool),
    ("login_round_trips", Type::Int),
];

/// What a trace tells of a connection.
#[derive(Default)]
struct Session {
    began_ns: u64,
    ended_ns: Option<u64>,
    joined_late: bool,
    facts: SessionFacts,
}

/// All connections.
#[derive(Default)]
pub(super) struct Sessions(BTreeMap<u32, Session>);

impl Sessions {
    pub(super) fn add(&mut self, record: &Record) {
        match record {
            Record::Connected {
                connection,
                at_ns,
                joined_late,
            } => {
                let session = self.0.entry(*connection).or_default();
                session.began_ns = *at_ns;
                session.joined_late = *joined_late;
            }
            Record::Session { connection, facts } => {
                self.0.entry(*connection).or_default().facts = (**facts).clone();
            }
            Record::Closed {
                connection, at_ns, ..
            } => self.0.entry(*connection).or_default().ended_ns = Some(*at_ns),
            _ => {}
        }
    }

    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn write(self, path: &Path, has_round_trips: bool) -> anyhow::Result<()> {
        let mut table = Table::create(path, &COLUMNS)?;
        for (connection, session) in self.0 {
            let facts = session.facts;
            let attributes: serde_json::Map<String, serde_json::Value> = facts
                .attributes
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect();
            let version = Some(facts.server_version).filter(|version| !version.is_empty());
            let us = |ns: u64| Value::count(ns / 1000);
            table.add([
                Value::Int(connection.into()),
                us(session.began_ns),
                Value::option(session.ended_ns, us),
                Value::Bool(session.joined_late || facts.joined_late),
                Value::option(facts.client, Value::text),
                Value::option(facts.client_version, Value::text),
                Value::option(facts.database, Value::text),
                Value::option(facts.character_set, Value::text),
                Value::text(serde_json::to_string(&attributes)?),
                Value::option(version, Value::text),
                Value::Null,
                Value::Bool(facts.tls),
                Value::Bool(facts.compression != Compression::None),
                Value::option(
                    has_round_trips.then_some(facts.login_round_trips),
                    Value::count,
                ),
            ])?;
        }
        table.finish()
    }
}
