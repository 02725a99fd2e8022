//! TPC-C's consistency conditions (clause 3.3.2) as SQL. Each is one statement, so that it sees one state of the tables, also under load.
//!
//! 3.3.2.11 is not among them: it holds for freshly loaded tables only.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use wire::Connection;

use super::config;
use crate::cli::{ServerOptions, connector};
use crate::drive::refused;
use crate::output::tell;
use crate::sql;

/// Raised when a key of the JSON changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// A condition's clause and file.
macro_rules! conditions {
    ($($clause:literal)+) => {
        [$(($clause, include_str!(concat!("../../statements/check/", $clause, ".sql"))),)+]
    };
}

const CONDITIONS: [(&str, &str); 11] = conditions! {
    "3.3.2.1" "3.3.2.2" "3.3.2.3" "3.3.2.4" "3.3.2.5" "3.3.2.6" "3.3.2.7" "3.3.2.8" "3.3.2.9" "3.3.2.10" "3.3.2.12"
};

/// `upshift load tpcc check`.
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    server: ServerOptions,
    /// The result as JSON on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema_version: u32,
    holds: bool,
    conditions: Vec<Condition>,
}

#[derive(Serialize)]
struct Condition {
    clause: &'static str,
    text: &'static str,
    holds: bool,
    violating_rows: u64,
}

/// Ask each condition and print whether it holds; exit code 1 if one does not.
///
/// # Errors
/// Tables that are not there, and the server's refusals.
pub fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut connection = connector(&args.server)?().map_err(|error| refused(&error, 0, 1))?;
    config::read(&mut *connection)?;
    let mut conditions = Vec::with_capacity(CONDITIONS.len());
    for (clause, file) in CONDITIONS {
        let condition = ask(&mut *connection, clause, file)?;
        if !args.json {
            tell(&line(&condition))?;
        }
        conditions.push(condition);
    }
    let holds = conditions.iter().all(|condition| condition.holds);
    if args.json {
        let report = Report {
            schema_version: SCHEMA_VERSION,
            holds,
            conditions,
        };
        tell(&serde_json::to_string_pretty(&report)?)?;
    }
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn ask(
    connection: &mut dyn Connection,
    clause: &'static str,
    file: &'static str,
) -> Result<Condition, wire::Error> {
    let (comment, sql) = file.split_once('\n').unwrap_or(("", file));
    let count = sql::one(connection, sql)?.number();
    let violating_rows = count
        .and_then(|count| u64::try_from(count).ok())
        .ok_or_else(|| wire::Error::Protocol(format!("condition {clause}: no count")))?;
    Ok(Condition {
        clause,
        text: comment.trim_start_matches("-- "),
        holds: violating_rows == 0,
        violating_rows,
    })
}

fn line(condition: &Condition) -> String {
    let Condition {
        clause,
        text,
        holds,
        violating_rows,
    } = condition;
    let verdict = if *holds { "holds" } else { "VIOLATED" };
    format!("{clause:<9} {verdict:<9} {violating_rows:>8} rows   {text}")
}
