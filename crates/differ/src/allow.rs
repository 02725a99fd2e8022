//! The list of differences that a patch is allowed: what it changes on purpose, and why.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::answer::{self, Answer};

/// The file's contents.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Each of them.
    #[serde(default)]
    pub allow: Vec<Entry>,
    /// Tests of MySQL's that differ on purpose: `upshift patch prove` reads these.
    #[serde(default)]
    pub test: Vec<toml::Table>,
}

/// One allowed difference.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The patch that makes it.
    pub patch: String,
    /// Why its bytes must change.
    pub why: String,
    /// What the request is, or the prepared statement that it executes: a regular expression.
    #[serde(deserialize_with = "expression")]
    pub request: Regex,
    /// What each of stock's packets that differ holds, as a difference shows it.
    pub stock: String,
    /// The same of the patched server's.
    pub patched: String,
}

impl Allowed {
    /// Read a file of TOML.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, an entry without a reason.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let list: Self = toml::from_str(&text).with_context(|| file.display().to_string())?;
        for each in &list.allow {
            let texts = [&each.patch, &each.why, &each.stock, &each.patched];
            ensure!(
                !each.request.as_str().is_empty() && texts.iter().all(|text| !text.is_empty()),
                "{}: an entry's patch, why, request, stock or patched is empty",
                file.display()
            );
        }
        Ok(list)
    }

    /// Whether the difference of two answers is one of the list's: all packets that differ, and what was asked.
    #[must_use]
    pub fn holds(&self, request: &str, stock: &Answer, patched: &Answer) -> bool {
        let differing: Vec<(String, String)> = stock
            .each()
            .zip(patched.each())
            .filter(|(ours, theirs)| ours != theirs)
            .map(|(ours, theirs)| {
                (
                    answer::text(ours.0, ours.1, usize::MAX),
                    answer::text(theirs.0, theirs.1, usize::MAX),
                )
            })
            .collect();
        !differing.is_empty()
            && stock.packets.len() == patched.packets.len()
            && self.allow.iter().any(|each| {
                each.request.is_match(request)
                    && differing
                        .iter()
                        .all(|(ours, theirs)| each.excuses(ours, theirs))
            })
    }
}

impl Entry {
    /// Whether two packets hold the entry's texts, and are equal but for these. Of one text in both, such as the begin of a name, what
    /// differs is the letters and digits that follow.
    fn excuses(&self, stock: &str, patched: &str) -> bool {
        let is_begin = |letter: char| {
            self.stock == self.patched && (letter.is_ascii_alphanumeric() || "_-".contains(letter))
        };
        let rest = |shown: &str, text: &str| -> Vec<String> {
            let mut parts = shown.split(text).map(str::to_owned);
            let first = parts.next();
            let others = parts.map(|part| part.trim_start_matches(is_begin).to_owned());
            first.into_iter().chain(others).collect()
        };
        let (ours, theirs) = (rest(stock, &self.stock), rest(patched, &self.patched));
        ours.len() > 1 && ours == theirs
    }
}

fn expression<'de, D: Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Kind;

    const LIST: &str = r#"
