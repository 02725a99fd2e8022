//! `?` to `$1`, `$2`, ...: what stands in quotes and comments stays.

/// The statement as PostgreSQL wants it. Its operators that contain a question mark are not known here.
pub(super) fn numbered(sql: &str) -> String {
    let mut result = String::with_capacity(sql.len() + 8);
    let mut rest = sql;
    let mut number = 0;
    while let Some(first) = rest.chars().next() {
        if first == '?' {
            number += 1;
            result.push_str(&format!("${number}"));
            rest = &rest[1..];
            continue;
        }
        let length = opaque_bytes(rest, escapes(&result)).unwrap_or(first.len_utf8());
        let (kept, after) = rest.split_at(length);
        result.push_str(kept);
        rest = after;
    }
    result
}

/// Whether what is written so far makes a string that follows one with backslash escapes: a lone `E`.
fn escapes(before: &str) -> bool {
    let mut last = before.chars().rev();
    matches!(last.next(), Some('e' | 'E'))
        && !last
            .next()
            .is_some_and(|character| character.is_alphanumeric() || character == '_')
}

/// Length of the quoted text or comment that `rest` begins with, in bytes; one without an end takes everything.
fn opaque_bytes(rest: &str, escapes: bool) -> Option<usize> {
    let end = match rest.as_bytes() {
        [b'\'', ..] => quoted_bytes(rest, b'\'', escapes),
        [b'"', ..] => quoted_bytes(rest, b'"', false),
        [b'-', b'-', ..] => rest.find('\n'),
        [b'/', b'*', ..] => comment_bytes(rest),
        [b'$', ..] => {
            let tag_bytes = 2 + rest[1..].find('$')?;
            let tag = &rest[..tag_bytes];
            let is_tag = tag[1..tag_bytes - 1]
                .chars()
                .all(|character| character.is_alphanumeric() || character == '_');
            if !is_tag || tag.as_bytes()[1].is_ascii_digit() {
                return None;
            }
            rest[tag_bytes..]
                .find(tag)
                .map(|body| tag_bytes + body + tag_bytes)
        }
        _ => return None,
    };
    Some(end.unwrap_or(rest.len()))
}

/// A doubled quote ends one quoted text and begins the next: nothing lies between.
fn quoted_bytes(rest: &str, quote: u8, escapes: bool) -> Option<usize> {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        if escapes && byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            if escapes && rest.as_bytes().get(at + 1) == Some(&quote) {
                bytes.next();
            } else {
                return Some(at + 1);
            }
        }
    }
    None
}

/// PostgreSQL's comments nest.
fn comment_bytes(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::numbered;

    #[test]
    fn only_parameters_are_numbered() {
        for (sql, expected) in [
            ("a=? AND b=?", "a=$1 AND b=$2"),
            ("'?''?' || ?", "'?''?' || $1"),
            ("\"?\" = ? -- ?\n+ ?", "\"?\" = $1 -- ?\n+ $2"),
            ("/* ? /* ? */ ? */ ?", "/* ? /* ? */ ? */ $1"),
            ("$$?$$, $x$ ? $ $x$, ?", "$$?$$, $x$ ? $ $x$, $1"),
            ("E'\\'?''?', ?", "E'\\'?''?', $1"),
            ("'\\', ?", "'\\', $1"),
            ("'é?', ?", "'é?', $1"),
            ("'?", "'?"),
        ] {
            assert_eq!(numbered(sql), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn all_but_question_marks_stays(sql in "[?'\"$/*Ee\\\\ é\n-]{0,24}") {
            let without = |text: &str| text.replace(|c: char| c == '?' || c == '$' || c.is_ascii_digit(), "");
            prop_assert_eq!(without(&numbered(&sql)), without(&sql));
        }
    }
}
