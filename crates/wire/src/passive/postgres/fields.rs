//! The parts that messages are made of, as far as they were kept.

use std::fmt::Write;

use crate::Cell;
use crate::passive::{Parameter, ParameterValue, Parameters};
use crate::postgres::binary::{Column, read};

const OID: u32 = 26;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const UUID: u32 = 2950;
const JSONB: u32 = 3802;
/// Before a jsonb's text.
const JSONB_VERSION: u8 = 1;
/// Types whose binary form is their text: text, varchar, bpchar, name, "char", json, xml, unknown.
const TEXTS: [u32; 8] = [25, 1043, 1042, 19, 18, 114, 142, 705];
/// No date and no point in time has a text of more than this for each of its bytes.
const MADE_FACTOR: usize = 4;
/// A numeric of a few bytes may stand for many thousand digits: so much more is made for all values of a message together.
pub(super) const MADE_BYTES_MAX: usize = 64 * 1024;

/// Takes a body apart from its begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Text up to a zero byte.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(text)
    }
}

/// The names and values of a client's startup message, from behind its version.
pub(super) fn startup(mut fields: Fields<'_>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let (Some(name), Some(value)) = (fields.text(), fields.text()) {
        if name.is_empty() {
            break;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        all.push((text(name), text(value)));
    }
    all
}

/// The SQLSTATE of an error.
pub(super) fn sqlstate(body: &[u8]) -> String {
    let mut fields = Fields(body);
    while let Some(field) = fields.text() {
        if let [b'C', state @ ..] = field {
            return String::from_utf8_lossy(state).into_owned();
        }
    }
    String::new()
}

/// A Bind's parameters, from behind its names; `made_bytes` of text are made of numerics that stand for more than they are. `None` where
/// there are none.
pub(super) fn parameters(
    mut fields: Fields<'_>,
    types: &[u32],
    is_secret: bool,
    made_bytes: usize,
) -> Option<Parameters> {
    let mut row = Vec::new();
    let whole = row_of(&mut fields, types, &mut row, made_bytes).is_some();
    if whole && row.is_empty() {
        return None;
    }
    if is_secret {
        row.iter_mut().for_each(Parameter::hide);
    }
    Some(Parameters {
        rows: vec![row],
        cut: !whole,
    })
}

fn row_of(
    fields: &mut Fields<'_>,
    types: &[u32],
    row: &mut Vec<Parameter>,
    mut room: usize,
) -> Option<()> {
    let count = fields.u16()?;
    let formats = (0..count)
        .map(|_| fields.u16())
        .collect::<Option<Vec<_>>>()?;
    for number in 0..usize::from(fields.u16()?) {
        let format = match formats.as_slice() {
            [] => 0,
            [all] => *all,
            each => *each.get(number)?,
        };
        let kind = types.get(number).copied().unwrap_or(0);
        let length = fields.u32()?;
        let value = match usize::try_from(length as i32) {
            Ok(length) => value(fields.take(length)?, kind, format == 1, &mut room),
            Err(_) => ParameterValue::Null,
        };
        row.push(Parameter { kind, value });
    }
    Some(())
}

fn value(bytes: &[u8], kind: u32, is_binary: bool, room: &mut usize) -> ParameterValue {
    if !is_binary || TEXTS.contains(&kind) {
        return ParameterValue::of(bytes);
    }
    binary(bytes, kind, room).unwrap_or_else(|| ParameterValue::Binary(bytes.to_vec()))
}

fn binary(bytes: &[u8], kind: u32, room: &mut usize) -> Option<ParameterValue> {
    match kind {
        OID => {
            return Some(ParameterValue::UInt(
                u32::from_be_bytes(bytes.try_into().ok()?).into(),
            ));
        }
        FLOAT4 => {
            return Some(ParameterValue::Float(f32::from_be_bytes(
                bytes.try_into().ok()?,
            )));
        }
        FLOAT8 => {
            return Some(ParameterValue::Double(f64::from_be_bytes(
                bytes.try_into().ok()?,
            )));
        }
        UUID => return bytes.try_into().ok().map(uuid),
        JSONB => return bytes.strip_prefix(&[JSONB_VERSION]).map(ParameterValue::of),
        _ => {}
    }
    let column = Column::of(if kind == TIMESTAMPTZ { TIMESTAMP } else { kind });
    if column == Column::AsText {
        return None;
    }
    let mut cell = [Cell::Bytes(bytes)];
    let mut made = Vec::new();
    let free = MADE_FACTOR * bytes.len();
    read(&[column], &mut cell, &mut made, free + *room).ok()?;
    if let [Cell::Bytes(text)] = cell {
        *room -= text.len().saturating_sub(free);
    }
    match cell {
        [Cell::Int(number)] => Some(ParameterValue::Int(number)),
        // Whatever the session's zone is: the binary form is in UTC.
        [Cell::Bytes(text)] if kind == TIMESTAMPTZ => Some(ParameterValue::Text(in_utc(text))),
        [Cell::Bytes(text)] => Some(ParameterValue::Text(text.to_vec())),
        [Cell::Null] => None,
    }
}

/// A point in time with its zone, which stands before the era.
fn in_utc(text: &[u8]) -> Vec<u8> {
    let (time, era) = match text.strip_suffix(b" BC") {
        Some(time) => (time, &b" BC"[..]),
        None => (text, &b""[..]),
    };
    match time.last() {
        Some(last) if last.is_ascii_digit() => [time, b"+00", era].concat(),
        // Infinity.
        _ => text.to_vec(),
    }
}

fn uuid(bytes: [u8; 16]) -> ParameterValue {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    ParameterValue::Text(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_whose_binary_form_is_short_are_read_as_text() {
        let text = |text: &str| ParameterValue::Text(text.into());
        let value = |bytes: &[u8], kind| super::value(bytes, kind, true, &mut 0);
        let uuid: Vec<u8> = (0..16).map(|byte| byte * 17).collect();
        let read = value(&uuid, UUID);
        assert_eq!(read, text("00112233-4455-6677-8899-aabbccddeeff"));
        assert_eq!(value(b"\x01{}", JSONB), text("{}"));
        // An hour and a half after 2000-01-01 00:00 UTC, on the last second of 1 BC, and never.
        for (micros, expected) in [
            (5_400_000_000, "2000-01-01 01:30:00+00"),
            (
                -63_082_281_600_000_000 - 1_000_000,
                "0001-12-31 23:59:59+00 BC",
            ),
            (i64::MAX, "infinity"),
        ] {
            let bytes = i64::to_be_bytes(micros);
            assert_eq!(value(&bytes, TIMESTAMPTZ), text(expected));
        }
        let stamp = value(&0_i64.to_be_bytes(), TIMESTAMP);
        assert_eq!(stamp, text("2000-01-01 00:00:00"));
        // Not as the server writes them.
        for (bytes, kind) in [(&uuid[1..], UUID), (b"\x02{}", JSONB)] {
            let kept = ParameterValue::Binary(bytes.to_vec());
            assert_eq!(value(bytes, kind), kept);
        }
    }
}
