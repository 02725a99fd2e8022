//! Statements without what their literals say.

use super::token::{Kind, Token, Tokens};
use crate::Dialect;

/// A text with one of these in it may say a password.
const SECRETS: [&[u8]; 3] = [b"password", b"passwd", b"identified"];

/// Whether a password may stand in a statement: it has the word `password`, `passwd` or `identified` anywhere, in any case.
#[must_use]
pub fn has_secret(sql: &[u8]) -> bool {
    // The first letters are rare enough together to look no further at most statements.
    (0..sql.len()).any(|at| {
        matches!(sql[at] | 0x20, b'p' | b'i')
            && SECRETS.iter().any(|secret| {
                let word = sql.get(at..at + secret.len());
                word.is_some_and(|word| word.eq_ignore_ascii_case(secret))
            })
    })
}

/// Whether a statement has a literal.
#[must_use]
pub fn has_literals(dialect: impl Into<Dialect>, sql: &[u8]) -> bool {
    Tokens::sure(dialect.into(), sql).any(|token| matches!(token.kind, Kind::Number | Kind::Text))
}

/// The statement with `'<text of 5 bytes>'` for each text and `999.99` for each number, and without its comments. It has the digest of
/// the statement. What is masked already stays as it is. Where the character set decides how to read on, a `?` stands for the rest.
#[must_use]
pub fn mask(dialect: impl Into<Dialect>, sql: &[u8]) -> Vec<u8> {
    let mut masked = Vec::with_capacity(sql.len());
    for token in Tokens::sure(dialect.into(), sql) {
        put(&mut masked, token);
    }
    masked
}

/// [`mask`] of a statement that has a secret. Where its literals end depends on a setting of the session that may be another one than
/// was seen: a text with a backslash is cut before its first literal.
pub(crate) fn mask_secret(dialect: Dialect, sql: &[u8]) -> Vec<u8> {
    let mut masked = Vec::with_capacity(sql.len());
    for token in Tokens::sure(dialect, sql) {
        if token.kind == Kind::Text && sql.contains(&b'\\') {
            masked.push(b'?');
            break;
        }
        put(&mut masked, token);
    }
    masked
}

fn put(masked: &mut Vec<u8>, token: Token<'_>) {
    match token.kind {
        Kind::Space => {
            if masked.last() != Some(&b' ') {
                masked.push(b' ');
            }
        }
        Kind::Number => {
            // The letters of another base are digits, too.
            let is_decimal = token
                .bytes
                .iter()
                .all(|byte| b"0123456789_.eE+-".contains(byte));
            masked.extend(token.bytes.iter().map(|byte| match byte {
                b'-' | b'+' | b'.' => *byte,
                // Without it, the sign of an exponent would stand between two numbers.
                b'e' | b'E' if is_decimal => *byte,
                _ => b'9',
            }));
        }
        Kind::Text if is_masked(token.bytes) => masked.extend_from_slice(token.bytes),
        Kind::Text => {
            let is_binary = matches!(token.bytes, [b'x' | b'X' | b'b' | b'B', ..]);
            let what = if is_binary { "binary" } else { "text" };
            let length = token.bytes.len();
            // Two quotes in a row would be one in a text.
            if masked.last() == Some(&b'\'') {
                masked.push(b' ');
            }
            masked.extend_from_slice(format!("'<{what} of {length} bytes>'").as_bytes());
        }
        _ => masked.extend_from_slice(token.bytes),
    }
}

