//! The card: everything in its order, within its time.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::budget::{Budget, REPETITIONS, repeated};
use crate::calls::{Calls, FUNCTIONS, Functions, Layout};
use crate::chase::{FOOTPRINTS_BYTES, Loads, loads_in};
use crate::disk_figures::{self, DiskFigures};
use crate::exchange::{CODE_BYTES, Exchanges, Server};
use crate::facts::{self, Facts};
use crate::failure::Failure;
use crate::region::{HUGE_PAGE_BYTES, Pages};
use crate::usage::Usage;
use crate::{cpus, kernel};

/// Rises when a key changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// Shares of the time that one repetition has. With those of the disk, and all repetitions, they come to two thirds of
/// the whole; the rest is for filling memory.
const LOADS_SHARE: f64 = 0.0025;
const CALLS_SHARE: f64 = 0.002;
const KERNEL_SHARE: f64 = 0.003;
const EXCHANGES_SHARE: f64 = 0.001;
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
    exchanges: Vec<Exchanges>,
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
    let disk = disk_figures::measure(folder, &budget, &mut notes)?;

    let length = budget.share(KERNEL_SHARE);
    let clock_ghz = repeated(|| kernel::clock_ghz(length));
    let system_call_ns = repeated(|| kernel::system_call_ns(length));
    let (same_cpu, two_cpus) = wake_ups(&allowed, length, &mut notes);
    let switches = same_cpu
        .iter()
        .map(|&round_trip_us| kernel::context_switch_us(round_trip_us, length / 4));
    let context_switch_us = noted("context switches", switches.collect(), &mut notes);
    let calls = measure_calls(&budget, &mut notes);
    let exchanges = measure_exchanges(&budget, &mut notes);
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
        exchanges,
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
    Failure::failed(format!("/proc cannot be read: {error}"), "mount /proc")
}

/// The figures, or none and a note.
fn noted<T: Default>(what: &str, measured: io::Result<T>, notes: &mut Vec<String>) -> T {
    measured.unwrap_or_else(|error| {
        notes.push(format!("{what} were not measured: {error}"));
        T::default()
    })
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
            notes.push(
                "wake-ups between two CPUs were not measured: this process may use one CPU only"
                    .into(),
            );
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

fn measure_exchanges(budget: &Budget, notes: &mut Vec<String>) -> Vec<Exchanges> {
    let length = budget.share(EXCHANGES_SHARE);
    let all = CODE_BYTES.iter().map(|&code_bytes| {
        let mut server = Server::new(code_bytes)?;
        server.exchange_ns(length)?;
        let repetitions = (0..REPETITIONS).map(|_| server.exchange_ns(length));
        Ok(Exchanges {
            code_bytes,
            exchange_ns: repetitions.collect::<io::Result<_>>()?,
        })
    });
    noted("exchanges over a socket", all.collect(), notes)
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

/// By growing footprint, as far as memory and time allow.
fn measure_loads(budget: &Budget, notes: &mut Vec<String>) -> Vec<Loads> {
    let mut found = Vec::new();
    for footprint_bytes in FOOTPRINTS_BYTES {
        // Both kinds of pages at once, and the order of their lines.
        let needed_bytes = 3 * footprint_bytes as u64;
        let both = if capacity::memory_bytes(None).is_some_and(|free| free < needed_bytes) {
            Err("not enough memory is free".to_owned())
        } else if budget.is_past(LOADS_END_SHARE) {
            Err("no time was left".to_owned())
        } else {
            loads_in(footprint_bytes, budget.share(LOADS_SHARE)).map_err(|error| error.to_string())
        };
        match both {
            Ok(both) => found.extend(both),
            Err(why) => {
                let size = size(footprint_bytes);
                notes.push(format!("loads in {size} and more were not measured: {why}"));
                break;
            }
        }
    }
    if found
        .iter()
        .any(|each| each.pages == Pages::Huge && each.huge_bytes < each.footprint_bytes)
    {
        notes.push("the kernel provided fewer huge pages than were asked for".into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_repetitions_fit_into_the_time() {
        let loads = FOOTPRINTS_BYTES.len() as f64 * 2.0 * 1.25 * LOADS_SHARE;
        let calls = FUNCTIONS.len() as f64 * 3.0 * 1.2 * CALLS_SHARE;
        let kernel = 4.25 * KERNEL_SHARE + CODE_BYTES.len() as f64 * 1.2 * EXCHANGES_SHARE;
        let disk = disk_figures::READS_SHARE + 2.0 * disk_figures::SYNCS_SHARE;
        let all = REPETITIONS as f64 * (loads + calls + kernel + disk) + disk_figures::FILL_SHARE;
        assert!((0.6..=0.7).contains(&all), "{all}");
    }

    #[test]
    fn what_no_time_is_left_for_is_a_note() {
        let mut notes = Vec::new();
        assert!(measure_loads(&Budget::spent(LOADS_END_SHARE), &mut notes).is_empty());
        assert_eq!(
            notes,
            ["loads in 16 KiB and more were not measured: no time was left"]
        );
        assert_eq!(
            (size(64 << 10), size(256 << 20)),
            ("64 KiB".into(), "256 MiB".into())
        );
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
}
