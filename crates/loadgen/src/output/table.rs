//! The result for people.

use std::fmt::Write as _;

use super::json::{Latency, Result, Wire};
use super::replay::{AnswerResult, Replay};
use crate::replay::Place;

/// Room for a name; a longer one stands on a line of its own.
const NAME_WIDTH: usize = 31;

/// A column of figures.
struct Column {
    head: &'static str,
    width: usize,
    /// Whether only a wide table has it.
    wide: bool,
    figure: fn(&Line<'_>) -> String,
}

const fn column(head: &'static str, width: usize, figure: fn(&Line<'_>) -> String) -> Column {
    Column {
        head,
        width,
        wide: false,
        figure,
    }
}

const fn wide(head: &'static str, width: usize, figure: fn(&Line<'_>) -> String) -> Column {
    Column {
        wide: true,
        ..column(head, width, figure)
    }
}

/// With the names 80 columns, 132 with the wide ones.
const COLUMNS: [Column; 12] = [
    column("count", 8, |line| line.count.to_string()),
    column("errors", 6, |line| line.errors.to_string()),
    wide("retries", 7, |line| line.retries.to_string()),
    column("server", 7, |line| {
        line.server_us.map_or_else(String::new, us)
    }),
    column("p50", 7, |line| us(line.latency.p50)),
    column("p99", 7, |line| us(line.latency.p99)),
    wide("p99.9", 8, |line| us(line.latency.p999)),
    column("max", 8, |line| us(line.latency.max)),
    wide("trips", 7, |line| line.mean(line.wire.round_trips)),
    wide("sent B", 8, |line| line.mean(line.wire.bytes_sent)),
    wide("recv B", 8, |line| line.mean(line.wire.bytes_received)),
    wide("syscalls", 8, |line| line.mean(line.wire.syscalls)),
];

/// A transaction or a statement.
struct Line<'a> {
    name: String,
    count: u64,
    errors: u64,
    retries: u64,
    server_us: Option<f64>,
    latency: &'a Latency,
    wire: &'a Wire,
}

impl Line<'_> {
    fn mean(&self, total: u64) -> String {
        format!("{:.1}", total as f64 / self.count.max(1) as f64)
    }
}

fn us(value: f64) -> String {
    format!("{value:.0}")
}

/// A few lines of summary and a row for each transaction and statement, in 80 columns; `wide` for what else was counted.
#[must_use]
pub fn table(result: &Result, wide: bool) -> String {
    let mut text = String::new();
    summary(&mut text, result);
    row(&mut text, "", wide, |column| column.head.to_owned());
    let transactions = result.transactions.iter().map(|(name, one)| Line {
        name: name.clone(),
        count: one.count + one.rolled_back,
        errors: one.errors,
        retries: one.retries,
        server_us: None,
        latency: &one.latency,
        wire: &one.wire,
    });
    let times = &result.server_time.statements;
    let statements = result.statements.iter().map(|(name, one)| Line {
        name: format!("  {name}"),
        count: one.count,
        errors: one.errors,
        retries: one.retries,
        server_us: times.get(name).map(|time| time.mean_us),
        latency: &one.latency,
        wire: &one.wire,
    });
    for line in transactions.chain(statements) {
        row(&mut text, &line.name, wide, |column| (column.figure)(&line));
    }
    text.push_str("times are in microseconds\n");
    if wide {
        text.push_str("trips, bytes and system calls are means for one transaction or statement\n");
    }
    match (&result.server_time.source, &result.server_time.unavailable) {
        (Some(source), _) => {
            let _ = writeln!(text, "server: mean time, by {source}");
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
    let Latency { mean, p99, .. } = result.latency;
    let per_minute = result.tps * 60.0;
    let _ = writeln!(
        text,
        "{:.1} transactions/s ({per_minute:.0} a minute), {:.1} statements/s",
        result.tps, result.qps
    );
    let _ = writeln!(text, "response mean {mean:.0} us, p99 {p99:.0} us");
    if let Some(cpu_us) = result.client_cpu_us_per_statement {
        let _ = writeln!(text, "client CPU {cpu_us:.2} us/statement");
    }
    if let Some(open) = &result.open_loop {
        let _ = writeln!(
            text,
            "open loop at {}/s: {} begun, {} due but not begun\nlag p50 {:.0} us, p99 {:.0} us, max {:.0} us",
            open.rate, open.begun, open.not_begun, open.lag.p50, open.lag.p99, open.lag.max
        );
    }
    let retries: u64 = result.transactions.values().map(|one| one.retries).sum();
    if retries > 0 {
        let _ = writeln!(text, "{retries} retries");
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
        let content = match &one.cell {
            _ if !same_rows || earlier.hash == now.hash => String::new(),
            Some(cell) => format!("; first other cell: {}", place(cell)),
            None => "; other columns, values or order of rows".to_owned(),
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
            "{differences} of {} requests were answered differently{}{more}",
            replay.requests,
            timing(replay.differences_overlapped.unwrap_or_default())
        );
    }
    for (count, overlapped, what) in [
        (
            replay.ended_otherwise,
            replay.ended_otherwise_overlapped,
            "transactions ended in another way",
        ),
        (
            replay.counted_otherwise,
            replay.counted_otherwise_overlapped,
            "requests returned or changed another number of rows",
        ),
    ] {
        if count > 0 {
            let timing = timing(overlapped);
            let _ = writeln!(text, "{count} {what} than in the recording{timing}");
        }
    }
}

/// `row 3, column 2 (qty)`.
fn place(cell: &Place) -> String {
    let name = cell.name.as_ref().map(|name| format!(" ({name})"));
    let (row, column) = (cell.row, cell.column);
    format!("row {row}, column {column}{}", name.unwrap_or_default())
}

/// How many of what differs ran beside others in the recording.
fn timing(overlapped: u64) -> String {
    match overlapped {
        0 => String::new(),
        overlapped => {
            format!(", {overlapped} in transactions that overlapped others (may be timing)")
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

fn row(text: &mut String, name: &str, wide: bool, cell: impl Fn(&Column) -> String) {
    let rest = if name.len() > NAME_WIDTH {
        let _ = writeln!(text, "{name}");
        ""
    } else {
        name
    };
    let _ = write!(text, "{rest:<NAME_WIDTH$}");
    for column in COLUMNS.iter().filter(|column| wide || !column.wide) {
        let _ = write!(text, " {:>width$}", cell(column), width = column.width);
    }
    text.push('\n');
}
