//! A statement's text in the form in which servers sum their statistics up: without its values.
//!
//! Applied to our statements and to the server's texts alike, so that the two can be compared. Known from MySQL 9.7, MariaDB 10.11 and
//! PostgreSQL 15: `?` and `$1` for values, lists of values as `(...)`, backticks, spaces of their own, EXECUTE before what was prepared,
//! DISTINCTROW for DISTINCT.

/// The text, lowercase, with nothing but what all servers keep.
pub(super) fn normalized(sql: &str) -> String {
    let text = without_values(sql);
    let text = text.strip_prefix("execute").unwrap_or(&text);
    let text = text
        .replace("distinctrow", "distinct")
        .replace("(-?)", "?")
        .replace("(?)", "?");
    without_lists(text.trim_end_matches(';'))
}

/// Values become `?`; spaces, quotes of names and comments go.
fn without_values(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        // Spaces go, and `LIMIT 10` is no name with digits.
        let before = &sql[..sql.len() - rest.len()];
        let in_name = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let length = match first {
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '\'' => {
                text.push('?');
                quoted(rest)
            }
            '$' => {
                text.push('?');
                1 + digits(&rest[1..])
            }
            '0'..='9' if !in_name => {
                text.push('?');
                digits(rest)
            }
            '`' | '"' => 1,
            _ if first.is_whitespace() => first.len_utf8(),
            _ => {
                text.extend(first.to_lowercase());
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    text
}

fn digits(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len())
}

fn quoted(text: &str) -> usize {
    text[1..].find('\'').map_or(text.len(), |end| end + 2)
}

/// `(?,?,?)` and `(...),(...)` become `(...)`, as MySQL writes them.
fn without_lists(text: &str) -> String {
    let mut text = text.replace("(?,?", "(..?");
    while text.contains("..?,?") {
        text = text.replace("..?,?", "..?");
    }
    text = text.replace("(..?)", "(...)");
    while text.contains("(...),(...)") {
        text = text.replace("(...),(...)", "(...)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::normalized;

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
            for theirs in servers {
                assert_eq!(normalized(ours), normalized(theirs), "{theirs}");
            }
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
                assert_ne!(normalized(one), normalized(other));
            }
        }
    }

    #[test]
    fn no_text_is_too_odd() {
        for odd in ["", "'", "/*", "$", "1.", "é`ö", "''''", "\"a"] {
            let _ = normalized(odd);
        }
    }
}
