//! In which database each connection of a capture is.

use std::collections::HashMap;

use wire::passive::{Exchange, Kind, SessionFacts, Verb};
use wire::sql::used_database;
use wire::{Dialect, Family};

use super::ways::is_several;

/// By connection. One is missing where nobody knows.
#[derive(Debug, Default)]
pub(super) struct Databases(HashMap<u32, String>);

impl Databases {
    /// What a login told.
    pub(super) fn logged_in(&mut self, connection: u32, facts: &SessionFacts) {
        self.set(connection, facts.database.clone());
    }

    /// Where the connection's next request runs.
    pub(super) fn of(&self, connection: u32) -> Option<&String> {
        self.0.get(&connection)
    }

    /// A request has passed: it may have gone elsewhere.
    pub(super) fn passed(&mut self, connection: u32, exchange: &Exchange) {
        if exchange.error.is_some() {
            return;
        }
        let text = exchange.text.as_ref().map_or(&[][..], |text| &text.bytes);
        match exchange.kind {
            Kind::InitDb => {
                let name = String::from_utf8(text.to_vec()).ok();
                self.set(connection, name);
            }
            // A trace does not have what it says.
            Kind::ChangeUser => self.set(connection, None),
            _ if is_several(Family::Mysql, exchange) && has_use(text) => self.set(connection, None),
            _ if exchange.verb == Some(Verb::Use) => {
                let dialect = Dialect {
                    family: Family::Mysql,
                    backslash_escapes: exchange.backslash_escapes,
                };
                self.set(connection, used_database(dialect, text));
            }
            _ => {}
        }
    }

    /// The connection has ended.
    pub(super) fn closed(&mut self, connection: u32) {
        self.set(connection, None);
    }

    fn set(&mut self, connection: u32, database: Option<String>) {
        match database {
            Some(database) => self.0.insert(connection, database),
            None => self.0.remove(&connection),
        };
    }
}

/// Whether one of several statements may go to another database.
fn has_use(text: &[u8]) -> bool {
    text.split(|byte| !byte.is_ascii_alphanumeric())
        .any(|word| word.eq_ignore_ascii_case(b"use"))
}
