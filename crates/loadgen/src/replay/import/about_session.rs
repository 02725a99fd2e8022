//! Which statements set or ask the session and touch no row of a table: those that `upshift stack examine` counts as C5.

use wire::passive::Verb;

/// In a SET: it changes the server, or an account.
const LASTING: [&str; 4] = ["global", "persist", "persist_only", "password"];
/// Called in a SELECT without FROM: it asks the session.
const FUNCTIONS: [&str; 9] = [
    "database",
    "schema",
    "version",
    "connection_id",
    "user",
    "current_user",
    "last_insert_id",
    "current_schema",
    "current_database",
];
const SETS_AUTOCOMMIT: [&str; 5] = [
    "autocommit",
    "session autocommit",
    "local autocommit",
    "@@autocommit",
    "@@session.autocommit",
];

/// Whether a statement is about the session.
pub(super) fn is_about_session(verb: Option<Verb>, text: &str) -> bool {
    let text = text.to_lowercase();
    match verb {
        Some(Verb::Show | Verb::Savepoint) => true,
        Some(Verb::Set) => !words(&text).any(|word| LASTING.contains(&word)),
        Some(Verb::Select) if words(&text).any(|word| word == "from") => false,
        Some(Verb::Select) => {
            text.contains("@@") || FUNCTIONS.iter().any(|name| calls(&text, name)) || is_test(&text)
        }
        _ => false,
    }
}

/// A statement that sets `autocommit` and nothing else, as one that sets it to what it is; none for any other.
pub(super) fn with_own_autocommit(text: &str) -> Option<&'static str> {
    let text = statement(text).to_lowercase();
    let (name, value) = text.strip_prefix("set")?.split_once('=')?;
    let name = name.trim_end_matches(':').split_whitespace();
    let alone = SETS_AUTOCOMMIT.contains(&&*name.collect::<Vec<_>>().join(" "));
    let value = value.trim();
    (alone && matches!(value, "0" | "1" | "on" | "off" | "true" | "false"))
        .then_some("SET @@session.autocommit = @@session.autocommit")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_part_of_word(letter))
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let begins = !text[..at].ends_with(is_part_of_word);
        begins && text[at + name.len()..].trim_start().starts_with('(')
    })
}

/// `SELECT 1`: a pool asks whether its connection lives.
fn is_test(text: &str) -> bool {
    let Some(asked) = statement(text).strip_prefix("select") else {
        return false;
    };
    let asked = asked.trim();
    let quoted = asked
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    asked.parse::<f64>().is_ok() || quoted.is_some_and(|inner| !inner.contains('\''))
}

/// A statement without what may stand around it.
pub(super) fn statement(text: &str) -> &str {
    text.trim().trim_end_matches(';').trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_about_the_session_or_about_rows() {
        for (verb, text, expected) in [
            (Verb::Set, "SET NAMES utf8mb4", true),
            (Verb::Set, "set @a = 1, sql_mode = ''", true),
            (Verb::Set, "SET GLOBAL max_connections = 1", false),
            (Verb::Set, "SET @@persist.max_connections = 1", false),
            (Verb::Set, "SET PASSWORD = 'x'", false),
            (Verb::Show, "SHOW WARNINGS", true),
            (Verb::Savepoint, "ROLLBACK TO a", true),
            (
                Verb::Select,
                "/* driver */SELECT @@session.tx_read_only",
                true,
            ),
            (Verb::Select, "select Last_Insert_Id ()", true),
            (Verb::Select, "SELECT 1;", true),
            (Verb::Select, "SELECT 'x'", true),
            (Verb::Select, "SELECT 'x' + 'y'", false),
            (Verb::Select, "SELECT my_user(1)", false),
            (Verb::Select, "SELECT 1 + a_function(2)", false),
            (Verb::Select, "SELECT @@version FROM t", false),
            (Verb::Update, "UPDATE t SET a = @@version", false),
        ] {
            assert_eq!(is_about_session(Some(verb), text), expected, "{text}");
        }
        assert!(!is_about_session(None, "SET a = 1"));
    }

    #[test]
    fn autocommit_alone_becomes_a_statement_that_changes_nothing() {
        for alone in [
            "SET autocommit=0",
            " set  session  autocommit = ON ;",
            "SET @@session.autocommit := 1",
        ] {
            assert!(with_own_autocommit(alone).is_some(), "{alone}");
        }
        for other in [
            "SET autocommit=0, sql_mode=''",
            "SET sql_mode='', autocommit=1",
            "SET GLOBAL autocommit=0",
            "SET autocommit = @a",
            "SET autocommit",
        ] {
            assert_eq!(with_own_autocommit(other), None, "{other}");
        }
    }
}
