//! Latency of dependent loads: a chase through memory in which each line holds the address of the next.

use std::io;
use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Serialize;

use crate::budget::REPETITIONS;
use crate::region::{Pages, Region};
use crate::stopwatch::cpu_ns_each;

/// A cache line of the processors that Upshift runs on.
pub const LINE_BYTES: usize = 64;
/// From within the first-level cache to beyond every cache.
pub const FOOTPRINTS_BYTES: [usize; 8] = [
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
];
/// A footprint that no cache holds.
const BEYOND_CACHES_BYTES: usize = FOOTPRINTS_BYTES[FOOTPRINTS_BYTES.len() - 1];
/// Loads between two looks at the clock.
const BATCH: u64 = 1 << 14;
/// Of the random order: the same in every run.
const SEED: u64 = 1;

/// What a load costs in memory of one size with one kind of pages.
#[derive(Debug, Serialize)]
pub struct Loads {
    /// Memory that the loads are spread over.
    pub footprint_bytes: usize,
    /// The pages that were asked for.
    pub pages: Pages,
    /// How much of the memory the kernel put into huge pages.
    pub huge_bytes: usize,
    /// CPU time of a load, each repetition.
    pub load_ns: Vec<f64>,
}

/// A cycle through all lines of some memory, in random order.
struct Chase {
    region: Region,
    pages: Pages,
    lines: usize,
    at: *const Line,
}

/// The head of a line: the address of the next.
#[repr(transparent)]
struct Line(*const Line);

impl Chase {
    /// Memory filled with a cycle, the same for every kind of pages.
    ///
    /// # Errors
    /// The kernel has no such memory.
    fn new(next: &[u32], pages: Pages) -> io::Result<Self> {
        let mut region = Region::new(next.len() * LINE_BYTES, pages)?;
        let start = region.start().as_ptr();
        for (line, &next) in region.as_mut_slice().chunks_exact_mut(LINE_BYTES).zip(next) {
            let address = start.wrapping_add(next as usize * LINE_BYTES) as usize;
            line[..size_of::<usize>()].copy_from_slice(&address.to_ne_bytes());
        }
        Ok(Self {
            at: start.cast(),
            region,
            pages,
            lines: next.len(),
        })
    }

    /// One figure, after what something else left in the caches and the TLB is replaced. The time before is too short for
    /// a chase through all lines of the larger footprints: what of them fits into a cache must be there first.
    fn figure(&mut self, length: Duration) -> f64 {
        if self.lines * LINE_BYTES < BEYOND_CACHES_BYTES {
            self.bring_in();
        }
        self.load_ns(length / 4);
        self.load_ns(length)
    }

    /// Loads every line once, by rising addresses, which the processor fetches ahead.
    fn bring_in(&self) {
        let first = self.region.start().as_ptr();
        for line in 0..self.lines {
            let head = first.wrapping_add(line * LINE_BYTES).cast::<Line>();
            // SAFETY: the line lies within the region, which `self` keeps mapped, and `new` has filled its head.
            std::hint::black_box(unsafe { head.read().0 });
        }
    }

    /// CPU time of a load in nanoseconds, from where the last one ended.
    fn load_ns(&mut self, length: Duration) -> f64 {
        cpu_ns_each(length, || {
            let mut at = self.at;
            for _ in 0..BATCH {
                // SAFETY: `at` is the head of a line within the region, which `self` keeps mapped, and each head was filled by
                // `new` with the address of another head.
                at = unsafe { at.read().0 };
            }
            // The next batch depends on it, so that no load can be left out.
            self.at = std::hint::black_box(at);
            BATCH
        })
    }

    /// The result, with these repetitions.
    ///
    /// # Errors
    /// /proc cannot be read.
    fn found(&self, load_ns: Vec<f64>) -> io::Result<Loads> {
        Ok(Loads {
            footprint_bytes: self.lines * LINE_BYTES,
            pages: self.pages,
            huge_bytes: self.region.huge_bytes()?,
            load_ns,
        })
    }
}

