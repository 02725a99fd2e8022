//! Prepared statements of a connection.

use std::collections::HashMap;

use crate::passive::{Text, Verb};

/// More statements or bytes of text than this are not remembered: their executions have no text.
const STATEMENTS_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 32 << 20;
/// Parameters sent as long data that are told apart.
const LONG_MAX: usize = 1024;
/// MariaDB: the statement that was prepared last.
const LAST: u32 = u32::MAX;

/// What is remembered of a statement.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) text: Option<Text>,
    pub(super) verb: Option<Verb>,
    /// Its parameters are not kept.
    pub(super) is_secret: bool,
    /// How many; `None` where that was not seen.
    pub(super) parameters: Option<u16>,
    /// Their types as they were sent last.
    pub(super) types: Vec<u16>,
    /// Parameters that were sent before as long data, and their bytes.
    pub(super) long: Vec<(u16, u64)>,
    /// It has a cursor with rows that were not fetched.
    pub(super) has_cursor: bool,
}

impl Prepared {
    pub(super) fn add_long(&mut self, parameter: u16, bytes: u64) {
        let known = self
            .long
            .iter_mut()
            .find(|(number, _)| *number == parameter);
        if let Some((_, length)) = known {
            *length += bytes;
        } else if self.long.len() < LONG_MAX {
            self.long.push((parameter, bytes));
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Statements {
    by_id: HashMap<u32, Prepared>,
    text_bytes: usize,
    last: u32,
}

impl Statements {
    pub(super) fn add(&mut self, id: u32, mut prepared: Prepared) {
        self.remove(id);
        self.last = id;
        if self.by_id.len() >= STATEMENTS_MAX {
            return;
        }
        let bytes = prepared.text.as_ref().map_or(0, |text| text.bytes.len());
        if self.text_bytes + bytes > TEXT_BYTES_MAX {
            prepared.text = None;
        } else {
            self.text_bytes += bytes;
        }
        self.by_id.insert(id, prepared);
    }

    /// The statement; an empty one where it was prepared before.
    pub(super) fn get(&mut self, id: u32) -> &mut Prepared {
        let id = if id == LAST { self.last } else { id };
        if !self.by_id.contains_key(&id) && self.by_id.len() >= STATEMENTS_MAX {
            self.clear();
        }
        self.by_id.entry(id).or_default()
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Prepared> {
        let id = if id == LAST { self.last } else { id };
        let removed = self.by_id.remove(&id)?;
        self.text_bytes -= removed.text.as_ref().map_or(0, |text| text.bytes.len());
        Some(removed)
    }

    /// Forget all; whether one of them had a cursor.
    pub(super) fn clear(&mut self) -> bool {
        self.text_bytes = 0;
        self.by_id.drain().any(|(_, prepared)| prepared.has_cursor)
    }
}
