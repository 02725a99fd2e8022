//! What one session sends, in order, as bytes.

use std::time::Duration;

use ::trace::bytes::{Bytes, Malformed, put_number};
use wire::{BatchWay, Done, Value};

use super::codec::{put_values, values};
use crate::session::StatementId;

const BEGIN: u8 = 0;
const COMMIT: u8 = 1;
const ROLLBACK: u8 = 2;
const STATEMENT: u8 = 3;
const BATCH: u8 = 4;
const PING: u8 = 5;
const RESET: u8 = 6;
/// Stands before a request and is none itself.
const PAUSE: u8 = 7;

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

    /// So long did the client take between the answer before and the request that follows; less than a microsecond is nothing.
    pub fn pause(&mut self, pause: Duration) {
        let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        if pause_us > 0 {
            self.bytes.push(PAUSE);
            put_number(&mut self.bytes, pause_us);
        }
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

/// One request of a recorded transaction, and how long the client took before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Between the answer before, in this transaction, and the request.
    pub pause: Duration,
    /// The request.
    pub event: Event,
}

impl Step {
    /// The next one; `statements` is how many the trace names.
    pub(super) fn read(bytes: &mut Bytes<'_>, statements: usize) -> Result<Self, Malformed> {
        let mut pause = Duration::ZERO;
        if bytes.0.first() == Some(&PAUSE) {
            bytes.byte()?;
            pause = Duration::from_micros(bytes.number()?);
        }
        Ok(Self {
            pause,
            event: Event::read(bytes, statements)?,
        })
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
    fn read(bytes: &mut Bytes<'_>, statements: usize) -> Result<Self, Malformed> {
        Ok(match bytes.byte()? {
            BEGIN => Self::Begin,
            COMMIT => Self::Commit,
            ROLLBACK => Self::Rollback,
            PING => Self::Ping,
            RESET => Self::Reset,
            STATEMENT => Self::Statement {
                id: statement_id(bytes, statements)?,
                parameters: values(bytes)?,
                counts: counts(bytes)?,
            },
            BATCH => {
                let id = statement_id(bytes, statements)?;
                let way = *WAYS.get(usize::from(bytes.byte()?)).ok_or(Malformed)?;
                let rows = bytes.number()?;
                let rows = (0..rows).map(|_| values(bytes)).collect::<Result<_, _>>()?;
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
    let id: u16 = bytes.small()?;
    if usize::from(id) < statements {
        Ok(StatementId(id))
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_belongs_to_the_request_behind_it_and_is_none_itself() {
        let mut tape = Tape::default();
        let pauses_us = [0, 1, 300, 1 << 40];
        for pause_us in pauses_us {
            tape.pause(Duration::from_micros(pause_us) + Duration::from_nanos(999));
            tape.ping();
        }
        assert_eq!(tape.events, 4);
        let mut bytes = Bytes(&tape.bytes);
        for pause_us in pauses_us {
            let step = Step::read(&mut bytes, 0).expect("whole");
            let pause = Duration::from_micros(pause_us);
            let event = Event::Ping;
            assert_eq!(step, Step { pause, event });
        }
        assert!(bytes.0.is_empty());
        // No recording writes two of them, or one that nothing follows.
        for wrong in [&[PAUSE, 5, PAUSE, 5, PING][..], &[PAUSE, 5]] {
            assert!(Step::read(&mut Bytes(wrong), 0).is_err(), "{wrong:?}");
        }
    }
}
