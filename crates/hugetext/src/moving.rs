//! A copy of text on huge pages, put where the text was.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::ptr;

use libc::{c_int, c_void};

use crate::smaps;

/// Of x86-64, and of AArch64 with small pages of 4 KiB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Why text stays where it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// A system call failed, with this errno.
    Refused(&'static str, c_int),
    /// The copy lies on small pages.
    NoHugePages,
}

impl Display for Why {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Self::Refused(call, errno) => write!(out, "{call} failed with error {errno}"),
            Self::NoHugePages => write!(out, "the kernel gave no huge pages"),
        }
    }
}

/// Moves text; how many bytes of it lie on huge pages then. The kernel may give more later: the range is advised.
///
/// The range must be whole huge pages of a program's executable segment.
pub fn onto_huge_pages(text: &Range<usize>) -> Result<usize, Why> {
    let room = Room::new(text.len())?;
    // SAFETY: the text is a mapped, readable segment of the program, the room is as long, writable and nobody else's.
    unsafe { ptr::copy_nonoverlapping(text.start as *const u8, room.start.cast(), room.bytes) };
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: the room is our own, and nothing refers to it.
    accepted("mprotect", unsafe {
        libc::mprotect(room.start, room.bytes, protection)
    })?;
    let huge = smaps::huge_bytes(room.start as usize..room.start as usize + room.bytes);
    if huge == 0 {
        return Err(Why::NoHugePages);
    }
    // As for the program's file: what the executable has need not be in a core dump as well.
    // SAFETY: advice about the room, which is our own.
    unsafe { libc::madvise(room.start, room.bytes, libc::MADV_DONTDUMP) };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let target = text.start as *mut c_void;
    // SAFETY: the copy has the same bytes and may be executed, and the kernel exchanges the two under the lock that page faults
    // take, too: whoever executes the text meanwhile, this code included, goes on in the copy. Before it takes the text away, the
    // kernel checks all that it can refuse; what is left to fail are allocations of a few hundred bytes, for which it waits.
    let moved = unsafe { libc::mremap(room.start, room.bytes, room.bytes, flags, target) };
    if moved == libc::MAP_FAILED {
        return Err(Why::Refused("mremap", errno()));
    }
    // It lies elsewhere now.
    std::mem::forget(room);
    Ok(huge)
}

/// Writable memory that begins at a huge page's boundary; unmapped when dropped.
struct Room {
    start: *mut c_void,
    bytes: usize,
}

impl Room {
    fn new(bytes: usize) -> Result<Self, Why> {
        let asked = bytes + HUGE_PAGE_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), asked, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(Why::Refused("mmap", errno()));
        }
        let gap = (mapped as usize).next_multiple_of(HUGE_PAGE_BYTES) - mapped as usize;
        let start = mapped.wrapping_byte_add(gap);
        let room = Self { start, bytes };
        // SAFETY: both ranges are what was mapped above beside the room, and nothing refers to them.
        unsafe {
            libc::munmap(mapped, gap);
            libc::munmap(start.wrapping_byte_add(bytes), HUGE_PAGE_BYTES - gap);
        }
        // SAFETY: advice changes no contents.
        accepted("madvise", unsafe {
            libc::madvise(start, bytes, libc::MADV_HUGEPAGE)
        })?;
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the room is our own mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

fn accepted(call: &'static str, answer: c_int) -> Result<(), Why> {
    match answer {
        0 => Ok(()),
        _ => Err(Why::Refused(call, errno())),
    }
}

fn errno() -> c_int {
    // SAFETY: the address is this thread's own.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_aligned_and_writable() {
        for pages in [1, 3] {
            let bytes = pages * HUGE_PAGE_BYTES;
            let room = Room::new(bytes).expect("memory");
            assert_eq!(room.start as usize % HUGE_PAGE_BYTES, 0);
            // SAFETY: the last byte of the room, which is mapped and writable.
            unsafe { room.start.cast::<u8>().add(bytes - 1).write(7) };
        }
    }

    #[test]
    fn more_than_all_addresses_is_refused() {
        let refused = Room::new(1 << 60).err();
        assert_eq!(refused, Some(Why::Refused("mmap", libc::ENOMEM)));
    }

    #[test]
    fn a_reason_names_the_call() {
        let refused = Why::Refused("mprotect", 13).to_string();
        assert_eq!(refused, "mprotect failed with error 13");
    }
}
