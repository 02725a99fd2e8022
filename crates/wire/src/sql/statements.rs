//! The statements of a text that has several.

use super::token::{Kind, Tokens};
use crate::Dialect;

/// The statements of a text, without the `;` between them. Those in brackets, and those of a function's body (`BEGIN ATOMIC`), belong to
/// the one around them.
#[must_use]
pub fn statements(dialect: impl Into<Dialect>, sql: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    let mut depth = 0_usize;
    let mut begins = false;
    for token in Tokens::new(dialect.into(), sql) {
        let end = at + token.bytes.len();
        if token.kind != Kind::Space {
            if begins && token.is_word("ATOMIC") {
                break;
            }
            begins = token.is_word("BEGIN");
            depth += usize::from(token.is(b"("));
            depth = depth.saturating_sub(usize::from(token.is(b")")));
            if depth == 0 && token.is(b";") {
                found.push(&sql[from..at]);
                from = end;
            }
        }
        at = end;
    }
    found.push(&sql[from..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn a_text_is_divided_at_its_own_semicolons() {
        for (sql, expected) in [
            ("SELECT 1", &["SELECT 1"][..]),
            (
                "BEGIN; SELECT ';' /* ; */;",
                &["BEGIN", " SELECT ';' /* ; */", ""],
            ),
            (
                "CREATE RULE r AS ON INSERT TO t DO (a; b); END",
                &["CREATE RULE r AS ON INSERT TO t DO (a; b)", " END"],
            ),
            (
                "SELECT 1; CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; END",
                &[
                    "SELECT 1",
                    " CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; END",
                ],
            ),
        ] {
            let found = statements(Family::Postgres, sql.as_bytes());
            let found: Vec<_> = found.into_iter().map(String::from_utf8_lossy).collect();
            assert_eq!(found, expected, "{sql}");
        }
    }
}
