//! `audit`: does any I/O on data files escape the tier?
//!
//! strace shows each call on a data file that reaches the kernel, with its call stack: what did not come through the library was not
//! seen by the tier. `/proc` shows what no trace can: mappings, io_uring, other processes.

mod server;
mod trace;

use serde::Serialize;
use tiercache::status::{Counter, Snapshot};

use crate::failure::Failure;
use crate::output;
use crate::pages::{self, Which};

use server::Finding;
use trace::Escaped;

/// Escaped calls that are listed; all are counted.
const LISTED_MAX: usize = 50;

/// What to audit.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    which: Which,
    /// Seconds to trace the server, which is slow meanwhile; 0: only what /proc shows.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the audit found.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    pid: u32,
    seconds: u32,
    data_files_open: usize,
    /// Calls on data files that reached the kernel through the tier, by name.
    calls_through_tier: std::collections::BTreeMap<String, u64>,
    escaped_total: u64,
    escaped: Vec<Escaped>,
    findings: Vec<Finding>,
    /// What the tier counted meanwhile.
    counted: Counted,
}

#[derive(Serialize)]
struct Counted {
    hits: u64,
    misses: u64,
    bypasses: u64,
    writes: u64,
}

/// Audit; a failure when something escaped.
pub fn audit(options: &Options) -> Result<(), Failure> {
    let page = pages::find(&options.which)?;
    if !page.alive() {
        return Err(Failure::failed(
            format!("the server with process id {} has stopped", page.pid()),
            "start it with `upshift cache run`, then audit it under its usual load",
        ));
    }
    let pid = page.pid();
    let server = server::Server::of(pid)?;
    let before = page.snapshot();
    let traced = match options.seconds {
        0 => trace::Traced::default(),
        seconds => trace::run(pid, seconds, |path| server.is_data(path))?,
    };
    let counted = grown(&before, &page.snapshot());
    let mut escaped = traced.escaped;
    let escaped_total = escaped.len() as u64;
    escaped.truncate(LISTED_MAX);
    let (data_files_open, findings) = server.findings()?;
    let report = Report {
        schema_version: 1,
        pid,
        seconds: options.seconds,
        data_files_open,
        calls_through_tier: traced.through,
        escaped_total,
        escaped,
        findings,
        counted,
    };
    if options.json {
        output::line(&output::to_json(&report)?)?;
    } else {
        print(&report)?;
    }
    verdict(&report)
}

fn grown(before: &Snapshot, after: &Snapshot) -> Counted {
    let counter = |counter: Counter| after.counter(counter) - before.counter(counter);
    let bypasses = |now: &Snapshot| now.bypasses.iter().map(|(_, value)| value).sum::<u64>();
    Counted {
        hits: counter(Counter::Hits),
        misses: counter(Counter::Misses),
        bypasses: bypasses(after) - bypasses(before),
        writes: counter(Counter::Writes),
    }
}

fn verdict(report: &Report) -> Result<(), Failure> {
    let ways = report.escaped_total + report.findings.len() as u64;
    if ways == 0 {
        return Ok(());
    }
    Err(Failure::failed(
        format!(
            "{} calls on data files escaped the tier, and there are {} other findings",
            report.escaped_total,
            report.findings.len()
        ),
        "the tier serves old pages after writes that it does not see: turn it off (`upshift cache mode pass-through`) until you can explain each of them",
    ))
}

fn print(report: &Report) -> Result<(), Failure> {
    output::line(&format!(
        "process {}: {} data files open, traced for {} s",
        report.pid, report.data_files_open, report.seconds
    ))?;
    output::line(&format!(
        "the tier counted {} hits, {} misses, {} bypasses, {} writes",
        report.counted.hits, report.counted.misses, report.counted.bypasses, report.counted.writes
    ))?;
    for (call, count) in &report.calls_through_tier {
        output::line(&format!("  {count:>9} {call} through the tier"))?;
    }
    for each in &report.escaped {
        output::line(&format!(
            "  ESCAPED {} {}",
            output::name(&each.file),
            output::name(&each.text)
        ))?;
    }
    for each in &report.findings {
        output::line(&format!("  FOUND {}", output::name(&each.text)))?;
    }
    let all = report.calls_through_tier.values().sum::<u64>() + report.escaped_total;
    output::line(&match (report.escaped_total, all, report.seconds) {
        (0, _, 0) => "nothing was traced (--seconds 0)".into(),
        (0, 0, _) => {
            "no call on a data file reached the kernel: audit it under its usual load".into()
        }
        (0, all, _) => format!("none escaped, of {all} calls on data files"),
        (escaped, all, _) => format!("{escaped} escaped, of {all} calls on data files"),
    })
}
