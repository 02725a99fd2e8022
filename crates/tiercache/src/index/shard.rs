//! One shard of the index, under its lock: inserting, evicting, chains and queues.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Slots, key, seqlock};
use crate::policy::{Ghosts, Queue, S3Fifo, Sketch};

/// The answer to `Shard::reserve`.
#[derive(Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Write the page into this slot, then `publish` or `abandon` it. The second is the slot of a page that was evicted for it.
    Slot(u32, Option<u32>),
    /// The page is there already.
    Present,
    /// Somebody else fills it.
    Busy,
    /// Promotion keeps it out.
    NotPromoted,
    /// None can be evicted.
    NoRoom,
}

/// What the lock of a shard guards.
pub struct Shard {
    number: usize,
    free: u32,
    used: u64,
    pinned: u64,
    capacity: u32,
    policy: S3Fifo,
}

impl Shard {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            free: 0,
            used: 0,
            pinned: 0,
            capacity: 0,
            policy: S3Fifo::default(),
        }
    }

    /// Slots in the table.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.free = 0;
    }

    /// A free slot cannot be read: a reader that follows the chain of a page which is taken out may go on along the free ones, of
    /// which those that never held a page have the name of the first file's page 0.
    pub(super) fn free(&mut self, slots: &Slots, slot: u32) {
        seqlock::close(&slots.entries[slot as usize].version);
        slots.entries[slot as usize].chain.store(self.free, Relaxed);
        self.free = slot + 1;
    }

    pub(super) fn link(slots: &Slots, slot: u32, hash: u64) {
        let head = slots.head(hash);
        slots.entries[slot as usize]
            .chain
            .store(head.load(Relaxed), Relaxed);
        head.store(slot + 1, Ordering::Release);
    }

    /// The free slots must be listed anew afterwards: this one may be anywhere among them.
    pub(super) fn restore(&mut self, slots: &Slots, slot: u32, name: u64) {
        let flags = key::MAPPED | key::MAIN | key::UNVERIFIED;
        slots.entries[slot as usize]
            .name
            .store(name | flags, Relaxed);
        Self::link(slots, slot, key::hash(name));
        seqlock::open(&slots.entries[slot as usize].version);
        self.policy.push(slots, Queue::Main, slot);
        self.used += 1;
        slots.hold(name);
    }

    /// Finds a slot for a page. a page is inserted from its `misses`-th miss on (0: always); `share` is the
    /// percentage of the tier that may be pinned for it.
    pub fn reserve(&mut self, slots: &Slots, name: u64, misses: u8, share: u8) -> Reserved {
        let hash = key::hash(name);
        if let Some(slot) = self.find(slots, name, hash) {
            let word = &slots.entries[slot as usize].name;
            if word.load(Relaxed) & key::FILLING != 0 {
                return Reserved::Busy;
            }
            if seqlock::begin(&slots.entries[slot as usize].version).is_some() {
                return Reserved::Present;
            }
            word.fetch_or(key::FILLING, Relaxed);
            return Reserved::Slot(slot, None);
        }
        let sketch = Sketch {
            slots,
            base: slots.base(self.number) / 2,
            length: (self.capacity as usize / 2).max(1),
        };
        if misses > 1 && sketch.count(hash) < misses {
            return Reserved::NotPromoted;
        }
        let evicted = if self.free == 0 {
            self.evict(slots)
        } else {
            None
        };
        let Some(slot) = self.free.checked_sub(1) else {
            return Reserved::NoRoom;
        };
        self.free = slots.entries[slot as usize].chain.load(Relaxed);
        let pin = (self.pinned + 1) * 100 <= u64::from(share) * u64::from(self.capacity);
        let main = pin || self.ghosts(slots).take(hash);
        self.pinned += u64::from(pin);
        let flags = if pin { key::PINNED } else { 0 } | if main { key::MAIN } else { 0 };
        slots.entries[slot as usize]
            .name
            .store(name | flags | key::MAPPED | key::FILLING, Relaxed);
        Self::link(slots, slot, hash);
        let queue = if main { Queue::Main } else { Queue::Small };
        self.policy.push(slots, queue, slot);
        self.used += 1;
        slots.hold(name);
        Reserved::Slot(slot, evicted)
    }

    /// Lets readers at the slot that `reserve` gave.
    pub fn publish(&mut self, slots: &Slots, slot: u32) {
        slots.entries[slot as usize]
            .name
            .fetch_and(!(key::FILLING | key::UNVERIFIED), Relaxed);
        seqlock::open(&slots.entries[slot as usize].version);
    }

    /// Gives back the slot that `reserve` gave.
    pub fn abandon(&mut self, slots: &Slots, slot: u32) {
        slots.entries[slot as usize]
            .name
            .fetch_and(!key::FILLING, Relaxed);
        self.remove(slots, slot);
    }

    /// Ends reading of a page, keeping its place for the new content; the slot, if there was a page to read.
    pub fn invalidate(&mut self, slots: &Slots, name: u64) -> Option<u32> {
        let slot = self.find(slots, name, key::hash(name))?;
        let filling = slots.entries[slot as usize].name.load(Relaxed) & key::FILLING != 0;
        (!filling && seqlock::close(&slots.entries[slot as usize].version)).then_some(slot)
    }

    /// Whether the page has a place, readable or not.
    pub fn has_place(&self, slots: &Slots, name: u64) -> bool {
        self.find(slots, name, key::hash(name)).is_some()
    }

    /// Marks a page taken back from before a restart as checked, if nobody touched it since `seen`; whether that is news.
    pub fn verified(&mut self, slots: &Slots, slot: u32, seen: u32) -> bool {
        let entry = &slots.entries[slot as usize];
        seqlock::unchanged(&entry.version, seen)
            && entry.name.fetch_and(!key::UNVERIFIED, Relaxed) & key::UNVERIFIED != 0
    }

    /// Whether the slot is this page's.
    pub fn holds(&self, slots: &Slots, slot: u32, name: u64) -> bool {
        let word = slots.entries[slot as usize].name.load(Relaxed);
        word & key::MAPPED != 0 && word & key::NAME == name
    }

    /// Takes a page out; its slot. A page that somebody fills stays: the caller has begun a change, so that it is refused
    /// at its end.
    pub fn take_out(&mut self, slots: &Slots, name: u64) -> Option<u32> {
        let slot = self.find(slots, name, key::hash(name))?;
        let word = slots.entries[slot as usize].name.load(Relaxed);
        if word & key::FILLING != 0 {
            return None;
        }
        self.remove(slots, slot);
        Some(slot)
    }

    /// Takes a page out if nobody touched it since `seen`; whether it did.
    pub fn reject(&mut self, slots: &Slots, slot: u32, seen: u32) -> bool {
        let mine = seqlock::unchanged(&slots.entries[slot as usize].version, seen);
        if mine {
            self.remove(slots, slot);
        }
        mine
    }

    /// Takes a slot out of the table; it must not be filling.
    pub fn remove(&mut self, slots: &Slots, slot: u32) {
        let word = slots.entries[slot as usize].name.load(Relaxed);
        seqlock::close(&slots.entries[slot as usize].version);
        self.unchain(slots, slot, key::hash(word & key::NAME));
        let queue = if word & key::MAIN != 0 {
            Queue::Main
        } else {
            Queue::Small
        };
        self.policy.unlink(slots, queue, slot);
        self.pinned -= u64::from(word & key::PINNED != 0);
        slots.entries[slot as usize].name.store(0, Relaxed);
        self.used -= 1;
        slots.let_go(word & key::NAME);
        self.free(slots, slot);
    }

    /// Evicts one page; its slot is then free.
    pub fn evict(&mut self, slots: &Slots) -> Option<u32> {
        let slot = self.policy.victim(slots, self.capacity)?;
        let word = slots.entries[slot as usize].name.load(Relaxed);
        if word & key::MAIN == 0 {
            self.ghosts(slots).put(key::hash(word & key::NAME));
        }
        self.remove(slots, slot);
        Some(slot)
    }

    fn ghosts<'a>(&self, slots: &'a Slots) -> Ghosts<'a> {
        Ghosts {
            slots,
            base: slots.base(self.number),
            length: self.capacity as usize,
        }
    }

    /// As `Slots::find`, in a chain that cannot change: it finds what is there, however long the chain.
    fn find(&self, slots: &Slots, name: u64, hash: u64) -> Option<u32> {
        let mut link = slots.head(hash).load(Relaxed);
        while let Some(slot) = link.checked_sub(1) {
            if slots.entries[slot as usize].name.load(Relaxed) & key::NAME == name {
                return Some(slot);
            }
            link = slots.entries[slot as usize].chain.load(Relaxed);
        }
        None
    }

    fn unchain(&self, slots: &Slots, slot: u32, hash: u64) {
        let mut from: &AtomicU32 = slots.head(hash);
        while let Some(at) = from.load(Relaxed).checked_sub(1) {
            if at == slot {
                from.store(
                    slots.entries[slot as usize].chain.load(Relaxed),
                    Ordering::Release,
                );
                return;
            }
            from = &slots.entries[at as usize].chain;
        }
    }
}
