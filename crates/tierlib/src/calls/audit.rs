//! One read in so many that the tier serves is compared with the file.

use std::alloc::{Layout, alloc, dealloc};
use std::slice;

use libc::c_int;
use tiercache::{AuditToken, FileId, Lookup, Tier};

use crate::raw::keep_errno;
use crate::{process, real};

/// As O_DIRECT wants memory, offsets and sizes on all devices.
const ALIGN: usize = 4096;
/// Larger reads are not compared.
const SIZE_MAX: usize = 1 << 20;

/// Reads from the tier with `read`, and compares a hit with the file when it is its turn.
#[inline]
pub fn audited(
    tier: &Tier,
    id: FileId,
    fd: c_int,
    offset: u64,
    destination: &mut [u8],
    read: impl FnOnce(&mut [u8]) -> Lookup,
) -> Lookup {
    let token = tier.audit(id, offset, destination.len() as u64);
    let answer = keep_errno(|| read(destination));
    if let (Some(token), Lookup::Hit) = (token, &answer) {
        keep_errno(|| compare(tier, token, fd, offset, destination));
    }
    answer
}

/// When they differ, the program gets what the file has.
#[cold]
fn compare(tier: &Tier, token: AuditToken, fd: c_int, offset: u64, served: &mut [u8]) {
    if served.len() > SIZE_MAX {
        return;
    }
    let start = offset / ALIGN as u64 * ALIGN as u64;
    let within = (offset - start) as usize;
    let Ok(layout) =
        Layout::from_size_align((within + served.len()).next_multiple_of(ALIGN), ALIGN)
    else {
        return;
    };
    // SAFETY: the layout is not empty; the memory is read only as far as the kernel wrote it, and freed once.
    unsafe {
        let memory = alloc(layout);
        if memory.is_null() {
            return;
        }
        let got = real::pread64(fd, memory.cast(), layout.size(), start as i64);
        if got >= (within + served.len()) as isize {
            let in_file = slice::from_raw_parts(memory.add(within), served.len());
            if !tier.audited(token, served, in_file) {
                process::say_notice(tier);
                served.copy_from_slice(in_file);
            }
        }
        dealloc(memory, layout);
    }
}
