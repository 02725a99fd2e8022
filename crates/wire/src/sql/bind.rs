//! Literals of a statement as its parameters.

use super::bytes::{bytes_of, is_introduced, with_introducers};
use super::token::{Kind, Token, Tokens};
use crate::{Dialect, Value};

/// A literal after one of these is a value, and a parameter can stand there.
const BEFORE_VALUES: [&str; 4] = ["LIKE", "BETWEEN", "LIMIT", "OFFSET"];
const COMPARISONS: [&[u8]; 8] = [b"=", b"<", b">", b"<=", b">=", b"<>", b"!=", b"<=>"];
/// In a bracket that begins with one of these are no values of a list.
const QUERIES: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];
const DIGITS_MAX: usize = 18;

/// The statement with `?` where a value stood, and the values in order: those that are compared, assigned, listed after IN or VALUES,
/// or limit the result. What else is written as a literal stays, because there a parameter could mean something else or is not taken:
/// in ORDER BY and GROUP BY, among the columns of a result, after a word such as DATE. So does a literal that no [`Value`] holds, and
/// what stands in double quotes: the session's `sql_mode` says whether that is a text. Written into the text again, the values give a
/// statement that means the same.
///
/// A statement that has parameters of its own comes back as it is. None for one that is not UTF-8 where no value stands.
#[must_use]
pub fn bind_literals(dialect: impl Into<Dialect>, sql: &[u8]) -> Option<(String, Vec<Value>)> {
    let dialect = dialect.into();
    let tokens = with_introducers(dialect, sql);
    if tokens.iter().any(|token| token.kind == Kind::Parameter) {
        return Some((String::from_utf8(sql.to_vec()).ok()?, Vec::new()));
    }
    let mut binder = Binder::default();
    for (at, token) in tokens.iter().enumerate() {
        let mut behind = tokens[at + 1..]
            .iter()
            .filter(|each| each.kind != Kind::Space);
        // Texts side by side are one literal.
        let goes_on = behind.next().is_some_and(|next| next.kind == Kind::Text);
        binder.add(*token, (!goes_on).then_some(dialect));
    }
    Some((String::from_utf8(binder.text).ok()?, binder.values))
}

/// The statement with `?` for each parameter, and which parameter each stands for, from 0: PostgreSQL numbers them (`$2`), and may
/// name one twice.
#[must_use]
pub fn positional(dialect: impl Into<Dialect>, sql: &str) -> (String, Vec<usize>) {
    let mut text = Vec::with_capacity(sql.len());
    let mut places = Vec::new();
    for token in Tokens::new(dialect.into(), sql.as_bytes()) {
        if token.kind != Kind::Parameter {
            text.extend_from_slice(token.bytes);
            continue;
        }
        let number = std::str::from_utf8(&token.bytes[1..]).unwrap_or_default();
        let number: Option<usize> = number.parse().ok();
        let place = number.map_or(places.len(), |number| number.saturating_sub(1));
        places.push(place);
        text.push(b'?');
    }
    (String::from_utf8_lossy(&text).into_owned(), places)
}

#[derive(Default)]
struct Binder<'a> {
    text: Vec<u8>,
    values: Vec<Value>,
    /// The last token that is not white space.
    last: Option<Token<'a>>,
    /// For each open bracket, whether it holds a list of values.
    open: Vec<bool>,
    /// VALUES was read: rows of values follow.
    rows: bool,
    /// BETWEEN was read, whose AND is still to come.
    between: bool,
    /// The last token is the AND of a BETWEEN.
    and_of_between: bool,
}

impl<'a> Binder<'a> {
    /// `dialect` is there where the token can be a value by itself.
    fn add(&mut self, token: Token<'a>, dialect: Option<Dialect>) {
        let value = match (token.kind, dialect) {
            (Kind::Number | Kind::Text, Some(dialect)) if self.is_value() => {
                value(token.bytes, token.kind, dialect)
            }
            _ => None,
        };
        match value {
            Some(value) => {
                self.values.push(value);
                self.text.push(b'?');
            }
            None => self.text.extend_from_slice(token.bytes),
        }
        if token.kind == Kind::Space {
            return;
        }
        self.follow(token);
        self.last = Some(token);
    }

