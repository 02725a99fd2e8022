//! Which page is where: a hash table over the slots of the medium, in shards.
//!
//! Bytes a slot: name 8, version 4, chain 4, two queue links 8, bucket 4, ghost 2, sketch 1: 31.
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

/// A chain longer than this is taken for one that changes while it is walked.
const CHAIN_MAX: usize = 64;

/// The arrays that readers see, by slot.
pub struct Slots {
    pub(crate) names: Array<AtomicU64>,
    pub(crate) versions: Array<AtomicU32>,
    pub(crate) chain: Array<AtomicU32>,
    pub(crate) newer: Array<AtomicU32>,
    pub(crate) older: Array<AtomicU32>,
    pub(crate) heads: Array<AtomicU32>,
    pub(crate) ghosts: Array<AtomicU16>,
    pub(crate) sketch: Array<AtomicU16>,
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
}

/// Bytes of memory of one slot, everything in; the sketch has one word for two slots.
pub const SLOT_BYTES: f64 =
    (size_of::<AtomicU64>() + 5 * size_of::<AtomicU32>() + size_of::<AtomicU16>()) as f64 + 1.0;
const _: () = assert!(SLOT_BYTES <= 32.0);

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

    /// The slot of a page, if it is in the table; without a lock.
    #[inline]
    pub fn find(&self, name: u64, hash: u64) -> Option<u32> {
        let mut link = self.head(hash).load(Ordering::Acquire);
        for _ in 0..CHAIN_MAX {
            let slot = link.checked_sub(1)?;
            if self.names[slot as usize].load(Ordering::Relaxed) & key::NAME == name {
                return Some(slot);
            }
            link = self.chain[slot as usize].load(Ordering::Acquire);
        }
        None
    }

    /// Notes that a page was read. Stops at three: hot pages are not written to any more.
    #[inline]
    pub fn touch(&self, slot: u32, seen: u64) {
        if seen & key::FREQUENCY != key::FREQUENCY {
            let word = &self.names[slot as usize];
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
    /// Room for `capacity` pages now and up to `capacity_max` after a resize.
    pub fn new(capacity: u32, capacity_max: u32) -> io::Result<Self> {
        let shards = (capacity / 1024).clamp(1, 64);
        let stride = (capacity_max as usize)
            .div_ceil(shards as usize)
            .next_multiple_of(2);
        let all = stride * shards as usize;
        let slots = Slots {
            names: Array::new(all)?,
            versions: Array::new(all)?,
            chain: Array::new(all)?,
            newer: Array::new(all)?,
            older: Array::new(all)?,
            heads: Array::new(all)?,
            ghosts: Array::new(all)?,
            sketch: Array::new(all / 2)?,
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

    /// Pages that would fit after the largest resize.
    pub fn capacity_max(&self) -> u32 {
        self.capacity_max
    }

    /// Pages held.
    pub fn used(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).used()).sum()
    }

    /// Calls `visit` with every slot whose page can be read, and its name with flags.
    pub fn each(&self, mut visit: impl FnMut(u32, u64)) {
        for slot in 0..self.capacity() {
            let name = self.slots.names[slot as usize].load(Ordering::Relaxed);
            if name & key::MAPPED != 0
                && seqlock::begin(&self.slots.versions[slot as usize]).is_some()
            {
                visit(slot, name);
            }
        }
    }

    /// Takes out every page whose name `wanted` accepts; `gone` hears of each slot.
    pub fn remove_where(&self, wanted: impl Fn(u64) -> bool, mut gone: impl FnMut(u32)) {
        for slot in 0..self.capacity() {
            let name = self.slots.names[slot as usize].load(Ordering::Relaxed);
            if name & key::MAPPED == 0 || !wanted(name & key::NAME) {
                continue;
            }
            let (mut shard, slots) = self.lock(key::hash(name & key::NAME));
            let now = slots.names[slot as usize].load(Ordering::Relaxed);
            // A page that somebody fills is refused at its end: the caller has bumped the generation.
            if now & key::NAME == name & key::NAME
                && now & key::MAPPED != 0
                && now & key::FILLING == 0
            {
                shard.remove(slots, slot);
                gone(slot);
            }
        }
    }

    /// Makes one page of each shard leave; false when none could.
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

    /// Changes the number of slots; `gone` hears of each page that had to leave. Waits for fills under way.
    pub fn resize(&self, capacity: u32, mut gone: impl FnMut(u32)) {
        let capacity = capacity.min(self.capacity_max);
        loop {
            let mut shards: Vec<_> = self.shards.iter().map(lock).collect();
            let old = self.capacity();
            let name = |slot: u32| self.slots.names[slot as usize].load(Ordering::Relaxed);
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
            if fits && self.slots.names[slot as usize].load(Ordering::Relaxed) & key::MAPPED == 0 {
                shards[shard].restore(&self.slots, slot, name);
                restored += 1;
            }
        }
        self.rebuild(&mut shards, self.capacity(), self.capacity());
        restored
    }

    /// Pages by row of file, estimated from at most 65,536 slots.
    pub fn pages_by_row(&self) -> std::collections::HashMap<u32, u64> {
        let step = (self.capacity() / 65_536).max(1);
        let mut pages = std::collections::HashMap::new();
        for slot in (0..self.capacity()).step_by(step as usize) {
            let name = self.slots.names[slot as usize].load(Ordering::Relaxed);
            if name & key::MAPPED != 0 {
                *pages.entry(key::row(name)).or_insert(0) += u64::from(step);
            }
        }
        pages
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
            let name = slots.names[slot as usize].load(Ordering::Relaxed);
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
