//! The text that statements have in common which differ in literals, white space and comments alone.

use super::token::{Kind, Token, Tokens};
use crate::Dialect;

/// Before a bracket these are no name of a function or table.
const KEYWORDS: [&str; 40] = [
    "IN",
    "VALUES",
    "VALUE",
    "AND",
    "OR",
    "NOT",
    "ON",
    "USING",
    "FROM",
    "WHERE",
    "SELECT",
    "AS",
    "EXISTS",
    "UNION",
    "ALL",
    "ANY",
    "SOME",
    "BY",
    "JOIN",
    "INTERSECT",
    "EXCEPT",
    "OVER",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "LIKE",
    "BETWEEN",
    "IS",
    "SET",
    "HAVING",
    "LIMIT",
    "RETURNING",
    "WITH",
    "DISTINCT",
    "KEY",
    "INDEX",
    "OFFSET",
    "XOR",
    "INTERVAL",
];

/// The statement with `?` for each literal and parameter, `(...)` for a list of them and for rows of lists, one space between words,
/// and no comments. Keywords keep their case. The digest of a digest is itself. Where the character set decides how to read on, a `?` stands
/// for the rest.
#[must_use]
pub fn digest_text(dialect: impl Into<Dialect>, sql: &str) -> String {
    let mut digest = Digest::default();
    for token in Tokens::sure(dialect.into(), sql.as_bytes()) {
        digest.add(token);
    }
    digest.text()
}

/// What a digest consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Literal,
    /// Several literals.
    Literals,
    /// A list of literals in its brackets.
    List,
    Token(Token<'a>),
}

impl Part<'_> {
    fn is(&self, sign: &[u8]) -> bool {
        matches!(self, Part::Token(token) if token.is(sign))
    }

    /// Whether a bracket after it holds what belongs to a name: arguments, columns.
    fn is_name(&self) -> bool {
        match self {
            Part::Token(token) => match token.kind {
                Kind::Word => !token.is_one_of(&KEYWORDS),
                kind => kind == Kind::Name,
            },
            _ => false,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Part::Literal => b"?",
            Part::Literals => b"...",
            Part::List => b"(...)",
            Part::Token(token) => token.bytes,
        }
    }
}

#[derive(Default)]
struct Digest<'a> {
    parts: Vec<Part<'a>>,
    outside: Level,
    open: Vec<Level>,
}

/// What stands in a bracket that is open, or outside of all.
#[derive(Default)]
struct Level {
    /// Where the bracket stands.
    begin: usize,
    /// Rows of VALUES follow.
    values: bool,
    /// The last bracket in it that was closed, from its begin to behind its end.
    closed: Option<(usize, usize)>,
}

impl<'a> Digest<'a> {
    fn add(&mut self, token: Token<'a>) {
        match token.kind {
            Kind::Space => {}
            Kind::Number | Kind::Text | Kind::Parameter => self.parts.push(Part::Literal),
            Kind::List => self.parts.push(Part::Literals),
            Kind::Sign if matches!(token.bytes, b"(" | b"[") => {
                self.open.push(Level {
                    begin: self.parts.len(),
                    ..Level::default()
                });
                self.parts.push(Part::Token(token));
            }
            Kind::Sign if matches!(token.bytes, b")" | b"]") => self.close(token),
            Kind::Word if self.is_constant(&token) => self.parts.push(Part::Literal),
            _ => {
                if token.is_one_of(&["VALUES", "VALUE"]) {
                    self.level().values = true;
                }
                self.parts.push(Part::Token(token));
            }
        }
    }

    fn level(&mut self) -> &mut Level {
        self.open.last_mut().unwrap_or(&mut self.outside)
    }

    /// NULL, TRUE and FALSE where a value stands; not in `IS NULL`.
    fn is_constant(&self, token: &Token<'_>) -> bool {
        token.is_one_of(&["NULL", "TRUE", "FALSE"])
            && self
                .parts
                .last()
                .is_some_and(|last| last.is(b"(") || last.is(b",") || last.is(b"="))
    }

    fn close(&mut self, token: Token<'a>) {
        let Some(Level { begin, .. }) = self.open.pop() else {
            self.parts.push(Part::Token(token));
            return;
        };
        let is_list = token.is(b")") && !self.before(begin).is_some_and(|part| part.is_name());
        if is_list && self.holds_literals(begin) {
            self.parts.truncate(begin);
            self.parts.push(Part::List);
            self.drop_repeated_list();
            return;
        }
        if token.is(b"]") && self.holds_literals(begin) {
            self.parts.truncate(begin + 1);
            self.parts.push(Part::Literals);
        }
        self.parts.push(Part::Token(token));
        self.drop_repeated_row(begin);
    }

