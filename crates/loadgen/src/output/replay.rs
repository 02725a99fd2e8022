//! What a replay adds to the result.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;
use wire::Family;

use super::Server;
use crate::replay::{Answer, Difference, Event, Trace};
use crate::session::StatementId;

/// So many differing requests are listed with their statements.
const LISTED_MAX: usize = 100;

/// What a replay adds.
#[derive(Debug, Serialize)]
#[allow(
    missing_docs,
    reason = "docs/reference/load.md is the one place that explains the keys"
)]
pub struct Replay {
    pub trace: String,
    pub recorded_on: Server,
    pub truncated: bool,
    pub requests: u64,
    pub ended_otherwise: u64,
    pub differences: Option<u64>,
    pub differing: Vec<DifferingRequest>,
}

/// A request that was answered differently.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct DifferingRequest {
    pub request: u64,
    pub statement: String,
    pub sql: String,
    pub earlier: AnswerResult,
    pub now: AnswerResult,
}

/// One of the two answers.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct AnswerResult {
    pub answer: String,
    pub rows: u64,
    pub affected: u64,
    pub hash: String,
}

/// Put it together; `family` is that of the server, whose quotes the listed statements have.
///
/// # Errors
/// A trace that has changed since it was opened.
pub fn replay(
    trace: &Trace,
    family: Family,
    ended_otherwise: u64,
    differences: Option<&[Difference]>,
) -> anyhow::Result<Replay> {
    let all = differences.unwrap_or_default();
    Ok(Replay {
        trace: trace.path().display().to_string(),
        recorded_on: Server {
            family: trace.meta.family.clone(),
            version: trace.meta.version.clone(),
        },
        truncated: !trace.whole,
        requests: trace.ending.statements,
        ended_otherwise,
        differences: differences.map(|all| all.len() as u64),
        differing: differing(trace, family, &all[..all.len().min(LISTED_MAX)])?,
    })
}

/// Find the statements of the requests that differ.
fn differing(
    trace: &Trace,
    family: Family,
    differences: &[Difference],
) -> anyhow::Result<Vec<DifferingRequest>> {
    let mut wanted: BTreeMap<u64, &Difference> = differences
        .iter()
        .map(|difference| (difference.now.ordinal, difference))
        .collect();
    let mut found = Vec::new();
    let mut malformed = None;
    trace.each(|recorded| {
        let after = recorded.ordinal + recorded.events;
        if wanted.range(recorded.ordinal..after).next().is_some() {
            match recorded.events() {
                Err(error) => malformed = Some(error),
                Ok(events) => {
                    for (ordinal, event) in (recorded.ordinal..).zip(events) {
                        if let Some(difference) = wanted.remove(&ordinal) {
                            found.push(describe(trace, family, difference, &event));
                        }
                    }
                }
            }
        }
        if wanted.is_empty() || malformed.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    malformed.map_or(Ok(found), |error| Err(error.into()))
}

fn describe(
    trace: &Trace,
    family: Family,
    difference: &Difference,
    event: &Event,
) -> DifferingRequest {
    let named = |id: &StatementId| &trace.meta.statements[usize::from(id.0)];
    let (statement, sql) = match event {
        Event::Begin => ("begin".to_owned(), "BEGIN".to_owned()),
        Event::Commit => ("commit".to_owned(), "COMMIT".to_owned()),
        Event::Rollback => ("rollback".to_owned(), "ROLLBACK".to_owned()),
        Event::Statement { id, parameters } => {
            let known = named(id);
            (
                known.name.clone(),
                wire::render(family, &known.sql, parameters),
            )
        }
        Event::Batch { id, rows, .. } => {
            let known = named(id);
            (
                known.name.clone(),
                format!("{} -- {} rows", known.sql, rows.len()),
            )
        }
    };
    DifferingRequest {
        request: difference.now.ordinal,
        statement,
        sql,
        earlier: answer(&difference.earlier),
        now: answer(&difference.now),
    }
}

fn answer(answer: &Answer) -> AnswerResult {
    AnswerResult {
        answer: answer.state.to_text(),
        rows: answer.rows,
        affected: answer.affected,
        hash: format!("{:016x}", answer.hash),
    }
}
