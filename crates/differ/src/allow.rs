//! The list of differences that a patch is allowed: what it changes on purpose, and why.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::answer::{self, Answer, Kind};
use crate::packet;

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
    /// What each of stock's packets that differ holds, as a difference shows it; nothing where warnings alone may differ.
    #[serde(default)]
    pub stock: String,
    /// The same of the patched server's.
    #[serde(default)]
    pub patched: String,
    /// What of the status that ends a result stock sets and the patched server does not.
    #[serde(default)]
    pub flag: Option<Flag>,
    /// Whether the number and the texts of warnings may differ, too.
    #[serde(default)]
    pub warnings: bool,
}

/// A flag of the status in an OK or EOF packet that follows from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// SERVER_QUERY_NO_GOOD_INDEX_USED.
    NoGoodIndexUsed,
    /// SERVER_QUERY_NO_INDEX_USED.
    NoIndexUsed,
}

impl Flag {
    /// In the status' first byte.
    fn bit(self) -> u8 {
        match self {
            Self::NoGoodIndexUsed => 0x10,
            Self::NoIndexUsed => 0x20,
        }
    }
}

impl Allowed {
    /// Read a file of TOML.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key or flag, an entry without a reason or without a difference.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let list: Self = toml::from_str(&text).with_context(|| file.display().to_string())?;
        for each in &list.allow {
            let said = [&each.patch, &each.why];
            ensure!(
                !each.request.as_str().is_empty() && said.iter().all(|text| !text.is_empty()),
                "{}: an entry's patch, why or request is empty",
                file.display()
            );
            ensure!(
                match (each.stock.is_empty(), each.patched.is_empty()) {
                    (true, true) => each.warnings || each.flag.is_some(),
                    (one, other) => one == other,
                },
                "{}: an entry has stock and patched, or a flag, or warnings = true, or more of these",
                file.display()
            );
        }
        Ok(list)
    }

    /// Whether the difference of two answers is one of the list's: all packets that differ, and what was asked.
    #[must_use]
    pub fn holds(&self, request: &str, stock: &Answer, patched: &Answer) -> bool {
        stock.bytes != patched.bytes
            && stock.packets.len() == patched.packets.len()
            && self
                .of(request)
                .any(|each| each.excuses_all(stock, patched))
    }

    /// Whether two answers to SHOW WARNINGS after a request may differ. Each must be rows all the same.
    #[must_use]
    pub fn holds_warnings(&self, after: &str, stock: &Answer, patched: &Answer) -> bool {
        let columns = |answer: &Answer| -> Vec<Vec<u8>> {
            let packets = answer.each();
            let all = packets.filter(|(kind, _)| matches!(kind, Kind::Count | Kind::Definition));
            all.map(|(_, packet)| packet.to_vec()).collect()
        };
        (stock.error, patched.error) == (0, 0)
            && columns(stock) == columns(patched)
            && self.of(after).any(|each| each.warnings)
    }

    fn of<'a>(&'a self, request: &'a str) -> impl Iterator<Item = &'a Entry> {
        let list = self.allow.iter();
        list.filter(|each| each.request.is_match(request))
    }
}

impl Entry {
    /// Whether what differs is the flag, the number of warnings and the texts, as far as the entry names them.
    fn excuses_all(&self, stock: &Answer, patched: &Answer) -> bool {
        let mut packets = stock.each().zip(patched.each());
        packets.all(|(ours, theirs)| {
            let levelled = self.levelled(ours, theirs);
            let shown = |(kind, packet)| answer::text(kind, packet, usize::MAX);
            let theirs = (theirs.0, &levelled[..]);
            ours == theirs || !self.stock.is_empty() && self.excuses(&shown(ours), &shown(theirs))
        })
    }

    /// The patched server's packet, with stock's number of warnings and stock's flag where the entry lets them differ.
    fn levelled(&self, ours: (Kind, &[u8]), theirs: (Kind, &[u8])) -> Vec<u8> {
        let mut packet = theirs.1.to_vec();
        if (ours.0, theirs.0) == (Kind::End, Kind::End)
            && let (Some(stock), Some(payload)) = (ours.1.get(4..), packet.get_mut(4..))
            && let Some((status, warnings)) = packet::status_and_warnings_at(stock)
            && packet::status_and_warnings_at(payload) == Some((status, warnings))
        {
            if self.warnings {
                payload[warnings..warnings + 2].copy_from_slice(&stock[warnings..warnings + 2]);
            }
            if let Some(flag) = self.flag {
                payload[status] |= stock[status] & flag.bit();
            }
        }
        packet
    }

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
flag = "no_index_used"
"#;

    fn packets(all: &[(Kind, &[u8])]) -> Answer {
        let mut answer = Answer::default();
        for (kind, payload) in all {
            let header = [payload.len() as u8, 0, 0, 1];
            answer
                .bytes
                .extend_from_slice(&[&header[..], payload].concat());
            answer.packets.push((answer.bytes.len(), *kind));
        }
        answer
    }

    fn answer(row: u8, status: u8) -> Answer {
        packets(&[
            (Kind::Row, &[1, row]),
            (Kind::End, &[0xFE, 0, 0, status, 0]),
        ])
    }

