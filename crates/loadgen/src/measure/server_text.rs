//! A statement's text in the form in which servers sum their statistics up: without its values.
//!
//! Applied to our statements and to the server's texts alike, so that the two can be compared. Known from MySQL 9.7, MariaDB 10.11 and
//! PostgreSQL 15: `?` and `$1` for values, lists of values as `(...)` and `?, ...`, one value after IN as `(...)`, rows of one value as
//! `(?)`, backticks, spaces of their own, EXECUTE before what was prepared, DISTINCTROW for DISTINCT.

use wire::{Family, sql::bare};

/// After these MySQL drops the sign of a number, and others do not.
const BEFORE_VALUES: [&str; 5] = ["(", "=", ",", "<", ">"];

/// The text, lowercase, with nothing but what all servers keep.
pub(super) fn normalized(family: Family, sql: &str) -> String {
    let text = bare(family, sql);
    let text = text.strip_prefix("execute").unwrap_or(&text);
    let mut text = text.replace("distinctrow", "distinct");
    for sign in BEFORE_VALUES {
        text = text.replace(&format!("{sign}-?"), &format!("{sign}?"));
    }
    // A negative value in a text has brackets.
    repeated(&mut text, "((?))", "(?)");
    repeated(&mut text, "values(?),(?)", "values(?)");
    let text = text.replace("in(?)", "in(...)").replace("(?)", "?");
    without_lists(text.trim_end_matches(';'))
}

/// `(?,?,?)` and `(...),(...)` become `(...)`, as MySQL writes them; outside of brackets `?,?,?` becomes `?,...`.
fn without_lists(text: &str) -> String {
    let mut text = text.replace("?,?", "?,...");
    repeated(&mut text, "...,?", "...");
    repeated(&mut text, "...,...", "...");
    text = text.replace("(?,...)", "(...)");
    repeated(&mut text, "(...),(...)", "(...)");
    text
}

/// Put `one` in the place of `two` until none is left.
fn repeated(text: &mut String, two: &str, one: &str) {
    while text.contains(two) {
        *text = text.replace(two, one);
    }
}

#[cfg(test)]
mod tests {
    use wire::Family;

    use super::normalized;

    const SERVERS: [Family; 3] = [Family::Mysql, Family::Mysql, Family::Postgres];

    #[test]
    fn our_text_is_the_servers() {
        for (ours, servers) in [
            (
                "SELECT c FROM sbtest1 WHERE id=?",
                [
                    "EXECUTE SELECT `c` FROM `sbtest1` WHERE `id` = ?",
                    "SELECT `c` FROM `sbtest1` WHERE ID = ? ",
                    "SELECT c FROM sbtest1 WHERE id=$1",
                ],
            ),
            (
                "SELECT DISTINCT c FROM t2 WHERE id BETWEEN ? AND ? ORDER BY c",
                [
                    "EXECUTE SELECT DISTINCTROW `c` FROM `t2` WHERE `id` BETWEEN ? AND ? ORDER BY `c`",
                    "SELECT DISTINCTROW `c` FROM `t2` WHERE ID BETWEEN ? AND ? ORDER BY `c` ",
                    "SELECT DISTINCT c FROM t2 WHERE id BETWEEN $1 AND $2 ORDER BY c",
                ],
            ),
            (
                "INSERT INTO t (a, b) VALUES (?, ?), (?, ?)",
                [
                    "EXECUTE INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */",
                    "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */ ",
                    "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)",
                ],
            ),
            (
                "UPDATE t SET k=k+1 WHERE a IN (?, ?, ?) AND b = 'x'",
                [
                    "EXECUTE UPDATE `t` SET `k` = `k` + ? WHERE `a` IN (...) AND `b` = ?",
                    "UPDATE `t` SET `k` = `k` + ? WHERE `a` IN (...) AND `b` = ?",
                    "UPDATE t SET k=k+$4 WHERE a IN ($1, $2, $3) AND b = $5",
                ],
            ),
            (
                "SELECT a FROM t1 WHERE b = ? ORDER BY a DESC LIMIT 10",
                [
                    "EXECUTE SELECT `a` FROM `t1` WHERE `b` = ? ORDER BY `a` DESC LIMIT ?",
                    "SELECT `a` FROM `t1` WHERE `b` = ? ORDER BY `a` DESC LIMIT ?",
                    "SELECT a FROM t1 WHERE b = $1 ORDER BY a DESC LIMIT $2",
                ],
            ),
            (
                "UPDATE a SET n = n + ? WHERE id = ?",
                [
                    "UPDATE `a` SET `n` = `n` + ( - ? ) WHERE `id` = ?",
                    "UPDATE `a` SET `n` = `n` + ( - ? ) WHERE ID = ?",
                    "UPDATE a SET n = n + ($1) WHERE id = $2",
                ],
            ),
        ] {
            for (family, theirs) in SERVERS.into_iter().zip(servers) {
                assert_eq!(
                    normalized(family, ours),
                    normalized(family, theirs),
                    "{theirs}"
                );
            }
        }
    }

    #[test]
    fn what_servers_read_as_values_and_comments_is_none_of_the_text() {
        for (family, ours, theirs) in [
            (
                Family::Mysql,
                "SELECT a -- it's\nFROM t WHERE b = 'it''s' AND c = \"x\" AND d = 0xAF # end",
                "SELECT `a` FROM `t` WHERE `b` = ? AND `c` = ? AND `d` = ?",
            ),
            (
                Family::Postgres,
                "SELECT \"a\" -- it's\nFROM t WHERE b = 'it''s' AND c = -1.5e3",
                "SELECT \"a\" -- it's\nFROM t WHERE b = $1 AND c = $2",
            ),
            (
                Family::Mysql,
                "SELECT a FROM t WHERE b IN (?) AND c = -1 LIMIT ?, ?",
                "SELECT `a` FROM `t` WHERE `b` IN (...) AND `c` = ? LIMIT ?, ...",
            ),
            (
                Family::Mysql,
                "INSERT INTO t VALUES (?), (?), (?)",
                "INSERT INTO `t` VALUES (?) /* , ... */ ",
            ),
            (
                Family::Postgres,
                "INSERT INTO t VALUES (?, ?), (?, ?)",
                "INSERT INTO t VALUES (($1), ($2)), ($3, ($4))",
            ),
            (
                Family::Postgres,
                "INSERT INTO t SELECT ? WHERE ? IN (?) OR ? IN (?, ?)",
                "INSERT INTO t SELECT ($1) WHERE ($2) IN (($3)) OR $4 IN (($5), $6)",
            ),
            (
                Family::Mysql,
                "INSERT INTO t SELECT f(?, ?, ?, a), g(?, ?)",
                "INSERT INTO `t` SELECT `f` (?, ..., `a`), `g` (...)",
            ),
        ] {
            assert_eq!(normalized(family, ours), normalized(family, theirs));
        }
    }

    #[test]
    fn different_statements_stay_different() {
        let texts = [
            "SELECT a FROM t1",
            "SELECT a FROM t2",
            "SELECT a1 FROM t",
            "SELECT a, b FROM t",
        ];
        for (at, one) in texts.iter().enumerate() {
            for other in &texts[at + 1..] {
                for family in [Family::Mysql, Family::Postgres] {
                    assert_ne!(normalized(family, one), normalized(family, other));
                }
            }
        }
    }

    #[test]
    fn no_text_is_too_odd() {
        for odd in ["", "'", "/*", "$", "1.", "é`ö", "''''", "\"a"] {
            for family in [Family::Mysql, Family::Postgres] {
                let _ = normalized(family, odd);
            }
        }
    }
}
