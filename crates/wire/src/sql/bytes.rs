//! Literals of MySQL's that are bytes: those behind `_binary`, and those that are not UTF-8.

use super::token::{Kind, Token, Tokens};
use crate::{Dialect, Family};

/// The text behind it is bytes.
const INTRODUCER: &str = "_binary";

/// The tokens of a statement; MySQL's `_binary` and the text behind it are one.
pub(super) fn with_introducers(dialect: Dialect, sql: &[u8]) -> Vec<Token<'_>> {
    let mut all: Vec<Token<'_>> = Vec::new();
    let (mut end, mut introducer) = (0, None);
    for token in Tokens::new(dialect, sql) {
        let begin = end;
        end += token.bytes.len();
        match (token.kind, introducer.take()) {
            (Kind::Text, Some((place, from))) => {
                all.truncate(place);
                all.push(Token {
                    kind: Kind::Text,
                    bytes: &sql[from..end],
                });
                continue;
            }
            (Kind::Space, before) => introducer = before,
            _ if dialect.family == Family::Mysql && token.is_word(INTRODUCER) => {
                introducer = Some((all.len(), begin));
            }
            _ => {}
        }
        all.push(token);
    }
    all
}

/// Whether a token is a text with its introducer.
pub(super) fn is_introduced(token: &[u8]) -> bool {
    let word = token.get(..INTRODUCER.len());
    word.is_some_and(|word| word.eq_ignore_ascii_case(INTRODUCER.as_bytes()))
}

/// What a literal of MySQL's says byte by byte, `X'4D'` among them; none for one with another prefix, and for PostgreSQL's, whose texts
/// are never binary.
pub(super) fn bytes_of(literal: &[u8], dialect: Dialect) -> Option<Vec<u8>> {
    if dialect.family == Family::Postgres {
        return None;
    }
    let literal = match is_introduced(literal) {
        true => literal[INTRODUCER.len()..].trim_ascii_start(),
        false => literal,
    };
    if let Some(digits) = literal.strip_prefix(b"X").or(literal.strip_prefix(b"x")) {
        let digits = digits.strip_prefix(b"'")?.strip_suffix(b"'")?;
        return hexadecimal(digits);
    }
    let quote = *literal.first().filter(|byte| b"'\"".contains(byte))?;
    let inside = literal[1..].strip_suffix(&[quote])?;
    let mut bytes = inside.iter().copied();
    let mut text = Vec::with_capacity(inside.len());
    while let Some(byte) = bytes.next() {
        let said = match byte {
            b'\\' if dialect.backslash_escapes => match bytes.next()? {
                b'0' => 0,
                b'b' => 8,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'Z' => 0x1A,
                // These keep their backslash: it is LIKE's.
                kept @ (b'%' | b'_') => {
                    text.push(b'\\');
                    kept
                }
                other => other,
            },
            _ if byte == quote => bytes.next().filter(|next| *next == quote)?,
            _ => byte,
        };
        text.push(said);
    }
    Some(text)
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(16 * digit(*high)? + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use crate::sql::bind_literals;
    use crate::{Family, Value, render};

    #[test]
    fn what_is_not_utf_8_is_a_value_of_bytes() {
        let bound = |sql: &[u8]| bind_literals(Family::Mysql, sql);
        let only = |sql: &[u8]| match bound(sql) {
            Some((text, values)) if text == "SELECT a FROM t WHERE k = ?" => match &values[..] {
                [Value::Bytes(bytes)] => bytes.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        for (literal, bytes) in [
            (
                &b"_binary'\xFF\\0\\'\\\\\\Z\\%\\n'"[..],
                &b"\xFF\0'\\\x1A\\%\n"[..],
            ),
            (b"_BINARY \"a''\"\"b\"", b"a''\"b"),
            (b"_binary X'00fF'", b"\0\xFF"),
            (b"_binary''", b""),
            (b"'\x80it''s'", b"\x80it's"),
        ] {
            let sql = [&b"SELECT a FROM t WHERE k = "[..], literal].concat();
            assert_eq!(only(&sql), bytes, "{}", literal.escape_ascii());
        }
        let rendered = render(Family::Mysql, "?", &[Value::Bytes(vec![0, 0xFF])]);
        let sql = format!("SELECT a FROM t WHERE k = {rendered}");
        assert_eq!(only(sql.as_bytes()), [0, 0xFF]);
        // No values, no bytes: a column, an argument, a hexadecimal number, another prefix.
        for sql in [
            &b"SELECT '\xFF' FROM t"[..],
            b"SELECT a FROM t WHERE k = f('\xFF')",
            b"SELECT a FROM t WHERE k = N'\xFF'",
            b"SELECT a FROM t WHERE k = _binary'\xFF' 'b'",
            b"SELECT \xFF FROM t WHERE k = ?",
        ] {
            assert_eq!(bound(sql), None, "{}", sql.escape_ascii());
        }
        let kept = "SELECT a, _binary'b' FROM t WHERE k = X'00'";
        assert_eq!(bound(kept.as_bytes()), Some((kept.to_owned(), vec![])));
        let postgres = bind_literals(Family::Postgres, b"SELECT a FROM t WHERE k = '\xFF'");
        assert_eq!(postgres, None);
    }
}
