//! Results in binary format, for the types whose binary form is not their text: read into the text that the server would have sent.

use std::io::Write;

use crate::civil::Civil;
use crate::transport::trim;
use crate::{Cell, Error, Value};

// Types, by the numbers that pg_type has.
const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const NUMERIC: u32 = 1700;

/// The formats' numbers in a Bind.
const TEXT_FORMAT: i16 = 0;
const BINARY_FORMAT: i16 = 1;

/// From 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;

/// A digit of a numeric is four decimal ones.
const DIGIT_PLACES: usize = 4;
/// The server has no more places after the point.
const PLACES_MAX: usize = 0x3FFF;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// How a column's cells are sent and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// As text: texts, whose binary form is the same, and types whose text depends on more than the value.
    AsText,
    Bool,
    Integer,
    Date,
    Timestamp,
    Numeric,
}

impl Column {
    /// For a type's number.
    pub(crate) fn of(kind: u32) -> Self {
        match kind {
            BOOL => Self::Bool,
            INT2 | INT4 | INT8 => Self::Integer,
            DATE => Self::Date,
            TIMESTAMP => Self::Timestamp,
            NUMERIC => Self::Numeric,
            _ => Self::AsText,
        }
    }

    /// The format to ask for.
    pub(super) fn format(self) -> i16 {
        match self {
            Self::AsText => TEXT_FORMAT,
            _ => BINARY_FORMAT,
        }
    }

    /// Whether [`Self::write`] makes its text.
    fn is_made(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp | Self::Numeric)
    }

    fn write(self, bytes: &[u8], text: &mut Vec<u8>, bytes_max: usize) -> Result<(), Error> {
        match self {
            Self::Date => write_date(i32::from_be_bytes(exactly(bytes)?), text),
            Self::Timestamp => write_timestamp(i64::from_be_bytes(exactly(bytes)?), text),
            _ => write_numeric(bytes, text, bytes_max)?,
        }
        match text.len() > bytes_max {
            true => Err(Error::too_long(bytes_max)),
            false => Ok(()),
        }
    }
}

/// The formats of parameters, for a Bind; none where all of them are text. Bytes go as they are: the binary form of bytea.
pub(super) fn formats(parameters: &[Value]) -> impl Iterator<Item = i16> {
    let is_bytes = |value: &Value| matches!(value, Value::Bytes(_));
    let any = parameters.iter().any(is_bytes);
    let all = parameters.iter().filter(move |_| any);
    all.map(move |value| match is_bytes(value) {
        true => BINARY_FORMAT,
        false => TEXT_FORMAT,
    })
}

/// Read the cells of a row in place; `text` takes what has to be written as text, `bytes_max` at most: 8 bytes of a numeric may stand
/// for 150,000 digits.
///
/// # Errors
/// [`Error::Protocol`] for bytes that are not of the column's type, and for longer text.
pub(crate) fn read<'a>(
    columns: &[Column],
    cells: &mut [Cell<'a>],
    text: &'a mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), Error> {
    text.clear();
    trim(text);
    // All texts first: the buffer may move while it grows.
    let mut lengths = Vec::new();
    for (column, cell) in columns.iter().zip(cells.iter()) {
        if let (true, Cell::Bytes(bytes)) = (column.is_made(), cell) {
            let before = text.len();
            column.write(bytes, text, bytes_max)?;
            lengths.push(text.len() - before);
        }
    }
    let mut rest = text.as_slice();
    let mut lengths = lengths.into_iter();
    for (column, cell) in columns.iter().zip(cells) {
        let Cell::Bytes(bytes) = cell else { continue };
        *cell = match column {
            Column::AsText => continue,
            Column::Bool => Cell::Bytes(if *bytes == [1] { b"t" } else { b"f" }),
            Column::Integer => Cell::Int(integer(bytes)?),
            Column::Date | Column::Timestamp | Column::Numeric => {
                let (made, after) = rest.split_at(lengths.next().unwrap_or_default());
                rest = after;
                Cell::Bytes(made)
            }
        };
    }
    Ok(())
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| wrong(bytes))
}

fn wrong(bytes: &[u8]) -> Error {
    Error::Protocol(format!("a binary value of {} bytes", bytes.len()))
}

fn integer(bytes: &[u8]) -> Result<i64, Error> {
    Ok(match bytes.len() {
        2 => i16::from_be_bytes(exactly(bytes)?).into(),
        4 => i32::from_be_bytes(exactly(bytes)?).into(),
        _ => i64::from_be_bytes(exactly(bytes)?),
    })
}

// Writing to a Vec cannot fail.

fn write_date(days: i32, text: &mut Vec<u8>) {
    match days {
        i32::MAX => text.extend_from_slice(b"infinity"),
        i32::MIN => text.extend_from_slice(b"-infinity"),
        _ => {
            let civil = Civil::from_epoch_days(i64::from(days) + EPOCH_DAYS);
            write_day(civil, text);
            write_era(civil, text);
        }
    }
}

fn write_timestamp(micros: i64, text: &mut Vec<u8>) {
    let epoch_us = match micros {
        i64::MAX => return text.extend_from_slice(b"infinity"),
        i64::MIN => return text.extend_from_slice(b"-infinity"),
        _ => micros.saturating_add(EPOCH_DAYS * DAY_US),
    };
    let civil = Civil::from_epoch_us(epoch_us);
    write_day(civil, text);
    let (hour, minute, second) = (civil.hour, civil.minute, civil.second);
    let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
    if civil.micro > 0 {
        let _ = write!(text, ".{:06}", civil.micro);
        while text.last() == Some(&b'0') {
            text.pop();
        }
    }
    write_era(civil, text);
}

