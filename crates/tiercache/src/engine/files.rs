//! The files of the tier: rows that are found without a lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::generation::Stripe;
use super::{FileId, Identity};
use crate::index::key::{ROW_BITS, hash};
use crate::policy::Streams;
use crate::status::{FILES, FileStatus};

const CHUNK: usize = 1024;
const CHUNKS: usize = (1 << ROW_BITS) / CHUNK;

/// One file. What a hit looks at is apart from what writes and misses change: two lines of the cache, as it is fetched.
#[derive(Default)]
pub struct Row {
    /// How often the row was given away; an id of another generation is not served.
    pub generation: AtomicU32,
    /// Percentage of the tier that may be pinned for it; 0 without a pin.
    pub share: AtomicU32,
    /// Goes into the checksums of its pages: which file it is.
    pub seed: AtomicU64,
    /// Its pages come from before a restart, and nobody has opened it yet to show that it is unchanged.
    pub warm: AtomicBool,
    /// Who it is.
    pub info: Mutex<Info>,
    /// What changes while it is used.
    pub busy: Busy,
}

impl std::ops::Deref for Row {
    type Target = Busy;

    fn deref(&self) -> &Busy {
        &self.busy
    }
}

/// The part of a row that changes.
#[derive(Default)]
#[repr(align(128))]
pub struct Busy {
    /// Reads served, estimated from one in 16.
    pub hits: AtomicU64,
    /// Reads missed.
    pub misses: AtomicU64,
    /// Writes too wide for the stripes, and everything that changes the whole file.
    pub whole: Stripe,
    /// Writes begun and ended.
    pub writes: Stripe,
    /// Writes known to be on stable storage.
    pub synced: AtomicU64,
    /// Its latest runs of misses.
    pub streams: Mutex<Streams>,
}

/// What is only needed when files come and go.
#[derive(Default, Clone)]
pub struct Info {
    /// Path as opened, or as renamed since.
    pub name: Vec<u8>,
    /// Identity when opened.
    pub identity: Identity,
    /// How it was at the last close; None while somebody has it open.
    pub closed: Option<Closed>,
}

/// A file that nobody has open.
#[derive(Clone, Copy)]
pub struct Closed {
    /// Its last known identity; None when a change may have come after.
    pub last: Option<Identity>,
    /// Any change since then shows in the times: the last one was no longer recent.
    pub settled: bool,
}

#[derive(Default)]
struct Known {
    rows: HashMap<(u64, u64, u64), u32>,
    free: Vec<u32>,
    used: u32,
}

/// All files.
pub struct Files {
    chunks: Box<[OnceLock<Box<[Row]>>]>,
    known: Mutex<Known>,
}

