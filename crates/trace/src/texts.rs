//! The dictionary of statements: each text is written once, when it is first seen.

use std::collections::HashMap;

use wire::passive::{Exchange, Kind, Text};
use wire::sql::mask;
use wire::{Dialect, Family};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::bytes::{put_bytes, put_number};
use crate::encode::{FORGET, TEXT};

/// The dictionary begins anew behind so many texts or bytes of them.
const TEXTS_MAX: usize = 1 << 16;
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Masked, the longest text of a capture has fewer bytes: a block has room for such a text and its parameters.
const ONE_BYTES_MAX: usize = 4 << 20;

/// Numbers of texts that a reader knows.
#[derive(Debug)]
pub(crate) struct Texts {
    family: Family,
    masks: bool,
    /// By the hash of the text as it was sent, and of what is written for it, and whether it is masked.
    numbers: HashMap<(u128, bool), u64>,
    next: u64,
    bytes: usize,
    /// A reader may know texts that are forgotten here.
    forgot: bool,
}

impl Texts {
    pub(crate) fn new(family: Family, masks: bool) -> Self {
        Self {
            family,
            masks,
            numbers: HashMap::new(),
            next: 0,
            bytes: 0,
            forgot: false,
        }
    }

    /// The number of an exchange's text, which is written first where a reader does not know it.
    pub(crate) fn number(&mut self, out: &mut Vec<u8>, exchange: &Exchange) -> Option<u64> {
        let text = exchange.text.as_ref()?;
        // The name of a database is no statement, and has no literals.
        let masks = self.masks && exchange.kind != Kind::InitDb;
        Some(self.number_of(out, text, masks, exchange.backslash_escapes))
    }

    fn number_of(&mut self, out: &mut Vec<u8>, text: &Text, masks: bool, escapes: bool) -> u64 {
        if self.next as usize >= TEXTS_MAX || self.bytes >= TEXT_BYTES_MAX {
            self.forget();
        }
        if std::mem::take(&mut self.forgot) {
            out.push(FORGET);
        }
        let key = (xxh3_128_with_seed(&text.bytes, text.length), masks);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if !masks {
            return self.add(out, key, &text.bytes, text.length);
        }
        let dialect = Dialect {
            family: self.family,
            backslash_escapes: escapes,
        };
        let masked = mask(dialect, &text.bytes);
        let masked_key = (xxh3_128_with_seed(&masked, u64::MAX), masks);
        let number = match self.numbers.get(&masked_key) {
            Some(number) => *number,
            None => self.add(out, masked_key, &masked, text.length),
        };
        // Statements that differ in literals alone come without end.
        if self.numbers.len() < 2 * TEXTS_MAX {
            self.numbers.insert(key, number);
        }
        number
    }

    /// A reader that goes on from here knows no text.
    pub(crate) fn forget(&mut self) {
        self.numbers.clear();
        self.next = 0;
        self.bytes = 0;
        self.forgot = true;
    }

    fn add(&mut self, out: &mut Vec<u8>, key: (u128, bool), bytes: &[u8], length: u64) -> u64 {
        let bytes = &bytes[..bytes.len().min(ONE_BYTES_MAX)];
        let number = self.next;
        self.next += 1;
        self.bytes += bytes.len();
        self.numbers.insert(key, number);
        out.push(TEXT);
        put_number(out, length);
        put_bytes(out, bytes);
        number
    }
}
