//! What one session sends, in order, as bytes.

use wire::{BatchWay, Done, Value};

use super::codec::{Bytes, Malformed, put_number, put_values};
use crate::session::StatementId;

const BEGIN: u8 = 0;
const COMMIT: u8 = 1;
const ROLLBACK: u8 = 2;
const STATEMENT: u8 = 3;
const BATCH: u8 = 4;
const PING: u8 = 5;
const RESET: u8 = 6;

const WAYS: [BatchWay; 3] = [BatchWay::Single, BatchWay::Bulk, BatchWay::Pipeline];

/// What an answer counted; zeros where the server refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that it returned.
    pub rows: u64,
    /// Rows that it changed.
    pub affected: u64,
}

impl From<Done> for Counts {
    fn from(done: Done) -> Self {
        Self {
            rows: done.rows,
            affected: done.affected,
        }
    }
}

/// The requests of the transaction at hand. Boundaries stand on it also where the knobs send nothing for them, so that a replay can
/// choose its own knobs.
#[derive(Debug, Default)]
pub struct Tape {
    pub(super) bytes: Vec<u8>,
    pub(super) events: u64,
}

impl Tape {
    /// The transaction begins.
    pub fn begin(&mut self) {
        self.boundary(BEGIN);
    }

    /// It commits.
    pub fn commit(&mut self) {
        self.boundary(COMMIT);
    }

    /// It rolls back.
    pub fn rollback(&mut self) {
        self.boundary(ROLLBACK);
    }

    /// A round trip that asks for nothing.
    pub fn ping(&mut self) {
        self.boundary(PING);
    }

    /// The session is made as it was after its login.
    pub fn reset(&mut self) {
        self.boundary(RESET);
    }

    /// A statement; [`Self::answered`] follows.
    pub fn statement(&mut self, id: StatementId, parameters: &[Value]) {
        self.boundary(STATEMENT);
        put_number(&mut self.bytes, u64::from(id.0));
        put_values(&mut self.bytes, parameters);
    }

    /// A statement run once for each row; [`Self::answered`] follows.
    pub fn batch(&mut self, id: StatementId, rows: &[Vec<Value>], way: BatchWay) {
        self.boundary(BATCH);
        put_number(&mut self.bytes, u64::from(id.0));
        let way = WAYS.iter().position(|known| *known == way);
        self.bytes.push(way.unwrap_or_default() as u8);
        put_number(&mut self.bytes, rows.len() as u64);
        for row in rows {
            put_values(&mut self.bytes, row);
        }
    }

    /// The answer to the statement or batch before.
    pub fn answered(&mut self, counts: Counts) {
        put_number(&mut self.bytes, counts.rows);
        put_number(&mut self.bytes, counts.affected);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.events = 0;
    }

    fn boundary(&mut self, tag: u8) {
        self.bytes.push(tag);
        self.events += 1;
    }
}

/// One request of a recorded transaction.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names of Session's methods")]
pub enum Event {
    Begin,
    Commit,
    Rollback,
    Ping,
    Reset,
    Statement {
        id: StatementId,
        parameters: Vec<Value>,
        counts: Counts,
    },
    Batch {
        id: StatementId,
        rows: Vec<Vec<Value>>,
        way: BatchWay,
        counts: Counts,
    },
}

impl Event {
    /// The next one; `statements` is how many the trace names.
    pub(super) fn read(bytes: &mut Bytes<'_>, statements: usize) -> Result<Self, Malformed> {
        Ok(match bytes.byte()? {
            BEGIN => Self::Begin,
            COMMIT => Self::Commit,
            ROLLBACK => Self::Rollback,
            PING => Self::Ping,
            RESET => Self::Reset,
            STATEMENT => Self::Statement {
                id: statement_id(bytes, statements)?,
                parameters: bytes.values()?,
                counts: counts(bytes)?,
            },
            BATCH => {
                let id = statement_id(bytes, statements)?;
                let way = *WAYS.get(usize::from(bytes.byte()?)).ok_or(Malformed)?;
                let rows = bytes.number()?;
                let rows = (0..rows)
                    .map(|_| bytes.values())
                    .collect::<Result<_, _>>()?;
                let counts = counts(bytes)?;
                Self::Batch {
                    id,
                    rows,
                    way,
                    counts,
                }
            }
            _ => return Err(Malformed),
        })
    }
}

fn counts(bytes: &mut Bytes<'_>) -> Result<Counts, Malformed> {
    let rows = bytes.number()?;
    let affected = bytes.number()?;
    Ok(Counts { rows, affected })
}

fn statement_id(bytes: &mut Bytes<'_>, statements: usize) -> Result<StatementId, Malformed> {
    let id = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    if usize::from(id) < statements {
        Ok(StatementId(id))
    } else {
        Err(Malformed)
    }
}
