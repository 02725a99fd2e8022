//! The card: everything in its order, within its time.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::budget::{Budget, REPETITIONS, repeated};
use crate::calls::{Calls, FUNCTIONS, Functions, Layout};
use crate::chase::{Chase, FOOTPRINTS_BYTES, LINE_BYTES, Loads, cycle};
use crate::disk::{self, Disk};
use crate::facts::{self, Facts};
use crate::failure::Failure;
use crate::region::{HUGE_PAGE_BYTES, Pages};
use crate::stopwatch::percentile;
use crate::usage::Usage;
use crate::{cpus, file_system, kernel};

/// Rises when a key changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// Shares of the time that one repetition has. With those of the disk, and all repetitions, they come to two thirds of
/// the whole; the rest is for filling memory.
const LOADS_SHARE: f64 = 0.0025;
const CALLS_SHARE: f64 = 0.002;
const KERNEL_SHARE: f64 = 0.003;
const FILL_SHARE: f64 = 0.08;
const READS_SHARE: f64 = 0.02;
const SYNCS_SHARE: f64 = 0.01;
/// Of the whole: no larger footprint is begun after it. What comes after the loads has the rest.
const LOADS_END_SHARE: f64 = 0.85;

/// Everything about the machine. Each list of figures has an entry a repetition; an empty one was not measured, and a note says why.
#[derive(Serialize)]
pub struct Card {
    schema_version: u32,
    budget_s: f64,
    took_s: f64,
    #[serde(flatten)]
    facts: Facts,
    huge_page_bytes: usize,
    clock_ghz: Vec<f64>,
    loads: Vec<Loads>,
    calls: Vec<Calls>,
    system_call_ns: Vec<f64>,
    same_cpu_round_trip_us: Vec<f64>,
    two_cpus_round_trip_us: Vec<f64>,
    context_switch_us: Vec<f64>,
    #[serde(flatten)]
    disk: DiskFigures,
    steal_share: f64,
    other_cpu_share: f64,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct DiskFigures {
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

/// Measure the machine, and the disk of a folder.
///
/// # Errors
/// Too little time, or a folder that cannot be measured. What else is not to be had is a note.
pub fn measure(folder: &Path, seconds: f64) -> Result<Card, Failure> {
    let budget = Budget::begin(seconds)?;
    let allowed = cpus::allowed().map_err(|error| unreadable(&error))?;
    let before = Usage::now(&allowed).map_err(|error| unreadable(&error))?;
    let mut notes = Vec::new();

    // The disk first: what can be refused is refused at once, and what it wrote is at rest while the processor is measured.
    let disk = measure_disk(folder, &budget, &mut notes)?;

    let length = budget.share(KERNEL_SHARE);
    let clock_ghz = repeated(|| kernel::clock_ghz(length));
    let system_call_ns = repeated(|| kernel::system_call_ns(length));
    let (same_cpu, two_cpus) = wake_ups(&allowed, length, &mut notes);
    let switches = same_cpu
        .iter()
        .map(|&round_trip_us| kernel::context_switch_us(round_trip_us, length / 4));
    let context_switch_us = noted("context switches", switches.collect(), &mut notes);
    let calls = measure_calls(&budget, &mut notes);
    let loads = measure_loads(&budget, &mut notes);

    let after = Usage::now(&allowed).map_err(|error| unreadable(&error))?;
    let shares = after.since(&before);
    Ok(Card {
        schema_version: SCHEMA_VERSION,
        budget_s: budget.seconds(),
        facts: facts::read(allowed, Path::new("/sys")),
        huge_page_bytes: HUGE_PAGE_BYTES,
        clock_ghz,
        loads,
        calls,
        system_call_ns,
        same_cpu_round_trip_us: same_cpu,
        two_cpus_round_trip_us: two_cpus,
        context_switch_us,
        disk,
        steal_share: shares.steal,
        other_cpu_share: shares.other,
        notes,
        took_s: budget.spent_s(),
    })
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::failed(format!("/proc cannot be read: {error}"), "mount it")
}

/// The figures, or none and a note.
fn noted<T: Default>(what: &str, measured: io::Result<T>, notes: &mut Vec<String>) -> T {
    measured.unwrap_or_else(|error| {
        notes.push(format!("{what} were not measured: {error}"));
        T::default()
    })
}

fn measure_disk(
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

/// Round trips on one CPU and on two.
fn wake_ups(allowed: &[usize], length: Duration, notes: &mut Vec<String>) -> (Vec<f64>, Vec<f64>) {
    let mut trips = |what: &str, pair: (usize, usize)| {
        let all: io::Result<Vec<f64>> = (0..REPETITIONS)
            .map(|_| kernel::round_trip_us(pair, length))
            .collect();
        noted(what, all, notes)
    };
    let same = match allowed.first() {
        Some(&first) => trips("wake-ups on one CPU", (first, first)),
        None => Vec::new(),
    };
    match cpus::two(allowed, Path::new("/sys/devices/system")) {
        Some(pair) => (same, trips("wake-ups between two CPUs", pair)),
        None => {
            notes.push("wake-ups between two CPUs were not measured: there is one CPU only".into());
            (same, Vec::new())
        }
    }
}

fn measure_calls(budget: &Budget, notes: &mut Vec<String>) -> Vec<Calls> {
    let length = budget.share(CALLS_SHARE);
    let kinds = [
        (Layout::Packed, Pages::Small),
        (Layout::Spread, Pages::Small),
        (Layout::Spread, Pages::Huge),
    ];
    let all = FUNCTIONS.iter().flat_map(|&count| {
        kinds.iter().map(move |&(layout, pages)| {
            let functions = Functions::new(count, layout, pages)?;
            functions.call_ns(length);
            functions.found(repeated(|| functions.call_ns(length)))
        })
    });
    noted("calls", all.collect(), notes)
}

fn measure_loads(budget: &Budget, notes: &mut Vec<String>) -> Vec<Loads> {
    let mut found = Vec::new();
    for footprint_bytes in FOOTPRINTS_BYTES {
        let mib = footprint_bytes >> 20;
        // Both kinds of pages at once, and the order of their lines.
        if available_memory_bytes().is_some_and(|free| free < 3 * footprint_bytes as u64) {
            notes.push(format!(
                "loads in {mib} MiB and more were not measured: not enough memory is free"
            ));
            break;
        }
        if budget.is_past(LOADS_END_SHARE) {
            notes.push(format!(
                "loads in {mib} MiB and more were not measured: no time was left"
            ));
            break;
        }
        match loads_in(footprint_bytes, budget.share(LOADS_SHARE)) {
            Ok(both) => found.extend(both),
            Err(error) => {
                notes.push(format!(
                    "loads in {mib} MiB and more were not measured: {error}"
                ));
                break;
            }
        }
    }
    if found
        .iter()
        .any(|each| each.pages == Pages::Huge && each.huge_bytes < each.footprint_bytes)
    {
        notes.push("the kernel did not give all the huge pages that were asked for".into());
    }
    found
}

/// With small and with huge pages, in turns: what disturbs a while disturbs both.
fn loads_in(footprint_bytes: usize, length: Duration) -> io::Result<[Loads; 2]> {
    let next = cycle((footprint_bytes / LINE_BYTES) as u32);
    let mut small = Chase::new(&next, Pages::Small)?;
    let mut huge = Chase::new(&next, Pages::Huge)?;
    let (mut small_ns, mut huge_ns) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        for (chase, figures) in [(&mut small, &mut small_ns), (&mut huge, &mut huge_ns)] {
            // What the other one left in the caches is replaced before the figure is taken.
            chase.load_ns(length / 4);
            figures.push(chase.load_ns(length));
        }
    }
    Ok([small.found(small_ns)?, huge.found(huge_ns)?])
}

fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?
        .trim()
        .trim_end_matches("kB")
        .trim();
    Some(kib.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_repetitions_fit_into_the_time() {
        let loads = FOOTPRINTS_BYTES.len() as f64 * 2.0 * 1.25 * LOADS_SHARE;
        let calls = FUNCTIONS.len() as f64 * 3.0 * 1.2 * CALLS_SHARE;
        let kernel = 4.25 * KERNEL_SHARE;
        let disk = READS_SHARE + 2.0 * SYNCS_SHARE;
        let all = REPETITIONS as f64 * (loads + calls + kernel + disk) + FILL_SHARE;
        assert!((0.6..=0.7).contains(&all), "{all}");
    }

    #[test]
    fn what_fails_is_a_note_and_no_figure() {
        let mut notes = Vec::new();
        let none: Vec<f64> = noted("calls", Err(io::ErrorKind::Unsupported.into()), &mut notes);
        assert_eq!(none, [0.0_f64; 0]);
        assert_eq!(notes, ["calls were not measured: unsupported"]);
        assert_eq!(noted("loads", Ok(vec![1.0]), &mut notes), [1.0]);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn one_cpu_has_wake_ups_of_its_own_alone() {
        let mut notes = Vec::new();
        let first = cpus::allowed().expect("/proc")[0];
        let (same, two) = wake_ups(&[first], Duration::ZERO, &mut notes);
        assert_eq!((same.len(), two.len()), (REPETITIONS, 0));
        assert!(notes[0].contains("one CPU only"), "{notes:?}");
    }

    #[test]
    fn a_footprint_has_both_kinds_of_pages() {
        let [small, huge] = loads_in(16 << 10, Duration::ZERO).expect("memory");
        assert_eq!((small.pages, huge.pages), (Pages::Small, Pages::Huge));
        assert_eq!(small.load_ns.len(), REPETITIONS);
        assert_eq!(huge.load_ns.len(), REPETITIONS);
        assert_eq!((small.footprint_bytes, small.huge_bytes), (16 << 10, 0));
    }

    #[test]
    fn percentiles_are_of_each_repetition_that_did_something() {
        let found = Percentiles::of(&[vec![1.0, 2.0, 3.0], vec![], vec![5.0]]);
        assert_eq!(found.operations, 4);
        assert_eq!(found.us_p50, [2.0, 5.0]);
        assert_eq!(found.us_p99, [3.0, 5.0]);
    }
}
