//! trace.json: the trace as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use trace::{Begin, Capture, Ending, Log, Record};
use wire::Civil;

use crate::line::is_whole;
use crate::names::Named;

#[derive(Serialize)]
struct Gaps {
    connections: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct Json<'a> {
    family: &'a str,
    server_version: Option<&'a str>,
    began: String,
    duration_us: u64,
    exchanges: u64,
    sessions: usize,
    gaps: Gaps,
    unread: &'a BTreeMap<&'static str, u64>,
    capture: Capture,
    added_us_p50: Option<f64>,
    added_us_p99: Option<f64>,
    whole: bool,
    masked: bool,
    incomplete: u64,
    lost: u64,
    stopped: Option<&'a str>,
    log: Option<&'a Log>,
}

/// Gathers what the records say together.
pub(super) struct About {
    begin: Begin,
    server_version: Option<String>,
    last_ns: u64,
    exchanges: u64,
    incomplete: u64,
    lost: u64,
    with_gaps: BTreeSet<u32>,
    missing: u64,
    /// Connections by why they are not read.
    unread: BTreeMap<&'static str, u64>,
}

impl About {
    pub(super) fn new(begin: &Begin) -> Self {
        Self {
            begin: begin.clone(),
            server_version: None,
            last_ns: 0,
            exchanges: 0,
            incomplete: 0,
            lost: 0,
            with_gaps: BTreeSet::new(),
            missing: 0,
            unread: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, record: &Record) {
        match record {
            Record::Session { facts, .. } => {
                if self.server_version.is_none() && !facts.server_version.is_empty() {
                    self.server_version = Some(facts.server_version.clone());
                }
            }
            Record::Exchange { exchange, .. } => {
                let last_ns = exchange
                    .answer_ns
                    .map_or(exchange.request_end_ns, |(_, last_ns)| last_ns);
                self.saw(last_ns);
                match exchange.incomplete {
                    true => self.incomplete += 1,
                    false => self.exchanges += 1,
                }
            }
            Record::Gap {
                connection,
                at_ns,
                bytes,
                ..
            } => {
                self.with_gaps.insert(*connection);
                self.missing += bytes;
                self.saw(*at_ns);
            }
            Record::Unread { at_ns, why, .. } => {
                *self.unread.entry(why.name()).or_default() += 1;
                self.saw(*at_ns);
            }
            Record::Connected { at_ns, .. } | Record::Closed { at_ns, .. } => self.saw(*at_ns),
            Record::Lost { exchanges } => self.lost += exchanges,
        }
    }

    fn saw(&mut self, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn write(
        &self,
        path: &Path,
        sessions: usize,
        ending: Option<&Ending>,
    ) -> anyhow::Result<()> {
        let ended = ending.cloned().unwrap_or_default();
        let began_us = i64::try_from(self.begin.began_unix_us).unwrap_or(i64::MAX);
        let json = Json {
            family: &self.begin.family,
            server_version: self.server_version.as_deref(),
            began: format!("{}Z", Civil::from_epoch_us(began_us)).replace(' ', "T"),
            duration_us: ended.duration_us.max(self.last_ns / 1000),
            exchanges: self.exchanges,
            sessions,
            gaps: Gaps {
                connections: self.with_gaps.len(),
                bytes: self.missing,
            },
            unread: &self.unread,
            capture: self.begin.capture,
            added_us_p50: ended.added_us_p50,
            added_us_p99: ended.added_us_p99,
            whole: is_whole(ending),
            masked: self.begin.masked,
            incomplete: self.incomplete,
            lost: ended.lost.max(self.lost),
            stopped: ended.stopped.as_deref(),
            log: self.begin.log.as_ref(),
        };
        let text = serde_json::to_string_pretty(&json)? + "\n";
        let written = super::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}
