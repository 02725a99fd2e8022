//! Counting into the page, and reading it as plain values.

use std::sync::atomic::{AtomicU64, Ordering};

use super::StatusPage;
use super::counters::{Counter, Reason};
use super::layout::{FILES, LATENCY_BUCKETS, SHARDS, Shard};
use crate::config::Mode;
use crate::thread;

/// Everything on the page, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Process id of the server.
    pub pid: u32,
    /// Whether that process still runs with the tier open.
    pub alive: bool,
    /// When the tier was opened, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// When the tier last ticked, in nanoseconds since 1970.
    pub ticked_unix_ns: u64,
    /// The mode now; None when the page holds an unknown number.
    pub mode: Option<Mode>,
    /// The medium, as configured.
    pub medium: String,
    /// The promotion, as configured.
    pub promotion: String,
    /// How the tier started: warm with how many pages, or cold and why.
    pub start: String,
    /// Why the tier turned itself off; empty while it did not.
    pub off: String,
    /// Bytes of a page.
    pub page_size_bytes: u64,
    /// Bytes of the medium.
    pub size_bytes: u64,
    /// Pages that fit (for LZ4: slots of the index).
    pub capacity_pages: u64,
    /// Pages held.
    pub used_pages: u64,
    /// Bytes of the medium that pages take.
    pub used_bytes: u64,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// The sequential cutoff, 0 when off.
    pub sequential_cutoff_bytes: u64,
    /// Counters by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Bypasses by reason.
    pub bypasses: Vec<(&'static str, u64)>,
    /// Latency of hits (one in 16 is timed): bucket b counts [2^b, 2^(b+1)) ns.
    pub hit_ns: [u64; LATENCY_BUCKETS],
    /// Latency of misses until their fill, the file's read included.
    pub miss_ns: [u64; LATENCY_BUCKETS],
    /// The busiest files, busiest first.
    pub files: Vec<FileStatus>,
}

/// One file of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatus {
    /// Path, as the server opened it.
    pub name: String,
    /// Reads served, estimated from one in 16.
    pub hits: u64,
    /// Reads missed.
    pub misses: u64,
    /// Pages held.
    pub pages: u64,
}

impl Snapshot {
    /// The value of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].1
    }

    /// How often this reason sent a request past the tier.
    pub fn bypass(&self, reason: Reason) -> u64 {
        self.bypasses[reason as usize].1
    }
}

/// The upper bound in nanoseconds of the bucket in which this share (0 to 1) of the values lies; None without values.
pub fn quantile_ns(histogram: &[u64; LATENCY_BUCKETS], share: f64) -> Option<u64> {
    let total: u64 = histogram.iter().sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let found = histogram.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    found.map(|bucket| 1u64 << (bucket + 1))
}

impl StatusPage {
    /// Reads everything, as it is now while the tier lives (see `refresh`).
    pub fn snapshot(&self) -> Snapshot {
        self.refresh();
        let page = self.page();
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let sum = |pick: &dyn Fn(&Shard) -> u64| {
            page.shards.iter().map(pick).fold(0u64, u64::wrapping_add)
        };
        Snapshot {
            pid: self.pid(),
            alive: self.alive(),
            started_unix_ns: read(&page.started_unix_ns),
            ticked_unix_ns: read(&page.ticked_unix_ns),
            mode: Mode::from_number(read(&page.mode)),
            medium: page.medium.get(),
            promotion: page.promotion.get(),
            start: page.start.get(),
            off: page.off.get(),
            page_size_bytes: read(&page.page_size_bytes),
            size_bytes: read(&page.size_bytes),
            capacity_pages: read(&page.capacity_pages),
            used_pages: read(&page.used_pages),
            used_bytes: read(&page.used_bytes),
            index_bytes: read(&page.index_bytes),
            sequential_cutoff_bytes: read(&page.sequential_cutoff_bytes),
            counters: Counter::ALL
                .iter()
                .map(|c| (c.name(), sum(&|s| read(&s.counters[*c as usize]))))
                .collect(),
            bypasses: Reason::ALL
                .iter()
                .map(|r| (r.name(), sum(&|s| read(&s.bypasses[*r as usize]))))
                .collect(),
            hit_ns: std::array::from_fn(|bucket| sum(&|s| read(&s.hit_ns[bucket]))),
            miss_ns: std::array::from_fn(|bucket| sum(&|s| read(&s.miss_ns[bucket]))),
            files: self.files(),
        }
    }

    fn files(&self) -> Vec<FileStatus> {
        let rows = self.page().files.rows.iter();
        rows.map(|row| FileStatus {
            name: row.name.get(),
            hits: row.hits.load(Ordering::Relaxed),
            misses: row.misses.load(Ordering::Relaxed),
            pages: row.pages.load(Ordering::Relaxed),
        })
        .filter(|file| !file.name.is_empty())
        .collect()
    }

    /// Publishes everything, with this table of files; only the tier does this, one thread at a time.
    pub(crate) fn publish(&self, files: &[FileStatus]) {
        let empty = FileStatus {
            name: String::new(),
            hits: 0,
            misses: 0,
            pages: 0,
        };
        for (index, row) in self.page().files.rows.iter().enumerate().take(FILES) {
            let file = files.get(index).unwrap_or(&empty);
            row.hits.store(file.hits, Ordering::Relaxed);
            row.misses.store(file.misses, Ordering::Relaxed);
            row.pages.store(file.pages, Ordering::Relaxed);
            row.name.set(file.name.as_bytes());
        }
        self.put_published();
    }

    /// No tier was opened for this page: why not.
    pub(crate) fn refuse(&self, why: &str) {
        self.page().off.set(why.as_bytes());
        self.page().stopped.store(1, Ordering::Release);
        self.put_published();
    }

    /// Adds to a counter.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        self.shard().counters[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// True once in `period` values of this thread's shard of the counter.
    #[inline]
    pub(crate) fn samples(&self, counter: Counter, period: u64) -> bool {
        self.shard().counters[counter as usize]
            .load(Ordering::Relaxed)
            .is_multiple_of(period)
    }

    /// Counts a bypass.
    #[inline]
    pub(crate) fn bypass(&self, reason: Reason) {
        self.shard().bypasses[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_hit_ns(&self, elapsed_ns: u64) {
        self.shard().hit_ns[bucket(elapsed_ns)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_miss_ns(&self, elapsed_ns: u64) {
        self.shard().miss_ns[bucket(elapsed_ns)].fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn shard(&self) -> &Shard {
        &self.page().shards[thread::number() % SHARDS]
    }
}

fn bucket(elapsed_ns: u64) -> usize {
    (elapsed_ns.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1)
}
