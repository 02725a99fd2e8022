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
        match self.serve::<true>(file, offset, dst) {
            Found::All => Lookup::Hit,
            Found::Missing(row, pages) => self.miss(row, file, offset, dst.len() as u64, pages),
            Found::Past(reason) => self.past(reason),
        }
    }

    /// As `read`, for pages that the program asks for ahead of its need: what is missing is inserted only if the
    /// configuration admits it.
    pub fn read_ahead(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Lookup {
        match self.serve::<true>(file, offset, dst) {
            Found::All => Lookup::Hit,
            Found::Missing(row, pages) if self.config.admit_read_ahead => {
                self.miss(row, file, offset, dst.len() as u64, pages)
            }
            Found::Missing(..) => self.past(Reason::ReadAhead),
            Found::Past(reason) => self.past(reason),
        }
    }

    /// Serves one part of a read that is served in all of its parts or in none, and counts nothing: then call `parts_read`,
    /// or `bypass` with the reason. `missing` is the reason for pages that are not there; nothing is inserted.
    pub fn read_part(&self, file: FileId, offset: u64, dst: &mut [u8], missing: Reason) -> Lookup {
        match self.serve::<false>(file, offset, dst) {
            Found::All => Lookup::Hit,
            Found::Missing(..) => Lookup::Bypass(missing),
            Found::Past(reason) => Lookup::Bypass(reason),
        }
    }

    /// Counts a read that `read_part` served in all of its parts.
    pub fn parts_read(&self, file: FileId, length: u64) {
        if self.status.samples(Counter::Hits, SAMPLE)
            && let Some(row) = self.files.row(file)
        {
            row.hits.fetch_add(SAMPLE, Ordering::Relaxed);
        }
        self.count_hit(length);
    }

    #[inline]
    fn count_hit(&self, length: u64) {
        self.status.add(Counter::Hits, 1);
        self.status.add(Counter::HitBytes, length);
    }

    #[inline]
    fn serve<const COUNTS: bool>(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Found<'_> {
        if self.mode.load(Ordering::Relaxed) == Mode::PassThrough as u32 {
            return Found::Past(self.why_off());
        }
        let Some(row) = self.files.row(file) else {
            return Found::Past(Reason::Forgotten);
        };
        let length = dst.len() as u64;
        let Some(pages) = self.pages(offset, length) else {
            return Found::Past(Reason::Unaligned);
        };
        let sampled = COUNTS && self.status.samples(Counter::Hits, SAMPLE);
        let started = sampled.then(Instant::now);
        if !self.copy(file.row, offset, dst) {
            return Found::Missing(row, pages);
        }
        // An id that ended meanwhile: the row may be another file's by now.
        if row.generation.load(Ordering::Acquire) != file.generation {
            return Found::Past(Reason::Forgotten);
        }
        if COUNTS {
            self.count_hit(length);
        }
        if let Some(started) = started {
            self.status
                .record_hit_ns(started.elapsed().as_nanos() as u64);
            row.hits.fetch_add(SAMPLE, Ordering::Relaxed);
        }
        Found::All
    }

    #[cold]
    fn why_off(&self) -> Reason {
        if self.stopped.load(Ordering::Relaxed) {
            return Reason::Stopped;
        }
        self.off.reason().unwrap_or(Reason::PassThrough)
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
        let entry = &slots.entries[slot as usize];
        let Some(seen) = seqlock::begin(&entry.version) else {
            return false;
        };
        let word = entry.name.load(Ordering::Relaxed);
        // The slot may have gone to another page between the walk and the version.
        if word & key::NAME != name {
            return false;
        }
        let served = if self.checked {
            self.copy_checked(slot, seen, word, within, dst)
        } else {
            self.copy_unchecked(slot, seen, name, within, dst)
        };
        if served {
            slots.touch(slot, word);
        }
        served
    }

    /// From memory: a version that stayed is proof enough.
    #[inline]
    fn copy_unchecked(
        &self,
        slot: u32,
        seen: u32,
        name: u64,
        within: usize,
        dst: &mut [u8],
    ) -> bool {
        let copied = self.medium.read(slot, within, dst);
        if !self.stayed(slot, seen) {
            return false;
        }
        match copied {
            Ok(()) => true,
            Err(error) => {
                self.damaged(slot, seen, name, &error);
                false
            }
        }
    }

    /// From a file or device, by whole pages: only those have a checksum.
    #[inline(never)]
    fn copy_checked(&self, slot: u32, seen: u32, word: u64, within: usize, dst: &mut [u8]) -> bool {
        let size = self.config.page_size_bytes;
        if dst.len() == size {
            return self.read_checked(slot, seen, word, dst);
        }
        let mut lease = self.scratch.take();
        let page = &mut lease.room()[..size];
        let served = self.read_checked(slot, seen, word, page);
        if served {
            dst.copy_from_slice(&page[within..within + dst.len()]);
        }
        served
    }

    /// The page must be what its checksum says, which holds file and number.
    fn read_checked(&self, slot: u32, seen: u32, word: u64, page: &mut [u8]) -> bool {
        let name = word & key::NAME;
        let started = Instant::now();
        let read = self.medium.read(slot, 0, page);
        self.timed(started);
        let good =
            read.is_ok() && self.checksum(slot) == Some(page_checksum(page, self.seed(name)));
        if !self.stayed(slot, seen) {
            return false;
        }
        if good {
            if word & key::UNVERIFIED != 0 {
                self.verified(slot, seen, name);
            }
            return true;
        }
        match read {
            Err(error) => self.damaged(slot, seen, name, &error),
            Ok(()) if word & key::UNVERIFIED != 0 => {
                if self.reject(slot, seen, name) {
                    self.status.add(Counter::WarmRejected, 1);
                }
            }
            Ok(()) => self.damaged(slot, seen, name, &MediumError::Torn),
        }
        false
    }

    /// Whether no writer touched the slot.
    #[inline]
    fn stayed(&self, slot: u32, seen: u32) -> bool {
        let unchanged =
            seqlock::unchanged(&self.index.slots().entries[slot as usize].version, seen);
        if !unchanged {
            self.status.add(Counter::TornReads, 1);
        }
        unchanged
    }

    fn checksum(&self, slot: u32) -> Option<u64> {
        let backing = self.medium.backing()?;
        Some(backing.checksum(slot).load(Ordering::Relaxed))
    }

    /// The medium failed, and no writer is to blame: the page is taken out.
    #[cold]
    fn damaged(&self, slot: u32, seen: u32, name: u64, error: &MediumError) {
        let counter = match error {
            MediumError::Io(_) => Counter::MediumReadErrors,
            MediumError::Torn | MediumError::Full => Counter::MediumMismatches,
        };
        self.status.add(counter, 1);
        self.reject(slot, seen, name);
        self.medium_failed(1, error);
    }

    /// Takes a page out; false when a writer was faster.
    #[cold]
    fn reject(&self, slot: u32, seen: u32, name: u64) -> bool {
        let (mut shard, slots) = self.index.lock(key::hash(name));
        let rejected = shard.reject(slots, slot, seen);
        if rejected {
            self.medium.release(slot);
        }
        rejected
    }

    /// A page from before a restart is what its checksum says.
    #[cold]
    fn verified(&self, slot: u32, seen: u32, name: u64) {
        let (mut shard, slots) = self.index.lock(key::hash(name));
        if shard.verified(slots, slot, seen) {
            self.status.add(Counter::WarmVerified, 1);
        }
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