/// The year before the year 1 is 1 BC.
fn write_day(civil: Civil, text: &mut Vec<u8>) {
    let year = if civil.year > 0 {
        civil.year
    } else {
        1 - civil.year
    };
    let _ = write!(text, "{year:04}-{:02}-{:02}", civil.month, civil.day);
}

fn write_era(civil: Civil, text: &mut Vec<u8>) {
    if civil.year <= 0 {
        text.extend_from_slice(b" BC");
    }
}

/// Number of digits, power of the first, sign, places after the point, then the digits, each of them 0 to 9999. Zeros that would make the
/// text longer than `bytes_max` are not written first.
fn write_numeric(bytes: &[u8], text: &mut Vec<u8>, bytes_max: usize) -> Result<(), Error> {
    let word = |place: usize| -> Result<u16, Error> {
        let found = bytes.get(2 * place..).and_then(<[u8]>::first_chunk);
        found
            .map(|bytes| u16::from_be_bytes(*bytes))
            .ok_or_else(|| wrong(bytes))
    };
    let (count, first_power) = (usize::from(word(0)?), word(1)? as i16);
    let (sign, places) = (word(2)?, usize::from(word(3)?));
    if places > PLACES_MAX {
        return Err(wrong(bytes));
    }
    match sign {
        NAN => text.extend_from_slice(b"NaN"),
        INFINITY => text.extend_from_slice(b"Infinity"),
        MINUS_INFINITY => text.extend_from_slice(b"-Infinity"),
        NEGATIVE => text.push(b'-'),
        _ => {}
    }
    if matches!(sign, NAN | INFINITY | MINUS_INFINITY) {
        return Ok(());
    }
    let zeros = DIGIT_PLACES * usize::try_from(first_power).unwrap_or(0) + places;
    if text.len() + zeros > bytes_max {
        return Err(Error::too_long(bytes_max));
    }
    // The digit of a power of 10,000.
    let digit = |power: i32| match usize::try_from(i32::from(first_power) - power) {
        Ok(place) if place < count => word(4 + place),
        _ => Ok(0),
    };
    let _ = write!(text, "{}", digit(i32::from(first_power).max(0))?);
    for power in (0..i32::from(first_power)).rev() {
        let _ = write!(text, "{:04}", digit(power)?);
    }
    if places > 0 {
        text.push(b'.');
        let end = text.len() + places;
        for power in 1..=places.div_ceil(DIGIT_PLACES) as i32 {
            let _ = write!(text, "{:04}", digit(-power)?);
        }
        text.truncate(end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numeric(words: &[i32]) -> String {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| (*word as u16).to_be_bytes())
            .collect();
        let mut text = Vec::new();
        write_numeric(&bytes, &mut text, 1 << 10).expect("whole");
        String::from_utf8(text).expect("digits")
    }

    #[test]
    fn numerics() {
        for (words, text) in [
            (&[0, 0, 0, 0][..], "0"),
            (&[0, 0, 0, 3], "0.000"),
            (&[2, 0, 0, 2, 12, 5000], "12.50"),
            (&[2, 1, 0x4000, 0, 1, 20], "-10020"),
            (&[1, 2, 0, 0, 3], "300000000"),
            (&[1, -1, 0, 4, 7], "0.0007"),
            (&[1, -2, 0x4000, 8, 1], "-0.00000001"),
            (&[0, 0, 0xC000, 0], "NaN"),
            (&[0, 0, 0xF000, 0], "-Infinity"),
        ] {
            assert_eq!(numeric(words), text);
        }
    }

    #[test]
    fn bytes_alone_are_sent_in_binary_format() {
        let (text, bytes) = (Value::Text("a".to_owned()), Value::Bytes(vec![0xFF]));
        let all = |values: &[Value]| formats(values).collect::<Vec<_>>();
        assert_eq!(all(&[text.clone(), Value::Null]), [0; 0]);
        assert_eq!(all(&[Value::Null, bytes, text]), [0, 1, 0]);
    }

    #[test]
    fn points_in_time() {
        let stamp = |micros| {
            let mut text = Vec::new();
            write_timestamp(micros, &mut text);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(stamp(0), "2000-01-01 00:00:00");
        assert_eq!(stamp(-750_000), "1999-12-31 23:59:59.25");
        assert_eq!(stamp(i64::MIN), "-infinity");
        let mut text = Vec::new();
        write_date(-730_120, &mut text);
        assert_eq!(text, b"0001-12-31 BC");
    }

    #[test]
    fn a_row_of_long_numbers_is_bounded() {
        let numeric = [0, 0, 0x7F, 0xFF, 0, 0, 0x3F, 0xFF];
        let (mut cells, mut text) = ([Cell::Bytes(&numeric); 100], Vec::new());
        let columns = [Column::Numeric; 100];
        assert!(read(&columns, &mut cells, &mut text, 1 << 20).is_err());
        assert!(text.capacity() < 4 << 20);
        // What would be too long is not made first.
        let mut none = Vec::new();
        let one = &mut [Cell::Bytes(&numeric)];
        assert!(read(&columns[..1], one, &mut none, 1 << 10).is_err());
        assert!(none.capacity() < 1 << 10);
        let mut one = [Cell::Bytes(&numeric)];
        read(&columns, &mut one, &mut text, 1 << 20).expect("a number of the server's");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            for column in [Column::Bool, Column::Integer, Column::Date, Column::Timestamp, Column::Numeric] {
                let (mut cells, mut text) = ([Cell::Bytes(&bytes)], Vec::new());
                let _ = read(&[column], &mut cells, &mut text, 1 << 20);
            }
        }
    }
}
