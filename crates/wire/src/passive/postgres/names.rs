//! Prepared statements and portals of a connection.

use std::collections::HashMap;

use crate::passive::{Text, Verb};

/// More names or bytes of text than these are not remembered: their executions have no text.
const NAMES_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 32 << 20;

/// What is remembered of a statement.
#[derive(Debug, Default, Clone)]
pub(super) struct Statement {
    pub(super) text: Option<Text>,
    pub(super) verb: Option<Verb>,
    /// Its parameters are not kept.
    pub(super) is_secret: bool,
    /// Its parameters' types, as the client or the server said them; 0 where nobody did.
    pub(super) types: Vec<u32>,
    /// How many were added before it.
    pub(super) number: u64,
}

/// What is remembered of a portal.
#[derive(Debug, Default, Clone)]
pub(super) struct Portal {
    pub(super) text: Option<Text>,
    pub(super) verb: Option<Verb>,
    pub(super) was_executed: bool,
    /// It has rows that were not fetched.
    pub(super) is_suspended: bool,
}

/// A Parse that is not answered yet.
#[derive(Debug)]
pub(super) struct Parsed {
    name: Vec<u8>,
    number: u64,
    /// What its name meant before.
    replaced: Option<Statement>,
}

impl Parsed {
    /// The server has refused it, which frees the statement without a name.
    pub(super) fn refused(&mut self) {
        if self.name.is_empty() {
            self.replaced = None;
        }
    }
}

/// Both.
#[derive(Debug, Default)]
pub(super) struct Names {
    statements: HashMap<Vec<u8>, Statement>,
    portals: HashMap<Vec<u8>, Portal>,
    text_bytes: usize,
    /// How many statements were added.
    pub(super) added: u64,
}

impl Names {
    pub(super) fn parse(&mut self, name: &[u8], mut statement: Statement) -> Parsed {
        let replaced = self.remove_statement(name);
        let number = self.added;
        statement.number = number;
        self.added += 1;
        self.add_statement(name, statement);
        Parsed {
            name: name.to_vec(),
            number,
            replaced,
        }
    }

    /// There is no such statement: its name means what it meant before.
    pub(super) fn take_back(&mut self, parsed: Parsed) {
        let known = self.statements.get(&parsed.name);
        if known.is_some_and(|known| known.number == parsed.number) {
            self.remove_statement(&parsed.name);
            if let Some(replaced) = parsed.replaced {
                self.add_statement(&parsed.name, replaced);
            }
        }
    }

    fn add_statement(&mut self, name: &[u8], mut statement: Statement) {
        if self.statements.len() >= NAMES_MAX {
            return;
        }
        let bytes = statement.text.as_ref().map_or(0, |text| text.bytes.len());
        if self.text_bytes + bytes > TEXT_BYTES_MAX {
            statement.text = None;
        } else {
            self.text_bytes += bytes;
        }
        self.statements.insert(name.to_vec(), statement);
    }

    pub(super) fn statement(&mut self, name: &[u8]) -> Option<&mut Statement> {
        self.statements.get_mut(name)
    }

    pub(super) fn remove_statement(&mut self, name: &[u8]) -> Option<Statement> {
        let removed = self.statements.remove(name)?;
        self.text_bytes -= removed.text.as_ref().map_or(0, |text| text.bytes.len());
        Some(removed)
    }

    /// SQL has freed a statement. Only one of the first `added` can be meant: a client may use its name again before it knows.
    pub(super) fn deallocate(&mut self, name: &[u8], added: u64) {
        let known = self.statements.get(name);
        if known.is_some_and(|known| known.number < added) {
            self.remove_statement(name);
        }
    }

    /// SQL has freed all statements with a name.
    pub(super) fn deallocate_all(&mut self, added: u64) {
        let all = self.statements.iter();
        let freed = all.filter(|(name, known)| !name.is_empty() && known.number < added);
        let freed: Vec<_> = freed.map(|(name, _)| name.clone()).collect();
        for name in freed {
            self.remove_statement(&name);
        }
    }

    /// Add a portal; whether one of its name had rows that were not fetched.
    pub(super) fn add_portal(&mut self, name: &[u8], portal: Portal) -> bool {
        if self.portals.len() >= NAMES_MAX {
            self.portals.clear();
        }
        let replaced = self.portals.insert(name.to_vec(), portal);
        replaced.is_some_and(|portal| portal.is_suspended)
    }

    pub(super) fn portal(&mut self, name: &[u8]) -> Option<&mut Portal> {
        self.portals.get_mut(name)
    }

    pub(super) fn remove_portal(&mut self, name: &[u8]) -> Option<Portal> {
        self.portals.remove(name)
    }

    /// The transaction is over, and with it all portals; whether one had rows that were not fetched.
    pub(super) fn end_portals(&mut self) -> bool {
        self.portals.drain().any(|(_, portal)| portal.is_suspended)
    }
}
