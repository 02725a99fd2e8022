//! Statements' digests: each is made once, as far as there is room for it.

use std::collections::HashMap;
use std::sync::Arc;

use wire::passive::{Exchange, Kind};
use wire::sql::digest_text;
use wire::{Dialect, Family};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// So many are remembered by their text, or so many bytes of texts and digests.
const DIGESTS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 64 << 20;

/// A statement's text and digest as they stand in every row.
#[derive(Clone)]
pub(super) struct Digest {
    pub(super) sql: Arc<str>,
    /// Its hash and text; none where the text is no statement.
    pub(super) digest: Option<(Arc<str>, Arc<str>)>,
}

impl Digest {
    fn bytes(&self) -> usize {
        let digest = self.digest.as_ref().map_or(0, |(_, digest)| digest.len());
        self.sql.len() + digest
    }
}

pub(super) struct Digests {
    family: Family,
    known: HashMap<(u128, bool, bool), Digest>,
    bytes: usize,
}

impl Digests {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            known: HashMap::new(),
            bytes: 0,
        }
    }

    /// The digest of an exchange's text; none of one without a text.
    pub(super) fn of(&mut self, exchange: &Exchange) -> Option<Digest> {
        let text = exchange.text.as_ref()?;
        // The name of a database is no statement.
        let is_statement = exchange.kind != Kind::InitDb;
        let escapes = exchange.backslash_escapes;
        let key = (
            xxh3_128_with_seed(&text.bytes, text.length),
            escapes,
            is_statement,
        );
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let dialect = Dialect {
            family: self.family,
            backslash_escapes: escapes,
        };
        let sql = String::from_utf8_lossy(&text.bytes);
        let digest = is_statement.then(|| {
            let digest = digest_text(dialect, &sql);
            let hash = format!("{:016x}", xxh3_64(digest.as_bytes()));
            (Arc::from(hash), Arc::from(digest))
        });
        let made = Digest {
            sql: Arc::from(sql),
            digest,
        };
        if self.known.len() >= DIGESTS_MAX || self.bytes + made.bytes() > BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += made.bytes();
        self.known.insert(key, made.clone());
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use wire::passive::Text;

    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_by_its_bytes_too() {
        let mut digests = Digests::new(Family::Mysql);
        let mut cleared = 0;
        for number in 0..600 {
            let mut sql = format!("SELECT {number} FROM t_{number} /*").into_bytes();
            sql.resize(1 << 18, b'x');
            let mut exchange = Exchange::new(Kind::Query, 0);
            exchange.text = Some(Text {
                length: sql.len() as u64,
                bytes: sql.into(),
            });
            let before = digests.known.len();
            let digest = digests.of(&exchange).expect("a text");
            assert_eq!(digest.sql.len(), 1 << 18);
            let held: usize = digests.known.values().map(Digest::bytes).sum();
            assert_eq!(held, digests.bytes);
            assert!(held <= BYTES_MAX, "{held} bytes");
            cleared += usize::from(digests.known.len() <= before);
            // The second time it is not made again.
            let again = digests.of(&exchange).expect("a text");
            assert!(Arc::ptr_eq(&digest.sql, &again.sql));
        }
        assert!(cleared >= 2, "{cleared}");
    }
}
