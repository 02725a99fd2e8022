//! The server's own account of our statements: how often it ran each and how long it took.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use wire::{Cell, Connection, Error, Family, Fetch, RowSink};

use super::server_text::normalized;
use crate::session::StatementSpec;

/// What a server has counted since its statistics were reset.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    /// Where it counts.
    pub source: &'static str,
    /// How its texts are read.
    pub family: Family,
    /// By the statement's text without values.
    pub by_text: HashMap<String, Used>,
}

impl Sums {
    /// The text under which the server knows a statement of ours. MySQL keeps no more of a text than `max_digest_length` (1,024 bytes of
    /// tokens unless it is configured otherwise) and ends what it has cut with dots.
    fn text_of(&self, ours: &str) -> Option<&str> {
        if let Some((known, _)) = self.by_text.get_key_value(ours) {
            return Some(known);
        }
        let begins = |cut: &str| cut.len() >= CUT_MIN && ours.starts_with(cut);
        let mut texts = self.by_text.keys();
        texts
            .find(|known| known.strip_suffix("...").is_some_and(begins))
            .map(String::as_str)
    }
}

/// Shorter texts that end with dots are not taken for the beginning of a longer one.
const CUT_MIN: usize = 200;

/// How often and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Executions.
    pub count: u64,
    /// Time in the server, in microseconds.
    pub time_us: f64,
}

/// The server's account of a run. docs/reference/load.md explains each key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "docs/reference/load.md is the one place that explains the keys"
)]
pub struct ServerTime {
    pub source: Option<&'static str>,
    pub unavailable: Option<String>,
    pub statements: BTreeMap<String, StatementServerTime>,
}

/// The server's account of one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct StatementServerTime {
    pub count: u64,
    pub time_us: f64,
    pub mean_us: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
}

/// Where a server keeps its account.
struct Source {
    name: &'static str,
    /// Whether there is one: a row whose first cell is `1` or `ON`.
    exists: &'static str,
    missing: &'static str,
    /// Text, count, microseconds.
    read: &'static str,
}

const MYSQL: Source = Source {
    name: "performance_schema.events_statements_summary_by_digest",
    exists: "SELECT @@performance_schema",
    missing: "performance_schema is off: start the server with performance_schema=ON",
    read: "SELECT DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT / 1000000 FROM performance_schema.events_statements_summary_by_digest \
           WHERE SCHEMA_NAME = DATABASE() AND DIGEST_TEXT IS NOT NULL",
};

const POSTGRES: Source = Source {
    name: "pg_stat_statements",
    exists: "SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'",
    missing: "the extension pg_stat_statements is not in this database: put it into shared_preload_libraries, then CREATE EXTENSION pg_stat_statements",
    read: "SELECT query, calls, total_exec_time * 1000 FROM pg_stat_statements \
           WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query IS NOT NULL",
};

fn source(family: Family) -> &'static Source {
    match family {
        Family::Mysql => &MYSQL,
        Family::Postgres => &POSTGRES,
    }
}

/// Read the server's sums.
///
/// # Errors
/// Why there are none, for people.
pub fn server_sums(connection: &mut dyn Connection) -> Result<Sums, String> {
    let source = source(connection.family());
    let mut exists = FirstCell::default();
    ask(connection, source.exists, &mut exists)?;
    if !matches!(exists.0.as_deref(), Some("1" | "ON")) {
        return Err(source.missing.to_owned());
    }
    let mut sums = Sums {
        source: source.name,
        family: connection.family(),
        by_text: HashMap::new(),
    };
    ask(connection, source.read, &mut sums)?;
    Ok(sums)
}

fn ask(connection: &mut dyn Connection, sql: &str, rows: &mut dyn RowSink) -> Result<(), String> {
    let done = connection.query(sql, Fetch::ALL, rows);
    done.map(|_| ()).map_err(|error| error.to_string())
}

#[derive(Default)]
struct FirstCell(Option<String>);

impl RowSink for FirstCell {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0 = cells.first().and_then(Cell::to_text);
    }
}

impl RowSink for Sums {
    fn row(&mut self, cells: &[Cell<'_>]) {
        if let [text, count, time_us] = cells {
            let number = |cell: &Cell<'_>| -> f64 {
                let text = cell.to_text().unwrap_or_default();
                text.parse().unwrap_or_default()
            };
            // One text may have several rows: another user, other types of its parameters.
            let text = normalized(self.family, &text.to_text().unwrap_or_default());
            let used = self.by_text.entry(text).or_default();
            used.count += number(count) as u64;
            used.time_us += number(time_us);
        }
    }
}

