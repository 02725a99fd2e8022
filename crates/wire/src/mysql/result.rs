//! What comes back for a statement.

use super::binary::{Column, MADE_TEXT_BYTES};
use super::definitions::Definitions;
use super::field::{End, Fields, end, refusal};
use super::packet::Packets;
use crate::{Cell, Done, Error, RowSink, RowsWanted};

const MORE_RESULTS: u16 = 0x08;
const CURSOR_EXISTS: u16 = 0x40;
const LAST_ROW_SENT: u16 = 0x80;
pub(super) const NO_BACKSLASH_ESCAPES: u16 = 0x200;

/// Which encoding the rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Text,
    Binary,
}

/// Reads results; keeps what it needs for that from one to the next.
pub(super) struct Results {
    /// A result's header says whether column definitions follow.
    pub(super) announces_columns: bool,
    /// As the server said it last.
    pub(super) status: u16,
    /// Of the last result in binary encoding; the caller puts here what it knows of the next one's.
    pub(super) definitions: Definitions,
    cells: Vec<Cell<'static>>,
    made: Vec<u8>,
}

impl Results {
    pub(super) fn new(announces_columns: bool, status: u16) -> Self {
        Self {
            announces_columns,
            status,
            definitions: Definitions::default(),
            cells: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Read all results of a statement. True: a cursor is open and has rows to fetch.
    pub(super) fn read(
        &mut self,
        packets: &mut Packets,
        encoding: Encoding,
        wanted: RowsWanted,
        sink: &mut dyn RowSink,
        done: &mut Done,
    ) -> Result<bool, Error> {
        let mut is_load = false;
        loop {
            let payload = packets.read()?;
            match payload.first() {
                Some(0x00) => {
                    let end = end(payload)?;
                    done.affected = done.affected.saturating_add(end.affected);
                    done.last_insert_id = end.last_insert_id;
                    self.ended(&end, done);
                }
                Some(0xFF) => return Err(refusal(payload)),
                Some(0xFB) => {
                    packets.reply(|_| {})?;
                    // The server answers the empty file, and runs what follows in the same text.
                    is_load = true;
                    continue;
                }
                _ => {
                    let mut header = Fields(payload);
                    let columns = header.length()?;
                    let announced = !self.announces_columns || header.u8()? != 0;
                    // A statement's answer has room for so many.
                    let columns = u16::try_from(columns)
                        .map_err(|_| Error::Protocol(format!("a result of {columns} columns")))?;
                    let sink = if is_load { &mut () } else { &mut *sink };
                    self.definitions(packets, encoding, columns, announced, sink)?;
                    self.rows(packets, encoding, columns, wanted, sink, done)?;
                }
            }
            if is_load && self.status & MORE_RESULTS == 0 {
                let why = "LOAD DATA LOCAL as a statement";
                return Err(Error::Unsupported(why.to_owned()));
            }
            if self.status & MORE_RESULTS == 0 {
                return Ok(self.status & (CURSOR_EXISTS | LAST_ROW_SENT) == CURSOR_EXISTS);
            }
        }
    }

    /// Read the definitions of a result's columns, where the server sends them.
    fn definitions(
        &mut self,
        packets: &mut Packets,
        encoding: Encoding,
        columns: u16,
        announced: bool,
        sink: &mut dyn RowSink,
    ) -> Result<(), Error> {
        match (announced, encoding) {
            (true, _) => self.definitions.read(packets, columns, sink),
            // Text is read without.
            (false, Encoding::Text) => Ok(()),
            (false, Encoding::Binary) if self.definitions.columns.len() == usize::from(columns) => {
                self.definitions.tell(sink)
            }
            (false, Encoding::Binary) => Err(Error::Protocol(format!(
                "{columns} columns without definitions, {} when prepared: use metadata=on for this statement",
                self.definitions.columns.len()
            ))),
        }
    }

    /// Read the rows of a fetch. True: there are more.
    pub(super) fn fetched(
        &mut self,
        packets: &mut Packets,
        wanted: RowsWanted,
        sink: &mut dyn RowSink,
        done: &mut Done,
    ) -> Result<bool, Error> {
        let columns = self.definitions.columns.len() as u16;
        self.rows(packets, Encoding::Binary, columns, wanted, sink, done)?;
        Ok(self.status & LAST_ROW_SENT == 0)
    }

    fn rows(
        &mut self,
        packets: &mut Packets,
        encoding: Encoding,
        columns: u16,
        wanted: RowsWanted,
        sink: &mut dyn RowSink,
        done: &mut Done,
    ) -> Result<(), Error> {
        let made_bytes = usize::from(columns) * MADE_TEXT_BYTES;
        if encoding == Encoding::Binary && self.made.len() < made_bytes {
            self.made.resize(made_bytes, 0);
        }
        loop {
            let payload = packets.read()?;
            match payload.first() {
                Some(0xFF) => return Err(refusal(payload)),
                // A text row may begin so too, but only with a cell of 16 MiB or more.
                Some(0xFE) if payload.len() < 0xFF_FFFF => {
                    self.ended(&end(payload)?, done);
                    return Ok(());
                }
                _ => {}
            }
            done.rows += 1;
            if wanted == RowsWanted::First && done.rows > 1 {
                continue;
            }
            let mut cells = Cell::recycled(std::mem::take(&mut self.cells));
            match encoding {
                Encoding::Text => text_row(payload, columns.into(), &mut cells)?,
                Encoding::Binary => {
                    let columns = &self.definitions.columns;
                    binary_row(payload, columns, &mut self.made, &mut cells)?;
                }
            }
            sink.row(&cells);
            self.cells = Cell::recycled(cells);
        }
    }

    fn ended(&mut self, end: &End, done: &mut Done) {
        self.status = end.status;
        done.warnings = end.warnings.into();
    }
}

/// Read an answer that has no rows.
pub(super) fn settle(packets: &mut Packets) -> Result<u64, Error> {
    let payload = packets.read()?;
    match payload.first() {
        Some(0x00) => Ok(end(payload)?.affected),
        Some(0xFF) => Err(refusal(payload)),
        _ => Err(Error::Protocol("neither OK nor an error".to_owned())),
    }
}

fn text_row<'a>(payload: &'a [u8], columns: usize, cells: &mut Vec<Cell<'a>>) -> Result<(), Error> {
    let mut fields = Fields(payload);
    for _ in 0..columns {
        cells.push(match fields.0 {
            [0xFB, rest @ ..] => {
                fields.0 = rest;
                Cell::Null
            }
            _ => Cell::Bytes(fields.text()?),
        });
    }
    Ok(())
}

fn binary_row<'a>(
    payload: &'a [u8],
    columns: &[Column],
    mut made: &'a mut [u8],
    cells: &mut Vec<Cell<'a>>,
) -> Result<(), Error> {
    let mut fields = Fields(payload);
    fields.u8()?;
    // The bitmap begins at its third bit.
    let nulls = fields.bytes((columns.len() + 9) / 8)?;
    for (position, column) in columns.iter().enumerate() {
        let bit = position + 2;
        cells.push(if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            Cell::Null
        } else {
            column.cell(&mut fields, &mut made)?
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::definitions::parse;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn garbage_never_panics(
            definitions in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..8),
            payload in proptest::collection::vec(any::<u8>(), 0..128),
        ) {
            let columns: Vec<Column> = definitions
                .iter()
                .map(|(kind, flags, decimals)| {
                    let mut bytes = vec![0; 6];
                    bytes.extend_from_slice(&[12, 0, 0, 0, 0, 0, 0, *kind, *flags, 0, *decimals]);
                    Column::of(&parse(&bytes).expect("a definition"))
                })
                .collect();
            let mut made = vec![0; columns.len() * MADE_TEXT_BYTES];
            let _ = binary_row(&payload, &columns, &mut made, &mut Vec::new());
            let _ = text_row(&payload, columns.len(), &mut Vec::new());
            let _ = parse(&payload);
        }
    }
}
