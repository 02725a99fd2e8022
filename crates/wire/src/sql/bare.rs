//! A statement as little as it can be and still be told from others.

use super::token::{Kind, Tokens};
use crate::Dialect;

/// The statement in lowercase without white space and comments, with `?` for each literal and parameter, and names without their quotes.
/// Two texts that are equal so are one statement with other values, whichever of them a server has written anew.
#[must_use]
pub fn bare(dialect: impl Into<Dialect>, sql: &str) -> String {
    let mut bare = Vec::with_capacity(sql.len());
    for token in Tokens::new(dialect.into(), sql.as_bytes()) {
        match token.kind {
            Kind::Space => {}
            Kind::Number | Kind::Text | Kind::Parameter => bare.push(b'?'),
            Kind::Name => bare.extend_from_slice(unquoted(token.bytes)),
            Kind::Word | Kind::List | Kind::Sign => bare.extend_from_slice(token.bytes),
        }
    }
    String::from_utf8_lossy(&bare).to_lowercase()
}

/// A text that was cut may have no quote at its end.
fn unquoted(name: &[u8]) -> &[u8] {
    match name {
        [first, inside @ .., last] if first == last => inside,
        [_, inside @ ..] => inside,
        [] => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn values_comments_and_quotes_of_names_go() {
        for (family, sql, expected) in [
            (
                Family::Mysql,
                "SELECT `a b`, c1 -- it's\nFROM T WHERE d = 'it''s' /* x */",
                "selecta b,c1fromtwhered=?",
            ),
            (
                Family::Mysql,
                "SELECT \"a\\\"b\", 0xAF, x'00', -1, k+1, 1e5 # end",
                "select?,?,?,?,k+?,?",
            ),
            (Family::Mysql, "SELECT /*! 1 */ ...", "select?..."),
            (
                Family::Postgres,
                "SELECT \"a\" /* /* */ */ FROM t -- it's\nWHERE b = $1 AND c = E'\\'' AND d = $$x'y$$",
                "selectafromtwhereb=?andc=?andd=?",
            ),
            (Family::Mysql, "SELECT É, `cut", "selecté,cut"),
        ] {
            assert_eq!(bare(family, sql), expected);
        }
    }

    #[test]
    fn no_text_is_too_odd() {
        for odd in [
            "", "'", "/*", "$", "1.", "é`ö", "''''", "\"a", "`", "\"", "'\\é",
        ] {
            for family in [Family::Mysql, Family::Postgres] {
                let _ = bare(family, odd);
            }
        }
    }
}
