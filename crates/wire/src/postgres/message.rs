//! What the bodies of the server's messages hold.

use crate::{Cell, ColumnDefinition, Error, RowSink};

pub(crate) const AUTHENTICATION: u8 = b'R';
pub(crate) const BIND_COMPLETE: u8 = b'2';
pub(crate) const CLOSE_COMPLETE: u8 = b'3';
pub(crate) const COMMAND_COMPLETE: u8 = b'C';
pub(crate) const COPY_DATA: u8 = b'd';
pub(crate) const COPY_DONE: u8 = b'c';
pub(crate) const COPY_IN: u8 = b'G';
pub(crate) const COPY_OUT: u8 = b'H';
pub(crate) const DATA_ROW: u8 = b'D';
pub(crate) const EMPTY_QUERY: u8 = b'I';
pub(crate) const ERROR: u8 = b'E';
pub(crate) const KEY_DATA: u8 = b'K';
pub(crate) const NO_DATA: u8 = b'n';
pub(crate) const NOTICE: u8 = b'N';
pub(crate) const NOTIFICATION: u8 = b'A';
pub(crate) const PARAMETERS: u8 = b't';
pub(crate) const PARAMETER_STATUS: u8 = b'S';
pub(crate) const PARSE_COMPLETE: u8 = b'1';
pub(crate) const PORTAL_SUSPENDED: u8 = b's';
pub(crate) const READY: u8 = b'Z';
pub(crate) const ROW_DESCRIPTION: u8 = b'T';

/// The number that several messages begin with.
///
/// # Errors
/// [`Error::Protocol`] for less than two bytes.
pub(super) fn count(body: &[u8]) -> Result<u16, Error> {
    body.first_chunk()
        .map(|bytes| u16::from_be_bytes(*bytes))
        .ok_or_else(cut_off)
}

/// The columns that a RowDescription names, one call each.
///
/// # Errors
/// [`Error::Protocol`] for one that ends too early.
pub(super) fn columns(
    body: &[u8],
    mut found: impl FnMut(&ColumnDefinition<'_>),
) -> Result<(), Error> {
    let count = count(body)?;
    let mut rest = &body[2..];
    for _ in 0..count {
        let end = rest.iter().position(|byte| *byte == 0);
        let (name, after) = rest.split_at(end.ok_or_else(cut_off)?);
        // After the name: table, column in it, type, its length, its modifier, format.
        let (field, after) = after[1..].split_first_chunk::<18>().ok_or_else(cut_off)?;
        found(&ColumnDefinition {
            name,
            kind: u32::from_be_bytes([field[6], field[7], field[8], field[9]]),
            length: u32::from_be_bytes([field[12], field[13], field[14], field[15]]),
            collation: 0,
            flags: 0,
            decimals: 0,
        });
        rest = after;
    }
    Ok(())
}

/// Hand on a RowDescription's columns, where the sink wants them.
///
/// # Errors
/// As [`columns`].
pub(super) fn tell(body: &[u8], sink: &mut dyn RowSink) -> Result<(), Error> {
    if !sink.wants_columns() {
        return Ok(());
    }
    columns(body, |definition| sink.column(definition))
}

/// Two of an authentication's parts: which request it is, and what belongs to it.
///
/// # Errors
/// [`Error::Protocol`] for less than four bytes.
pub(super) fn authentication(body: &[u8]) -> Result<(u32, &[u8]), Error> {
    let (request, rest) = body.split_first_chunk().ok_or_else(cut_off)?;
    Ok((u32::from_be_bytes(*request), rest))
}

/// Strings that each end with a zero byte.
pub(super) fn strings(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == 0)
}

/// The cells of a row, added to `cells`.
///
/// # Errors
/// [`Error::Protocol`] for a row that ends too early or too late.
pub(super) fn row<'a>(body: &'a [u8], cells: &mut Vec<Cell<'a>>) -> Result<(), Error> {
    let columns = count(body)?;
    let mut rest = &body[2..];
    for _ in 0..columns {
        let (length, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
        rest = after;
        match i32::from_be_bytes(*length) {
            -1 => cells.push(Cell::Null),
            length => {
                let length = usize::try_from(length).map_err(|_| cut_off())?;
                let (cell, after) = rest.split_at_checked(length).ok_or_else(cut_off)?;
                rest = after;
                cells.push(Cell::Bytes(cell));
            }
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(Error::Protocol("a row with bytes left over".to_owned()))
}

/// How many rows a finished command changed, from its tag: `INSERT 0 3`, `UPDATE 2`, `SELECT 7`, `CREATE TABLE`.
pub(crate) fn affected(body: &[u8]) -> u64 {
    let tag = String::from_utf8_lossy(body);
    let mut words = tag.trim_end_matches('\0').split(' ');
    match words.next() {
        Some("INSERT" | "UPDATE" | "DELETE" | "MERGE" | "COPY") => words
            .next_back()
            .and_then(|rows| rows.parse().ok())
            .unwrap_or(0),
        _ => 0,
    }
}

/// The server's refusal.
pub(super) fn error(body: &[u8]) -> Error {
    let mut sqlstate = String::new();
    let mut message = String::new();
    for field in strings(body) {
        let Some((kind, text)) = field.split_first() else {
            break;
        };
        match kind {
            b'C' => sqlstate = String::from_utf8_lossy(text).into_owned(),
            b'M' => message = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    Error::Server {
        code: 0,
        sqlstate,
        message,
    }
}

/// A message that this crate does not expect at this point.
pub(super) fn unexpected(tag: u8) -> Error {
    Error::Protocol(format!("unexpected message '{}'", tag.escape_ascii()))
}

fn cut_off() -> Error {
    Error::Protocol("a message ends too early".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_has_nulls_and_text() {
        let mut cells = Vec::new();
        let body = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        row(body, &mut cells).expect("row");
        let expected = [Cell::Bytes(b"ab"), Cell::Null, Cell::Bytes(b"")];
        assert_eq!(cells, expected);
    }

    #[test]
    fn only_changes_are_affected_rows() {
        assert_eq!(affected(b"INSERT 0 3\0"), 3);
        assert_eq!(affected(b"UPDATE 2\0"), 2);
        assert_eq!(affected(b"SELECT 7\0"), 0);
        assert_eq!(affected(b"CREATE TABLE\0"), 0);
    }

    #[test]
    fn an_error_has_its_state_and_words() {
        let refused = error(b"SERROR\0C23505\0Mduplicate key\0\0");
        assert_eq!(refused.to_string(), "server error 0 (23505): duplicate key");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn garbage_never_panics(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = row(&body, &mut Vec::new());
            let _ = authentication(&body);
            let _ = columns(&body, |_| {});
            let _ = (affected(&body), error(&body));
        }
    }
}
