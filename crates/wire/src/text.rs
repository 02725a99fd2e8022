//! Statements with their parameters written into them.

use std::fmt::Write;

use crate::civil::Civil;
use crate::{Family, Value};

/// The statement with each `?` replaced by its parameter as a literal, quoted for that server.
///
/// Question marks inside quotes and comments stay, and those that there is no parameter for.
#[must_use]
pub fn render(family: Family, sql: &str, parameters: &[Value]) -> String {
    let mut text = String::with_capacity(sql.len() + 16 * parameters.len());
    let mut copied = 0;
    let mut values = parameters.iter();
    placeholders(family, sql, |position| {
        if let Some(value) = values.next() {
            text.push_str(&sql[copied..position]);
            literal(family, value, &mut text);
            copied = position + 1;
        }
    });
    text.push_str(&sql[copied..]);
    text
}

/// Where the `?` outside of quotes and comments are, in bytes, one call each.
pub(crate) fn placeholders(family: Family, sql: &str, mut found: impl FnMut(usize)) {
    let bytes = sql.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += match bytes[at] {
            b'?' => {
                found(at);
                1
            }
            b'\'' | b'"' | b'`' => quoted(family, rest),
            b'-' if rest.starts_with(b"--") => length_to(rest, b"\n"),
            b'#' if family == Family::Mysql => length_to(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => 2 + length_to(&rest[2..], b"*/"),
            _ => 1,
        };
    }
}

/// A doubled quote looks like the end of one string and the begin of the next, which comes to the same.
fn quoted(family: Family, text: &[u8]) -> usize {
    let quote = text[0];
    let escapes = family == Family::Mysql && quote != b'`';
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if escapes && text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn length_to(text: &[u8], end: &[u8]) -> usize {
    text.windows(end.len())
        .position(|window| window == end)
        .map_or(text.len(), |position| position + end.len())
}

fn literal(family: Family, value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("NULL"),
        Value::Text(words) => {
            text.push('\'');
            for letter in words.chars() {
                if letter == '\'' || (letter == '\\' && family == Family::Mysql) {
                    text.push(letter);
                }
                text.push(letter);
            }
            text.push('\'');
        }
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
        Value::Int(_) | Value::Decimal { .. } => plain(value, text),
    }
}

/// A value's text without quotes; nothing for NULL.
pub(crate) fn plain(value: &Value, text: &mut String) {
    let written = match value {
        Value::Null => Ok(()),
        Value::Int(number) => write!(text, "{number}"),
        Value::Decimal { unscaled, scale: 0 } => write!(text, "{unscaled}"),
        Value::Decimal { unscaled, scale } => {
            let sign = if *unscaled < 0 { "-" } else { "" };
            let digits = usize::from(*scale) + 1;
            let all = format!("{:0digits$}", unscaled.unsigned_abs());
            let (whole, fraction) = all.split_at(all.len() - usize::from(*scale));
            write!(text, "{sign}{whole}.{fraction}")
        }
        Value::Text(words) => text.write_str(words),
        Value::Timestamp(epoch_us) => write!(text, "{}", Civil::from_epoch_us(*epoch_us)),
    };
    written.expect("a String takes all text");
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
    fn question_marks_in_quotes_and_comments_stay() {
        let sql = "'?' \"?\" `?` '\\'?' 'a''?' /*?*/ -- ?\n # ?\n ? ?";
        assert!(render(Family::Mysql, sql, &[Value::Int(1)]).ends_with("\n 1 ?"));
        assert_eq!(
            render(Family::Postgres, "'\\' ? '?", &[Value::Int(1)]),
            "'\\' 1 '?"
        );
    }
}