    fn before(&self, begin: usize) -> Option<&Part<'a>> {
        self.parts.get(begin.checked_sub(1)?)
    }

    /// Whether what a bracket holds are literals and commas between them.
    fn holds_literals(&self, begin: usize) -> bool {
        let inside = &self.parts[begin + 1..];
        inside.len() % 2 == 1
            && inside.iter().enumerate().all(|(at, part)| match at % 2 {
                0 => matches!(part, Part::Literal | Part::Literals),
                _ => part.is(b","),
            })
    }

    fn drop_repeated_list(&mut self) {
        if let [.., Part::List, comma, Part::List] = self.parts[..]
            && comma.is(b",")
        {
            self.parts.truncate(self.parts.len() - 2);
        }
    }

    /// Rows of VALUES that hold more than literals: the same one again says nothing.
    fn drop_repeated_row(&mut self, begin: usize) {
        let row = (begin, self.parts.len());
        let &mut Level { values, closed, .. } = self.level();
        if let (true, Some((first, end))) = (values, closed) {
            let follows = end + 1 == begin && self.parts[end].is(b",");
            if follows && self.parts[first..end] == self.parts[begin..] {
                self.parts.truncate(end);
                return;
            }
        }
        self.level().closed = Some(row);
    }

    fn text(mut self) -> String {
        while self.parts.last().is_some_and(|part| part.is(b";")) {
            self.parts.pop();
        }
        let mut text = Vec::with_capacity(self.parts.len() * 6);
        let mut last: Option<&Part<'_>> = None;
        for part in &self.parts {
            if last.is_some_and(|last| is_apart(last, part)) {
                text.push(b' ');
            }
            text.extend_from_slice(part.bytes());
            last = Some(part);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Whether a space stands between two parts.
fn is_apart(last: &Part<'_>, next: &Part<'_>) -> bool {
    // The two would be read as one.
    let joins = |byte: &u8| *byte == b'.' || byte.is_ascii_digit();
    if last.bytes().ends_with(b".") && next.bytes().first().is_some_and(joins) {
        return true;
    }
    let glued = [&b","[..], b";", b")", b"]", b"."];
    let glues = [&b"("[..], b"[", b".", b"@"];
    if glued.iter().any(|sign| next.is(sign)) || glues.iter().any(|sign| last.is(sign)) {
        return false;
    }
    if next.is(b"(") || matches!(next, Part::List) {
        return !last.is_name();
    }
    !next.is(b"[")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;
    use proptest::prelude::*;

    #[test]
    fn statements_that_differ_in_literals_have_one_digest() {
        for (sql, expected) in [
            (
                "SELECT c FROM sbtest1 WHERE id=5",
                "SELECT c FROM sbtest1 WHERE id = ?",
            ),
            (
                "select  c\n from t -- x\n where a='it''s' # y\n and b=\"\\\"\"",
                "select c from t where a = ? and b = ?",
            ),
            (
                "SELECT * FROM t WHERE a IN(1, -2,'x')",
                "SELECT * FROM t WHERE a IN (...)",
            ),
            (
                "SELECT * FROM t WHERE a IN (?)",
                "SELECT * FROM t WHERE a IN (...)",
            ),
            (
                "INSERT INTO t (a,b) VALUES (1,NULL),(-2.5e3,'x') , (3,0xAF);",
                "INSERT INTO t(a, b) VALUES (...)",
            ),
            (
                "INSERT INTO t VALUES (1,NOW()),(2,NOW())",
                "INSERT INTO t VALUES (?, NOW())",
            ),
            (
                "SELECT f(1, 2), count(*), a.b , `x y`.`z` FROM d . t",
                "SELECT f(?, ?), count(*), a.b, `x y`.`z` FROM d.t",
            ),
            (
                "SELECT a-1, -1, a - -1, (1)",
                "SELECT a - ?, ?, a - ?, (...)",
            ),
            (
                "/*! SELECT */ /*+ hint */ 1 /*!80000 + 2 */",
                "SELECT ? + ?",
            ),
            (
                "UPDATE t SET a=NULL WHERE b IS NULL AND @x:=@@session.y",
                "UPDATE t SET a = ? WHERE b IS NULL AND @x := @@session.y",
            ),
            ("SELECT (1,2) IN ((1,2),(3,4))", "SELECT (...) IN ((...))"),
        ] {
            assert_eq!(digest_text(Family::Mysql, sql), expected);
        }
        for (sql, expected) in [
            (
                "SELECT a::int, \"a b\" FROM t WHERE x=$1 AND y=ANY($2)",
                "SELECT a :: int, \"a b\" FROM t WHERE x = ? AND y = ANY (...)",
            ),
            (
                "SELECT $$x'y$$, E'\\'', U&'x', d->>'k', '{}'@>'{}' /* /* */ */",
                "SELECT ?, ?, ?, d ->> ?, ? @> ?",
            ),
            ("SELECT ARRAY[1,2,3], t[1]", "SELECT ARRAY[...], t[...]"),
        ] {
            assert_eq!(digest_text(Family::Postgres, sql), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]
        #[test]
        fn the_digest_of_a_digest_is_itself(
            sql in "([?'\"`$/*#!EexXu&\\\\ é\n\r.,;()\\[\\]@:<>=|~+-]|[0-9]|IN|VALUES|NULL|\\.\\.\\.|a|_| ){0,24}",
        ) {
            for family in [Family::Mysql, Family::Postgres] {
                let digest = digest_text(family, &sql);
                prop_assert_eq!(digest_text(family, &digest), digest.clone(), "{:?} {:?}", family, sql);
            }
        }

        #[test]
        fn anything_has_a_digest(sql: String, backslash_escapes: bool) {
            for family in [Family::Mysql, Family::Postgres] {
                let _ = digest_text(Dialect { family, backslash_escapes }, &sql);
            }
        }
    }
}
