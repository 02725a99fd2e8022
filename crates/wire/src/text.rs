//! Statements with their parameters written into them.

use std::fmt::Write;

use crate::civil::Civil;
use crate::{Dialect, Family, Value};

/// The statement with each `?` replaced by its parameter as a literal, quoted for that server: [`crate::Connection::dialect`] says
/// how its session reads it now, a [`Family`](crate::Family) how it does at first.
///
/// Question marks inside quotes and comments stay, and those that there is no parameter for.
#[must_use]
pub fn render(dialect: impl Into<Dialect>, sql: &str, parameters: &[Value]) -> String {
    let dialect = dialect.into();
    let mut values = parameters.iter();
    replaced(dialect, sql, |text| match values.next() {
        Some(value) => literal(dialect, value, text),
        None => text.push('?'),
    })
}

/// The statement with `$1`, `$2`, ... for each `?`, as PostgreSQL wants it.
pub(crate) fn numbered(dialect: Dialect, sql: &str) -> String {
    let mut number = 0;
    replaced(dialect, sql, |text| {
        number += 1;
        write!(text, "${number}").expect("a String takes all text");
    })
}

fn replaced(dialect: Dialect, sql: &str, mut replace: impl FnMut(&mut String)) -> String {
    let mut text = String::with_capacity(2 * sql.len());
    let mut copied = 0;
    dialect.placeholders(sql, |position| {
        text.push_str(&sql[copied..position]);
        replace(&mut text);
        copied = position + 1;
    });
    text.push_str(&sql[copied..]);
    text
}

fn literal(dialect: Dialect, value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("NULL"),
        Value::Text(words) => {
            text.push('\'');
            for letter in words.chars() {
                if letter == '\'' || (letter == '\\' && dialect.backslash_escapes) {
                    text.push(letter);
                }
                text.push(letter);
            }
            text.push('\'');
        }
        Value::Bytes(bytes) => match dialect.family {
            // Without its introducer it would be a number among numbers.
            Family::Mysql => {
                text.push_str("_binary X'");
                hexadecimal(bytes, text);
                text.push('\'');
            }
            Family::Postgres => {
                text.push_str(if dialect.backslash_escapes {
                    "'\\"
                } else {
                    "'"
                });
                plain(value, text);
                text.push_str("'::bytea");
            }
        },
        Value::Timestamp(_) => {
            text.push('\'');
            plain(value, text);
            text.push('\'');
        }
        // Two minus signs in a row begin a comment.
        Value::Int(number)
        | Value::Decimal {
            unscaled: number, ..
        } if *number < 0 => {
            text.push('(');
            plain(value, text);
            text.push(')');
        }
        // MySQL makes a double of digits only where they have an exponent; elsewhere a text in quotes is of the type that is wanted.
        Value::Double(number) if dialect.family == Family::Mysql && number.is_finite() => {
            let is_negative = number.is_sign_negative();
            let (open, close) = if is_negative { ("(", ")") } else { ("", "") };
            write!(text, "{open}{number:e}{close}").expect("a String takes all text");
        }
        Value::Double(_) => {
            text.push('\'');
            plain(value, text);
            text.push('\'');
        }
        Value::Int(_) | Value::UInt(_) | Value::Decimal { .. } => plain(value, text),
    }
}

fn hexadecimal(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes all text");
    }
}

/// A value's text without quotes; nothing for NULL. Bytes are as PostgreSQL writes them.
pub(crate) fn plain(value: &Value, text: &mut String) {
    let written = match value {
        Value::Null => Ok(()),
        Value::Int(number) => write!(text, "{number}"),
        Value::UInt(number) => write!(text, "{number}"),
        Value::Double(number) => write!(text, "{number}"),
        Value::Decimal { unscaled, scale: 0 } => write!(text, "{unscaled}"),
        Value::Decimal { unscaled, scale } => {
            let sign = if *unscaled < 0 { "-" } else { "" };
            let digits = usize::from(*scale) + 1;
            let all = format!("{:0digits$}", unscaled.unsigned_abs());
            let (whole, fraction) = all.split_at(all.len() - usize::from(*scale));
            write!(text, "{sign}{whole}.{fraction}")
        }
        Value::Text(words) => text.write_str(words),
        Value::Bytes(bytes) => {
            text.push_str("\\x");
            hexadecimal(bytes, text);
            Ok(())
        }
        Value::Timestamp(epoch_us) => write!(text, "{}", Civil::from_epoch_us(*epoch_us)),
    };
    written.expect("a String takes all text");
}

