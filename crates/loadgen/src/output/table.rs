//! The result for people.

use std::fmt::Write as _;

use super::json::{Latency, Result, Wire};
use super::replay::{AnswerResult, Replay};

/// A few lines of summary and a row for each transaction and statement.
#[must_use]
pub fn table(result: &Result) -> String {
    let mut text = String::new();
    summary(&mut text, result);
    let heads = [
        "",
        "count",
        "errors",
        "retries",
        "server us",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "trips",
        "sent B",
        "recv B",
        "syscalls",
    ];
    row(&mut text, &heads.map(str::to_owned));
    for (name, one) in &result.transactions {
        let count = one.count + one.rolled_back;
        line(
            &mut text,
            name,
            [count, one.errors, one.retries],
            None,
            &one.latency_us,
            &one.wire,
        );
    }
    for (name, one) in &result.statements {
        line(
            &mut text,
            &format!("  {name}"),
            [one.count, one.errors, one.retries],
            result
                .server_time
                .statements
                .get(name)
                .map(|time| time.mean_us),
            &one.latency_us,
            &one.wire,
        );
    }
    text.push_str("trips, bytes and system calls are means for one transaction or statement\n");
    match (&result.server_time.source, &result.server_time.unavailable) {
        (Some(source), _) => {
            let _ = writeln!(text, "server us: mean time in the server, from {source}");
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or_default();
            let _ = writeln!(text, "no time in the server: {why}");
        }
    }
    for (code, error) in &result.errors {
        let _ = writeln!(
            text,
            "error {code}, {} times: {}",
            error.count, error.message
        );
    }
    if let Some(replay) = &result.replay {
        replayed(&mut text, replay);
    }
    for note in &result.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn summary(text: &mut String, result: &Result) {
    let Result {
        workload,
        options,
        server,
        duration_s,
        ..
    } = result;
    let connections = &options["connections"];
    let _ = writeln!(
        text,
        "{workload} on {} {}, {connections} connections, {duration_s:.1} s",
        server.family, server.version
    );
    if let Some(tpmc) = result.tpmc {
        let _ = writeln!(text, "{tpmc:.0} NewOrders a minute (tpmC)");
    }
    let Latency { mean, p99, .. } = result.latency_us;
    let per_minute = result.tps * 60.0;
    let _ = writeln!(
        text,
        "{:.1} transactions/s ({per_minute:.0} a minute), {:.1} statements/s, response mean {mean:.0} us, p99 {p99:.0} us",
        result.tps, result.qps
    );
    if let Some(cpu_us) = result.client_cpu_us_per_statement {
        let _ = writeln!(text, "client CPU {cpu_us:.2} us/statement");
    }
    if let Some(open) = &result.open_loop {
        let _ = writeln!(
            text,
            "open loop at {}/s: {} begun, {} due but not begun, lag p50 {:.0} us, p99 {:.0} us, max {:.0} us",
            open.rate,
            open.begun,
            open.not_begun,
            open.lag_us.p50,
            open.lag_us.p99,
            open.lag_us.max
        );
    }
    if result.reconnects > 0 || result.stuck_connections > 0 {
        let _ = writeln!(
            text,
            "{} reconnects, {} connections without an answer",
            result.reconnects, result.stuck_connections
        );
    }
}

fn replayed(text: &mut String, replay: &Replay) {
    for one in &replay.differing {
        let (earlier, now) = (&one.earlier, &one.now);
        let same_rows = (&earlier.answer, earlier.rows) == (&now.answer, now.rows);
        let content = match same_rows && earlier.hash != now.hash {
            true => "; other columns, values or order of rows",
            false => "",
        };
        let _ = writeln!(
            text,
            "request {} ({}): earlier {}, now {}{content}\n  {}",
            one.request,
            one.statement,
            answer(earlier, now),
            answer(now, earlier),
            one.sql
        );
    }
    if let Some(differences) = replay.differences {
        let unlisted = differences - replay.differing.len() as u64;
        let more = match unlisted {
            0 => String::new(),
            unlisted => format!(" ({unlisted} more are not listed)"),
        };
        let _ = writeln!(
            text,
            "{differences} of {} requests were answered differently{more}",
            replay.requests
        );
    }
    for (count, what) in [
        (replay.ended_otherwise, "transactions ended otherwise"),
        (
            replay.counted_otherwise,
            "requests returned or changed another number of rows",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{count} {what} than when they were recorded");
        }
    }
}

/// An answer, as far as the other one has to be told from it.
fn answer(this: &AnswerResult, other: &AnswerResult) -> String {
    if this.answer != "ok" {
        return this.answer.clone();
    }
    let mut text = format!("{} rows, {} affected", this.rows, this.affected);
    if this.warnings != other.warnings {
        let _ = write!(text, ", {} warnings", this.warnings);
    }
    if this.last_insert_id != other.last_insert_id {
        let _ = write!(text, ", insert id {}", this.last_insert_id);
    }
    text
}

fn line(
    text: &mut String,
    name: &str,
    counts: [u64; 3],
    server_us: Option<f64>,
    latency: &Latency,
    wire: &Wire,
) {
    let uses = counts[0].max(1) as f64;
    let mean = |total: u64| format!("{:.1}", total as f64 / uses);
    let us = |value: f64| format!("{value:.0}");
    row(
        text,
        &[
            name.to_owned(),
            counts[0].to_string(),
            counts[1].to_string(),
            counts[2].to_string(),
            server_us.map_or_else(String::new, us),
            us(latency.p50),
            us(latency.p99),
            us(latency.p999),
            us(latency.max),
            mean(wire.round_trips),
            mean(wire.bytes_sent),
            mean(wire.bytes_received),
            mean(wire.syscalls),
        ],
    );
}

fn row(text: &mut String, cells: &[String; 13]) {
    let _ = write!(text, "{:<32}", cells[0]);
    for cell in &cells[1..] {
        let _ = write!(text, " {cell:>9}");
    }
    text.push('\n');
}
