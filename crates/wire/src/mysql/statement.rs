//! Prepared statements: what the server and we remember of each, one execution, and MariaDB's execution for many rows.

use super::binary;
use super::definitions::Definitions;
use super::field::{Fields, refusal};
use super::login::BULK;
use super::result::{Encoding, settle};
use super::{COM_QUERY, Mysql};
use crate::{Done, Error, Fetch, RowSink, RowsWanted, Statement, Value};

const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_FETCH: u8 = 0x1C;
const COM_STMT_BULK_EXECUTE: u8 = 0xFA;

/// The flag of a bulk execution that says that the parameters' types come with it.
const BULK_TYPES: u16 = 128;
const BULK_VALUE: u8 = 0;
const BULK_NULL: u8 = 1;

/// A bulk execution ends with the row that makes it so long, in bytes: MariaDB takes 16 MiB unless `max_allowed_packet` says less.
const BULK_BYTES: usize = 1 << 20;

/// What is remembered of a prepared statement.
#[derive(Default)]
pub(super) struct Prepared {
    /// The parameter types that the server knows: sent again only where they change.
    kinds: Vec<u16>,
    definitions: Definitions,
}

impl Mysql {
    /// Have column definitions sent or left out, where the server lets us choose: they are needed where a statement is prepared, and
    /// only there. A round trip where the choice is another than before.
    pub(super) fn switch_definitions(&mut self, wanted: bool) -> Result<(), Error> {
        if self.definitions.is_none_or(|now| now == wanted) {
            return Ok(());
        }
        let choice = if wanted { "FULL" } else { "NONE" };
        self.packets.command(|out| {
            out.push(COM_QUERY);
            out.extend_from_slice(b"SET SESSION resultset_metadata = ");
            out.extend_from_slice(choice.as_bytes());
        })?;
        settle(&mut self.packets)?;
        self.definitions = Some(wanted);
        Ok(())
    }

    pub(super) fn read_prepared(&mut self) -> Result<Statement, Error> {
        let payload = self.packets.read()?;
        if payload.first() == Some(&0xFF) {
            return Err(refusal(payload));
        }
        let mut fields = Fields(payload);
        fields.u8()?;
        let statement = Statement {
            id: fields.u32()?,
            columns: fields.u16()?,
            parameters: fields.u16()?,
        };
        for _ in 0..statement.parameters {
            self.packets.read()?;
        }
        let mut prepared = Prepared::default();
        prepared
            .definitions
            .read(&mut self.packets, statement.columns, &mut ())?;
        self.prepared.insert(statement.id, prepared);
        Ok(statement)
    }

    /// Whether the server has taken types over is not known after a refusal.
    pub(super) fn forget_kinds(&mut self, statement: &Statement) {
        if let Some(prepared) = self.prepared.get_mut(&statement.id) {
            prepared.kinds.clear();
        }
    }