/// Add a row in the text format of PostgreSQL's COPY and MySQL's LOAD DATA, its line end included. Bytes are PostgreSQL's alone.
pub(crate) fn write_line(row: &[Value], lines: &mut String) {
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            lines.push('\t');
        }
        match value {
            Value::Null => lines.push_str("\\N"),
            Value::Text(words) => lines.extend(words.chars().flat_map(escaped)),
            Value::Bytes(_) => {
                // The backslash of `\x` is escaped.
                lines.push('\\');
                plain(value, lines);
            }
            value => plain(value, lines),
        }
    }
    lines.push('\n');
}

/// A character of a line: itself, or the two that stand for it. PostgreSQL has no text with a zero byte.
fn escaped(character: char) -> impl Iterator<Item = char> {
    let code = match character {
        '\\' => Some('\\'),
        '\t' => Some('t'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\0' => Some('0'),
        _ => None,
    };
    code.map(|_| '\\')
        .into_iter()
        .chain([code.unwrap_or(character)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_literals() {
        let values = [
            Value::Null,
            Value::Int(7),
            Value::Int(-7),
            Value::Decimal {
                unscaled: -5,
                scale: 2,
            },
            Value::Text("it's a \\".to_owned()),
            Value::Timestamp(0),
        ];
        assert_eq!(
            render(Family::Mysql, "?, ?, ?, ?, ?, ?", &values),
            "NULL, 7, (-7), (-0.05), 'it''s a \\\\', '1970-01-01 00:00:00'"
        );
        assert_eq!(render(Family::Postgres, "?", &values[4..]), "'it''s a \\'");
    }

    #[test]
    fn backslashes_are_doubled_only_where_they_escape() {
        let value = [Value::Text("\\'".to_owned())];
        for (family, backslash_escapes, text) in [
            (Family::Mysql, true, "'\\\\'''"),
            (Family::Mysql, false, "'\\'''"),
            (Family::Postgres, true, "'\\\\'''"),
            (Family::Postgres, false, "'\\'''"),
        ] {
            let dialect = Dialect {
                family,
                backslash_escapes,
            };
            assert_eq!(render(dialect, "?", &value), text);
        }
    }

    #[test]
    fn doubles_are_literals_that_the_server_reads_as_doubles() {
        let numbers = [10.0, -0.1, 1e300, f64::NAN, f64::INFINITY];
        let mut values = numbers.map(Value::Double).to_vec();
        values.push(Value::UInt(u64::MAX));
        let sql = "?, ?, ?, ?, ?, ?";
        assert_eq!(
            render(Family::Mysql, sql, &values),
            "1e1, (-1e-1), 1e300, 'NaN', 'inf', 18446744073709551615"
        );
        assert_eq!(
            render(Family::Postgres, "?, ?, ?", &values[..2]),
            "'10', '-0.1', ?"
        );
    }

    #[test]
    fn a_line_escapes_what_separates() {
        let mut lines = String::new();
        let text = Value::Text("a\tb\\\n\r\0é".to_owned());
        write_line(&[text, Value::Null, Value::Int(-3)], &mut lines);
        assert_eq!(lines, "a\\tb\\\\\\n\\r\\0é\t\\N\t-3\n");
        lines.clear();
        write_line(&[Value::Bytes(vec![0, 0xFF])], &mut lines);
        assert_eq!(lines, "\\\\x00ff\n");
    }

    #[test]
    fn bytes_are_hexadecimal_literals() {
        let values = [Value::Bytes(vec![0, b'\'', 0xFF]), Value::Bytes(vec![])];
        assert_eq!(
            render(Family::Mysql, "?, ?", &values),
            "_binary X'0027ff', _binary X''"
        );
        assert_eq!(
            render(Family::Postgres, "?, ?", &values),
            "'\\x0027ff'::bytea, '\\x'::bytea"
        );
        let escaping = Dialect {
            family: Family::Postgres,
            backslash_escapes: true,
        };
        assert_eq!(render(escaping, "?", &values), "'\\\\x0027ff'::bytea");
    }

    #[test]
    fn only_parameters_are_replaced() {
        let one = [Value::Int(1)];
        assert_eq!(render(Family::Mysql, "'?' ? ?", &one), "'?' 1 ?");
        assert_eq!(
            numbered(Family::Postgres.into(), "'?', ?, ?"),
            "'?', $1, $2"
        );
    }
}
