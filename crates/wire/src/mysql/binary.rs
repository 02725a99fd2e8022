//! The binary protocol's values: parameters out, cells in.

use std::io::Write;

use super::field::{Fields, put_text};
use super::number;
use crate::civil::Civil;
use crate::{Cell, ColumnDefinition, Error, Value};

const TINY: u8 = 1;
const SHORT: u8 = 2;
const LONG: u8 = 3;
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
const NULL: u8 = 6;
const TIMESTAMP: u8 = 7;
const LONGLONG: u8 = 8;
const INT24: u8 = 9;
const DATE: u8 = 10;
const TIME: u8 = 11;
const DATETIME: u8 = 12;
const YEAR: u8 = 13;
const NEWDECIMAL: u8 = 246;
const BLOB: u8 = 252;
const VAR_STRING: u8 = 253;

const UNSIGNED_FLAG: u16 = 32;
const ZEROFILL_FLAG: u16 = 64;

/// The longest text made of a number or a point in time, in bytes.
pub(super) const MADE_TEXT_BYTES: usize = number::TEXT_BYTES_MAX;

/// What a cell's decoding depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    kind: u8,
    unsigned: bool,
    /// Digits after the point, of a number or a second.
    decimals: u8,
    /// Digits that a number is filled up to with zeros.
    zerofill: usize,
}

impl Column {
    pub(super) fn of(definition: &ColumnDefinition<'_>) -> Self {
        Self {
            kind: definition.kind as u8,
            unsigned: definition.flags & UNSIGNED_FLAG != 0,
            decimals: definition.decimals,
            zerofill: match definition.flags & ZEROFILL_FLAG {
                0 => 0,
                _ => MADE_TEXT_BYTES.min(definition.length as usize),
            },
        }
    }

    /// The next cell; a number or time that has to be written as text uses `room`.
    pub(super) fn cell<'a>(
        self,
        fields: &mut Fields<'a>,
        room: &mut &'a mut [u8],
    ) -> Result<Cell<'a>, Error> {
        Ok(match self.kind {
            TINY => {
                let byte = fields.u8()?;
                self.integer(byte.into(), (byte as i8).into(), room)?
            }
            SHORT | YEAR => {
                let number = fields.u16()?;
                self.integer(number.into(), (number as i16).into(), room)?
            }
            LONG | INT24 => {
                let number = fields.u32()?;
                self.integer(number.into(), (number as i32).into(), room)?
            }
            LONGLONG => {
                let number = fields.array().map(u64::from_le_bytes)?;
                self.integer(number, number as i64, room)?
            }
            FLOAT => {
                let number = fields.array().map(f32::from_le_bytes)?;
                self.filled(room, |text| {
                    number::write_float(text, number, self.decimals)
                })?
            }
            DOUBLE => {
                let number = fields.array().map(f64::from_le_bytes)?;
                self.filled(room, |text| {
                    number::write_double(text, number, self.decimals)
                })?
            }
            DATE | DATETIME | TIMESTAMP => self.date(fields, room)?,
            TIME => self.time(fields, room)?,
            NULL => Cell::Null,
            _ => Cell::Bytes(fields.text()?),
        })
    }

    /// An integer, read without and with its sign.
    fn integer<'a>(
        self,
        unsigned: u64,
        signed: i64,
        room: &mut &'a mut [u8],
    ) -> Result<Cell<'a>, Error> {
        let number = match self.unsigned {
            true => i64::try_from(unsigned).ok(),
            false => Some(signed),
        };
        match number {
            Some(number) if self.zerofill == 0 => Ok(Cell::Int(number)),
            _ => self.filled(room, |text| write!(text, "{unsigned}")),
        }
    }

    /// A number's text, with the zeros that the column wants before it.
    fn filled<'a>(
        self,
        room: &mut &'a mut [u8],
        write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>,
    ) -> Result<Cell<'a>, Error> {
        made(room, |text| {
            let mut bare = [0; MADE_TEXT_BYTES];
            let mut free = &mut bare[..];
            write(&mut free)?;
            let used = MADE_TEXT_BYTES - free.len();
            for _ in used..self.zerofill {
                text.write_all(b"0")?;
            }
            text.write_all(&bare[..used])
        })
    }

    fn date<'a>(self, fields: &mut Fields<'a>, room: &mut &'a mut [u8]) -> Result<Cell<'a>, Error> {
        // Trailing parts that are zero are left out.
        let mut parts = [0; 11];
        let sent = fields.text()?;
        copy(&mut parts, sent)?;
        let year = u16::from_le_bytes([parts[0], parts[1]]);
        let [month, day, hour, minute, second] = [parts[2], parts[3], parts[4], parts[5], parts[6]];
        let micro = u32::from_le_bytes([parts[7], parts[8], parts[9], parts[10]]);
        made(room, |text| {
            write!(text, "{year:04}-{month:02}-{day:02}")?;
            if self.kind == DATE {
                return Ok(());
            }
            write!(text, " {hour:02}:{minute:02}:{second:02}")?;
            self.fraction(text, micro)
        })
    }

    fn time<'a>(self, fields: &mut Fields<'a>, room: &mut &'a mut [u8]) -> Result<Cell<'a>, Error> {
        let mut parts = [0; 12];
        let sent = fields.text()?;
        copy(&mut parts, sent)?;
        let days = u32::from_le_bytes([parts[1], parts[2], parts[3], parts[4]]);
        let hours = u64::from(days) * 24 + u64::from(parts[5]);
        let [minute, second] = [parts[6], parts[7]];
        let micro = u32::from_le_bytes([parts[8], parts[9], parts[10], parts[11]]);
        made(room, |text| {
            let sign = if parts[0] == 0 { "" } else { "-" };
            write!(text, "{sign}{hours:02}:{minute:02}:{second:02}")?;
            self.fraction(text, micro)
        })
    }

    fn fraction(self, text: &mut &mut [u8], micro: u32) -> std::io::Result<()> {
        if !(1..=6).contains(&self.decimals) {
            return Ok(());
        }
        let scale = 10u32.pow(6 - u32::from(self.decimals));
        let digits = usize::from(self.decimals);
        write!(text, ".{:0digits$}", micro / scale)
    }
}