    pub(super) fn send_execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        cursor: bool,
    ) -> Result<(), Error> {
        let known = &mut self.prepared.entry(statement.id).or_default().kinds;
        let mut changed = known.len() != parameters.len();
        known.resize(parameters.len(), binary::KIND_UNKNOWN);
        for (kind, value) in known.iter_mut().zip(parameters) {
            let now = binary::kind(value, *kind);
            changed |= now != *kind;
            *kind = now;
        }
        let scratch = &mut self.scratch;
        self.packets.command(|out| {
            out.push(COM_STMT_EXECUTE);
            out.extend_from_slice(&statement.id.to_le_bytes());
            out.push(u8::from(cursor));
            out.extend_from_slice(&1u32.to_le_bytes());
            if parameters.is_empty() {
                return;
            }
            let bitmap = out.len();
            out.resize(bitmap + parameters.len().div_ceil(8), 0);
            for (position, value) in parameters.iter().enumerate() {
                if *value == Value::Null {
                    out[bitmap + position / 8] |= 1 << (position % 8);
                }
            }
            out.push(u8::from(changed));
            if changed {
                put_kinds(out, known);
            }
            for value in parameters {
                binary::put(out, value, scratch);
            }
        })
    }

    pub(super) fn read_execute(
        &mut self,
        statement: &Statement,
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        let mut done = Done::default();
        self.swap_definitions(statement);
        let read = self.read_fetches(statement, fetch, rows, &mut done);
        self.swap_definitions(statement);
        read.map(|()| done)
    }

    /// Let [`Results`](super::result::Results) have what is known of a statement's results, or take it back.
    fn swap_definitions(&mut self, statement: &Statement) {
        let prepared = self.prepared.entry(statement.id).or_default();
        std::mem::swap(&mut self.results.definitions, &mut prepared.definitions);
    }

    fn read_fetches(
        &mut self,
        statement: &Statement,
        fetch: Fetch,
        rows: &mut dyn RowSink,
        done: &mut Done,
    ) -> Result<(), Error> {
        let (packets, results) = (&mut self.packets, &mut self.results);
        let mut more = results.read(packets, Encoding::Binary, fetch.rows, rows, done)?;
        // A cursor that is left open is closed by the statement's next execution.
        while more && (fetch.rows == RowsWanted::All || done.rows == 0) {
            packets.command(|out| {
                out.push(COM_STMT_FETCH);
                out.extend_from_slice(&statement.id.to_le_bytes());
                out.extend_from_slice(&fetch.size.to_le_bytes());
            })?;
            more = results.fetched(packets, fetch.rows, rows, done)?;
        }
        Ok(())
    }

    /// Run a statement for all rows: each execution takes as many as have parameters of the same types and fit.
    pub(super) fn bulk(
        &mut self,
        statement: &Statement,
        rows: &[Vec<Value>],
    ) -> Result<Done, Error> {
        if self.offered & BULK == 0 {
            return Err(Error::Unsupported(format!(
                "bulk execution on server {}, which is no MariaDB: use multi-row statements",
                self.version
            )));
        }
        if statement.parameters == 0 {
            return Err(Error::Unsupported(
                "bulk execution of a statement without parameters".to_owned(),
            ));
        }
        // The types that come with it are the server's from then on.
        self.forget_kinds(statement);
        let mut done = Done::default();
        let mut rest = rows;
        while !rest.is_empty() {
            rest = &rest[self.send_bulk(statement, rest)?..];
            done += self.read_execute(statement, Fetch::ALL, &mut ())?;
        }
        Ok(done)
    }

    /// Send the first of the rows; how many.
    fn send_bulk(&mut self, statement: &Statement, rows: &[Vec<Value>]) -> Result<usize, Error> {
        let (alike, kinds) = alike(statement, rows);
        let scratch = &mut self.scratch;
        let mut sent = 0;
        self.packets.command(|out| {
            out.push(COM_STMT_BULK_EXECUTE);
            out.extend_from_slice(&statement.id.to_le_bytes());
            out.extend_from_slice(&BULK_TYPES.to_le_bytes());
            put_kinds(out, &kinds);
            for row in &rows[..alike] {
                for value in row {
                    out.push(match value {
                        Value::Null => BULK_NULL,
                        _ => BULK_VALUE,
                    });
                    binary::put(out, value, scratch);
                }
                sent += 1;
                if out.len() >= BULK_BYTES {
                    break;
                }
            }
        })?;
        Ok(sent)
    }
}

fn put_kinds(out: &mut Vec<u8>, kinds: &[u16]) {
    for kind in kinds {
        out.extend_from_slice(&kind.to_le_bytes());
    }
}

/// How many of the first rows have parameters of the same types, and these types.
fn alike(statement: &Statement, rows: &[Vec<Value>]) -> (usize, Vec<u16>) {
    let mut kinds: Vec<Option<u16>> = vec![None; statement.parameters.into()];
    let mut fits = |row: &Vec<Value>| {
        row.iter().zip(&mut kinds).all(|(value, kind)| {
            *value == Value::Null || {
                let now = binary::kind(value, binary::KIND_UNKNOWN);
                *kind.get_or_insert(now) == now
            }
        })
    };
    let alike = rows.iter().map_while(|row| fits(row).then_some(())).count();
    let kinds = kinds
        .into_iter()
        .map(|kind| kind.unwrap_or(binary::KIND_UNKNOWN));
    (alike, kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_as_a_blob_behind_their_length() {
        let (value, mut sent) = (Value::Bytes(vec![0xFF, 0]), Vec::new());
        binary::put(&mut sent, &value, &mut String::new());
        assert_eq!((binary::kind(&value, 0), sent), (252, vec![2, 0xFF, 0]));
    }

    #[test]
    fn numbers_go_as_what_they_are() {
        for (value, kind, bytes) in [
            (Value::Int(-2), [8, 0], (-2_i64).to_le_bytes()),
            (Value::UInt(u64::MAX), [8, 0x80], [0xFF; 8]),
            (Value::Double(10.5), [5, 0], 10.5_f64.to_le_bytes()),
        ] {
            let (mut kinds, mut sent) = (Vec::new(), Vec::new());
            put_kinds(&mut kinds, &[binary::kind(&value, 0)]);
            binary::put(&mut sent, &value, &mut String::new());
            assert_eq!((&kinds[..], &sent[..]), (&kind[..], &bytes[..]));
        }
    }

    #[test]
    fn a_bulk_execution_ends_where_a_type_changes_but_not_at_null() {
        let statement = Statement {
            id: 1,
            parameters: 2,
            columns: 0,
        };
        let text = || Value::Text("x".to_owned());
        let rows = [
            vec![Value::Null, text()],
            vec![Value::Int(1), Value::Null],
            vec![Value::Int(2), text()],
            vec![text(), text()],
        ];
        let (count, kinds) = alike(&statement, &rows);
        assert_eq!(count, 3);
        assert_eq!(kinds[0], binary::kind(&Value::Int(0), 0));
        assert_eq!(alike(&statement, &rows[3..]).0, 1);
    }
}
