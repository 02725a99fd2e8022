//! How a server reads statements: where its quoted texts and comments end, and where parameters stand.

use std::ops::Range;

use crate::Family;

/// What the text of a statement means depends on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Whose grammar.
    pub family: Family,
    /// Whether a backslash in an ordinary string says how to read the next character. A session can change it: MySQL's `sql_mode`
    /// (`NO_BACKSLASH_ESCAPES`), PostgreSQL's `standard_conforming_strings`.
    pub backslash_escapes: bool,
}

/// As a server of its kind is when nobody has changed it.
impl From<Family> for Dialect {
    fn from(family: Family) -> Self {
        Self {
            family,
            backslash_escapes: family == Family::Mysql,
        }
    }
}

impl Dialect {
    /// Where the `?` outside of quotes and comments are, in bytes, one call each. PostgreSQL's operators that contain a question mark
    /// are not known here; what MySQL runs inside of `/*! */` is.
    pub(crate) fn placeholders(self, sql: &str, mut found: impl FnMut(usize)) {
        self.tokens(sql, |at| {
            if sql.as_bytes()[at] == b'?' {
                found(at);
            }
        });
    }

    /// Where parameters stand outside of quotes and comments, in bytes, one call each: `:name` with its colon, of ASCII letters,
    /// digits and underscores, and each `?`. PostgreSQL's `::type` and MySQL's `:=` are none.
    pub fn parameters(self, sql: &str, mut found: impl FnMut(Range<usize>)) {
        let bytes = sql.as_bytes();
        self.tokens(sql, |at| match bytes[at] {
            b'?' => found(at..at + 1),
            b':' if at == 0 || bytes[at - 1] != b':' => {
                let name = bytes[at + 1..].iter();
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                let length = name.clone().take_while(is_part).count();
                if bytes
                    .get(at + 1)
                    .is_some_and(|first| length > 0 && !first.is_ascii_digit())
                {
                    found(at..at + 1 + length);
                }
            }
            _ => {}
        });
    }

    /// Where everything that is no part of a quoted text or comment begins, in bytes, one call each.
    fn tokens(self, sql: &str, mut found: impl FnMut(usize)) {
        let bytes = sql.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            found(at);
            at += match self.family {
                Family::Mysql => self.mysql_token(&bytes[at..]),
                Family::Postgres => self.postgres_token(&bytes[at..]),
            }
            .clamp(1, bytes.len() - at);
        }
    }

    /// Length of what `rest` begins with, in bytes; without an end it takes everything.
    fn mysql_token(self, rest: &[u8]) -> usize {
        match rest {
            [b'\'' | b'"', ..] => quoted(rest, self.backslash_escapes),
            [b'`', ..] => quoted(rest, false),
            [b'#', ..] => line_comment(Family::Mysql, rest),
            // Else it is a minus of a minus.
            [b'-', b'-', after @ ..] if after.first().is_none_or(|byte| *byte <= b' ') => {
                line_comment(Family::Mysql, rest)
            }
            [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => 2,
            [b'/', b'*', inside @ ..] => 2 + through(inside, b"*/"),
            _ => word(rest),
        }
    }

    fn postgres_token(self, rest: &[u8]) -> usize {
        match rest {
            [b'\'', ..] => quoted(rest, self.backslash_escapes),
            [b'e' | b'E', string @ ..] if string.starts_with(b"'") => 1 + quoted(string, true),
            [b'"', ..] => quoted(rest, false),
            [b'-', b'-', ..] => line_comment(Family::Postgres, rest),
            [b'/', b'*', ..] => nested_comment(rest),
            [b'$', ..] => dollar_quoted(rest),
            _ => word(rest),
        }
    }
}

/// A name, a keyword or a number, of which no part begins anything else; 0 for other characters.
fn word(rest: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    match rest.first() {
        Some(b'$') | None => 0,
        Some(_) => rest.iter().take_while(|byte| is_part(byte)).count(),
    }
}

/// Quoted text with both its quotes; a doubled one belongs to it.
pub(crate) fn quoted(rest: &[u8], escapes: bool) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        if escapes && rest[at] == b'\\' {
            at += 2;
        } else if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    at
}

/// A comment that ends with its line: MySQL's lines end at a newline alone, PostgreSQL's at a carriage return, too.
pub(crate) fn line_comment(family: Family, rest: &[u8]) -> usize {
    let is_end = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && family == Family::Postgres);
    rest.iter()
        .position(is_end)
        .map_or(rest.len(), |position| position + 1)
}

pub(crate) fn through(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len())
        .position(|window| window == end)
        .map_or(rest.len(), |position| position + end.len())
}

pub(crate) fn nested_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        at += match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        if depth == 0 {
            break;
        }
    }
    at
}

