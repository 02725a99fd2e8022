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
#[derive(Debug, Default)]
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
                let session = self.of(*connection, *at_ns, true);
                session.joined_late = *joined_late;
            }
            Record::Session { connection, facts } => {
                let session = self.of(*connection, facts.began_ns, facts.joined_late);
                session.facts = (**facts).clone();
            }
            Record::Exchange {
                connection,
                exchange,
            } => {
                self.of(*connection, exchange.request_ns, true);
            }
            Record::Gap {
                connection, at_ns, ..
            }
            | Record::Unread {
                connection, at_ns, ..
            } => {
                self.of(*connection, *at_ns, true);
            }
            Record::Closed {
                connection, at_ns, ..
            } => self.of(*connection, *at_ns, true).ended_ns = Some(*at_ns),
            Record::Lost { .. } => {}
        }
    }

    /// A connection, which has a row even if the record of its begin was lost.
    fn of(&mut self, connection: u32, at_ns: u64, joined_late: bool) -> &mut Session {
        self.0.entry(connection).or_insert_with(|| Session {
            began_ns: at_ns,
            joined_late,
            ..Session::default()
        })
    }

    /// Write the table; how many rows it has.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn write(self, path: &Path, has_round_trips: bool) -> anyhow::Result<usize> {
        let mut table = Table::create(path, &COLUMNS)?;
        let rows = self.0.len();
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
        table.finish()?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use wire::passive::{Exchange, Kind};

    use super::*;

    /// As where the disk was too slow for the block that had its begin.
    #[test]
    fn a_connection_whose_begin_was_lost_has_a_row() {
        let mut sessions = Sessions::default();
        sessions.add(&Record::Exchange {
            connection: 7,
            exchange: Box::new(Exchange::new(Kind::Ping, 5_000)),
        });
        sessions.add(&Record::Connected {
            connection: 8,
            at_ns: 6_000,
            joined_late: false,
        });
        let found = sessions.0.iter();
        let found = found.map(|(number, each)| (*number, each.began_ns, each.joined_late));
        let expected = [(7, 5_000, true), (8, 6_000, false)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
