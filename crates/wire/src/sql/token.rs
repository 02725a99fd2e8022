//! Words, literals and signs of a statement, for both grammars. Every byte belongs to one token, and none is refused.

use crate::dialect::{dollar_quoted, line_comment, nested_comment, quoted, through};
use crate::{Dialect, Family};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// White space or a comment.
    Space,
    /// A name or keyword without quotes.
    Word,
    /// A name in quotes.
    Name,
    /// A number, with the sign that belongs to it.
    Number,
    /// Quoted text, or binary data.
    Text,
    /// `?`, `$1`.
    Parameter,
    /// `...`, which a digest has for a list of literals.
    List,
    /// Anything else.
    Sign,
}

/// A token and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) bytes: &'a [u8],
}

/// Stands for what a session can read in two ways.
const REST: Token<'static> = Token {
    kind: Kind::Parameter,
    bytes: b"?",
};

impl Token<'_> {
    pub(super) fn is(&self, sign: &[u8]) -> bool {
        self.kind == Kind::Sign && self.bytes == sign
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.bytes.eq_ignore_ascii_case(word.as_bytes())
    }

    pub(super) fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }
}

/// After these a sign belongs to the number that follows.
const BEFORE_VALUES: [&str; 19] = [
    "SELECT", "THEN", "ELSE", "WHEN", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "BY",
    "LIMIT", "OFFSET", "WHERE", "ON", "RETURN", "INTERVAL", "DEFAULT",
];

const SIGNS: [&[u8]; 13] = [
    b"<=>", b"->>", b"<=", b">=", b"<>", b"!=", b":=", b"||", b"&&", b"->", b"::", b"<<", b">>",
];
const POSTGRES_SIGNS: [&[u8]; 16] = [
    b"!~~*", b"~~*", b"!~~", b"!~*", b"#>>", b"<->", b"-|-", b"~~", b"~*", b"!~", b"#>", b"@>",
    b"<@", b"@@", b"#-", b"=>",
];

/// The tokens of a statement, white space among them.
pub(super) struct Tokens<'a> {
    dialect: Dialect,
    rest: &'a [u8],
    /// The last one that is not white space.
    last: Option<Token<'a>>,
    /// Inside of `/*! */`: elsewhere MySQL reads `*/` as two signs.
    inside_version: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(dialect: Dialect, sql: &'a [u8]) -> Self {
        Self {
            dialect,
            rest: sql,
            last: None,
            inside_version: false,
        }
    }

    /// The tokens up to what a session can read in two ways, and a `?` for that and the rest.
    pub(super) fn sure(dialect: Dialect, sql: &'a [u8]) -> impl Iterator<Item = Token<'a>> {
        let mut sure = Some(sure_bytes(sql));
        Self::new(dialect, sql).map_while(move |token| {
            sure = sure?.checked_sub(token.bytes.len());
            Some(sure.map_or(REST, |_| token))
        })
    }

    fn classify(&self) -> (Kind, usize) {
        let rest = self.rest;
        let spaces = rest.iter().take_while(|byte| is_space(**byte)).count();
        if spaces > 0 {
            return (Kind::Space, spaces);
        }
        if let Some(comment) = self.comment() {
            return (Kind::Space, comment);
        }
        if let Some(found) = self.quotes() {
            return found;
        }
        match rest {
            [b'.', b'.', b'.', ..] => (Kind::List, 3),
            [b'0'..=b'9', ..] => number(rest),
            [b'.', b'0'..=b'9', ..] if !self.follows_a_name() => number(rest),
            [b'-' | b'+', after @ ..] if self.begins_a_value() && begins_number(after) => {
                match number(after) {
                    (Kind::Number, length) => (Kind::Number, 1 + length),
                    _ => (Kind::Sign, 1),
                }
            }
            [b'?', ..] => (Kind::Parameter, 1),
            [first, ..] if is_word(*first) && *first != b'$' => (Kind::Word, word(rest)),
            [b'$', ..] if self.dialect.family == Family::Mysql => (Kind::Word, word(rest)),
            _ => (Kind::Sign, self.sign()),
        }
    }

    /// Length of the comment that the rest begins with.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest;
        let family = self.dialect.family;
        match (family, rest) {
            (Family::Mysql, [b'#', ..]) => Some(line_comment(family, rest)),
            // Else it is a minus of a minus.
            (Family::Mysql, [b'-', b'-', after @ ..]) => {
                let is_comment = after.first().is_none_or(|byte| *byte <= b' ');
                is_comment.then(|| line_comment(family, rest))
            }
            // What MySQL runs is no comment: only its brackets are left out.
            (Family::Mysql, [b'/', b'*', b'!', inside @ ..]) => Some(3 + digits(inside).min(6)),
            (Family::Mysql, [b'/', b'*', b'M', b'!', inside @ ..]) => {
                Some(4 + digits(inside).min(6))
            }
            (Family::Mysql, [b'*', b'/', ..]) if self.inside_version => Some(2),
            (Family::Mysql, [b'/', b'*', inside @ ..]) => Some(2 + through(inside, b"*/")),
            (Family::Postgres, [b'-', b'-', ..]) => Some(line_comment(family, rest)),
            (Family::Postgres, [b'/', b'*', ..]) => Some(nested_comment(rest)),
            _ => None,
        }
    }

    /// What the rest begins with where that is quoted.
    fn quotes(&self) -> Option<(Kind, usize)> {
        let escapes = self.dialect.backslash_escapes;
        let rest = self.rest;
        let (kind, length) = match (self.dialect.family, rest) {
            (_, [b'\'', ..]) => (Kind::Text, quoted(rest, escapes)),
            (Family::Mysql, [b'"', ..]) => (Kind::Text, quoted(rest, escapes)),
            (Family::Mysql, [b'`', ..]) | (Family::Postgres, [b'"', ..]) => {
                (Kind::Name, quoted(rest, false))
            }
            (_, [b'x' | b'X' | b'b' | b'B', text @ ..]) if text.starts_with(b"'") => {
                (Kind::Text, 1 + quoted(text, false))
            }
            (_, [b'n' | b'N', text @ ..]) if text.starts_with(b"'") => {
                (Kind::Text, 1 + quoted(text, escapes))
            }
            (Family::Postgres, [b'e' | b'E', text @ ..]) if text.starts_with(b"'") => {
                (Kind::Text, 1 + quoted(text, true))
            }
            (Family::Postgres, [b'u' | b'U', b'&', text @ ..]) if text.starts_with(b"'") => {
                (Kind::Text, 2 + quoted(text, false))
            }
            (Family::Postgres, [b'$', b'0'..=b'9', ..]) => {
                (Kind::Parameter, 1 + digits(&rest[1..]))
            }
            (Family::Postgres, [b'$', ..]) => match dollar_quoted(rest) {
                0 => return None,
                length => (Kind::Text, length),
            },
            _ => return None,
        };
        // An escape at the very end counts a byte that is not there.
        Some((kind, length.min(rest.len())))
    }

    fn sign(&self) -> usize {
        let more = match self.dialect.family {
            Family::Mysql => &[][..],
            Family::Postgres => &POSTGRES_SIGNS[..],
        };
        let known = SIGNS.iter().chain(more);
        let lengths = known.filter(|sign| self.rest.starts_with(sign));
        lengths.map(|sign| sign.len()).max().unwrap_or(1)
    }

    fn follows_a_name(&self) -> bool {
        self.last.is_some_and(|last| {
            !matches!(last.kind, Kind::Sign) || matches!(last.bytes, b")" | b"]" | b".")
        })
    }

    fn begins_a_value(&self) -> bool {
        self.last.is_none_or(|last| match last.kind {
            Kind::Sign => !matches!(last.bytes, b")" | b"]" | b"."),
            Kind::Word => last.is_one_of(&BEFORE_VALUES),
            _ => false,
        })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (kind, length) = self.classify();
        let (bytes, rest) = self.rest.split_at(length.clamp(1, self.rest.len()));
        self.rest = rest;
        let token = Token { kind, bytes };
        match (kind, bytes) {
            (Kind::Space, b"*/") => self.inside_version = false,
            (Kind::Space, [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..]) => {
                self.inside_version = self.dialect.family == Family::Mysql;
            }
            (Kind::Space, _) => {}
            _ => self.last = Some(token),
        }
        Some(token)
    }
}

