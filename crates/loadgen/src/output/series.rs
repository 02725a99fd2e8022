//! The seconds of a run as Parquet.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::drive::Finished;
use crate::measure::Second;

type Column = (&'static str, fn(usize, &Second) -> i64);

const COLUMNS: [Column; 9] = [
    ("second", |number, _| number as i64),
    ("transactions", |_, second| second.transactions as i64),
    ("statements", |_, second| second.statements as i64),
    ("errors", |_, second| second.errors as i64),
    ("retries", |_, second| second.retries as i64),
    ("latency_us_p50", |_, second| {
        second.latency_us.value_at_quantile(0.5) as i64
    }),
    ("latency_us_p90", |_, second| {
        second.latency_us.value_at_quantile(0.9) as i64
    }),
    ("latency_us_p99", |_, second| {
        second.latency_us.value_at_quantile(0.99) as i64
    }),
    ("latency_us_max", |_, second| second.latency_us.max() as i64),
];

/// Write one row for each second of the measured part, and for those after it up to the last end of a transaction.
///
/// # Errors
/// The system's, with the file's name.
pub fn write_parquet(path: &Path, finished: &Finished) -> anyhow::Result<()> {
    write(path, finished).with_context(|| format!("cannot write {}", path.display()))
}

fn write(path: &Path, finished: &Finished) -> anyhow::Result<()> {
    let fields: String = COLUMNS
        .iter()
        .map(|(name, _)| format!("REQUIRED INT64 {name}; "))
        .collect();
    let schema = Arc::new(parse_message_type(&format!(
        "message seconds {{ {fields} }}"
    ))?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let mut group = writer.next_row_group()?;
    let (seconds, quiet) = (finished.totals.series.seconds(), Second::default());
    let rows = seconds.len().max(finished.duration_s.ceil() as usize);
    for (_, value) in COLUMNS {
        let values: Vec<i64> = (0..rows)
            .map(|number| value(number, seconds.get(number).unwrap_or(&quiet)))
            .collect();
        let mut column = group
            .next_column()?
            .context("the schema has fewer columns than the table")?;
        column
            .typed::<Int64Type>()
            .write_batch(&values, None, None)?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}
