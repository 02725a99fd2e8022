//! Hit ratios of the tier's own policies against LRU and the optimum, by trace and by size:
//! `cargo run --release -p tiercache --example policy_curves [ACCESSES]`.
//!
//! The tier's columns run the real engine, 4 KiB pages. LRU and Belady's optimum are simulated here. Traces:
//! zipf (exponent 0.9), the same with a scan of everything each tenth of the trace, and a loop.

use std::collections::{BTreeSet, HashMap};

use tiercache::{Config, Identity, Lookup, Promotion, Tier};

const PAGE: usize = 4096;
const PAGES: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let accesses: usize = std::env::args()
        .nth(1)
        .map_or(Ok(200_000), |text| text.parse())?;
    println!(
        "{:<10} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "trace", "size", "LRU", "S3-FIFO", "+nhit:2", "optimum"
    );
    for (name, trace) in [
        ("zipf", zipf(accesses)),
        ("zipf+scan", scans(accesses)),
        ("loop", looping(accesses)),
    ] {
        for percent in [5, 10, 20, 40] {
            let pages = PAGES as usize * percent / 100;
            let ours = tier(&trace, pages, Promotion::Always)?;
            let nhit = tier(&trace, pages, Promotion::NHit(2))?;
            let (lru, best) = (lru(&trace, pages), optimum(&trace, pages));
            println!("{name:<10} {percent:>5}% {lru:>9.4} {ours:>9.4} {nhit:>9.4} {best:>9.4}");
        }
    }
    Ok(())
}

fn random(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

fn zipf(accesses: usize) -> Vec<u64> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=PAGES {
        sum += (rank as f64).powf(-0.9);
        sums.push(sum);
    }
    let mut state = 42;
    (0..accesses)
        .map(|_| {
            let wanted = random(&mut state) * sum;
            // Ranks are spread over the file: neighbours are not alike.
            sums.partition_point(|sum| *sum < wanted) as u64 * 7919 % PAGES
        })
        .collect()
}

fn scans(accesses: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    for (at, page) in zipf(accesses).into_iter().enumerate() {
        if at % (accesses / 10).max(1) == 0 {
            trace.extend(0..PAGES / 2);
        }
        trace.push(page);
    }
    trace
}

fn looping(accesses: usize) -> Vec<u64> {
    (0..accesses as u64).map(|at| at % (PAGES / 4)).collect()
}

fn tier(
    trace: &[u64],
    pages: usize,
    promotion: Promotion,
) -> Result<f64, Box<dyn std::error::Error>> {
    let size_bytes = (pages * PAGE) as u64;
    let config = Config {
        size_bytes,
        page_size_bytes: PAGE,
        promotion,
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
    let (mut dst, mut hits) = (vec![0; PAGE], 0u64);
    for page in trace {
        match tier.read(file, page * PAGE as u64, &mut dst) {
            Lookup::Hit => hits += 1,
            Lookup::Miss(token) => tier.fill(token, &[0; PAGE]),
            Lookup::Bypass(_) => (),
        }
    }
    Ok(hits as f64 / trace.len() as f64)
}

fn lru(trace: &[u64], pages: usize) -> f64 {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeSet::new(), 0);
    for (at, page) in trace.iter().enumerate() {
        if let Some(before) = last.insert(*page, at) {
            order.remove(&(before, *page));
            hits += 1;
        } else if order.len() == pages {
            let oldest = order.pop_first().map(|(_, page)| page);
            oldest.map(|page| last.remove(&page));
        }
        order.insert((at, *page));
    }
    f64::from(hits) / trace.len() as f64
}

/// Belady: whoever is needed latest leaves, the newcomer included.
fn optimum(trace: &[u64], pages: usize) -> f64 {
    let mut next = vec![usize::MAX; trace.len()];
    let mut seen = HashMap::new();
    for (at, page) in trace.iter().enumerate().rev() {
        next[at] = seen.insert(*page, at).unwrap_or(usize::MAX);
    }
    let (mut held, mut order, mut hits) = (HashMap::new(), BTreeSet::new(), 0);
    for (at, page) in trace.iter().enumerate() {
        if let Some(due) = held.remove(page) {
            order.remove(&(due, *page));
            hits += 1;
        }
        held.insert(*page, next[at]);
        order.insert((next[at], *page));
        if order.len() > pages {
            let latest = order.pop_last().map(|(_, page)| page);
            latest.map(|page| held.remove(&page));
        }
    }
    f64::from(hits) / trace.len() as f64
}
