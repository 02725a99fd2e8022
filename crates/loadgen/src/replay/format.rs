//! The trace file: magic, version, then blocks. docs/reference/load.md describes it.

use ::trace::bytes::{Bytes, Malformed, put_number};
use serde::{Deserialize, Serialize};
use wire::{Family, RowsWanted};
use xxhash_rust::xxh3::Xxh3;

use crate::session::{StatementSpec, Way};

/// The first bytes of every trace.
pub(super) const MAGIC: &[u8; 8] = b"UPSHTRCE";
/// Raised when an older program could not read what a newer one writes. Captures begin with the same bytes, and have lower versions.
pub(super) const VERSION: u32 = 23;
/// The oldest that is read. 22 lacked unsigned integers and doubles, and is the same beside.
pub(super) const OLDEST: u32 = 22;
const _: () = assert!(OLDEST >= ::trace::LOAD_FROM);
/// Magic and version.
pub(super) const HEAD_BYTES: usize = MAGIC.len() + size_of::<u32>();
/// Kind, length and checksum before each block's payload.
pub(super) const BLOCK_HEAD_BYTES: usize = 1 + size_of::<u32>() + size_of::<u64>();
/// A block is closed when its payload has reached this: large enough to be cheap, and what a killed recorder loses at most.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// [`Meta`] as JSON; the first block and only that.
    Meta = b'M' as isize,
    /// Transactions.
    Transactions = b'T' as isize,
    /// [`Ending`]; the last block and only that.
    End = b'E' as isize,
}

impl BlockKind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Meta, Self::Transactions, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Checksum of a block.
pub(super) fn checksum(kind: u8, payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&[kind]);
    hash.update(payload);
    hash.digest()
}

/// A block as it stands in the file.
pub(super) fn block(kind: BlockKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_HEAD_BYTES + payload.len());
    bytes.push(kind as u8);
    // A block ends with the transaction that fills it, and no server takes one of 4 GiB.
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&checksum(kind as u8, payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The workload's name.
    pub workload: String,
    /// `mysql` or `postgres`.
    pub family: String,
    /// As the server said it.
    pub version: String,
    /// Connections of the recorded run.
    pub connections: u32,
    /// Its seed.
    pub seed: u64,
    /// Its knobs, as in the result.
    pub knobs: serde_json::Value,
    /// Its kinds of transactions.
    pub transactions: Vec<String>,
    /// Its statements, by number.
    pub statements: Vec<RecordedStatement>,
}

impl Meta {
    /// [`Self::family`] as wire has it.
    #[must_use]
    pub fn family(&self) -> Family {
        match self.family.as_str() {
            "postgres" => Family::Postgres,
            _ => Family::Mysql,
        }
    }

    /// The databases that its statements ran in, as far as that is known.
    #[must_use]
    pub fn databases(&self) -> Vec<&str> {
        let mut found = Vec::new();
        let databases = self.statements.iter();
        for database in databases.filter_map(|each| each.database.as_deref()) {
            if !found.contains(&database) {
                found.push(database);
            }
        }
        found
    }
}

/// A [`StatementSpec`] in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedStatement {
    /// Its name in results.
    pub name: String,
    /// With `?` for parameters.
    pub sql: String,
    /// The database that the application's connection was in, of a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Types of the parameters on `PostgreSQL`, by `pg_type`'s oid, as the application or its server gave them; 0 for what nobody said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<u32>,
    /// Only the first row is read.
    pub first_row: bool,
    /// It sets or asks the session.
    pub of_session: bool,
    /// How the application sent it, of a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
}

impl From<&StatementSpec> for RecordedStatement {
    fn from(spec: &StatementSpec) -> Self {
        Self {
            name: spec.name.clone(),
            sql: spec.sql.clone(),
            database: spec.database.clone(),
            types: spec.types.clone(),
            first_row: spec.rows == RowsWanted::First,
            of_session: spec.of_session,
            way: spec.way,
        }
    }
}

impl RecordedStatement {
    /// As the session takes it, on a server of `family`.
    #[must_use]
    pub fn spec(&self, family: Family) -> StatementSpec {
        let mut spec = StatementSpec {
            way: self.way,
            database: self.database.clone(),
            ..StatementSpec::new(&self.name, &self.sql)
        };
        if family == Family::Postgres {
            spec.types.clone_from(&self.types);
        }
        if self.first_row {
            spec = spec.first_row();
        }
        if self.of_session {
            spec = spec.of_session();
        }
        spec
    }
}

/// How many there are; says that the trace is whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ending {
    /// Transactions in the trace.
    pub transactions: u64,
    /// Requests in them: statements and the boundaries of transactions.
    pub statements: u64,
    /// Transactions that are not in the trace, because their connection was lost and nobody knows what became of them.
    pub lost: u64,
}

impl Ending {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [self.transactions, self.statements, self.lost] {
            put_number(&mut bytes, number);
        }
        bytes
    }

    pub(super) fn from_bytes(payload: &[u8]) -> Result<Self, Malformed> {
        let mut bytes = Bytes(payload);
        Ok(Self {
            transactions: bytes.number()?,
            statements: bytes.number()?,
            lost: bytes.number()?,
        })
    }
}