/// How much of a statement any character set reads alike. In gbk, gb18030, big5, sjis and cp932 the second byte of a character can be a
/// backslash or a backtick, and a trace does not say which set holds. What is not UTF-8 may be in one of these, or was, where U+FFFD
/// stands for its bytes.
fn sure_bytes(sql: &[u8]) -> usize {
    let is_unsure = |pair: &[u8]| pair[0] >= 0x80 && matches!(pair[1], b'\\' | b'`');
    match sql.windows(2).position(is_unsure) {
        Some(at) if !is_utf8_to_its_end(sql) => at + 1,
        _ => sql.len(),
    }
}

/// Whether it is UTF-8, and was before it became text. A long statement may be cut within its last character.
fn is_utf8_to_its_end(sql: &[u8]) -> bool {
    let whole = match std::str::from_utf8(sql) {
        Ok(text) => text.trim_end_matches('\u{FFFD}'),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&sql[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !whole.contains('\u{FFFD}')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn word(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| is_word(**byte)).count()
}

fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn begins_number(rest: &[u8]) -> bool {
    matches!(rest, [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..])
}

/// A number, or the name that only begins like one.
fn number(rest: &[u8]) -> (Kind, usize) {
    let whole = rest
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'_')
        .count();
    if whole == 1 && matches!(rest, [b'0', b'x' | b'b' | b'o' | b'X' | b'B' | b'O', ..]) {
        let all = word(rest);
        let is_number = rest[2..all].iter().all(u8::is_ascii_hexdigit) && all > 2;
        return (if is_number { Kind::Number } else { Kind::Word }, all);
    }
    let mut at = whole;
    if rest.get(at) == Some(&b'.') && rest.get(at + 1) != Some(&b'.') {
        at += 1 + digits(&rest[at + 1..]);
    }
    if let [b'e' | b'E', exponent @ ..] = &rest[at..] {
        let sign = usize::from(matches!(exponent.first(), Some(b'+' | b'-')));
        let power = digits(&exponent[sign..]);
        if power > 0 {
            at += 1 + sign + power;
        }
    }
    let more = word(&rest[at..]);
    if more > 0 && at == whole {
        return (Kind::Word, at + more);
    }
    (Kind::Number, at)
}