impl Files {
    /// No files.
    pub fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            known: Mutex::default(),
        }
    }

    /// The row of an id that is still good.
    #[inline]
    pub fn row(&self, file: FileId) -> Option<&Row> {
        self.any(file.row)
            .filter(|row| row.generation.load(Ordering::Acquire) == file.generation)
    }

    /// The row of this number, whoever has it.
    #[inline]
    pub fn any(&self, row: u32) -> Option<&Row> {
        self.chunks
            .get(row as usize / CHUNK)?
            .get()
            .map(|rows| &rows[row as usize % CHUNK])
    }

    /// The file of this identity, if known.
    pub fn find(&self, identity: &Identity) -> Option<FileId> {
        let row = *lock(&self.known).rows.get(&words(identity))?;
        self.id(row)
    }

    /// Gives the identity a row, or the one it has; the second value says that it is new. None: no row left.
    pub fn add(&self, name: &[u8], identity: Identity, share: u8) -> Option<(FileId, bool)> {
        let mut known = lock(&self.known);
        if let Some(row) = known.rows.get(&words(&identity)) {
            return self.id(*row).map(|id| (id, false));
        }
        let number = match known.free.pop() {
            Some(row) => row,
            None if (known.used as usize) < CHUNK * CHUNKS => {
                known.used += 1;
                known.used - 1
            }
            None => return None,
        };
        let id = self.place(&mut known, number, name, identity, share);
        id.map(|id| (id, true))
    }

    /// Gives the identity this row, above all rows given away before: names of pages hold the number of the row.
    pub fn add_at(
        &self,
        number: u32,
        name: &[u8],
        identity: Identity,
        share: u8,
    ) -> Option<FileId> {
        let mut known = lock(&self.known);
        if number < known.used || number as usize >= CHUNK * CHUNKS {
            return None;
        }
        let between = known.used..number;
        known.free.extend(between);
        known.used = number + 1;
        self.place(&mut known, number, name, identity, share)
    }

    fn place(
        &self,
        known: &mut Known,
        number: u32,
        name: &[u8],
        identity: Identity,
        share: u8,
    ) -> Option<FileId> {
        let chunk = self.chunks.get(number as usize / CHUNK)?;
        chunk.get_or_init(|| (0..CHUNK).map(|_| Row::default()).collect());
        let row = self.any(number)?;
        *lock(&row.info) = Info {
            name: name.to_vec(),
            identity,
            closed: None,
        };
        row.share.store(u32::from(share), Ordering::Relaxed);
        row.seed.store(
            hash(identity.device ^ hash(identity.inode ^ hash(identity.birth_ns))),
            Ordering::Relaxed,
        );
        row.warm.store(false, Ordering::Relaxed);
        for counter in [&row.hits, &row.misses] {
            counter.store(0, Ordering::Relaxed);
        }
        known.rows.insert(words(&identity), number);
        self.id(number)
    }

    /// The file has another name, with the share that a rule gives to that one. Its pages that are pinned stay so.
    pub fn rename(&self, file: FileId, name: &[u8], share: u8) {
        // The row is nobody else's meanwhile.
        let _known = lock(&self.known);
        if let Some(row) = self.row(file) {
            lock(&row.info).name = name.to_vec();
            row.share.store(u32::from(share), Ordering::Relaxed);
        }
    }

    /// Notes how the file was at its last close, or with None that somebody has it open; what was noted before.
    pub fn note_closed(&self, file: FileId, closed: Option<Closed>) -> Option<Closed> {
        // As in `rename`.
        let _known = lock(&self.known);
        let row = self.row(file)?;
        std::mem::replace(&mut lock(&row.info).closed, closed)
    }

    /// The program itself turned `before` into `now`, and no content. A change of content from outside shows in the other times.
    pub fn note_renamed(&self, file: FileId, before: &Identity, now: Identity) {
        let same = Identity {
            changed_ns: before.changed_ns,
            ..now
        } == *before;
        // As in `rename`.
        let _known = lock(&self.known);
        if let Some(row) = self.row(file)
            && let Some(closed) = &mut lock(&row.info).closed
            && closed.last == Some(*before)
            && same
        {
            closed.last = Some(now);
        }
    }

    /// Ends an id: from here on it is not served. False when it was over already.
    pub fn end(&self, file: FileId) -> bool {
        let mut known = lock(&self.known);
        let Some(row) = self.row(file) else {
            return false;
        };
        let identity = lock(&row.info).identity;
        known.rows.remove(&words(&identity));
        row.generation.fetch_add(1, Ordering::AcqRel);
        lock(&row.info).name.clear();
        true
    }

    /// The row of an ended id may be given away, once its pages are gone.
    pub fn reuse(&self, row: u32) {
        lock(&self.known).free.push(row);
    }

    /// Every file, with its id.
    pub fn each(&self, mut visit: impl FnMut(FileId, &Row)) {
        let rows: Vec<u32> = lock(&self.known).rows.values().copied().collect();
        for number in rows {
            if let (Some(id), Some(row)) = (self.id(number), self.any(number)) {
                visit(id, row);
            }
        }
    }

    /// The files with the most reads, busiest first; `pages` says how many a row holds.
    pub fn busiest(&self, pages: impl Fn(u32) -> u64) -> Vec<FileStatus> {
        let mut all = Vec::new();
        self.each(|id, row| {
            let reads = (
                row.hits.load(Ordering::Relaxed),
                row.misses.load(Ordering::Relaxed),
            );
            all.push((reads, id));
        });
        all.sort_unstable_by_key(|((hits, misses), _)| std::cmp::Reverse(hits + misses));
        let busiest = all.into_iter().take(FILES);
        busiest
            .filter_map(|((hits, misses), id)| {
                let name = lock(&self.row(id)?.info).name.clone();
                Some(FileStatus {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    hits,
                    misses,
                    pages: pages(id.row),
                })
            })
            .collect()
    }

    fn id(&self, row: u32) -> Option<FileId> {
        self.any(row).map(|found| FileId {
            row,
            generation: found.generation.load(Ordering::Acquire),
        })
    }
}

fn words(identity: &Identity) -> (u64, u64, u64) {
    (identity.device, identity.inode, identity.birth_ns)
}

/// A lock whose holder cannot panic half-way: nothing that it guards is ever half-changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
