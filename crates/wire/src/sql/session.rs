//! What a statement changes of MySQL's session.

use super::token::{Kind, Token, Tokens};
use crate::Dialect;

/// What `SET` makes of the session's autocommit; none where it assigns it nothing. A value that the text does not say is taken for the
/// default, on.
#[must_use]
pub fn autocommit(dialect: Dialect, sql: &[u8]) -> Option<bool> {
    let mut tokens =
        Tokens::new(dialect, sql).filter(|token| token.kind != Kind::Space && !token.is(b";"));
    tokens.next().filter(|token| token.is_word("SET"))?;
    let tokens: Vec<_> = tokens.collect();
    let mut depth = 0_usize;
    let assignments = tokens.split(|token| {
        depth += usize::from(token.is(b"("));
        depth = depth.saturating_sub(usize::from(token.is(b")")));
        depth == 0 && token.is(b",")
    });
    let mut scope = Scope::Session;
    let values = assignments.filter_map(|assignment| {
        let at = assignment
            .iter()
            .position(|token| token.is(b"=") || token.is(b":="))?;
        let (target, value) = assignment.split_at(at);
        (is_autocommit(target, &mut scope)).then(|| !is_off(&value[1..]))
    });
    values.last()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Session,
    Global,
}

impl Scope {
    fn of(word: &Token<'_>) -> Self {
        match word.is_one_of(&["SESSION", "LOCAL"]) {
            true => Self::Session,
            false => Self::Global,
        }
    }
}

/// Whether a target is the session's autocommit. A scope without a point holds for the targets that follow, too.
fn is_autocommit(target: &[Token<'_>], scope: &mut Scope) -> bool {
    let (name, own) = match target {
        [name] => (name, *scope),
        [word, name] if word.kind == Kind::Word => {
            *scope = Scope::of(word);
            (name, *scope)
        }
        [at, second, name] if at.is(b"@") && second.is(b"@") => (name, Scope::Session),
        [at, second, word, point, name] if at.is(b"@") && second.is(b"@") && point.is(b".") => {
            (name, Scope::of(word))
        }
        _ => return false,
    };
    let name = match name.bytes {
        // In double quotes only ANSI_QUOTES lets it stand here, and makes a name of it.
        [b'`', name @ .., b'`'] | [b'"', name @ .., b'"'] => name,
        name => name,
    };
    own == Scope::Session && name.eq_ignore_ascii_case(b"autocommit")
}

fn is_off(value: &[Token<'_>]) -> bool {
    let [value] = value else {
        return false;
    };
    let word = match value.kind {
        Kind::Text => value.bytes.get(1..value.bytes.len() - 1),
        _ => Some(value.bytes),
    };
    let off: [&[u8]; 3] = [b"0", b"OFF", b"FALSE"];
    word.is_some_and(|word| off.iter().any(|off| word.eq_ignore_ascii_case(off)))
}

/// Whether it creates or drops a temporary table, which commits nothing.
#[must_use]
pub fn is_of_temporary(dialect: Dialect, sql: &[u8]) -> bool {
    let mut words = Tokens::new(dialect, sql).filter(|token| token.kind != Kind::Space);
    words
        .next()
        .is_some_and(|first| first.is_one_of(&["CREATE", "DROP"]))
        && words
            .find(|word| !word.is_one_of(&["OR", "REPLACE"]))
            .is_some_and(|word| word.is_word("TEMPORARY"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn only_an_assignment_to_the_sessions_autocommit_counts() {
        for (sql, expected) in [
            ("SET autocommit=0", Some(false)),
            ("set `AUTOCOMMIT` := off;", Some(false)),
            ("SET \"autocommit\" = 0", Some(false)),
            ("SET autocommit='OFF'", Some(false)),
            ("SET autocommit = \"on\"", Some(true)),
            ("SET @@autocommit = FALSE", Some(false)),
            ("/* pool */ SET @@session.autocommit = 1", Some(true)),
            ("SET SESSION autocommit = 0", Some(false)),
            ("SET NAMES utf8mb4, autocommit = 0", Some(false)),
            ("SET a = f(1, 2), autocommit = 0", Some(false)),
            ("SET autocommit = 0, autocommit = 1", Some(true)),
            ("SET autocommit = @old", Some(true)),
            ("SET @old = @@autocommit", None),
            ("SET @old = @@autocommit, @autocommit = 0", None),
            ("SET @a = (autocommit = 0)", None),
            ("SET GLOBAL autocommit = 0", None),
            ("SET GLOBAL a = 1, autocommit = 0", None),
            ("SET GLOBAL a = 1, SESSION autocommit = 0", Some(false)),
            ("SET GLOBAL a = 1, @@autocommit = 0", Some(false)),
            ("SET @@global.autocommit = 0", None),
            ("SET NAMES utf8mb4", None),
            ("SET autocommit", None),
            ("UPDATE t SET autocommit = 0", None),
        ] {
            let found = autocommit(Family::Mysql.into(), sql.as_bytes());
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn temporary_tables_are_known() {
        for (sql, expected) in [
            ("CREATE TEMPORARY TABLE a (b INT)", true),
            ("create /*!50000 temporary */ table a (b int)", true),
            ("CREATE OR REPLACE TEMPORARY TABLE a (b INT)", true),
            ("DROP TEMPORARY TABLE IF EXISTS a", true),
            ("CREATE TABLE temporary (b INT)", false),
            ("CREATE TABLE a (b INT) COMMENT 'temporary'", false),
            ("DROP TABLE a", false),
            ("ALTER TABLE a ADD c INT", false),
            ("", false),
        ] {
            let found = is_of_temporary(Family::Mysql.into(), sql.as_bytes());
            assert_eq!(found, expected, "{sql}");
        }
    }
}
