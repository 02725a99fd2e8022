//! What a load recorded of its own statements.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use loadgen::replay::{Counts, Event, Trace};
use serde_json::Value;
use wire::Family;
use wire::sql::digest_text;

use super::CONNECTIONS;
use super::proxied::{Proxied, is_statement, number};

/// A statement without its literals, with the rows that it returned and changed.
type Statement = (String, u64, u64);

/// All statements of some loads, each as often as it was answered so.
pub struct Recorded {
    family: Family,
    pub transactions: u64,
    loads: u64,
    statements: BTreeMap<Statement, u64>,
}

impl Recorded {
    pub fn of(family: Family, recordings: &[PathBuf]) -> Self {
        let mut recorded = Self {
            family,
            transactions: 0,
            loads: 0,
            statements: BTreeMap::new(),
        };
        recordings.iter().for_each(|path| recorded.add(path));
        recorded
    }

    fn add(&mut self, path: &Path) {
        let trace = Trace::open(path, false).expect("whole");
        assert_eq!(trace.ending.lost, 0);
        self.loads += 1;
        let mut reader = trace.reader().expect("opens");
        while let Some(transaction) = reader.next_transaction().expect("reads") {
            self.transactions += 1;
            for event in transaction.events().expect("decodes") {
                let none = Counts::default();
                let (sql, counts) = match &event {
                    Event::Begin => ("BEGIN", none),
                    Event::Commit => ("COMMIT", none),
                    Event::Statement { id, counts, .. } => {
                        (&*trace.meta.statements[usize::from(id.0)].sql, *counts)
                    }
                    other => panic!("no load of this test sends {other:?}"),
                };
                let statement = (digest(self.family, sql), counts.rows, counts.affected);
                *self.statements.entry(statement).or_default() += 1;
            }
        }
    }

    /// What a trace of the loads has otherwise, in words. Connections without a recorded statement are the loads' own questions to the
    /// server before and after; on the others nothing else stands than what prepares and ends.
    pub fn differs_from(&self, proxied: &Proxied) -> Vec<String> {
        let digests: BTreeSet<&str> = self
            .statements
            .keys()
            .map(|(digest, ..)| &**digest)
            .collect();
        let (mut seen, mut connections, mut said) = (BTreeMap::new(), 0, Vec::new());
        for records in proxied.0.values() {
            let exchanges = records.iter().filter(|each| each["record"] == "exchange");
            let exchanges: Vec<(&Value, Statement)> = exchanges
                .map(|each| (each, statement(self.family, each)))
                .collect();
            let is_recorded = |(each, statement): &&(&Value, Statement)| {
                is_statement(each) && digests.contains(&*statement.0)
            };
            if !exchanges.iter().any(|each| is_recorded(&each)) {
                continue;
            }
            connections += 1;
            for each in &exchanges {
                let kind = each.0["kind"].as_str().unwrap_or_default();
                if is_recorded(&each) {
                    *seen.entry(each.1.clone()).or_default() += 1;
                } else if !matches!(kind, "prepare" | "close_statement" | "quit") {
                    said.push(format!("not recorded: {}", each.0));
                }
            }
        }
        let expected = self.loads * u64::from(CONNECTIONS);
        if connections != expected {
            said.push(format!(
                "{connections} connections of the loads, not {expected}"
            ));
        }
        let all: BTreeSet<&Statement> = self.statements.keys().chain(seen.keys()).collect();
        for statement in all {
            let [ours, theirs] = [&self.statements, &seen]
                .map(|counts| counts.get(statement).copied().unwrap_or_default());
            if ours != theirs {
                said.push(format!("{statement:?}: {ours} recorded, {theirs} seen"));
            }
        }
        said
    }
}

fn statement(family: Family, exchange: &Value) -> Statement {
    let sql = exchange["sql"].as_str().unwrap_or_default();
    let [rows, affected] = ["rows", "affected"].map(|key| number(exchange, key));
    (digest(family, sql), rows, affected)
}

fn digest(family: Family, sql: &str) -> String {
    digest_text(family, sql)
}
