//! Serving a read.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::files::{Row, lock};
use super::{FileId, FillToken, Lookup, Tier, WIDE_PAGES};
use crate::config::Mode;
use crate::index::{key, seqlock};
use crate::medium::{MediumError, page_checksum};
use crate::status::{Counter, Reason};

/// One hit in so many is timed and counted by file: the clock costs as much as the index.
const SAMPLE: u64 = 16;

/// What was found of a read's pages.
enum Found<'a> {
    /// All of them; the destination holds their bytes.
    All,
    /// Some are not there: the file, first and last page.
    Missing(&'a Row, (u64, u64)),
    /// Not looked for, or not to be trusted.
    Past(Reason),
}

impl Tier {
    /// Serves a read, or says how to go on. On anything but `Hit`, `dst` may hold garbage.
    ///
    /// A hit allocates nothing, takes no lock and (memory media) makes no system call.
    pub fn read(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Lookup {
        match self.serve(file, offset, dst) {
            Found::All => Lookup::Hit,
            Found::Missing(row, pages) => self.miss(row, file, offset, dst.len() as u64, pages),
            Found::Past(reason) => self.past(reason),
        }
    }

    /// As `read`, for pages that the program asks for ahead of its need: what is missing comes in only if the
    /// configuration admits it.
    pub fn read_ahead(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Lookup {
        match self.serve(file, offset, dst) {
            Found::All => Lookup::Hit,
            Found::Missing(row, pages) if self.config.admit_read_ahead => {
                self.miss(row, file, offset, dst.len() as u64, pages)
            }
            Found::Missing(..) => self.past(Reason::ReadAhead),
            Found::Past(reason) => self.past(reason),
        }
    }

    #[inline]
    fn serve(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Found<'_> {
        if self.mode.load(Ordering::Relaxed) == Mode::PassThrough as u32 {
            return Found::Past(if self.stopped.load(Ordering::Relaxed) {
                Reason::Stopped
            } else {
                Reason::PassThrough
            });
        }
        let Some(row) = self.files.row(file) else {
            return Found::Past(Reason::Forgotten);
        };
        let length = dst.len() as u64;
        let Some(pages) = self.pages(offset, length) else {
            return Found::Past(Reason::Unaligned);
        };
        let started = self
            .status
            .samples(Counter::Hits, SAMPLE)
            .then(Instant::now);
        if !self.copy(file.row, offset, dst) {
            return Found::Missing(row, pages);
        }
        // An id that ended meanwhile: the row may be another file's by now.
        if row.generation.load(Ordering::Acquire) != file.generation {
            return Found::Past(Reason::Forgotten);
        }
        self.status.add(Counter::Hits, 1);
        self.status.add(Counter::HitBytes, length);
        if let Some(started) = started {
            self.status
                .record_hit_ns(started.elapsed().as_nanos() as u64);
            row.hits.fetch_add(SAMPLE, Ordering::Relaxed);
        }
        Found::All
    }

    fn past(&self, reason: Reason) -> Lookup {
        self.bypass(reason);
        Lookup::Bypass(reason)
    }

    #[cold]
    fn miss(&self, row: &Row, file: FileId, offset: u64, length: u64, pages: (u64, u64)) -> Lookup {
        if pages.1 - pages.0 >= WIDE_PAGES {
            return self.past(Reason::TooLarge);
        }
        if lock(&row.streams).is_sequential(offset, length, self.config.sequential_cutoff_bytes) {
            return self.past(Reason::Sequential);
        }
        let Some(begun) = self.quiet(row, file.row, pages) else {
            return self.past(Reason::WriteInFlight);
        };
        self.status.add(Counter::Misses, 1);
        self.status.add(Counter::MissBytes, length);
        row.misses.fetch_add(1, Ordering::Relaxed);
        Lookup::Miss(FillToken {
            file,
            offset,
            length,
            begun,
            started_ns: self.now_ns(),
        })
    }

    /// Copies all pages of the range; false when one is missing.
    #[inline]
    fn copy(&self, row: u32, offset: u64, dst: &mut [u8]) -> bool {
        let size = self.page_size();
        let mut at = offset;
        let mut rest = dst;
        while !rest.is_empty() {
            let within = (at % size) as usize;
            let length = (size as usize - within).min(rest.len());
            let (part, after) = rest.split_at_mut(length);
            if !self.copy_page(row, at / size, within, part) {
                return false;
            }
            at += length as u64;
            rest = after;
        }
        true
    }

    #[inline]
    fn copy_page(&self, row: u32, page: u64, within: usize, dst: &mut [u8]) -> bool {
        let Some(name) = key::name(row, page) else {
            return false;
        };
        let slots = self.index.slots();
        let Some(slot) = slots.find(name, key::hash(name)) else {
            return false;
        };
        let version = &slots.versions[slot as usize];
        let Some(seen) = seqlock::begin(version) else {
            return false;
        };
        let word = slots.names[slot as usize].load(Ordering::Relaxed);
        // The slot may have gone to another page between the walk and the version.
        if word & key::NAME != name {
            return false;
        }
        if word & key::UNVERIFIED != 0 && !self.verify(slot, seen, name) {
            return false;
        }
        let copied = self.medium.read(slot, within, dst);
        if !seqlock::unchanged(version, seen) {
            self.status.add(Counter::TornReads, 1);
            return false;
        }
        if let Err(error) = copied {
            self.damaged(slot, seen, name, &error);
            return false;
        }
        slots.touch(slot, word);
        true
    }

    /// The medium failed, and no writer is to blame: the page leaves.
    #[cold]
    fn damaged(&self, slot: u32, seen: u32, name: u64, error: &MediumError) {
        if matches!(error, MediumError::Io(_)) {
            self.status.add(Counter::MediumReadErrors, 1);
        }
        let (mut shard, slots) = self.index.lock(key::hash(name));
        if shard.reject(slots, slot, seen) {
            self.medium.release(slot);
        }
    }

    /// Whether a page from before a restart is what its checksum says; it leaves if not.
    #[cold]
    fn verify(&self, slot: u32, seen: u32, name: u64) -> bool {
        let mut page = vec![0u8; self.config.page_size_bytes];
        let read = self.medium.read(slot, 0, &mut page);
        let expected = self
            .medium
            .backing()
            .and_then(|backing| backing.checksum(slot));
        let good = read.is_ok()
            && expected.is_some_and(|sum| {
                sum.load(Ordering::Relaxed) == page_checksum(&page, self.seed(name))
            });
        let (mut shard, slots) = self.index.lock(key::hash(name));
        if good {
            shard.verified(slots, slot, seen);
            self.status.add(Counter::WarmVerified, 1);
        } else if shard.reject(slots, slot, seen) {
            self.status.add(Counter::WarmRejected, 1);
        }
        good
    }

    /// Goes into the checksum of a page: which file and which page it is.
    pub(super) fn seed(&self, name: u64) -> u64 {
        let file = self
            .files
            .any(key::row(name))
            .map_or(0, |row| row.seed.load(Ordering::Relaxed));
        key::hash(file ^ key::page(name))
    }
}