/// What the server did for our statements between two readings.
#[must_use]
pub fn server_time(
    before: Result<Sums, String>,
    after: Result<Sums, String>,
    statements: &[StatementSpec],
) -> ServerTime {
    let (before, after) = match before.and_then(|before| after.map(|after| (before, after))) {
        Ok(sums) => sums,
        Err(why) => return unavailable(why),
    };
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let boundaries = ["begin", "commit", "rollback"].map(|word| (word, word));
    let ours = statements
        .iter()
        .map(|spec| (spec.name.as_str(), spec.sql.as_str()));
    for (name, sql) in ours.chain(boundaries) {
        if let Some(text) = after.text_of(&normalized(after.family, sql)) {
            let known = names.entry(text).or_default();
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    let mut found = BTreeMap::new();
    for (text, names) in &names {
        let now = after.by_text.get(*text).copied().unwrap_or_default();
        let then = before.by_text.get(*text).copied().unwrap_or_default();
        // A reset in between leaves less than there was.
        let count = now.count.saturating_sub(then.count);
        if count > 0 {
            add(
                &mut found,
                names,
                count,
                (now.time_us - then.time_us).max(0.0),
            );
        }
    }
    if !found
        .keys()
        .any(|name| statements.iter().any(|spec| spec.name == *name))
    {
        return unavailable(format!(
            "{} counted none of these statements (MariaDB leaves out prepared ones: --protocol text has them)",
            after.source
        ));
    }
    ServerTime {
        source: Some(after.source),
        unavailable: None,
        statements: found,
    }
}

fn unavailable(why: String) -> ServerTime {
    ServerTime {
        source: None,
        unavailable: Some(why),
        statements: BTreeMap::new(),
    }
}

/// Add one text's sums under each of its names.
fn add(
    found: &mut BTreeMap<String, StatementServerTime>,
    names: &[&str],
    count: u64,
    time_us: f64,
) {
    for name in names {
        let sum = found
            .entry((*name).to_owned())
            .or_insert(StatementServerTime {
                count: 0,
                time_us: 0.0,
                mean_us: 0.0,
                shared_with: Vec::new(),
            });
        sum.count += count;
        sum.time_us += time_us;
        sum.mean_us = sum.time_us / sum.count as f64;
        for other in names.iter().filter(|other| *other != name) {
            if !sum.shared_with.iter().any(|known| known == other) {
                sum.shared_with.push((*other).to_owned());
            }
        }
    }
}

/// Read the sums over a connection that is made for it.
///
/// # Errors
/// Why there are none, for people.
pub fn connected_sums(
    connect: impl FnOnce() -> Result<Box<dyn Connection>, Error>,
) -> Result<Sums, String> {
    let mut connection = connect().map_err(|error| error.to_string())?;
    server_sums(&mut *connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(entries: &[(&str, u64, f64)]) -> Result<Sums, String> {
        let family = Family::Postgres;
        let entry = |&(sql, count, time_us): &(&str, u64, f64)| {
            (normalized(family, sql), Used { count, time_us })
        };
        Ok(Sums {
            source: "here",
            family,
            by_text: entries.iter().map(entry).collect(),
        })
    }

    #[test]
    fn differences_go_to_the_statements_names() {
        let statements = [
            StatementSpec::new("read", "SELECT a FROM t1 WHERE id = ?"),
            StatementSpec::new("read", "SELECT a FROM t2 WHERE id = ?"),
            StatementSpec::new("one", "UPDATE t SET a = ?"),
            StatementSpec::new("two", "UPDATE t SET a = ?"),
        ];
        let before = sums(&[
            ("SELECT a FROM t1 WHERE id = $1", 10, 100.0),
            ("COMMIT", 1, 1.0),
        ]);
        let after = sums(&[
            ("SELECT a FROM t1 WHERE id = $1", 14, 120.0),
            ("SELECT a FROM t2 WHERE id = $1", 1, 5.0),
            ("UPDATE t SET a = ?", 2, 8.0),
            ("COMMIT", 3, 5.0),
            ("SELECT 1", 99, 99.0),
        ]);
        let time = server_time(before, after, &statements);
        let of = |name: &str| (time.statements[name].count, time.statements[name].mean_us);
        assert_eq!(of("read"), (5, 5.0));
        assert_eq!(of("commit"), (2, 2.0));
        assert_eq!(of("two"), (2, 4.0));
        assert_eq!(time.statements["two"].shared_with, ["one"]);
        assert_eq!(time.statements.len(), 4);
    }

    #[test]
    fn a_text_that_the_server_has_cut_is_known_by_its_beginning() {
        let long = |rows: usize| {
            format!(
                "UPDATE stock SET {} WHERE id = ?",
                "a = a + b, ".repeat(rows)
            )
        };
        let statements = [
            StatementSpec::new("update", long(200)),
            StatementSpec::new("update", long(201)),
        ];
        let text = normalized(Family::Postgres, &long(200));
        let cut = format!("{}...", &text[..1000]);
        let counted = |count| {
            let mut sums = sums(&[]).expect("sums");
            let used = Used {
                count,
                time_us: count as f64,
            };
            sums.by_text.insert(cut.clone(), used);
            Ok(sums)
        };
        let time = server_time(counted(1), counted(4), &statements);
        assert_eq!(
            time.statements["update"].count, 3,
            "both lengths are one text"
        );
    }

    #[test]
    fn it_says_why_there_is_none() {
        let statements = [StatementSpec::new("read", "SELECT 1")];
        let time = server_time(Err("off".into()), sums(&[]), &statements);
        assert_eq!(time.unavailable.as_deref(), Some("off"));
        let time = server_time(sums(&[]), sums(&[("COMMIT", 3, 1.0)]), &statements);
        assert!(
            time.unavailable
                .expect("none matched")
                .contains("--protocol text")
        );
    }
}
