//! Which page is where: a hash table over the slots of the medium, in shards.
//!
//! Bytes a slot: an entry of 16 (name 8, version 4, chain 4), two queue links 8, bucket 4, ghost 2, sketch 1: 31. A hit
//! reads a bucket and an entry.
//! Readers walk chains without a lock; a chain that changes under them costs a miss, never a wrong page,
//! because the name and the version of the slot decide. Links hold slot + 1, 0 is none.

mod array;
pub mod key;
pub mod seqlock;
mod shard;

pub use array::Array;
pub use shard::{Reserved, Shard};

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most slots an index can have: slot numbers are 32 bits with one value for "none".
pub const SLOTS_MAX: u64 = 1 << 31;

/// Locks of an index.
const SHARDS_MAX: u32 = 64;

/// What it costs to look for a page by its name, in slots looked at one after the other: a lock, and lines of the cache that
/// are nowhere near. Measured: docs/measurements/2026-11-22-tier-drop.
const NAME_COST: u64 = 256;

/// A chain longer than this is taken for one that changes while it is walked.
const CHAIN_MAX: usize = 64;

/// What a hit needs to know of a slot, in one line of the cache.
#[repr(C, align(16))]
pub(crate) struct Entry {
    /// The page and flags, see `key`.
    pub name: AtomicU64,
    /// See `seqlock`.
    pub version: AtomicU32,
    /// Next slot of the bucket, or of the free ones.
    pub chain: AtomicU32,
}

/// What is held of a file.
struct Held {
    pages: AtomicU32,
    /// No page of it has a higher number.
    highest: AtomicU64,
}

/// The arrays that readers see, by slot.
pub struct Slots {
    pub(crate) entries: Array<Entry>,
    pub(crate) newer: Array<AtomicU32>,
    pub(crate) older: Array<AtomicU32>,
    pub(crate) heads: Array<AtomicU32>,
    pub(crate) ghosts: Array<AtomicU16>,
    pub(crate) sketch: Array<AtomicU16>,
    /// By row of file.
    held: Array<Held>,
    /// Buckets of each shard: as many as it has slots.
    buckets: AtomicU32,
    shards: u32,
    stride: usize,
}

/// The index.
pub struct Index {
    slots: Slots,
    shards: Box<[Mutex<Shard>]>,
    capacity: AtomicU32,
    capacity_max: u32,
    /// What removals of files have looked at, in slots.
    visited: AtomicU64,
}

/// Bytes of memory of one slot, everything in; the sketch has one word for two slots.
pub const SLOT_BYTES: f64 =
    (size_of::<Entry>() + 3 * size_of::<AtomicU32>() + size_of::<AtomicU16>()) as f64 + 1.0;
const _: () = assert!(SLOT_BYTES == 31.0);