/// With small and with huge pages, in turns: what disturbs a while disturbs both.
///
/// # Errors
/// The kernel has no such memory.
pub fn loads_in(footprint_bytes: usize, length: Duration) -> io::Result<[Loads; 2]> {
    let next = cycle((footprint_bytes / LINE_BYTES) as u32);
    let mut small = Chase::new(&next, Pages::Small)?;
    let mut huge = Chase::new(&next, Pages::Huge)?;
    let (mut small_ns, mut huge_ns) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        for (chase, figures) in [(&mut small, &mut small_ns), (&mut huge, &mut huge_ns)] {
            figures.push(chase.figure(length));
        }
    }
    Ok([small.found(small_ns)?, huge.found(huge_ns)?])
}

/// For each line the next one, in one cycle through all of them (Sattolo's shuffle).
fn cycle(lines: u32) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut next: Vec<u32> = (0..lines).collect();
    for last in (1..next.len()).rev() {
        next.swap(last, random.random_range(0..last));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_line_once() {
        for lines in [1, 2, 3, 64, 1000] {
            let next = cycle(lines);
            let mut seen = vec![false; lines as usize];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!seen[at], "line {at} of {lines} twice");
                seen[at] = true;
                at = next[at] as usize;
            }
            assert_eq!(at, 0, "after all lines the first comes again");
        }
    }

    #[test]
    fn the_order_is_no_stride() {
        let next = cycle(4096);
        let mut strides: Vec<i64> = next
            .iter()
            .zip(0..)
            .map(|(&next, line)| i64::from(next) - line)
            .collect();
        strides.sort_unstable();
        strides.dedup();
        assert!(strides.len() > 1000, "{}", strides.len());
    }

    #[test]
    fn the_addresses_in_memory_are_the_cycle() {
        let next = cycle(256);
        let mut chase = Chase::new(&next, Pages::Small).expect("memory");
        let start = chase.region.start().as_ptr() as usize;
        let first = chase.at;
        let mut at = 0;
        for _ in 0..next.len() {
            let line = first.wrapping_byte_add(at * LINE_BYTES);
            // SAFETY: the line lies within the region, which `chase` keeps mapped.
            let address = unsafe { line.read().0 } as usize;
            at = next[at] as usize;
            assert_eq!(address, start + at * LINE_BYTES);
        }
        assert!(chase.load_ns(Duration::ZERO) > 0.0);
        // A batch is a multiple of 256 loads: the chase is where it began.
        assert_eq!(chase.at, first);
        let found = chase.found(vec![1.0]).expect("smaps");
        assert_eq!((found.footprint_bytes, found.huge_bytes), (16 << 10, 0));
    }

    /// How much of a mapping was touched since /proc/self/clear_refs.
    fn touched_bytes(smaps: &str, start: usize) -> usize {
        let (_, about) = smaps
            .split_once(&format!("{start:x}-"))
            .expect("the mapping");
        let line = about
            .lines()
            .find_map(|line| line.strip_prefix("Referenced:"));
        let kib = line.expect("smaps says it").trim().trim_end_matches(" kB");
        kib.parse::<usize>().expect("a number") * 1024
    }

    #[test]
    fn every_page_is_loaded_before_a_figure_is_taken() {
        const BYTES: usize = 64 << 20;
        let mut chase =
            Chase::new(&cycle((BYTES / LINE_BYTES) as u32), Pages::Small).expect("memory");
        if std::fs::write("/proc/self/clear_refs", "1").is_err() {
            eprintln!("NOT RUN: this kernel does not say what was touched");
            return;
        }
        // Both chases together meet six pages in seven.
        chase.figure(Duration::ZERO);
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        assert_eq!(
            touched_bytes(&smaps, chase.region.start().as_ptr() as usize),
            BYTES
        );
    }

    #[test]
    fn a_footprint_has_both_kinds_of_pages() {
        let [small, huge] = loads_in(16 << 10, Duration::ZERO).expect("memory");
        assert_eq!((small.pages, huge.pages), (Pages::Small, Pages::Huge));
        assert_eq!(small.load_ns.len(), REPETITIONS);
        assert_eq!(huge.load_ns.len(), REPETITIONS);
        assert_eq!((small.footprint_bytes, small.huge_bytes), (16 << 10, 0));
    }
}
