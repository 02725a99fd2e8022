//! Where parameters stand in a statement.

use std::ops::Range;

use super::token::{Kind, Tokens};
use crate::Dialect;

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

    /// Where each token that is no white space, comment or quoted text begins, in bytes, one call each.
    fn tokens(self, sql: &str, mut found: impl FnMut(usize)) {
        let mut at = 0;
        for token in Tokens::new(self, sql.as_bytes()) {
            if !matches!(token.kind, Kind::Space | Kind::Name | Kind::Text) {
                found(at);
            }
            at += token.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;
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
            ("2*/* ? */?, 2*/*?", "2*/* ? */X, 2*/*?"),
            (
                "/*!80000 2*/?, /*! ? */*/* ? */?",
                "/*!80000 2*/X, /*! X */*/* ? */X",
            ),
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
