//! Whether memory that the program names can be read: what the kernel would answer with EFAULT must not be a SIGSEGV here.

use std::cell::Cell;

use crate::raw::kernel;

/// The smallest page of the systems that there are.
const PAGE: usize = 4096;
/// Pages remembered by each thread: programs keep their control blocks in the same places.
const REMEMBERED: usize = 16;

thread_local! {
    static READABLE: Cell<[usize; REMEMBERED]> = const { Cell::new([usize::MAX; REMEMBERED]) };
}

/// Whether the kernel has no EFAULT for any page of the range. Costs a system call for each page that this thread has not asked for
/// lately. No proof: a page that was unmapped after that is taken for readable, and so is each where the kernel's answer is another.
pub fn is_readable<T>(start: *const T, count: usize) -> bool {
    let start = start as usize;
    let Some(end) = count
        .checked_mul(size_of::<T>())
        .and_then(|bytes| start.checked_add(bytes))
    else {
        return false;
    };
    READABLE.with(|cell| {
        let mut pages = cell.get();
        let first = start / PAGE;
        let all = (first..=end.saturating_sub(1).max(start) / PAGE).all(|page| {
            let known = &mut pages[page % REMEMBERED];
            if *known != page && !page_is_readable(page * PAGE) {
                return false;
            }
            *known = page;
            true
        });
        cell.set(pages);
        all
    })
}

/// Asks the kernel to copy a byte of this process's memory. Where it may not do that for anybody, the program is trusted.
fn page_is_readable(at: usize) -> bool {
    let mut byte = 0u8;
    let to = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let from = libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: 1,
    };
    let (to, from) = (&raw const to as usize, &raw const from as usize);
    // SAFETY: the byte has room for what is copied; the kernel checks the other address.
    let answer = unsafe {
        let process = libc::getpid() as usize;
        kernel(libc::SYS_process_vm_readv, [process, to, 1, from, 1, 0])
    };
    answer != -(libc::EFAULT as isize)
}
