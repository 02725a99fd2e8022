//! Which database a statement goes to.

use super::token::{Kind, Tokens};
use crate::Dialect;

/// The database of `USE`; none of any other statement, and where its name is not UTF-8.
#[must_use]
pub fn used_database(dialect: Dialect, sql: &[u8]) -> Option<String> {
    let mut tokens = Tokens::new(dialect, sql).filter(|token| token.kind != Kind::Space);
    tokens.next().filter(|token| token.is_word("USE"))?;
    let name = tokens.next()?;
    let text = std::str::from_utf8(name.bytes).ok()?;
    let name = match name.kind {
        Kind::Word => text.to_owned(),
        // In double quotes only ANSI_QUOTES lets it stand here, and makes a name of it.
        Kind::Name | Kind::Text if text.starts_with(['`', '"']) => {
            let quote = text.chars().next()?;
            let inner = text.get(1..text.len() - 1)?;
            inner.replace(&format!("{quote}{quote}"), &quote.to_string())
        }
        _ => return None,
    };
    tokens.all(|token| token.is(b";")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn a_use_names_its_database() {
        for (sql, database) in [
            ("USE shop", Some("shop")),
            ("/* pool */ use `a ``b`;", Some("a `b")),
            ("use shop -- and more", Some("shop")),
            ("USE", None),
            ("USE \"a \"\"b\"", Some("a \"b")),
            ("USE \"", None),
            ("USE 'shop'", None),
            ("USE x'00'", None),
            ("USE shop; SELECT 1", None),
            ("SELECT 1", None),
        ] {
            let found = used_database(Dialect::from(Family::Mysql), sql.as_bytes());
            assert_eq!(found.as_deref(), database, "{sql}");
        }
        let dialect = Dialect::from(Family::Mysql);
        assert_eq!(used_database(dialect, b"USE `\xFF`"), None);
    }
}
