//! A trace as Parquet files for SQL, and a trace.json about the whole. docs/reference/trace.md has the columns.

mod about;
mod digests;
mod exchanges;
mod order;
mod sessions;
mod table;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;
use trace::{Lack, Record, TraceReader};

use about::About;
use exchanges::Exchanges;
use order::InOrder;
use sessions::Sessions;

/// Write `trace.json`, `sessions.parquet` and `exchanges.parquet` into a folder, which is made where it is missing.
///
/// # Errors
/// The trace's ([`trace::TraceError`]) and the system's, with the file's name.
pub fn run(trace: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(trace)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut about = About::new(reader.begin());
    let mut sessions = Sessions::default();
    let mut exchanges = Exchanges::create(&folder.join("exchanges.parquet"), reader.begin())?;
    let mut ordered = InOrder::default();
    while let Some(record) = reader.next()? {
        about.add(&record);
        sessions.add(&record);
        if let Record::Exchange {
            connection,
            exchange,
        } = record
        {
            // What became of it is not known: counted in trace.json alone.
            if exchange.incomplete {
                continue;
            }
            ordered.add(connection, exchange);
            while let Some((connection, exchange)) = ordered.due() {
                exchanges.add(connection, &exchange)?;
            }
        }
    }
    while let Some((connection, exchange)) = ordered.next() {
        exchanges.add(connection, &exchange)?;
    }
    exchanges.finish()?;
    let has_round_trips = !reader.begin().lacks(Lack::RoundTrips);
    let rows = sessions.write(&folder.join("sessions.parquet"), has_round_trips)?;
    about.write(&folder.join("trace.json"), rows, reader.ending())
}

/// A file that only its owner reads, as a trace is: it has the same statements. One that is there is replaced.
fn create(path: &Path) -> io::Result<File> {
    const OWNER: u32 = 0o600;
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(OWNER))?;
    Ok(file)
}
