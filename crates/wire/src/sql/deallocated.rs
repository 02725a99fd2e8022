//! Which prepared statement SQL frees.

use super::statements;
use super::token::{Kind, Token, Tokens};
use crate::Dialect;

/// The name that `DEALLOCATE` has, in the statement of a PostgreSQL client's text that is answered as so many-th, from 0.
pub(crate) fn deallocated(dialect: Dialect, sql: &[u8], number: usize) -> Option<Vec<u8>> {
    // Nothing answers an empty one between others.
    let all = statements(dialect, sql).into_iter();
    let mut all = all.filter(|each| tokens(dialect, each).next().is_some());
    let mut words = tokens(dialect, all.nth(number)?);
    words.next().filter(|token| token.is_word("DEALLOCATE"))?;
    let words: Vec<_> = words.collect();
    let name = match words[..] {
        [prepare, name] if prepare.is_word("PREPARE") => name,
        [name] => name,
        _ => return None,
    };
    match (name.kind, name.bytes) {
        (Kind::Word, word) => Some(word.to_ascii_lowercase()),
        (Kind::Name, [b'"', quoted @ .., b'"']) => {
            let mut name = quoted.to_vec();
            // Of two quotes that stand for one, the first stays.
            let mut is_first = false;
            name.retain(|byte| {
                is_first = *byte == b'"' && !is_first;
                *byte != b'"' || is_first
            });
            Some(name)
        }
        _ => None,
    }
}

fn tokens(dialect: Dialect, sql: &[u8]) -> impl Iterator<Item = Token<'_>> {
    Tokens::new(dialect, sql).filter(|token| token.kind != Kind::Space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn a_deallocate_has_a_name() {
        for (sql, number, name) in [
            ("DEALLOCATE _pg3_5", 0, Some("_pg3_5")),
            ("deallocate prepare A1;", 0, Some("a1")),
            ("DEALLOCATE prepare", 0, Some("prepare")),
            ("DEALLOCATE /* x */ \"A \"\"b\"", 0, Some("A \"b")),
            ("; SELECT 1;; DEALLOCATE a; DEALLOCATE b", 1, Some("a")),
            ("; SELECT 1;; DEALLOCATE a; DEALLOCATE b", 2, Some("b")),
            ("SELECT 1; DEALLOCATE a", 0, None),
            ("SELECT 1; DEALLOCATE a", 2, None),
            ("DEALLOCATE", 0, None),
            ("DEALLOCATE a b", 0, None),
            ("DEALLOCATE \"", 0, None),
            ("DEALLOCATE 'a'", 0, None),
            ("", 0, None),
        ] {
            let found = deallocated(Family::Postgres.into(), sql.as_bytes(), number);
            assert_eq!(found.as_deref(), name.map(str::as_bytes), "{sql}");
        }
    }
}