/// Whether a literal says its length alone.
fn is_masked(literal: &[u8]) -> bool {
    let length = |what: &[u8]| literal.strip_prefix(what)?.strip_suffix(b" bytes>'");
    let length = length(b"'<text of ").or_else(|| length(b"'<binary of "));
    length.is_some_and(|length| !length.is_empty() && length.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::super::digest_text;
    use super::*;
    use crate::Family;
    use proptest::prelude::*;

    fn text(family: Family, sql: &str) -> String {
        String::from_utf8(mask(family, sql.as_bytes())).expect("UTF-8")
    }

    #[test]
    fn literals_keep_their_type_and_length() {
        assert_eq!(
            text(
                Family::Mysql,
                "SELECT -12.50, 'it''s', x'00' /* me */ FROM t1"
            ),
            "SELECT -99.99, '<text of 7 bytes>', '<binary of 5 bytes>' FROM t1"
        );
        assert_eq!(
            text(Family::Mysql, "SELECT 0xEF, 1.5e-7, 2E+10 FROM t1"),
            "SELECT 9999, 9.9e-9, 9E+99 FROM t1"
        );
        assert_eq!(
            text(Family::Postgres, "SELECT $$a$$, $1, E'\\''"),
            "SELECT '<text of 5 bytes>', $1, '<text of 5 bytes>'"
        );
    }

    #[test]
    fn a_number_in_a_name_is_no_literal() {
        for (sql, expected) in [
            ("SELECT t1.a FROM t1 WHERE b = ? /* 1 */", false),
            ("SELECT a FROM t1 LIMIT 1", true),
            ("SELECT 'a'", true),
        ] {
            assert_eq!(
                has_literals(Family::Mysql, sql.as_bytes()),
                expected,
                "{sql}"
            );
        }
    }

    #[test]
    fn what_looks_masked_and_says_more_is_masked() {
        for literal in [
            "'<text of 5 bytes>x'",
            "'<text of  bytes>'",
            "'<text of 5a bytes>'",
        ] {
            let length = literal.len();
            assert_eq!(
                text(Family::Mysql, literal),
                format!("'<text of {length} bytes>'")
            );
        }
    }

    #[test]
    fn passwords_are_found_however_they_are_written() {
        for sql in [
            "SET PASSWORD = 'x'",
            "create user a identified by 'x'",
            "ALTER ROLE a Password 'x'",
            "CHANGE MASTER TO master_password='x'",
            "PREPARE s FROM 'ALTER USER a IDENTIFIED BY ''x'''",
        ] {
            assert!(has_secret(sql.as_bytes()), "{sql}");
        }
        assert!(!has_secret(b"SELECT p, i, pass, word FROM t"));
        let escaped = b"SET PASSWORD = 'a\\' b', 'c'";
        let dialect = Family::Mysql.into();
        assert_eq!(mask_secret(dialect, escaped), b"SET PASSWORD = ?");
    }

    #[test]
    fn what_a_character_set_decides_is_left_out() {
        // In gbk each of these is one character, and the quote behind it ends the text.
        for sql in [
            &b"INSERT INTO f VALUES (1, '\xD5\x5C', 'CARD4111222233334444 alice')"[..],
            b"INSERT INTO f VALUES (1, '\xD5\x5C\x5C', 'CARD4111222233334444 alice')",
        ] {
            let masked = mask(Family::Mysql, sql);
            assert_eq!(masked, b"INSERT INTO f VALUES (9, ?");
            let lossy = String::from_utf8_lossy(sql);
            let digest = digest_text(Family::Mysql, &lossy);
            assert_eq!(
                digest,
                digest_text(Family::Mysql, "INSERT INTO f VALUES (9, ?")
            );
            // As a printed trace has it.
            assert_eq!(mask(Family::Mysql, lossy.as_bytes()), masked);
        }
        // There a backtick opens no name, either.
        let named = b"SELECT \xD5\x60 FROM t WHERE a = 'alice'";
        assert_eq!(mask(Family::Mysql, named), b"SELECT \xD5?");
        let secret = b"SET \xD5\x60 = 1, PASSWORD = 'alice'";
        assert_eq!(mask_secret(Family::Mysql.into(), secret), b"SET \xD5?");
        // UTF-8 and what has no such byte are read to their end.
        assert_eq!(
            text(Family::Mysql, "SELECT 'é\\'', 1"),
            "SELECT '<text of 6 bytes>', 9"
        );
        for cut in ["é".as_bytes()[..1].to_vec(), "\u{FFFD}".into()] {
            let long = ["SELECT 'é\\'', '".as_bytes(), &cut].concat();
            assert!(mask(Family::Mysql, &long).starts_with(b"SELECT '<text of 6 bytes>', '<"));
        }
        let plain = b"SELECT '\xD5\xD6', 1";
        assert_eq!(mask(Family::Mysql, plain), b"SELECT '<text of 4 bytes>', 9");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_masked_statement_has_the_same_digest(sql in "[abe=(),.1 'x+-]{0,24}") {
            for family in [Family::Mysql, Family::Postgres] {
                let masked = text(family, &sql);
                prop_assert_eq!(digest_text(family, &masked), digest_text(family, &sql));
                prop_assert_eq!(text(family, &masked), masked);
            }
        }
    }
}
