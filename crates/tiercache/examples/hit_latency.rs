//! How long a hit takes: `cargo run --release -p tiercache --example hit_latency [memory|memory-lz4|file:PATH|direct:PATH]`.
//!
//! Random reads of pages that are all there, 64 MiB of them, one thread, one second a size; beside it the bare
//! copy of the same bytes from memory, which is the limit.

use std::time::{Duration, Instant};

use tiercache::{Config, Identity, Lookup, Tier};

const DATA_BYTES: usize = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let medium: tiercache::MediumChoice = std::env::args()
        .nth(1)
        .as_deref()
        .unwrap_or("memory")
        .parse()?;
    println!(
        "medium {medium}\n{:>6} {:>12} {:>10} {:>10} {:>14}",
        "bytes", "hits/s", "p50 ns", "p99 ns", "copy alone/s"
    );
    for size in [4096, 16_384, 65_536] {
        let config = Config {
            size_bytes: DATA_BYTES as u64 * 2,
            page_size_bytes: size,
            medium: medium.clone(),
            sequential_cutoff_bytes: 0,
            ..Config::default()
        };
        let tier = Tier::open(config)?;
        let file = tier
            .file(
                b"a.ibd",
                Identity {
                    inode: 1,
                    ..Identity::default()
                },
            )
            .ok_or("a rule leaves the file alone")?;
        let pages = DATA_BYTES / size;
        // Half noise, half zeroes: about what LZ4 makes of a table.
        let data: Vec<u8> = (0..size)
            .map(|at| {
                if at % 64 < 32 {
                    ((at * 2_654_435_761usize) >> 13) as u8
                } else {
                    0
                }
            })
            .collect();
        let mut dst = vec![0; size];
        for page in 0..pages {
            if let Lookup::Miss(token) = tier.read(file, (page * size) as u64, &mut dst) {
                tier.fill(token, &data);
            }
        }
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % pages
        };
        let (mut hits, started) = (0u64, Instant::now());
        while started.elapsed() < Duration::from_secs(1) {
            for _ in 0..64 {
                hits += u64::from(matches!(
                    tier.read(file, (next() * size) as u64, &mut dst),
                    Lookup::Hit
                ));
            }
        }
        let rate = hits as f64 / started.elapsed().as_secs_f64();
        let mut times: Vec<u64> = (0..50_000)
            .map(|_| {
                let offset = (next() * size) as u64;
                let started = Instant::now();
                let _ = std::hint::black_box(tier.read(file, offset, &mut dst));
                started.elapsed().as_nanos() as u64
            })
            .collect();
        times.sort_unstable();
        let memory = vec![1u8; DATA_BYTES];
        let (mut copies, started) = (0u64, Instant::now());
        while started.elapsed() < Duration::from_millis(500) {
            for _ in 0..64 {
                let at = next() * size;
                dst.copy_from_slice(std::hint::black_box(&memory[at..at + size]));
                copies += 1;
            }
        }
        let copy = copies as f64 / started.elapsed().as_secs_f64();
        println!(
            "{size:>6} {rate:>12.0} {:>10} {:>10} {copy:>14.0}",
            times[25_000], times[49_500]
        );
    }
    Ok(())
}
