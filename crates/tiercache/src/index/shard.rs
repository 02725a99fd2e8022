//! One shard of the index, under its lock: who comes in, who leaves, chains and queues.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Slots, key, seqlock};
use crate::policy::{Ghosts, Queue, S3Fifo, Sketch};

/// The answer to `Shard::reserve`.
#[derive(Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Write the page into this slot, then `publish` or `abandon` it. The second is a page that had to leave.
    Slot(u32, Option<u32>),
    /// The page is there already.
    Present,
    /// Somebody else fills it.
    Busy,
    /// Promotion keeps it out.
    NotPromoted,
    /// Nobody can leave.
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

    pub(super) fn free(&mut self, slots: &Slots, slot: u32) {
        slots.chain[slot as usize].store(self.free, Relaxed);
        self.free = slot + 1;
    }

    pub(super) fn link(slots: &Slots, slot: u32, hash: u64) {
        let head = slots.head(hash);
        slots.chain[slot as usize].store(head.load(Relaxed), Relaxed);
        head.store(slot + 1, Ordering::Release);
    }

    pub(super) fn restore(&mut self, slots: &Slots, slot: u32, name: u64) {
        let flags = key::MAPPED | key::MAIN | key::UNVERIFIED;
        slots.names[slot as usize].store(name | flags, Relaxed);
        seqlock::open(&slots.versions[slot as usize]);
        self.policy.push(slots, Queue::Main, slot);
        self.used += 1;
    }

    /// Finds a slot for a page. `misses` is how many misses let a page in (0: always); `share` is the
    /// percentage of the tier that may be pinned for it.
    pub fn reserve(&mut self, slots: &Slots, name: u64, misses: u8, share: u8) -> Reserved {
        let hash = key::hash(name);
        if let Some(slot) = self.find(slots, name, hash) {
            let word = &slots.names[slot as usize];
            if word.load(Relaxed) & key::FILLING != 0 {
                return Reserved::Busy;
            }
            if seqlock::begin(&slots.versions[slot as usize]).is_some() {
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
        self.free = slots.chain[slot as usize].load(Relaxed);
        seqlock::close(&slots.versions[slot as usize]);
        let pin = (self.pinned + 1) * 100 <= u64::from(share) * u64::from(self.capacity);
        let main = pin || self.ghosts(slots).take(hash);
        self.pinned += u64::from(pin);
        let flags = if pin { key::PINNED } else { 0 } | if main { key::MAIN } else { 0 };
        slots.names[slot as usize].store(name | flags | key::MAPPED | key::FILLING, Relaxed);
        Self::link(slots, slot, hash);
        let queue = if main { Queue::Main } else { Queue::Small };
        self.policy.push(slots, queue, slot);
        self.used += 1;
        Reserved::Slot(slot, evicted)
    }

    /// Lets readers at the slot that `reserve` gave.
    pub fn publish(&mut self, slots: &Slots, slot: u32) {
        slots.names[slot as usize].fetch_and(!(key::FILLING | key::UNVERIFIED), Relaxed);
        seqlock::open(&slots.versions[slot as usize]);
    }

    /// Gives back the slot that `reserve` gave.
    pub fn abandon(&mut self, slots: &Slots, slot: u32) {
        slots.names[slot as usize].fetch_and(!key::FILLING, Relaxed);
        self.remove(slots, slot);
    }

    /// Ends reading of a page, keeping its place for the new content; the slot, if there was a page to read.
    pub fn invalidate(&mut self, slots: &Slots, name: u64) -> Option<u32> {
        let slot = self.find(slots, name, key::hash(name))?;
        let filling = slots.names[slot as usize].load(Relaxed) & key::FILLING != 0;
        (!filling && seqlock::close(&slots.versions[slot as usize])).then_some(slot)
    }

    /// Whether the page has a place, readable or not.
    pub fn has_place(&self, slots: &Slots, name: u64) -> bool {
        self.find(slots, name, key::hash(name)).is_some()
    }

    /// Marks a page taken back from before a restart as checked, if nobody touched it since `seen`.
    pub fn verified(&mut self, slots: &Slots, slot: u32, seen: u32) {
        if seqlock::unchanged(&slots.versions[slot as usize], seen) {
            slots.names[slot as usize].fetch_and(!key::UNVERIFIED, Relaxed);
        }
    }

    /// Takes a page out if nobody touched it since `seen`; whether it did.
    pub fn reject(&mut self, slots: &Slots, slot: u32, seen: u32) -> bool {
        let mine = seqlock::unchanged(&slots.versions[slot as usize], seen);
        if mine {
            self.remove(slots, slot);
        }
        mine
    }

    /// Takes a slot out of the table; it must not be filling.
    pub fn remove(&mut self, slots: &Slots, slot: u32) {
        let word = slots.names[slot as usize].load(Relaxed);
        seqlock::close(&slots.versions[slot as usize]);
        self.unchain(slots, slot, key::hash(word & key::NAME));
        let queue = if word & key::MAIN != 0 {
            Queue::Main
        } else {
            Queue::Small
        };
        self.policy.unlink(slots, queue, slot);
        self.pinned -= u64::from(word & key::PINNED != 0);
        slots.names[slot as usize].store(0, Relaxed);
        self.used -= 1;
        self.free(slots, slot);
    }

    /// Makes one page leave; its slot is then free.
    pub fn evict(&mut self, slots: &Slots) -> Option<u32> {
        let slot = self.policy.victim(slots, self.capacity)?;
        let word = slots.names[slot as usize].load(Relaxed);
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
            if slots.names[slot as usize].load(Relaxed) & key::NAME == name {
                return Some(slot);
            }
            link = slots.chain[slot as usize].load(Relaxed);
        }
        None
    }

    fn unchain(&self, slots: &Slots, slot: u32, hash: u64) {
        let mut from: &AtomicU32 = slots.head(hash);
        while let Some(at) = from.load(Relaxed).checked_sub(1) {
            if at == slot {
                from.store(slots.chain[slot as usize].load(Relaxed), Ordering::Release);
                return;
            }
            from = &slots.chain[at as usize];
        }
    }
}
