//! What must hold of all rows when nothing runs.

use anyhow::Result;
use wire::ServerUrl;

use super::{ACCOUNTS, EACH, ROWS, Storm, row_of, run_sql};
use crate::report::SCHEMA_VERSION;

/// Whether all rows are what they must be, as after a crash.
///
/// # Errors
/// A server that is not there.
pub fn check(url: &ServerUrl) -> Result<Storm> {
    let wrong = totals(url)?;
    Ok(Storm {
        schema_version: SCHEMA_VERSION,
        part: "check",
        statements: 3,
        wrong,
        ..Storm::default()
    })
}

pub(super) fn totals(url: &ServerUrl) -> Result<Vec<String>> {
    let mut connection = wire::connect(url)?;
    let mut wrong = Vec::new();
    // A rename may have been cut off by a kill.
    let _ = run_sql(&mut *connection, "RENAME TABLE storm.kv_moved TO storm.kv");
    let total = run_sql(
        &mut *connection,
        "SELECT COUNT(*), SUM(balance) FROM storm.account",
    )?;
    let due = vec![vec![
        Some(ACCOUNTS.to_string()),
        Some((ACCOUNTS * EACH).to_string()),
    ]];
    if total.0 != due {
        wrong.push(format!(
            "the accounts' number and total are {:?}, not {due:?}",
            total.0
        ));
    }
    let rows = run_sql(
        &mut *connection,
        "SELECT k, a, s, u FROM storm.kv ORDER BY k",
    )?;
    let due: Vec<Vec<Option<String>>> = (0..ROWS)
        .map(|key| {
            std::iter::once(key.to_string())
                .chain(row_of(key))
                .map(Some)
                .collect()
        })
        .collect();
    if rows.0 != due {
        let bad = rows.0.iter().zip(&due).find(|(row, due)| row != due);
        wrong.push(format!(
            "kv has {} rows, and one that cannot be: {bad:?}",
            rows.0.len()
        ));
    }
    let parts = run_sql(&mut *connection, "SELECT COUNT(*), SUM(v) FROM storm.parts")?;
    let due = vec![vec![
        Some(ROWS.to_string()),
        Some((ROWS * (ROWS - 1) / 2).to_string()),
    ]];
    if parts.0 != due {
        wrong.push(format!("parts has {:?}, not {due:?}", parts.0));
    }
    Ok(wrong)
}