    /// Whether a literal that stands here is a value.
    fn is_value(&self) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        let compared = COMPARISONS.iter().any(|sign| last.is(sign));
        let listed = self.open.last() == Some(&true) && (last.is(b"(") || last.is(b","));
        compared || listed || last.is_one_of(&BEFORE_VALUES) || self.and_of_between
    }

    fn follow(&mut self, token: Token<'a>) {
        self.and_of_between = self.between && token.is_word("AND");
        if token.is(b"(") {
            let lists = self.last.is_some_and(|last| {
                last.is_word("IN") || (self.rows && self.open.is_empty() && !is_name(&last))
            });
            self.open.push(lists);
        } else if token.is(b")") {
            self.open.pop();
        } else if token.is_one_of(&["VALUES", "VALUE"]) && self.open.is_empty() {
            self.rows = true;
        } else if token.is_one_of(&["ON", "SELECT", "RETURNING", "AS"]) && self.open.is_empty() {
            self.rows = false;
        } else if token.is_one_of(&QUERIES) && self.last.is_some_and(|last| last.is(b"(")) {
            // IN has a subquery, whose commas are its own.
            if let Some(lists) = self.open.last_mut() {
                *lists = false;
            }
        } else if token.is_word("BETWEEN") {
            self.between = true;
        } else if token.is_word("AND") {
            self.between = false;
        }
    }
}

/// Whether a bracket after it holds arguments.
fn is_name(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Word => !token.is_one_of(&["VALUES", "VALUE"]),
        kind => kind == Kind::Name,
    }
}

/// What a literal says; `None` for one that no [`Value`] holds exactly, or whose quotes need more than doubling undone.
fn value(bytes: &[u8], kind: Kind, dialect: Dialect) -> Option<Value> {
    // A name, where MySQL's ANSI_QUOTES holds. Left in the text it is right with and without.
    if bytes.starts_with(b"\"") {
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !is_introduced(bytes) => text,
        _ => return bytes_of(bytes, dialect).map(Value::Bytes),
    };
    if kind == Kind::Number {
        return number(text);
    }
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let escaped = dialect.backslash_escapes && inside.contains('\\');
    let whole = !escaped && !inside.replace("''", "").contains('\'');
    whole.then(|| Value::Text(inside.replace("''", "'")))
}

fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = !whole.is_empty()
        && whole.len() + part.len() <= DIGITS_MAX
        && [whole, part]
            .iter()
            .all(|each| each.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_plain || (part.is_empty() && digits.contains('.')) {
        return None;
    }
    let unscaled: i64 = format!("{whole}{part}").parse().ok()?;
    let unscaled = if text.starts_with('-') {
        -unscaled
    } else {
        unscaled
    };
    Some(match part.len() {
        0 => Value::Int(unscaled),
        scale => Value::Decimal {
            unscaled,
            scale: scale as u8,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, render};

    fn int(number: i64) -> Value {
        Value::Int(number)
    }

    fn words(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn values_become_parameters_and_other_literals_stay() {
        for (sql, expected, values) in [
            (
                "SELECT c, 'x', 1 FROM t WHERE id=5 AND name = 'it''s' ORDER BY 1 LIMIT 3",
                "SELECT c, 'x', 1 FROM t WHERE id=? AND name = ? ORDER BY 1 LIMIT ?",
                vec![int(5), words("it's"), int(3)],
            ),
            (
                "SELECT a FROM t WHERE a IN (1, -2) AND b BETWEEN 3 AND 4 AND f(5) > 1.50 AND 6",
                "SELECT a FROM t WHERE a IN (?, ?) AND b BETWEEN ? AND ? AND f(5) > ? AND 6",
                vec![
                    int(1),
                    int(-2),
                    int(3),
                    int(4),
                    Value::Decimal {
                        unscaled: 150,
                        scale: 2,
                    },
                ],
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 'x'), (2, coalesce(3, 4)) ON DUPLICATE KEY UPDATE a = 7, b = f(8)",
                "INSERT INTO t (a, b) VALUES (?, ?), (?, coalesce(3, 4)) ON DUPLICATE KEY UPDATE a = ?, b = f(8)",
                vec![int(1), words("x"), int(2), int(7)],
            ),
            (
                "UPDATE t SET a = a + 1, b = 0x1F, c = 1e3, d = 'a' 'b', e = DATE '2026-01-01' WHERE f = 9",
                "UPDATE t SET a = a + 1, b = 0x1F, c = 1e3, d = 'a' 'b', e = DATE '2026-01-01' WHERE f = ?",
                vec![int(9)],
            ),
            (
                "SELECT a FROM t WHERE a = ? AND b = 1",
                "SELECT a FROM t WHERE a = ? AND b = 1",
                vec![],
            ),
            (
                "DELETE FROM t WHERE a IN (SELECT b, 1 FROM u WHERE c = 2 GROUP BY c, 2 ORDER BY a, 1) AND d IN (3, 4)",
                "DELETE FROM t WHERE a IN (SELECT b, 1 FROM u WHERE c = ? GROUP BY c, 2 ORDER BY a, 1) AND d IN (?, ?)",
                vec![int(2), int(3), int(4)],
            ),
            (
                "SELECT 1 FROM t WHERE a IN ( /* b */ WITH c AS (TABLE u) SELECT d, 1 FROM c ORDER BY d, 1)",
                "SELECT 1 FROM t WHERE a IN ( /* b */ WITH c AS (TABLE u) SELECT d, 1 FROM c ORDER BY d, 1)",
                vec![],
            ),
            (
                "SELECT 1 FROM t WHERE a IN (VALUES ROW(1), ROW(2) ORDER BY column_0, 1) OR b IN (TABLE u ORDER BY a, 1)",
                "SELECT 1 FROM t WHERE a IN (VALUES ROW(1), ROW(2) ORDER BY column_0, 1) OR b IN (TABLE u ORDER BY a, 1)",
                vec![],
            ),
        ] {
            let (text, found) = bind_literals(Family::Mysql, sql.as_bytes()).expect("UTF-8");
            assert_eq!(text, expected);
            assert_eq!(found, values, "{sql}");
        }
    }

    #[test]
    fn what_double_quotes_hold_may_be_a_name() {
        let bound = |sql: &[u8]| bind_literals(Family::Mysql, sql);
        for (sql, expected, values) in [
            (
                r#"UPDATE t SET a = "b" WHERE "id" = 1 AND c IN ("d", 'e') AND f LIKE "g""#,
                r#"UPDATE t SET a = "b" WHERE "id" = ? AND c IN ("d", ?) AND f LIKE "g""#,
                vec![int(1), words("e")],
            ),
            // Behind an introducer no name can stand.
            (
                r#"UPDATE t SET a = _binary "b""#,
                "UPDATE t SET a = ?",
                vec![Value::Bytes(b"b".to_vec())],
            ),
        ] {
            assert_eq!(bound(sql.as_bytes()), Some((expected.to_owned(), values)));
        }
        assert_eq!(bound(b"UPDATE t SET a = \"\xE9\""), None);
    }

    #[test]
    fn numbered_parameters_stand_where_they_are_named() {
        let (text, places) = positional(
            Family::Postgres,
            "SELECT '$1', $2 FROM t WHERE a = $1 AND b = $2",
        );
        assert_eq!(text, "SELECT '$1', ? FROM t WHERE a = ? AND b = ?");
        assert_eq!(places, [1, 0, 1]);
        assert_eq!(positional(Family::Mysql, "SELECT ?, '?', ?").1, [0, 1]);
    }

    #[test]
    fn written_into_the_text_again_they_are_what_they_were() {
        for family in [Family::Mysql, Family::Postgres] {
            let sql =
                "UPDATE t SET a = 'it''s', b = -5, c = 2.50 WHERE d IN (1,2) AND e BETWEEN 3 AND 4";
            let (text, values) = bind_literals(family, sql.as_bytes()).expect("UTF-8");
            // A negative number comes in brackets.
            assert_eq!(render(family, &text, &values), sql.replace("-5", "(-5)"));
        }
    }

    #[test]
    fn a_comment_of_postgres_ends_at_a_carriage_return() {
        let sql = "SELECT a -- x\rFROM t WHERE id = $1";
        let (text, places) = positional(Family::Postgres, sql);
        assert_eq!(text, "SELECT a -- x\rFROM t WHERE id = ?");
        assert_eq!(places, [0]);
        assert!(
            positional(Family::Mysql, &sql.replace("$1", "?"))
                .1
                .is_empty()
        );
        let (text, values) =
            bind_literals(Family::Postgres, b"SELECT a -- x\rFROM t WHERE id = 5").expect("UTF-8");
        assert_eq!(text, "SELECT a -- x\rFROM t WHERE id = ?");
        assert_eq!(values, [int(5)]);
    }
}
