//! The bytes of the page. Change VERSION with every change here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::counters::{Counter, Reason};
use crate::config::Config;

/// First eight bytes of the page.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"UPSTIER\0");
/// Version of the layout.
pub const VERSION: u32 = 2;
/// Rows of the table of files.
pub const FILES: usize = 64;
/// Buckets of a latency histogram: bucket b counts [2^b, 2^(b+1)) nanoseconds, the last one everything above.
pub const LATENCY_BUCKETS: usize = 40;
/// Threads are spread over so many shards, so that hits do not share a cache line.
pub(crate) const SHARDS: usize = 16;
/// Bytes of a text; longer ones keep their end.
pub(crate) const TEXT: usize = 256;

const COUNTERS: usize = Counter::ALL.len();
const REASONS: usize = Reason::ALL.len();

/// The whole page. Zeroes are an empty page.
#[repr(C, align(4096))]
pub(crate) struct Page {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub reserved: AtomicU32,
    /// How often the tier has published; `published_last` is written after everything else.
    pub published_first: AtomicU64,
    pub pid: AtomicU64,
    pub started_unix_ns: AtomicU64,
    /// When the tier last published: a reader sees by it whether what it reads is new.
    pub ticked_unix_ns: AtomicU64,
    pub stopped: AtomicU64,
    pub mode: AtomicU64,
    pub page_size_bytes: AtomicU64,
    pub size_bytes: AtomicU64,
    pub capacity_pages: AtomicU64,
    pub used_pages: AtomicU64,
    pub used_bytes: AtomicU64,
    pub index_bytes: AtomicU64,
    pub sequential_cutoff_bytes: AtomicU64,
    pub medium: Text,
    pub promotion: Text,
    /// How the tier started: "warm: N pages" or "cold: reason".
    pub start: Text,
    /// Why the tier turned itself off; empty while it did not.
    pub off: Text,
    pub shards: [Shard; SHARDS],
    pub files: FileTable,
    pub published_last: AtomicU64,
    /// Both sides write from here on.
    pub control: Control,
}

impl Page {
    pub(crate) fn describe(&self, config: &Config) {
        self.pid
            .store(u64::from(std::process::id()), Ordering::Relaxed);
        self.started_unix_ns.store(unix_ns(), Ordering::Relaxed);
        self.ticked_unix_ns.store(unix_ns(), Ordering::Relaxed);
        self.mode.store(config.mode as u64, Ordering::Relaxed);
        self.page_size_bytes
            .store(config.page_size_bytes as u64, Ordering::Relaxed);
        self.size_bytes.store(config.size_bytes, Ordering::Relaxed);
        self.sequential_cutoff_bytes
            .store(config.sequential_cutoff_bytes, Ordering::Relaxed);
        self.medium.set(config.medium.to_string().as_bytes());
        self.promotion.set(config.promotion.to_string().as_bytes());
        self.version.store(VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }
}

/// One request at a time: `state` goes idle, pending, running, done, idle.
#[repr(C)]
pub(crate) struct Control {
    /// Since when a reader waits for new counters, in nanoseconds since 1970.
    pub look: AtomicU64,
    pub state: AtomicU64,
    pub sequence: AtomicU64,
    pub request: AtomicU64,
    pub argument: AtomicU64,
    pub failed: AtomicU64,
    pub answer: Text,
}

/// The counters of the threads of one shard.
#[repr(C, align(128))]
pub(crate) struct Shard {
    pub counters: [AtomicU64; COUNTERS],
    pub bypasses: [AtomicU64; REASONS],
    pub hit_ns: [AtomicU64; LATENCY_BUCKETS],
    pub miss_ns: [AtomicU64; LATENCY_BUCKETS],
}

/// The busiest files.
#[repr(C)]
pub(crate) struct FileTable {
    pub rows: [FileRow; FILES],
}

#[repr(C)]
pub(crate) struct FileRow {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub pages: AtomicU64,
    pub name: Text,
}

/// A text that one process writes while others read: torn texts are possible and harmless.
#[repr(C)]
pub(crate) struct Text {
    length: AtomicU64,
    /// Its bytes in the machine's order.
    words: [AtomicU64; TEXT / WORD],
}

const WORD: usize = size_of::<u64>();

impl Text {
    pub(crate) fn set(&self, text: &[u8]) {
        let kept = &text[text.len().saturating_sub(TEXT)..];
        self.length.store(0, Ordering::Release);
        for (word, part) in self.words.iter().zip(kept.chunks(WORD)) {
            let mut bytes = [0; WORD];
            bytes[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.length.store(kept.len() as u64, Ordering::Release);
    }

    pub(crate) fn get(&self) -> String {
        let length = (self.length.load(Ordering::Acquire) as usize).min(TEXT);
        let mut copy = [0u8; TEXT];
        for (part, word) in copy.chunks_exact_mut(WORD).zip(&self.words) {
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        String::from_utf8_lossy(&copy[..length]).into_owned()
    }
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_read_as_it_was_set_or_by_its_end() {
        let text = Text {
            length: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; TEXT / WORD],
        };
        let letters: String = ('a'..='z').cycle().take(TEXT + 20).collect();
        for length in (0..=TEXT + 20).rev() {
            let set = &letters[..length];
            text.set(set.as_bytes());
            assert_eq!(text.get(), set[length.saturating_sub(TEXT)..]);
        }
    }
}
