//! Compressed pages in memory: each is a chain of small blocks, so that no room is lost to size classes.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{region_read, region_write};
use super::{LZ4_SLOTS_A_PAGE, Medium, MediumError, Region, Scratch};
use crate::index::Array;

/// What memory is given back in.
const SYSTEM_PAGE_BYTES: usize = 4096;
/// Blocks of a page that does not compress.
const BLOCKS_A_PAGE: usize = super::BLOCKS_A_PAGE as usize;

#[derive(Default)]
struct Free {
    /// First free block + 1; the others follow `next`.
    first: u32,
    /// Blocks at and after this were never used.
    fresh: u32,
    /// Blocks in use.
    used: u64,
    /// Blocks that may be in use.
    limit: u64,
}

/// The medium.
pub struct Lz4 {
    region: Arc<Region>,
    /// Next block + 1 of each block.
    next: Array<AtomicU32>,
    /// First block + 1 of each slot.
    first: Array<AtomicU32>,
    /// Compressed bytes of each slot; a whole page means: not compressed.
    length: Array<AtomicU32>,
    /// One lock: it is held for some stores, beside microseconds of compression without it.
    free: Mutex<Free>,
    scratch: Scratch,
    page: usize,
}

impl Lz4 {
    /// Memory for `size_bytes` of compressed pages, addresses for `size_bytes_max`.
    pub fn new(size_bytes: u64, size_bytes_max: u64, page: usize) -> io::Result<Self> {
        let blocks = size_bytes_max as usize / page * BLOCKS_A_PAGE;
        let slots = size_bytes_max as usize / page * LZ4_SLOTS_A_PAGE as usize;
        let limit = (size_bytes as usize / page * BLOCKS_A_PAGE) as u64;
        let region = Arc::new(Region::anonymous(size_bytes_max as usize)?);
        region.prefer_huge_pages();
        region.keep_out_of_dumps();
        region.populate(size_bytes as usize);
        let free = Mutex::new(Free {
            limit,
            ..Free::default()
        });
        let (next, first, length) = (Array::new(blocks)?, Array::new(slots)?, Array::new(slots)?);
        Ok(Self {
            region,
            next,
            first,
            length,
            free,
            scratch: Scratch::new()?,
            page,
        })
    }

    fn block(&self) -> usize {
        self.page / BLOCKS_A_PAGE
    }

    /// A chain of so many blocks; its first block + 1.
    fn take(&self, count: usize) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.used + count as u64 > free.limit {
            return None;
        }
        free.used += count as u64;
        let mut chain = 0;
        for _ in 0..count {
            // No more blocks are in use than the limit, so one is free or fresh.
            let block = match free.first.checked_sub(1) {
                Some(block) => {
                    free.first = self.next[block as usize].load(Relaxed);
                    block
                }
                None => {
                    free.fresh += 1;
                    free.fresh - 1
                }
            };
            self.next[block as usize].store(chain, Relaxed);
            chain = block + 1;
        }
        Some(chain)
    }

    /// Copies a chain into `dst`, which is as long as the compressed page.
    fn gather(&self, slot: u32, dst: &mut [u8]) -> Result<(), MediumError> {
        let mut link = self.first[slot as usize].load(Relaxed);
        for part in dst.chunks_mut(self.block()) {
            let block = link.checked_sub(1).ok_or(MediumError::Torn)?;
            region_read(&self.region, block as usize * self.block(), part)?;
            link = self.next[block as usize].load(Relaxed);
        }
        Ok(())
    }
}

