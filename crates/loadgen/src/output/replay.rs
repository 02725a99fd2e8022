//! What a replay adds to the result.

use std::collections::BTreeMap;

use serde::Serialize;
use wire::Family;

use crate::replay::{self, Answer, Difference, Differences, Event, Place, Trace};
use crate::session::StatementId;

/// What a replay adds.
#[derive(Debug, Serialize)]
#[allow(
    missing_docs,
    reason = "docs/reference/load.md is the one place that explains the keys"
)]
pub struct Replay {
    pub trace: String,
    pub recorded_on: RecordedOn,
    pub truncated: bool,
    pub requests: u64,
    pub overlapped: u64,
    pub laps: u64,
    pub ended_otherwise: u64,
    pub ended_otherwise_overlapped: u64,
    pub counted_otherwise: u64,
    pub counted_otherwise_overlapped: u64,
    pub differences: Option<u64>,
    pub differences_overlapped: Option<u64>,
    pub unsteady: Option<u64>,
    pub differing: Vec<DifferingRequest>,
}

/// What answered when the trace was recorded.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct RecordedOn {
    pub family: String,
    pub version: String,
}

/// A request that was answered differently.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct DifferingRequest {
    pub request: u64,
    pub statement: String,
    pub sql: String,
    pub overlapped: bool,
    pub cell: Option<Place>,
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
    pub warnings: u32,
    pub last_insert_id: u64,
    pub hash: String,
}

/// Put it together.
///
/// # Errors
/// A trace that has changed since it was opened.
pub fn replay(
    trace: &Trace,
    replay: &replay::Replay,
    differences: Option<&Differences>,
) -> anyhow::Result<Replay> {
    let listed = differences.map_or(&[][..], |found| &found.listed);
    let (ended, counted) = (replay.ended_otherwise(), replay.counted_otherwise());
    Ok(Replay {
        trace: trace.path().display().to_string(),
        recorded_on: RecordedOn {
            family: trace.meta.family.clone(),
            version: trace.meta.version.clone(),
        },
        truncated: !trace.whole,
        requests: trace.ending.statements,
        overlapped: trace.overlapped,
        laps: replay.laps(),
        ended_otherwise: ended.count,
        ended_otherwise_overlapped: ended.overlapped,
        counted_otherwise: counted.count,
        counted_otherwise_overlapped: counted.overlapped,
        differences: differences.map(|found| found.count),
        differences_overlapped: differences.map(|found| found.overlapped),
        unsteady: differences.map(|found| found.unsteady),
        differing: differing(trace, listed)?,
    })
}

/// Find the statements of the requests that differ.
fn differing(trace: &Trace, differences: &[Difference]) -> anyhow::Result<Vec<DifferingRequest>> {
    let family = trace.meta.family();
    let mut wanted: BTreeMap<u64, &Difference> = differences
        .iter()
        .map(|difference| (difference.now.ordinal, difference))
        .collect();
    let mut found = Vec::new();
    let mut reader = trace.reader()?;
    while !wanted.is_empty() {
        let Some(recorded) = reader.next_transaction()? else {
            break;
        };
        let after = recorded.ordinal + recorded.events;
        if wanted.range(recorded.ordinal..after).next().is_none() {
            continue;
        }
        for (ordinal, event) in (recorded.ordinal..).zip(recorded.events()?) {
            if let Some(difference) = wanted.remove(&ordinal) {
                found.push(describe(trace, family, difference, &event));
            }
        }
    }
    Ok(found)
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
        Event::Ping => ("com_ping".to_owned(), "COM_PING".to_owned()),
        Event::Reset => (
            "com_reset_connection".to_owned(),
            "COM_RESET_CONNECTION".to_owned(),
        ),
        Event::Statement { id, parameters, .. } => {
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
        overlapped: difference.overlapped,
        cell: difference.now.first_other_cell(&difference.earlier),
        earlier: answer(&difference.earlier),
        now: answer(&difference.now),
    }
}

fn answer(answer: &Answer) -> AnswerResult {
    AnswerResult {
        answer: answer.state.to_text(),
        rows: answer.rows,
        affected: answer.affected,
        warnings: answer.warnings,
        last_insert_id: answer.last_insert_id,
        hash: format!("{:016x}", answer.hash),
    }
}