[[test]]
name = "main.one"
[[allow]]
patch = "count_notnull"
why = "a covering index is scanned"
request = 'COUNT\([a-z]'
stock = '\xfe\x00\x00"'
patched = '\xfe\x00\x00\x02'
"#;

    fn answer(row: u8, status: u8) -> Answer {
        let mut answer = Answer::default();
        for (kind, payload) in [
            (Kind::Row, vec![1, row]),
            (Kind::End, vec![0xFE, 0, 0, status, 0, 0, 0]),
        ] {
            answer
                .bytes
                .extend_from_slice(&[payload.len() as u8, 0, 0, 1]);
            answer.bytes.extend_from_slice(&payload);
            answer.packets.push((answer.bytes.len(), kind));
        }
        answer
    }

    #[test]
    fn a_flag_of_its_own_statements_is_allowed_and_no_row_and_no_other_statement() {
        let list: Allowed = toml::from_str(LIST).expect("a list");
        let holds =
            |request: &str, stock: &Answer, patched: &Answer| list.holds(request, stock, patched);
        let (stock, patched) = (answer(b'7', 0x22), answer(b'7', 0x02));
        for request in [
            "SELECT COUNT(c1) FROM t0 WHERE k0 > 1;",
            "-- COM_STMT_EXECUTE s4 (1): SELECT COUNT(c1) FROM t0 WHERE k0 > ?",
        ] {
            assert!(holds(request, &stock, &patched), "{request}");
            assert!(!holds(request, &patched, &stock), "{request}");
            // A row that differs, too.
            assert!(!holds(request, &stock, &answer(b'8', 0x02)), "{request}");
            assert!(!holds(request, &stock, &stock), "{request}");
        }
        for request in [
            "SELECT COUNT(*) FROM t0;",
            "SELECT COUNT(DISTINCT c1) FROM t0;",
            "-- COM_STMT_EXECUTE s4 (1): SELECT c1 FROM t0 WHERE k0 > ?",
            "EXECUTE p USING @v0;",
        ] {
            assert!(!holds(request, &stock, &patched), "{request}");
        }
    }

    #[test]
    fn the_series_list_has_the_flag_whatever_the_warnings() {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/mysql-9.7/allowed.toml");
        let list = Allowed::read(&file).expect("the list");
        let end = |warnings: u8, status: u8| {
            let mut answer = answer(b'7', status);
            let at = answer.bytes.len() - 6;
            answer.bytes[at] = warnings;
            answer
        };
        for request in [
            "SELECT COUNT(c1) FROM t0;",
            "SELECT COUNT(a.c1) FROM t0 a;",
            "select count(C1) from t0",
        ] {
            for with in [0x21, 0x22, 0x23, 0x61, 0x62, 0x63] {
                let without = with & !0x20;
                for warnings in [0, 2, 20] {
                    let (stock, patched) = (end(warnings, with), end(warnings, without));
                    assert!(list.holds(request, &stock, &patched), "{request}");
                    assert!(!list.holds(request, &patched, &stock), "{request}");
                    // One warning more.
                    let more = end(warnings + 1, without);
                    assert!(!list.holds(request, &stock, &more), "{request}");
                }
            }
        }
        let (stock, patched) = (end(0, 0x22), end(0, 0x02));
        assert!(!list.holds("SELECT COUNT(*) FROM t0;", &stock, &patched));
    }

    #[test]
    fn what_differs_beside_the_texts_is_not_allowed() {
        let entry = |stock: &str, patched: &str| Entry {
            patch: "one".to_owned(),
            why: "because".to_owned(),
            request: Regex::new("ALTER").expect("an expression"),
            stock: stock.to_owned(),
            patched: patched.to_owned(),
        };
        let flag = entry("a1", "b2");
        assert!(flag.excuses("x a1 y", "x b2 y"));
        for (stock, patched) in [("x a1 y", "x b2 z"), ("x a1 y", "w b2 y"), ("x a1", "x")] {
            assert!(!flag.excuses(stock, patched), "{stock} {patched}");
        }
        let name = entry("#sql-", "#sql-");
        assert!(name.excuses("no `#sql-1f_a` here", "no `#sql-2e7_b` here"));
        assert!(!name.excuses("no `#sql-1f_a` here", "no `#sql-2e7_b` there"));
        assert!(!name.excuses("no #sql-1, #sql-2", "no #sql-1"));
    }

    #[test]
    fn bytes_that_a_reader_is_not_shown_are_compared() {
        let row = |last: u8| {
            let payload = [&b"#sql-1 "[..], &[b'x'; 300], &[last]].concat();
            let bytes = [&[payload.len() as u8, 1, 0, 1], &payload[..]].concat();
            Answer {
                packets: vec![(bytes.len(), Kind::Row)],
                bytes,
                ..Answer::default()
            }
        };
        let text = "[[allow]]\npatch='a'\nwhy='b'\nrequest='c'\nstock='#sql-'\npatched='#sql-'";
        let list: Allowed = toml::from_str(text).expect("a list");
        assert!(!list.holds("c", &row(b'1'), &row(b'2')));
    }

    #[test]
    fn an_entry_that_would_allow_anything_is_refused() {
        let file = std::env::temp_dir().join(format!("upshift-allow-{}", std::process::id()));
        let text = "[[allow]]\npatch='a'\nwhy='b'\nrequest='c'\nstock=''\npatched='d'";
        std::fs::write(&file, text).expect("room");
        let read = Allowed::read(&file);
        std::fs::remove_file(&file).expect("it was made");
        assert!(read.is_err());
    }

    #[test]
    fn the_list_of_the_series_can_be_read() {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/mysql-9.7/allowed.toml");
        let list = Allowed::read(&file).expect("a list");
        assert!(
            list.allow
                .iter()
                .all(|each| !each.request.is_match("EXECUTE p"))
        );
    }
}