impl Slots {
    /// The shard of a hash.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        (((hash >> 32) * u64::from(self.shards)) >> 32) as usize
    }

    #[inline]
    pub(crate) fn head(&self, hash: u64) -> &AtomicU32 {
        let buckets = u64::from(self.buckets.load(Ordering::Relaxed));
        let bucket = ((hash & 0xffff_ffff) * buckets) >> 32;
        &self.heads[self.shard_of(hash) * self.stride + bucket as usize]
    }

    /// Start of a shard's part of the ghosts (and, divided by two, of the sketch).
    pub(crate) fn base(&self, shard: usize) -> usize {
        shard * self.stride
    }

    fn pages_of(&self, row: u32) -> u64 {
        u64::from(self.held[row as usize].pages.load(Ordering::SeqCst))
    }

    /// A page is in the table from here on. Whoever removes a file's pages has counted that in before and looks for them
    /// after: either it finds this one, or whoever fills it finds the count of writes changed.
    pub(crate) fn hold(&self, name: u64) {
        let held = &self.held[key::row(name) as usize];
        held.highest.fetch_max(key::page(name), Ordering::SeqCst);
        held.pages.fetch_add(1, Ordering::SeqCst);
    }

    /// A page is in the table no longer.
    pub(crate) fn let_go(&self, name: u64) {
        let held = &self.held[key::row(name) as usize];
        held.pages.fetch_sub(1, Ordering::SeqCst);
    }

    /// The slot of a page, if it is in the table; without a lock.
    #[inline]
    pub fn find(&self, name: u64, hash: u64) -> Option<u32> {
        let mut link = self.head(hash).load(Ordering::Acquire);
        for _ in 0..CHAIN_MAX {
            let slot = link.checked_sub(1)?;
            if self.entries[slot as usize].name.load(Ordering::Relaxed) & key::NAME == name {
                return Some(slot);
            }
            link = self.entries[slot as usize].chain.load(Ordering::Acquire);
        }
        None
    }

    /// Notes that a page was read. Stops at three: hot pages are not written to any more.
    #[inline]
    pub fn touch(&self, slot: u32, seen: u64) {
        if seen & key::FREQUENCY != key::FREQUENCY {
            let word = &self.entries[slot as usize].name;
            let _ = word.compare_exchange(
                seen,
                seen + key::FREQUENCY_ONE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

impl Index {
    /// Room for `capacity` pages now and up to `capacity_max` after a resize. `shards`: as many as an index had whose
    /// pages will be restored; else as many as suit the capacity.
    pub fn new(capacity: u32, capacity_max: u32, shards: Option<u64>) -> io::Result<Self> {
        let fitting = |shards: &u64| (1..=u64::from(capacity.min(SHARDS_MAX))).contains(shards);
        let shards = match shards.filter(fitting) {
            Some(shards) => shards as u32,
            None => (capacity / 1024).clamp(1, SHARDS_MAX),
        };
        let stride = (capacity_max as usize)
            .div_ceil(shards as usize)
            .next_multiple_of(2);
        let all = stride * shards as usize;
        let slots = Slots {
            entries: Array::new(all)?,
            newer: Array::new(all)?,
            older: Array::new(all)?,
            heads: Array::new(all)?,
            ghosts: Array::new(all)?,
            sketch: Array::new(all / 2)?,
            held: Array::new(1 << key::ROW_BITS)?,
            buckets: AtomicU32::new(1),
            shards,
            stride,
        };
        let shards = (0..shards as usize)
            .map(|number| Mutex::new(Shard::new(number)))
            .collect();
        let index = Self {
            slots,
            shards,
            capacity: AtomicU32::new(0),
            capacity_max,
            visited: AtomicU64::new(0),
        };
        index.resize(capacity, |_| ());
        Ok(index)
    }

    /// What readers need.
    #[inline]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The shard of a hash, locked, and the slots.
    pub fn lock(&self, hash: u64) -> (MutexGuard<'_, Shard>, &Slots) {
        (lock(&self.shards[self.slots.shard_of(hash)]), &self.slots)
    }

    /// Pages that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Pages held.
    pub fn used(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).used()).sum()
    }

    /// Calls `visit` with every slot whose page can be read, and its name with flags.
    pub fn each(&self, mut visit: impl FnMut(u32, u64)) {
        for slot in 0..self.capacity() {
            let name = self.slots.entries[slot as usize]
                .name
                .load(Ordering::Relaxed);
            if name & key::MAPPED != 0
                && seqlock::begin(&self.slots.entries[slot as usize].version).is_some()
            {
                visit(slot, name);
            }
        }
    }

    /// Takes out every page; `gone` hears of each slot.
    pub fn remove_all(&self, mut gone: impl FnMut(u32)) {
        for slot in 0..self.capacity() {
            self.remove_slot(slot, |_| true, &mut gone);
        }
    }

    /// Takes out the pages `first..=last` of a file; `gone` hears of each slot. Looks for each page that the file may have
    /// here by its name, or at every slot where that costs less.
    pub fn remove_row(&self, row: u32, first: u64, last: u64, mut gone: impl FnMut(u32)) {
        let last = last.min(self.slots.held[row as usize].highest.load(Ordering::SeqCst));
        let any = || self.slots.pages_of(row) > 0;
        if first > last || !any() {
            return;
        }
        let mut visited = 0;
        if last - first >= u64::from(self.capacity()) / NAME_COST {
            let ours = |name| key::row(name) == row && (first..=last).contains(&key::page(name));
            for slot in (0..self.capacity()).take_while(|_| any()) {
                visited += 1;
                self.remove_slot(slot, ours, &mut gone);
            }
        } else {
            for name in (first..=last).map_while(|page| key::name(row, page).filter(|_| any())) {
                visited += NAME_COST;
                let (mut shard, slots) = self.lock(key::hash(name));
                if let Some(slot) = shard.take_out(slots, name) {
                    gone(slot);
                }
            }
        }
        self.visited.fetch_add(visited, Ordering::Relaxed);
    }

    /// Forgets which number the file's highest page had: from here on the row is another file's.
    pub fn reset_row(&self, row: u32) {
        let highest = &self.slots.held[row as usize].highest;
        highest.store(0, Ordering::SeqCst);
    }

    /// Pages held of a file, those included that are being filled.
    pub fn pages_of(&self, row: u32) -> u64 {
        self.slots.pages_of(row)
    }

    /// What removals of files have looked at so far, in slots; a name counts as many as it costs.
    pub fn visited(&self) -> u64 {
        self.visited.load(Ordering::Relaxed)
    }

    /// Locks of this index.
    pub fn shards(&self) -> u32 {
        self.slots.shards
    }

    fn remove_slot(&self, slot: u32, wanted: impl Fn(u64) -> bool, gone: &mut impl FnMut(u32)) {
        let name = self.slots.entries[slot as usize]
            .name
            .load(Ordering::Relaxed);
        if name & key::MAPPED == 0 || !wanted(name & key::NAME) {
            return;
        }
        let (mut shard, slots) = self.lock(key::hash(name & key::NAME));
        // Another page's by now, it is found under its own name.
        if shard.holds(slots, slot, name & key::NAME)
            && shard.take_out(slots, name & key::NAME).is_some()
        {
            gone(slot);
        }
    }

    /// Evicts one page of each shard; false when none could.
    pub fn evict_each(&self, mut gone: impl FnMut(u32)) -> bool {
        let mut any = false;
        for shard in &self.shards {
            // Released under the lock: the slot must not be another page's by then.
            let mut shard = lock(shard);
            if let Some(slot) = shard.evict(&self.slots) {
                gone(slot);
                any = true;
            }
        }
        any
    }

    /// Changes the number of slots; `gone` hears of each page that is taken out. Waits for fills under way.
    pub fn resize(&self, capacity: u32, mut gone: impl FnMut(u32)) {
        let capacity = capacity.min(self.capacity_max);
        loop {
            let mut shards: Vec<_> = self.shards.iter().map(lock).collect();
            let old = self.capacity();
            let name = |slot: u32| {
                self.slots.entries[slot as usize]
                    .name
                    .load(Ordering::Relaxed)
            };
            if (capacity..old).any(|slot| name(slot) & key::FILLING != 0) {
                drop(shards);
                std::thread::yield_now();
                continue;
            }
            for slot in capacity..old {
                if name(slot) & key::MAPPED != 0 {
                    shards[self.slots.shard_of(key::hash(name(slot) & key::NAME))]
                        .remove(&self.slots, slot);
                    gone(slot);
                }
            }
            self.capacity.store(capacity, Ordering::Relaxed);
            self.rebuild(&mut shards, capacity, old);
            return;
        }
    }

    /// Puts pages from before a restart back into their slots, unverified. Only before anything else is in.
    pub fn restore(&self, pages: impl Iterator<Item = (u32, u64)>) -> u64 {
        let mut shards: Vec<_> = self.shards.iter().map(lock).collect();
        let mut restored = 0;
        for (slot, name) in pages {
            let shard = self.slots.shard_of(key::hash(name));
            let fits = slot < self.capacity() && slot as usize % shards.len() == shard;
            if fits
                && self.slots.entries[slot as usize]
                    .name
                    .load(Ordering::Relaxed)
                    & key::MAPPED
                    == 0
                // A page that moved while the index was saved is in it twice. A write would close one of them only.
                && !shards[shard].has_place(&self.slots, name)
            {
                shards[shard].restore(&self.slots, slot, name);
                restored += 1;
            }
        }
        self.rebuild(&mut shards, self.capacity(), self.capacity());
        restored
    }

    /// Chains and free lists anew, for another number of buckets.
    fn rebuild(&self, shards: &mut [MutexGuard<'_, Shard>], capacity: u32, old: u32) {
        let slots = &self.slots;
        let count = shards.len() as u32;
        let before = slots.buckets.load(Ordering::Relaxed) as usize;
        let buckets = capacity.div_ceil(count).max(1);
        slots.buckets.store(buckets, Ordering::Relaxed);
        for (number, shard) in shards.iter_mut().enumerate() {
            for bucket in 0..before.max(buckets as usize) {
                slots.heads[slots.base(number) + bucket].store(0, Ordering::Relaxed);
            }
            shard.set_capacity(buckets);
        }
        for slot in (0..capacity.max(old)).rev() {
            let name = slots.entries[slot as usize].name.load(Ordering::Relaxed);
            if name & key::MAPPED != 0 {
                Shard::link(slots, slot, key::hash(name & key::NAME));
            } else if slot < capacity {
                shards[(slot % count) as usize].free(slots, slot);
            }
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