    fn list_of_the_series() -> Allowed {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/mysql-9.7");
        Allowed::read(&folder.join("allowed.toml")).expect("the list")
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
        let list = list_of_the_series();
        let end = |warnings: u8, status: u8| {
            let mut answer = answer(b'7', status);
            let at = answer.bytes.len() - 4;
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
                    // Another plan converts other values.
                    let more = end(warnings + 1, without);
                    assert!(list.holds(request, &stock, &more), "{request}");
                    let same = end(warnings + 1, with);
                    assert!(list.holds(request, &stock, &same), "{request}");
                    assert!(!list.holds(request, &more, &stock), "{request}");
                }
            }
        }
        let (stock, patched) = (end(0, 0x22), end(0, 0x02));
        assert!(!list.holds("SELECT COUNT(*) FROM t0;", &stock, &patched));
    }

    #[test]
    fn the_number_that_a_count_brings_is_no_flag() {
        let list = list_of_the_series();
        let request = "-- COM_STMT_EXECUTE s4 (1): SELECT COUNT(c1) FROM t0 WHERE k0 > ?";
        // A binary row, and OK in the place of EOF.
        let answer = |count: u8, status: u8| {
            packets(&[
                (Kind::Row, &[0, 0, count, 0, 0, 0, 0, 0, 0, 0]),
                (Kind::End, &[0xFE, 0, 0, status, 0, 0, 0]),
            ])
        };
        for with in [0x21, 0x22, 0x23, 0x61, 0x62, 0x63] {
            let without = with & !0x20;
            let holds = |stock: Answer, patched: Answer| list.holds(request, &stock, &patched);
            assert!(holds(answer(7, with), answer(7, without)), "{with}");
            assert!(!holds(answer(7, without), answer(7, with)), "{with}");
            assert!(!holds(answer(with, 2), answer(without, 2)), "{with}");
            assert!(!holds(answer(with, with), answer(without, without)));
            // Another flag.
            assert!(!holds(answer(7, with | 0x10), answer(7, without)));
        }
    }

    #[test]
    fn what_differs_beside_the_texts_is_not_allowed() {
        let entry = |stock: &str, patched: &str| Entry {
            patch: "one".to_owned(),
            why: "because".to_owned(),
            request: Regex::new("ALTER").expect("an expression"),
            stock: stock.to_owned(),
            patched: patched.to_owned(),
            flag: None,
            warnings: false,
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
    fn warnings_may_differ_where_the_list_says_so_and_rows_and_errors_may_not() {
        let list = "[[allow]]\npatch='a'\nwhy='b'\nrequest='COUNT'\nwarnings=true";
        let list: Allowed = toml::from_str(list).expect("a list");
        let of = |row: u8, end: &[u8]| packets(&[(Kind::Row, &[1, row]), (Kind::End, end)]);
        // EOF, and OK in its place.
        let kinds: [fn(u8, u8) -> Vec<u8>; 2] = [
            |warnings, status| vec![0xFE, warnings, 1, status, 0],
            |warnings, status| vec![0xFE, 0xFC, 0, 2, 0, status, 0, warnings, 1],
        ];
        for end in kinds {
            let stock = of(b'7', &end(6, 2));
            let holds = |request: &str, patched: &Answer| list.holds(request, &stock, patched);
            assert!(holds("SELECT COUNT(c1)", &of(b'7', &end(15, 2))));
            assert!(!holds("SELECT SUM(c1)", &of(b'7', &end(15, 2))));
            assert!(!holds("SELECT COUNT(c1)", &of(b'8', &end(15, 2))));
            assert!(!holds("SELECT COUNT(c1)", &of(b'7', &end(15, 3))));
            assert!(!holds("SELECT COUNT(c1)", &stock));
        }
        let shown = |row: u8| of(row, &[0xFE, 0, 0, 2, 0]);
        let error = Answer {
            error: 1317,
            ..shown(b'a')
        };
        let holds =
            |after: &str, patched: &Answer| list.holds_warnings(after, &shown(b'a'), patched);
        assert!(holds("SELECT COUNT(c1)", &shown(b'b')));
        assert!(!holds("SELECT SUM(c1)", &shown(b'b')));
        assert!(!holds("SELECT COUNT(c1)", &error));
    }

    #[test]
    fn an_entry_that_would_allow_anything_or_nothing_is_refused() {
        let folder = tempfile::tempdir().expect("room");
        let file = folder.path().join("allow.toml");
        for texts in [
            "stock=''\npatched='d'",
            "stock='d'\nwarnings=true",
            "stock='d'\nflag='no_index_used'",
            "flag='no_index'",
            "",
        ] {
            let text = format!("[[allow]]\npatch='a'\nwhy='b'\nrequest='c'\n{texts}");
            std::fs::write(&file, text).expect("room");
            let read = Allowed::read(&file);
            let error = format!("{:#}", read.expect_err(texts));
            let hint = if texts.starts_with("flag") {
                "`no_index_used`"
            } else {
                "has stock"
            };
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn the_list_of_the_series_can_be_read() {
        let list = list_of_the_series();
        assert!(
            list.allow
                .iter()
                .all(|each| !each.request.is_match("EXECUTE p"))
        );
    }
}
