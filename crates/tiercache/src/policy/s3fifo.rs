//! S3-FIFO (Yang et al., SOSP 2023): a small queue for newcomers, a main queue for pages that were read
//! again, and ghosts of those that left the small one. A scan passes through the small queue only.

use std::sync::atomic::Ordering::Relaxed;

use crate::index::{Slots, key, seqlock};

/// Share of the slots for newcomers, in percent (the paper's).
const SMALL_PERCENT: u64 = 10;
/// Reads in the small queue that carry a page into the main queue.
const PROMOTE_READS: u64 = 1;

/// Which of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Newcomers.
    Small,
    /// Pages read again.
    Main,
}

/// Ends and length of a doubly linked queue through the slots; links hold slot + 1.
#[derive(Default)]
struct Ends {
    newest: u32,
    oldest: u32,
    length: u64,
}

/// The two queues of a shard.
#[derive(Default)]
pub struct S3Fifo {
    small: Ends,
    main: Ends,
}

impl S3Fifo {
    fn ends(&mut self, queue: Queue) -> &mut Ends {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// Puts a slot at the young end.
    pub fn push(&mut self, slots: &Slots, queue: Queue, slot: u32) {
        let ends = self.ends(queue);
        slots.newer[slot as usize].store(0, Relaxed);
        slots.older[slot as usize].store(ends.newest, Relaxed);
        match ends.newest.checked_sub(1) {
            Some(newest) => slots.newer[newest as usize].store(slot + 1, Relaxed),
            None => ends.oldest = slot + 1,
        }
        ends.newest = slot + 1;
        ends.length += 1;
    }

    /// Takes a slot out, wherever it is.
    pub fn unlink(&mut self, slots: &Slots, queue: Queue, slot: u32) {
        let ends = self.ends(queue);
        let (newer, older) = (
            slots.newer[slot as usize].load(Relaxed),
            slots.older[slot as usize].load(Relaxed),
        );
        match newer.checked_sub(1) {
            Some(newer) => slots.older[newer as usize].store(older, Relaxed),
            None => ends.newest = older,
        }
        match older.checked_sub(1) {
            Some(older) => slots.newer[older as usize].store(newer, Relaxed),
            None => ends.oldest = newer,
        }
        ends.length -= 1;
    }

    /// The slot to evict next; it stays linked. None when all are being filled.
    pub fn victim(&mut self, slots: &Slots, capacity: u32) -> Option<u32> {
        let all = self.small.length + self.main.length;
        // Four turns wear out every frequency; after those, pins give way too.
        for step in 0..6 * all {
            let from_small = self.small.length * 100 >= u64::from(capacity) * SMALL_PERCENT
                || self.main.length == 0;
            let queue = if from_small && self.small.length > 0 {
                Queue::Small
            } else {
                Queue::Main
            };
            let slot = self.ends(queue).oldest.checked_sub(1)?;
            let word = slots.entries[slot as usize].name.load(Relaxed);
            let filling = word & key::FILLING != 0;
            if !filling && seqlock::begin(&slots.entries[slot as usize].version).is_none() {
                return Some(slot);
            }
            let reads = (word & key::FREQUENCY) / key::FREQUENCY_ONE;
            let stays = match queue {
                Queue::Small => reads >= PROMOTE_READS,
                Queue::Main => reads > 0 || (word & key::PINNED != 0 && step < 5 * all),
            };
            if !filling && !stays {
                return Some(slot);
            }
            self.unlink(slots, queue, slot);
            let left = match queue {
                Queue::Small => 0,
                Queue::Main => reads.saturating_sub(1),
            };
            // A read that comes between load and store loses its count: no harm.
            slots.entries[slot as usize].name.store(
                word & !key::FREQUENCY | key::MAIN | (left * key::FREQUENCY_ONE),
                Relaxed,
            );
            self.push(slots, Queue::Main, slot);
        }
        None
    }
}