fn copy(parts: &mut [u8], sent: &[u8]) -> Result<(), Error> {
    parts
        .get_mut(..sent.len())
        .ok_or_else(|| Error::Protocol(format!("a time of {} bytes", sent.len())))?
        .copy_from_slice(sent);
    Ok(())
}

/// A cell of text written into `room`, which loses the part.
fn made<'a>(
    room: &mut &'a mut [u8],
    write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>,
) -> Result<Cell<'a>, Error> {
    let (mine, rest) = std::mem::take(room).split_at_mut(MADE_TEXT_BYTES);
    *room = rest;
    let mut free = &mut *mine;
    write(&mut free)?;
    let used = MADE_TEXT_BYTES - free.len();
    Ok(Cell::Bytes(&mine[..used]))
}

/// The flag beside a parameter's type.
const UNSIGNED: u16 = 0x8000;

/// The type that a parameter is sent as, with its flag; NULL goes as what the parameter was before.
pub(super) fn kind(value: &Value, before: u16) -> u16 {
    let kind = match value {
        Value::Null => return before,
        Value::UInt(_) => return UNSIGNED | u16::from(LONGLONG),
        Value::Int(_) => LONGLONG,
        Value::Double(_) => DOUBLE,
        Value::Decimal { .. } => NEWDECIMAL,
        Value::Text(_) => VAR_STRING,
        // No character set: the server converts nothing.
        Value::Bytes(_) => BLOB,
        Value::Timestamp(_) => DATETIME,
    };
    kind.into()
}

/// What a parameter that was NULL from the first on is sent as.
pub(super) const KIND_UNKNOWN: u16 = VAR_STRING as u16;

/// Write a parameter; NULL is not written, the bitmap says it.
pub(super) fn put(out: &mut Vec<u8>, value: &Value, scratch: &mut String) {
    match value {
        Value::Null => {}
        Value::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::UInt(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Text(words) => put_text(out, words.as_bytes()),
        Value::Bytes(bytes) => put_text(out, bytes),
        Value::Decimal { .. } => {
            scratch.clear();
            crate::text::plain(value, scratch);
            put_text(out, scratch.as_bytes());
        }
        Value::Timestamp(epoch_us) => {
            let civil = Civil::from_epoch_us(*epoch_us);
            out.push(if civil.micro == 0 { 7 } else { 11 });
            out.extend_from_slice(&(civil.year as u16).to_le_bytes());
            out.extend_from_slice(&[
                civil.month,
                civil.day,
                civil.hour,
                civil.minute,
                civil.second,
            ]);
            if civil.micro != 0 {
                out.extend_from_slice(&civil.micro.to_le_bytes());
            }
        }
    }
}