impl Medium for Lz4 {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        let length = self.length[slot as usize].load(Relaxed) as usize;
        if length == 0 || length > self.page {
            return Err(MediumError::Torn);
        }
        let mut lease = self.scratch.take();
        let (packed, plain) = lease.pages();
        let (packed, plain) = (&mut packed[..length], &mut plain[..self.page]);
        self.gather(slot, packed)?;
        let end = offset + dst.len();
        if length == self.page {
            dst.copy_from_slice(packed.get(offset..end).ok_or(MediumError::Torn)?);
            return Ok(());
        }
        let unpack = |to: &mut [u8]| match lz4_flex::block::decompress_into(packed, to) {
            Ok(written) if written == self.page => Ok(()),
            _ => Err(MediumError::Torn),
        };
        if dst.len() == self.page {
            return unpack(dst);
        }
        unpack(plain)?;
        dst.copy_from_slice(plain.get(offset..end).ok_or(MediumError::Torn)?);
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        let mut lease = self.scratch.take();
        let room = lease.room();
        let kept: &[u8] = match lz4_flex::block::compress_into(data, room) {
            Ok(length) if length + self.block() <= data.len() => &room[..length],
            _ => data,
        };
        self.release(slot);
        let chain = self
            .take(kept.len().div_ceil(self.block()))
            .ok_or(MediumError::Full)?;
        let mut link = chain;
        for part in kept.chunks(self.block()) {
            let block = link.checked_sub(1).ok_or(MediumError::Full)?;
            region_write(&self.region, block as usize * self.block(), part)?;
            link = self.next[block as usize].load(Relaxed);
        }
        self.first[slot as usize].store(chain, Relaxed);
        self.length[slot as usize].store(kept.len() as u32, Relaxed);
        Ok(())
    }

    fn release(&self, slot: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let length = self.length[slot as usize].swap(0, Relaxed) as usize;
        let chain = self.first[slot as usize].swap(0, Relaxed);
        let count = length.div_ceil(self.block());
        free.used -= count as u64;
        let mut link = chain;
        for _ in 0..count {
            let Some(block) = link.checked_sub(1) else {
                return;
            };
            link = self.next[block as usize].load(Relaxed);
            self.next[block as usize].store(free.first, Relaxed);
            free.first = block + 1;
        }
    }

    fn used_bytes(&self) -> Option<u64> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        Some(free.used * self.block() as u64)
    }

    /// First block and length of each slot, the next block of each block.
    fn index_bytes(&self, slots: u32) -> u64 {
        let slots = u64::from(slots);
        let blocks = slots / LZ4_SLOTS_A_PAGE * super::BLOCKS_A_PAGE;
        (2 * slots + blocks) * size_of::<AtomicU32>() as u64
    }

    /// Only the limit changes: blocks of one page lie anywhere. The engine evicts pages until the rest fits.
    fn resize(&self, size_bytes: u64) -> io::Result<()> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.limit = (size_bytes as usize / self.page * BLOCKS_A_PAGE) as u64;
        Ok(())
    }

    /// Each of the system's pages whose blocks are all free goes back. Nobody can take a block meanwhile; a late reader
    /// of one finds zeroes, and its version check throws them away.
    fn give_back(&self) {
        self.region.keep_to_small_pages();
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_free = vec![false; free.fresh as usize];
        let mut link = free.first;
        while let Some(block) = link.checked_sub(1) {
            is_free[block as usize] = true;
            link = self.next[block as usize].load(Relaxed);
        }
        let blocks = SYSTEM_PAGE_BYTES.div_ceil(self.block());
        let bytes = blocks * self.block();
        let all_free = |page: &usize| {
            let of_page = is_free.get(page * blocks..(page + 1) * blocks);
            of_page.is_some_and(|of_page| of_page.iter().all(|free| *free))
        };
        let pages = is_free.len() / blocks;
        let mut at = 0;
        while let Some(first) = (at..pages).find(all_free) {
            let end = (first..pages).find(|page| !all_free(page)).unwrap_or(pages);
            self.region.release(first * bytes..end * bytes);
            at = end;
        }
        // Blocks that were never used, but backed ahead.
        let kept = u64::from(free.fresh).max(free.limit) as usize;
        self.region.release_from(kept * self.block());
    }
}

#[cfg(test)]
mod tests {
    use super::{Lz4, Medium};

    const PAGE: usize = 16 << 10;

    /// Bytes that cannot be compressed.
    fn content(slot: u32) -> Vec<u8> {
        let mut word = u64::from(slot) + 1;
        let words = (0..PAGE / 8).map(|_| {
            word = crate::index::key::hash(word);
            word
        });
        words.flat_map(u64::to_ne_bytes).collect()
    }

    fn resident_bytes(medium: &Lz4) -> usize {
        let size = medium.region.size_bytes();
        let mut pages = vec![0u8; size / 4096];
        // SAFETY: the whole mapping, and a byte for each of its pages.
        let answer =
            unsafe { libc::mincore(medium.region.address().cast(), size, pages.as_mut_ptr()) };
        assert_eq!(answer, 0);
        pages.iter().filter(|page| **page & 1 == 1).count() * 4096
    }

    /// The flags of the mapping at this address.
    fn flags(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("this process is listed");
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            Some(number(start)?..number(end)?)
        };
        let mut lines = maps.lines();
        lines.find(|line| range(line).is_some_and(|range| range.contains(&address)));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
        flags.expect("the mapping").to_owned()
    }

    #[test]
    fn memory_of_pages_that_left_goes_back_and_the_others_stay() {
        let (size, slots) = (8usize << 20, 512u32);
        let medium = Lz4::new(size as u64, 4 * size as u64, PAGE).expect("memory");
        // The thread that backs the memory ahead would back what is given back.
        while std::sync::Arc::strong_count(&medium.region) > 1 {
            std::thread::yield_now();
        }
        for slot in 0..slots {
            medium.write(slot, &content(slot)).expect("room");
        }
        assert!(resident_bytes(&medium) >= size);
        (0..slots)
            .filter(|slot| slot % 8 > 0)
            .for_each(|slot| medium.release(slot));
        medium.resize(size as u64 / 4).expect("a resize");
        medium.give_back();
        let left = resident_bytes(&medium);
        assert!(left <= size / 4, "{left} bytes for {} in use", size / 8);
        if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").is_dir() {
            let flags = flags(medium.region.address() as usize);
            assert!(flags.contains(" nh"), "it would grow again: {flags}");
        }
        for slot in (0..slots).step_by(8) {
            let mut page = vec![0; PAGE];
            medium.read(slot, 0, &mut page).expect("a page");
            assert!(page == content(slot), "slot {slot}");
        }
    }
}
