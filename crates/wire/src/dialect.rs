//! How a server reads statements: where its quoted texts and comments end.

use crate::Family;

/// What the text of a statement means depends on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Whose grammar.
    pub family: Family,
    /// Whether a backslash in an ordinary string says how to read the next character. A session can change it: MySQL's `sql_mode`
    /// (`NO_BACKSLASH_ESCAPES`), PostgreSQL's `standard_conforming_strings`.
    pub backslash_escapes: bool,
}

/// As a server of its kind is when nobody has changed it.
impl From<Family> for Dialect {
    fn from(family: Family) -> Self {
        Self {
            family,
            backslash_escapes: family == Family::Mysql,
        }
    }
}

/// A name, a keyword or a number, of which no part begins anything else; 0 for other characters.
fn word(rest: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    match rest.first() {
        Some(b'$') | None => 0,
        Some(_) => rest.iter().take_while(|byte| is_part(byte)).count(),
    }
}

/// Quoted text with both its quotes; a doubled one belongs to it.
pub(crate) fn quoted(rest: &[u8], escapes: bool) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        if escapes && rest[at] == b'\\' {
            at += 2;
        } else if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    at
}

/// A comment that ends with its line: MySQL's lines end at a newline alone, PostgreSQL's at a carriage return, too.
pub(crate) fn line_comment(family: Family, rest: &[u8]) -> usize {
    let is_end = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && family == Family::Postgres);
    rest.iter()
        .position(is_end)
        .map_or(rest.len(), |position| position + 1)
}

pub(crate) fn through(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len())
        .position(|window| window == end)
        .map_or(rest.len(), |position| position + end.len())
}

pub(crate) fn nested_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        at += match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        if depth == 0 {
            break;
        }
    }
    at
}

/// `$tag$ ... $tag$`; a lone `$` is 0 long.
pub(crate) fn dollar_quoted(rest: &[u8]) -> usize {
    let Some(tag_bytes) = rest[1..].iter().position(|byte| *byte == b'$') else {
        return 0;
    };
    let (tag, body) = rest.split_at(tag_bytes + 2);
    let name = &tag[1..=tag_bytes];
    let is_name =
        name.first().is_none_or(|byte| !byte.is_ascii_digit()) && word(name) == name.len();
    if is_name {
        tag.len() + through(body, tag)
    } else {
        0
    }
}
