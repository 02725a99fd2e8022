//! A mapping of private memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Huge pages on x86-64 and most others: regions larger than one are aligned to it.
const HUGE_BYTES: usize = 2 << 20;

/// A mapping, unmapped when dropped. Addresses are handed out raw: many threads read and write at once.
pub struct Region {
    address: *mut u8,
    size_bytes: usize,
    /// What was given back from here on stays with the system.
    given_back_from: AtomicUsize,
}

// SAFETY: a region is only an address range; who copies in and out keeps the order by versions and locks.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Zeroed private memory, committed page by page as it is touched.
    pub fn anonymous(size_bytes: usize) -> io::Result<Self> {
        if size_bytes < HUGE_BYTES {
            return Self::map(size_bytes);
        }
        // One huge page more, then cut to alignment.
        let whole = Self::map(size_bytes.saturating_add(HUGE_BYTES))?;
        let start = whole.address as usize;
        let aligned = start.next_multiple_of(HUGE_BYTES);
        let (head, tail) = (aligned - start, HUGE_BYTES - (aligned - start));
        std::mem::forget(whole);
        for (at, length) in [(start, head), (aligned + size_bytes, tail)] {
            if length > 0 {
                // SAFETY: the ends of the mapping just made; nobody has an address in them. Sizes that are no
                // multiple of the system's page leave at most one page mapped.
                unsafe { libc::munmap(at.next_multiple_of(4096) as *mut _, length & !4095) };
            }
        }
        Ok(Self {
            address: aligned as *mut u8,
            size_bytes,
            given_back_from: AtomicUsize::new(usize::MAX),
        })
    }

    fn map(size_bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), size_bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // The child of a fork never reads it, and copying its tables would stop the program for as long as it is large.
        // SAFETY: advice on the mapping just made.
        unsafe { libc::madvise(address, size_bytes, libc::MADV_DONTFORK) };
        Ok(Self {
            address: address.cast(),
            size_bytes,
            given_back_from: AtomicUsize::new(usize::MAX),
        })
    }

    /// Asks for huge pages; a system without them goes on without.
    pub fn prefer_huge_pages(&self) {
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(self.address.cast(), self.size_bytes, libc::MADV_HUGEPAGE) };
    }

    /// From here on there are small pages only: around a page that stays in use, the system would make huge ones again, out of
    /// what is given back (khugepaged).
    pub fn keep_to_small_pages(&self) {
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(self.address.cast(), self.size_bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// Has the system back the first bytes now, in a thread that ends with the region: else the first page in each huge
    /// page waits until that is found and cleared. Without Linux 5.14 or a thread, that is what happens. The thread has the
    /// program's priority: with a lower one it could be kept waiting while it holds the lock of the address space. It is one
    /// thread, so that a server that starts keeps its CPUs; on which NUMA nodes memory lies, `numactl` says for it as well.
    pub fn populate(self: &Arc<Self>, size_bytes: usize) {
        let (region, size_bytes) = (Arc::clone(self), size_bytes.min(self.size_bytes));
        if size_bytes < HUGE_BYTES {
            return;
        }
        let touch = move || {
            for at in (0..size_bytes).step_by(HUGE_BYTES) {
                let length = HUGE_BYTES.min(size_bytes - at);
                // SAFETY: a range inside the mapping, which this thread keeps; what is written there stays.
                let answer = unsafe {
                    let address = region.address.add(at).cast();
                    libc::madvise(address, length, libc::MADV_POPULATE_WRITE)
                };
                let end = region.given_back_from.load(Ordering::Acquire);
                if answer != 0 || at + length >= end || Arc::strong_count(&region) == 1 {
                    return;
                }
            }
        };
        crate::thread::start(touch);
    }

    /// Leaves the region out of core dumps: pages of tables are no part of a crash, and it may be larger than the disk.
    pub fn keep_out_of_dumps(&self) {
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(self.address.cast(), self.size_bytes, libc::MADV_DONTDUMP) };
    }

    /// Gives memory from `offset` on back to the system; it reads as zeroes afterwards.
    pub fn release_from(&self, offset: usize) {
        let start = offset.next_multiple_of(4096).min(self.size_bytes);
        self.given_back_from.store(start, Ordering::Release);
        self.release(start..self.size_bytes);
    }

    /// Gives memory in these bounds, multiples of the system's page, back to the system; it reads as zeroes afterwards.
    pub fn release(&self, bounds: std::ops::Range<usize>) {
        let (start, end) = (bounds.start, bounds.end.min(self.size_bytes));
        // SAFETY: a range inside our own mapping; readers that are late see zeroes and fail their version check.
        unsafe {
            libc::madvise(
                self.address.add(start).cast(),
                end.saturating_sub(start),
                libc::MADV_DONTNEED,
            )
        };
    }

    /// The first byte.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Bytes mapped.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping; whoever took an address keeps the region alive.
        unsafe { libc::munmap(self.address.cast(), self.size_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::{HUGE_BYTES, Region};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn is_there(region: &Region, at: usize) -> bool {
        let mut state = 0u8;
        // SAFETY: one page of the mapping, one byte for the answer.
        let answer =
            unsafe { libc::mincore(region.address().add(at).cast(), 4096, &raw mut state) };
        assert_eq!(answer, 0);
        state & 1 == 1
    }

    #[test]
    fn memory_comes_ahead_of_the_pages_as_far_as_asked() {
        let region = Arc::new(Region::anonymous(8 * HUGE_BYTES).expect("memory"));
        region.prefer_huge_pages();
        assert!(!is_there(&region, 0));
        region.populate(3 * HUGE_BYTES);
        let end = Instant::now() + Duration::from_secs(20);
        while !is_there(&region, 3 * HUGE_BYTES - 4096) {
            assert!(Instant::now() < end, "the thread is done in milliseconds");
            std::thread::yield_now();
        }
        assert!(is_there(&region, 0) && !is_there(&region, 3 * HUGE_BYTES));
        region.release_from(HUGE_BYTES);
        assert!(is_there(&region, 0) && !is_there(&region, HUGE_BYTES));
    }

    #[test]
    fn a_region_is_not_copied_to_children() {
        let region = Region::anonymous(4 << 20).expect("a mapping");
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("this process is listed");
        let start = format!("{:x}-", region.address() as usize);
        let (_, about) = maps.split_once(&start).expect("the mapping");
        let flags = about.lines().find(|line| line.starts_with("VmFlags:"));
        assert!(
            flags.is_some_and(|flags| flags.contains(" dc")),
            "{flags:?}"
        );
    }
}