/// `$tag$ ... $tag$`; a lone `$` is 0 long.
pub(crate) fn dollar_quoted(rest: &[u8]) -> usize {
    let Some(tag_bytes) = rest[1..].iter().position(|byte| *byte == b'$') else {
        return 0;
    };
    let (tag, body) = rest.split_at(tag_bytes + 2);
    let name = &tag[1..=tag_bytes];
    let is_name =
        name.first().is_none_or(|byte| !byte.is_ascii_digit()) && word(name) == name.len();
    if is_name {
        tag.len() + through(body, tag)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MYSQL: Dialect = Dialect {
        family: Family::Mysql,
        backslash_escapes: true,
    };
    const POSTGRES: Dialect = Dialect {
        family: Family::Postgres,
        backslash_escapes: false,
    };

    /// The statement with an X at each placeholder.
    fn marked(dialect: Dialect, sql: &str) -> String {
        let mut bytes = sql.as_bytes().to_vec();
        dialect.placeholders(sql, |at| bytes[at] = b'X');
        String::from_utf8(bytes).expect("only question marks have changed")
    }

    #[test]
    fn parameters_of_mysql() {
        for (sql, expected) in [
            ("a=? AND b=?", "a=X AND b=X"),
            ("'?''?' \"?\"\"?\" `?` ?", "'?''?' \"?\"\"?\" `?` X"),
            ("'\\'?' ?", "'\\'?' X"),
            ("`\\` ?", "`\\` X"),
            ("1 -- ?\n+ ?", "1 -- ?\n+ X"),
            ("1 -- ?\r+ ? # ?\r?", "1 -- ?\r+ ? # ?\r?"),
            ("1--?, ?--\n?", "1--X, X--\nX"),
            ("1 # ?\n?", "1 # ?\nX"),
            ("/* /* ? */ ?", "/* /* ? */ X"),
            ("/*/ ? */ ?", "/*/ ? */ X"),
            (
                "/*+ ? */ /*!80000 ? */ /*M! ? */",
                "/*+ ? */ /*!80000 X */ /*M! X */",
            ),
            ("$$?$$ e'?' ?", "$$X$$ e'?' X"),
            ("'é?' ?", "'é?' X"),
            ("'\\", "'\\"),
            ("? --", "X --"),
        ] {
            assert_eq!(marked(MYSQL, sql), expected);
        }
        let plain = Dialect {
            backslash_escapes: false,
            ..MYSQL
        };
        assert_eq!(marked(plain, "'\\' ? '?'"), "'\\' X '?'");
    }

    #[test]
    fn parameters_of_postgres() {
        for (sql, expected) in [
            ("a=? AND b=?", "a=X AND b=X"),
            ("'?''?' || ?", "'?''?' || X"),
            ("\"?\" = ? --?\n+ ?", "\"?\" = X --?\n+ X"),
            ("? --?\r+ ?", "X --?\r+ X"),
            ("/* ? /* ? */ ? */ ?", "/* ? /* ? */ ? */ X"),
            ("$$?$$, $x$ ? $ $x$, ?", "$$?$$, $x$ ? $ $x$, X"),
            ("$1, ?, $2, ?", "$1, X, $2, X"),
            ("a$b$?$b$", "a$b$X$b$"),
            ("E'\\'?''\\'?', ?", "E'\\'?''\\'?', X"),
            ("case'\\', ?", "case'\\', X"),
            ("'\\', ?", "'\\', X"),
            ("'é?', `?` # ?", "'é?', `X` # X"),
            ("'?", "'?"),
        ] {
            assert_eq!(marked(POSTGRES, sql), expected);
        }
        let escaping = Dialect {
            backslash_escapes: true,
            ..POSTGRES
        };
        assert_eq!(marked(escaping, "'\\'?' ?"), "'\\'?' X");
    }

    /// The parameters of a statement, separated by spaces.
    fn named(dialect: Dialect, sql: &str) -> String {
        let mut names = Vec::new();
        dialect.parameters(sql, |range| names.push(&sql[range]));
        names.join(" ")
    }

    #[test]
    fn names_behind_colons() {
        for (sql, expected) in [
            ("a = :id AND b=:b_2,?", ":id :b_2 ?"),
            ("':id' \"':id\" -- :id\n/* :id */ :x", ":x"),
            ("'\\':id' :x", ":x"),
            ("@a := 1, :a:=2", ":a"),
            ("a::int, :b::bigint, '1' ::text", ":b"),
            ("12:30, :1a, : a, a :", ""),
            ("`:id` # :id\n:é :x", ":x"),
            (":id", ":id"),
            (":", ""),
        ] {
            assert_eq!(named(MYSQL, sql), expected, "{sql}");
        }
        for (sql, expected) in [
            ("$$:id$$, $x$ :id $x$, :x::date", ":x"),
            ("E'\\':id' :x --:id\n:y", ":x :y"),
            ("'\\' :x", ":x"),
            ("/* /* :id */ :id */ :x", ":x"),
            ("\":id\"::text || :x", ":x"),
        ] {
            assert_eq!(named(POSTGRES, sql), expected, "{sql}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn only_question_marks_are_found(sql in "[?:a'\"`$/*#!EeM\\\\ é\n\r-]{0,24}", backslash_escapes: bool) {
            for family in [Family::Mysql, Family::Postgres] {
                let mut last = None;
                Dialect { family, backslash_escapes }.placeholders(&sql, |at| {
                    assert_eq!(sql.as_bytes()[at], b'?');
                    assert!(last.is_none_or(|last| last < at));
                    last = Some(at);
                });
                Dialect { family, backslash_escapes }.parameters(&sql, |range| {
                    assert!(sql[range.clone()].len() > 1 || sql[range] == *"?");
                });
            }
        }
    }
}
