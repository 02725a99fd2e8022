//! What a statement does, by its first words.

use super::token::{Kind, Token, Tokens};
use crate::Dialect;

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    missing_docs,
    reason = "the names say it; docs/reference/trace.md describes them"
)]
pub enum Verb {
    Select,
    Insert,
    Update,
    Delete,
    Replace,
    Call,
    Set,
    Begin,
    Commit,
    Rollback,
    Savepoint,
    Show,
    Explain,
    Ddl,
    Load,
    Use,
    Other,
}

const WORDS: [(Verb, &[&str]); 16] = [
    (Verb::Select, &["SELECT", "VALUES", "TABLE", "DO"]),
    (Verb::Insert, &["INSERT"]),
    (Verb::Update, &["UPDATE", "MERGE"]),
    (Verb::Delete, &["DELETE"]),
    (Verb::Replace, &["REPLACE"]),
    (Verb::Call, &["CALL"]),
    (Verb::Set, &["SET", "RESET", "DISCARD"]),
    (Verb::Begin, &["BEGIN"]),
    (Verb::Commit, &["COMMIT", "END"]),
    (Verb::Rollback, &["ROLLBACK", "ABORT"]),
    (Verb::Savepoint, &["SAVEPOINT", "RELEASE"]),
    (Verb::Show, &["SHOW"]),
    (Verb::Explain, &["EXPLAIN", "DESCRIBE", "DESC"]),
    (
        Verb::Ddl,
        &[
            "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "COMMENT",
        ],
    ),
    (Verb::Load, &["LOAD", "COPY"]),
    (Verb::Use, &["USE"]),
];

/// The verb of a statement; of several in one text, the first one's.
#[must_use]
pub fn verb(dialect: impl Into<Dialect>, sql: &[u8]) -> Verb {
    let mut words = Tokens::new(dialect.into(), sql)
        .filter(|token| token.kind != Kind::Space && !token.is(b"(") && !token.is(b";"));
    let Some(first) = words.next() else {
        return Verb::Other;
    };
    if first.is_word("WITH") {
        return after_with(words);
    }
    match known(&first) {
        Some(Verb::Rollback) => {
            // ROLLBACK TO SAVEPOINT leaves the transaction open.
            let is_to = words.take(2).any(|token| token.is_word("TO"));
            if is_to {
                Verb::Savepoint
            } else {
                Verb::Rollback
            }
        }
        Some(verb) => verb,
        None if first.is_word("START") => match words.next() {
            Some(token) if token.is_word("TRANSACTION") => Verb::Begin,
            _ => Verb::Other,
        },
        None => Verb::Other,
    }
}

/// What follows common table expressions, outside of their brackets. The opening ones are not among the words.
fn after_with<'a>(words: impl Iterator<Item = Token<'a>>) -> Verb {
    let main = [
        Verb::Select,
        Verb::Insert,
        Verb::Update,
        Verb::Delete,
        Verb::Replace,
    ];
    let mut found = Verb::Other;
    let mut closed = false;
    for token in words {
        let verb = known(&token).filter(|verb| main.contains(verb));
        if let (true, Some(verb)) = (closed, verb) {
            found = verb;
            break;
        }
        closed = token.is(b")");
    }
    found
}

fn known(token: &Token<'_>) -> Option<Verb> {
    let found = WORDS.iter().find(|(_, words)| token.is_one_of(words));
    found.map(|(verb, _)| *verb)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn first_words_say_what_a_statement_does() {
        for (sql, expected) in [
            ("select 1", Verb::Select),
            (" /* x */ (SELECT 1) UNION SELECT 2", Verb::Select),
            ("/*!50000 INSERT */ INTO t VALUES (1)", Verb::Insert),
            ("START TRANSACTION READ ONLY", Verb::Begin),
            ("BEGIN", Verb::Begin),
            ("start replica", Verb::Other),
            ("COMMIT", Verb::Commit),
            ("END", Verb::Commit),
            ("ROLLBACK", Verb::Rollback),
            ("ROLLBACK WORK TO SAVEPOINT a", Verb::Savepoint),
            ("ROLLBACK; SELECT 1", Verb::Rollback),
            ("ROLLBACK TO a", Verb::Savepoint),
            ("SAVEPOINT a", Verb::Savepoint),
            ("SET autocommit=0", Verb::Set),
            ("truncate t", Verb::Ddl),
            ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", Verb::Load),
            ("COPY t FROM STDIN", Verb::Load),
            ("REPLACE INTO t VALUES (1)", Verb::Replace),
            ("XA START 'a'", Verb::Other),
            ("", Verb::Other),
            (
                "WITH a AS (SELECT 1), b (x) AS (SELECT 2) DELETE FROM t",
                Verb::Delete,
            ),
            (
                "WITH RECURSIVE a AS (SELECT (1)) SELECT * FROM a",
                Verb::Select,
            ),
        ] {
            for family in [Family::Mysql, Family::Postgres] {
                if family == Family::Postgres && sql.contains("/*!") {
                    continue;
                }
                assert_eq!(verb(family, sql.as_bytes()), expected, "{sql}");
            }
        }
    }
}
