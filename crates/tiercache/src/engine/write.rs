//! Following writes: pages are taken out before, and inserted after.

use super::files::Row;
use super::fill::Insertion;
use super::{FileId, Tier, WIDE_PAGES, WriteToken};
use crate::config::Mode;
use crate::index::key;
use crate::status::Counter;

impl Tier {
    /// Before a write: its pages are taken out, and reads of them go to the file until `write_end`.
    pub fn write_begin(&self, file: FileId, offset: u64, length: u64) -> WriteToken {
        self.status.add(Counter::Writes, 1);
        // A bracket to the end of the largest file stands for a size that only the kernel knows.
        if length < u64::MAX - offset {
            self.status.add(Counter::WriteBytes, length);
        }
        let mut token = WriteToken {
            file,
            offset,
            length,
            begun: 0,
            alone: false,
        };
        let Some(row) = self.files.any(file.row) else {
            return token;
        };
        // Counted first: a stop that misses it here is seen there, and the other way.
        row.writes.begin();
        self.unseal();
        match self.narrow(offset, length) {
            Some(pages) => {
                let wide = self.everything.quiet().zip(row.whole.quiet());
                let mut alone = wide.is_some();
                let mut begun = wide.map_or(0, |(all, whole)| all.wrapping_add(whole));
                for stripe in self.generations.stripes(file.row, pages.0, pages.1) {
                    let (mine, first) = stripe.begin();
                    begun = begun.wrapping_add(mine);
                    alone &= first;
                }
                (token.begun, token.alone) = (begun, alone);
                self.close(file.row, pages);
            }
            None => {
                row.whole.begin();
                self.remove(file.row, offset, length);
            }
        }
        token
    }

    /// After a write: with the data if all of it reached the file, with None otherwise.
    pub fn write_end(&self, token: WriteToken, data: Option<&[u8]>) {
        let Some(row) = self.files.any(token.file.row) else {
            return;
        };
        let narrow = self.narrow(token.offset, token.length);
        if let (Some(pages), Some(data)) = (narrow, data) {
            self.refill(row, &token, pages, data);
        }
        // Only now: until here nobody may fill from a file that may have been read before the write.
        match narrow {
            Some(pages) => self
                .generations
                .stripes(token.file.row, pages.0, pages.1)
                .for_each(|stripe| stripe.end()),
            None => row.whole.end(),
        }
        row.writes.end();
    }

    fn refill(&self, row: &Row, token: &WriteToken, pages: (u64, u64), data: &[u8]) {
        let mode = self.mode();
        let wanted = matches!(mode, Mode::WriteThrough | Mode::WriteAround);
        if !wanted || data.len() as u64 != token.length || self.files.row(token.file).is_none() {
            return;
        }
        // Two writes to one page: which of them the file has at the end, only the kernel knows.
        if !token.alone {
            self.status.add(Counter::FillsStale, 1);
            return;
        }
        let insertion = Insertion {
            pages,
            begun: token.begun,
            only_known: mode == Mode::WriteAround,
        };
        self.insert(row, token.file, token.offset, data, &insertion);
    }

    /// Takes pages out that changed some other way (truncated, punched); u64::MAX reaches to the end of the file.
    pub fn invalidate(&self, file: FileId, offset: u64, length: u64) {
        let Some(row) = self.files.any(file.row) else {
            return;
        };
        row.writes.begin();
        self.unseal();
        row.whole.begin();
        self.remove(file.row, offset, length);
        row.whole.end();
        row.writes.end();
    }

    /// The pages of a range that is handled page by page.
    fn narrow(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        self.pages(offset, length)
            .filter(|pages| pages.1 - pages.0 < WIDE_PAGES)
    }

    fn close(&self, row: u32, pages: (u64, u64)) {
        let keep_places = self.mode() != Mode::WriteInvalidate;
        for page in pages.0..=pages.1 {
            let Some(name) = key::name(row, page) else {
                return;
            };
            let (mut shard, slots) = self.index.lock(key::hash(name));
            if let Some(slot) = shard.invalidate(slots, name) {
                self.status.add(Counter::Invalidations, 1);
                if !keep_places {
                    shard.remove(slots, slot);
                    self.medium.release(slot);
                }
            }
        }
    }

    fn remove(&self, row: u32, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let first = offset / self.page_size();
        let last = offset.saturating_add(length - 1) / self.page_size();
        let mut gone = 0;
        self.index.remove_row(row, first, last, |slot| {
            self.medium.release(slot);
            gone += 1;
        });
        self.status.add(Counter::Invalidations, gone);
    }

    /// A change after the stop, counted already: what was saved is not to be trusted.
    #[inline]
    pub(super) fn unseal(&self) {
        self.seal.take_back(|| {
            if let Some(backing) = self.medium.backing()
                && backing.unseal().is_err()
            {
                self.status.add(Counter::MediumWriteErrors, 1);
            }
        });
    }
}
