//! Inserting pages.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::files::Row;
use super::{FileId, FillToken, Tier};
use crate::config::{Mode, Promotion};
use crate::index::{Reserved, key};
use crate::medium::{MediumError, page_checksum};
use crate::status::{Counter, Reason};

/// Pages that are evicted so that one compressed page finds room.
const EVICTIONS_MAX: usize = 32;

/// Which pages may be inserted, and under which count of writes.
pub(super) struct Insertion {
    pub pages: (u64, u64),
    pub begun: u64,
    /// Only where the page has a place already.
    pub only_known: bool,
}

impl Tier {
    /// Inserts what was read from the file after the miss, if no write touched these pages since.
    ///
    /// `data` starts at the offset of the read and may be shorter; parts of pages are left out.
    pub fn fill(&self, token: FillToken, data: &[u8]) {
        self.fill_pages(token, data);
        self.status
            .record_miss_ns(self.now_ns().saturating_sub(token.started_ns));
    }

    fn fill_pages(&self, token: FillToken, data: &[u8]) {
        let Some(row) = self.files.row(token.file) else {
            return;
        };
        let Some(pages) = self.pages(token.offset, token.length) else {
            return;
        };
        if self.mode() == Mode::PassThrough {
            return;
        }
        let data = &data[..data.len().min(token.length as usize)];
        let insertion = Insertion {
            pages,
            begun: token.begun,
            only_known: false,
        };
        if !self.insert(row, token.file, token.offset, data, &insertion) {
            self.bypass(Reason::Unaligned);
        }
    }

    /// Inserts every whole page of `data`; false when there is none.
    pub(super) fn insert(
        &self,
        row: &Row,
        file: FileId,
        offset: u64,
        data: &[u8],
        insertion: &Insertion,
    ) -> bool {
        let size = self.page_size();
        let skipped = (offset.next_multiple_of(size) - offset) as usize;
        let first = offset.div_ceil(size);
        let mut any = false;
        for (index, page) in data
            .get(skipped..)
            .unwrap_or_default()
            .chunks_exact(size as usize)
            .enumerate()
        {
            any = true;
            if let Some(name) = key::name(file.row, first + index as u64) {
                self.insert_page(row, name, page, insertion);
            }
        }
        any
    }

    fn insert_page(&self, row: &Row, name: u64, page: &[u8], insertion: &Insertion) {
        let hash = key::hash(name);
        let stale = || self.begun(row, key::row(name), insertion.pages) != insertion.begun;
        let misses = match self.config.promotion {
            Promotion::Always => 0,
            Promotion::NHit(misses) => misses,
        };
        let reserved = {
            let (mut shard, slots) = self.index.lock(hash);
            if stale() {
                self.status.add(Counter::FillsStale, 1);
                return;
            }
            if insertion.only_known && !shard.has_place(slots, name) {
                return;
            }
            let reserved =
                shard.reserve(slots, name, misses, row.share.load(Ordering::Relaxed) as u8);
            if let Reserved::Slot(_, Some(evicted)) = reserved {
                self.medium.release(evicted);
                self.status.add(Counter::Evictions, 1);
            }
            reserved
        };
        let slot = match reserved {
            Reserved::Slot(slot, _) => slot,
            Reserved::Present | Reserved::Busy => return,
            Reserved::NotPromoted => {
                self.status.add(Counter::FillsNotPromoted, 1);
                return;
            }
            Reserved::NoRoom => {
                self.status.add(Counter::FillsNoRoom, 1);
                return;
            }
        };
        if let Some(backing) = self.medium.backing() {
            let sum = page_checksum(page, self.seed(name));
            backing.checksum(slot).store(sum, Ordering::Relaxed);
        }
        let written = self.write_slot(hash, slot, page);
        let (mut shard, slots) = self.index.lock(hash);
        if written && !stale() {
            shard.publish(slots, slot);
            self.status.add(Counter::Fills, 1);
            self.status.add(Counter::FillBytes, page.len() as u64);
            return;
        }
        shard.abandon(slots, slot);
        self.medium.release(slot);
        if written {
            self.status.add(Counter::FillsStale, 1);
        }
    }

    /// Writes a reserved slot, evicting pages while the medium is full.
    fn write_slot(&self, hash: u64, slot: u32, page: &[u8]) -> bool {
        for _ in 0..EVICTIONS_MAX {
            let started = self.checked.then(Instant::now);
            let written = self.medium.write(slot, page);
            started.inspect(|started| self.timed(*started));
            match written {
                Ok(()) => return true,
                Err(MediumError::Full) => {
                    let (mut shard, slots) = self.index.lock(hash);
                    let Some(evicted) = shard.evict(slots) else {
                        break;
                    };
                    self.medium.release(evicted);
                    self.status.add(Counter::Evictions, 1);
                }
                Err(error) => {
                    self.status.add(Counter::MediumWriteErrors, 1);
                    self.medium_failed(1, &error);
                    return false;
                }
            }
        }
        self.status.add(Counter::FillsNoRoom, 1);
        false
    }
}

#[cfg(test)]
mod tests;
