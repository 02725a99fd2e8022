//! Histograms as an HdrHistogram interval log, which HdrHistogram's plotters and tools read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::drive::Finished;
use crate::measure::Names;

/// Write one histogram, in nanoseconds, for each transaction (`transaction.NAME`) and statement (`statement.NAME`).
///
/// # Errors
/// The system's, with the file's name.
pub fn write_hdr(
    path: &Path,
    kinds: &[&str],
    names: &Names,
    finished: &Finished,
) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    let mut serializer = V2Serializer::new();
    let duration = Duration::from_secs_f64(finished.duration_s);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("upshift-load; values are nanoseconds")
        .with_start_time(SystemTime::now() - duration)
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut file, &mut serializer)
        .with_context(context)?;
    let transactions = kinds
        .iter()
        .map(|kind| format!("transaction.{kind}"))
        .zip(&finished.totals.transaction_latency);
    let statements = names
        .all()
        .iter()
        .map(|name| format!("statement.{name}"))
        .zip(&finished.totals.statement_latency)
        .filter_map(|(name, latency)| Some((name, latency.histogram()?)));
    let used: Vec<(String, &Histogram<u64>)> = transactions
        .chain(statements)
        .filter(|(_, histogram)| !histogram.is_empty())
        .collect();
    for (name, histogram) in used {
        // A tag can have none of these.
        let name = name.replace([',', ' ', '\r', '\n'], "_");
        let tag = Tag::new(&name);
        log.write_histogram(histogram, Duration::ZERO, duration, tag)
            .map_err(|error| anyhow::anyhow!("{error:?}"))
            .with_context(context)?;
    }
    file.flush().with_context(context)
}
