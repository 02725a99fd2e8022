//! The disk's part of the card: percentiles of its operations, over repetitions.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::budget::{Budget, REPETITIONS};
use crate::disk::{self, Disk};
use crate::failure::Failure;
use crate::file_system;
use crate::stopwatch::percentile;

/// Of the whole time: for filling the file, and for one repetition of each operation.
pub const FILL_SHARE: f64 = 0.08;
pub const READS_SHARE: f64 = 0.02;
pub const SYNCS_SHARE: f64 = 0.01;

/// What a disk's operations take; each list has an entry a repetition.
#[derive(Serialize)]
pub struct DiskFigures {
    folder: String,
    file_system: String,
    direct_io: bool,
    file_bytes: u64,
    reads: usize,
    read_us_p50: Vec<f64>,
    read_us_p99: Vec<f64>,
    fsyncs: usize,
    fsync_us_p50: Vec<f64>,
    fsync_us_p99: Vec<f64>,
    fdatasyncs: usize,
    fdatasync_us_p50: Vec<f64>,
    fdatasync_us_p99: Vec<f64>,
}

/// Measure the disk of a folder.
///
/// # Errors
/// A folder that cannot be measured, or an error of its disk.
pub fn measure(
    folder: &Path,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<DiskFigures, Failure> {
    let mut disk = Disk::new(folder, budget.share(FILL_SHARE))?;
    if !disk.is_direct() {
        notes.push(format!(
            "random reads were not measured: the file system of {} refuses direct I/O",
            folder.display()
        ));
    }
    let (reads, syncs) = (budget.share(READS_SHARE), budget.share(SYNCS_SHARE));
    let measured =
        |each: &mut dyn FnMut() -> io::Result<Vec<f64>>| -> Result<Percentiles, Failure> {
            let all: io::Result<Vec<Vec<f64>>> = (0..REPETITIONS).map(|_| each()).collect();
            all.map(|all| Percentiles::of(&all))
                .map_err(|error| disk::failed(folder, &error))
        };
    let read = measured(&mut || disk.reads_us(reads))?;
    let fsync = measured(&mut || disk.syncs_us(syncs, File::sync_all))?;
    let fdatasync = measured(&mut || disk.syncs_us(syncs, File::sync_data))?;
    Ok(DiskFigures {
        folder: folder.display().to_string(),
        file_system: file_system::kind(folder),
        direct_io: disk.is_direct(),
        file_bytes: disk.file_bytes,
        reads: read.operations,
        read_us_p50: read.us_p50,
        read_us_p99: read.us_p99,
        fsyncs: fsync.operations,
        fsync_us_p50: fsync.us_p50,
        fsync_us_p99: fsync.us_p99,
        fdatasyncs: fdatasync.operations,
        fdatasync_us_p50: fdatasync.us_p50,
        fdatasync_us_p99: fdatasync.us_p99,
    })
}

/// Percentiles of each repetition that did something.
struct Percentiles {
    operations: usize,
    us_p50: Vec<f64>,
    us_p99: Vec<f64>,
}

impl Percentiles {
    fn of(repetitions: &[Vec<f64>]) -> Self {
        let done = || repetitions.iter().filter(|each| !each.is_empty());
        Self {
            operations: done().map(Vec::len).sum(),
            us_p50: done().map(|each| percentile(each, 50.0)).collect(),
            us_p99: done().map(|each| percentile(each, 99.0)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_each_repetition_that_did_something() {
        let found = Percentiles::of(&[vec![1.0, 2.0, 3.0], vec![], vec![5.0]]);
        assert_eq!(found.operations, 4);
        assert_eq!(found.us_p50, [2.0, 5.0]);
        assert_eq!(found.us_p99, [3.0, 5.0]);
    }
}
