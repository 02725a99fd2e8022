//! Memory with small or with huge pages, and whether the kernel really gave huge ones.

use std::io;
use std::ptr::NonNull;

use serde::Serialize;

/// What x86-64 and AArch64 with small pages of 4 KiB call a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages that memory is asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// 4 KiB, by MADV_NOHUGEPAGE.
    Small,
    /// 2 MiB, by MADV_HUGEPAGE: a wish, see `Region::huge_bytes`.
    Huge,
}

/// Anonymous memory that begins at a huge page's boundary; unmapped when dropped.
pub struct Region {
    mapped: NonNull<libc::c_void>,
    mapped_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    /// At least this many bytes of zeros; nothing is backed until it is written to.
    ///
    /// # Errors
    /// The kernel has no such memory.
    pub fn new(at_least_bytes: usize, pages: Pages) -> io::Result<Self> {
        let bytes = at_least_bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapped_bytes = bytes + HUGE_PAGE_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let mapped =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = NonNull::new(mapped).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = mapped.as_ptr() as usize;
        let gap = address.next_multiple_of(HUGE_PAGE_BYTES) - address;
        // SAFETY: the gap is less than a huge page, and the mapping is a huge page longer than what is used of it.
        let start = unsafe { mapped.cast::<u8>().add(gap) };
        let region = Self {
            mapped,
            mapped_bytes,
            start,
            bytes,
        };
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // A kernel without huge pages refuses both, and has small pages only: `huge_bytes` says what was had.
        // SAFETY: the range is part of the mapping above, and advice changes no contents.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) };
        Ok(region)
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// All of it, to write to.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the range is mapped, readable and writable until `drop` (`into_code` takes the region), it holds zeros or what
        // was written, and `&mut self` makes this the one reference to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Make it executable, and no longer writable.
    ///
    /// # Errors
    /// The system's: a policy may forbid memory that was written to be executed.
    pub fn into_code(self) -> io::Result<Code> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the range is this region's own mapping, and no slice of it is alive: `self` was moved in.
        match unsafe { libc::mprotect(self.start.as_ptr().cast(), self.bytes, protection) } {
            0 => Ok(Code(self)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many of its bytes lie in huge pages now, by AnonHugePages in /proc/self/smaps.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn huge_bytes(&self) -> io::Result<usize> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        let first = self.start.as_ptr() as usize;
        Ok(huge_bytes_within(&smaps, first, first + self.bytes).min(self.bytes))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; nothing borrowed from it outlives the region.
        unsafe { libc::munmap(self.mapped.as_ptr(), self.mapped_bytes) };
    }
}

/// A region that can be executed and not be written to.
pub struct Code(Region);

impl Code {
    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    /// As `Region::huge_bytes`.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn huge_bytes(&self) -> io::Result<usize> {
        self.0.huge_bytes()
    }
}

/// The sum of AnonHugePages of the mappings in smaps that overlap a range of addresses.
fn huge_bytes_within(smaps: &str, first: usize, end: usize) -> usize {
    let mut within = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some((from, to)) = mapping(line) {
            within = from < end && to > first;
        } else if let Some(size) = line.strip_prefix("AnonHugePages:").filter(|_| within) {
            let kib = size.trim().trim_end_matches("kB").trim();
            sum += kib.parse::<usize>().unwrap_or(0) * 1024;
        }
    }
    sum
}

/// The addresses in the first line of a mapping's entry; no other line has a `-` between two numbers there.
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_writable_and_as_long_as_asked() {
        for pages in [Pages::Small, Pages::Huge] {
            let mut region = Region::new(HUGE_PAGE_BYTES + 1, pages).expect("memory");
            assert_eq!(region.as_mut_slice().len(), 2 * HUGE_PAGE_BYTES);
            assert_eq!(region.start().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            assert!(region.as_mut_slice().iter().all(|&byte| byte == 0));
            region.as_mut_slice().fill(7);
            let huge = region.huge_bytes().expect("smaps");
            match pages {
                Pages::Small => assert_eq!(huge, 0),
                Pages::Huge => assert!(huge <= 2 * HUGE_PAGE_BYTES),
            }
        }
    }

    #[test]
    fn code_keeps_what_was_written() {
        let mut region = Region::new(1, Pages::Small).expect("memory");
        region.as_mut_slice()[0] = 0xc3;
        let code = region.into_code().expect("executable");
        // SAFETY: the first byte of the region is mapped and readable while `code` lives.
        assert_eq!(unsafe { code.start().read() }, 0xc3);
        assert_eq!(code.huge_bytes().expect("smaps"), 0);
    }

    #[test]
    fn more_than_all_addresses_is_refused() {
        assert!(Region::new(1 << 60, Pages::Small).is_err());
    }

    #[test]
    fn huge_pages_are_those_of_the_mappings_within() {
        let smaps = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n\
Size:               4096 kB\nAnonHugePages:      2048 kB\nVmFlags: rd wr\n\
7f0000400000-7f0000600000 rw-p 00000000 00:00 0  [heap]\n\
AnonHugePages:      4096 kB\n\
7f0000600000-7f0000800000 rw-p 00000000 00:00 0 \n\
AnonHugePages:      8192 kB\n";
        let found = |first, end| huge_bytes_within(smaps, first, end) >> 20;
        assert_eq!(found(0x7f00_0000_0000, 0x7f00_0040_0000), 2);
        assert_eq!(found(0x7f00_0020_0000, 0x7f00_0060_0000), 6);
        assert_eq!(found(0x7f00_0080_0000, 0x7f00_0090_0000), 0);
    }
}
