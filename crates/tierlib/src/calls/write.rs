//! Writes: told to the tier before, done on the file, told after.

use std::slice;

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::changing;
use crate::descriptors::file;
use crate::probe::is_readable;
use crate::raw::keep_errno;
use crate::real;

/// What a write will touch, as far as it can be known before.
enum Where {
    /// From this offset, so many bytes.
    At(u64, u64),
    /// The descriptor appends, or has a position of its own.
    Anywhere,
}

/// Linux appends on O_APPEND descriptors whatever the offset of pwrite says.
fn target(fd: c_int, offset: off_t, size: usize) -> Where {
    use std::sync::atomic::Ordering::Acquire;
    if offset < 0 || file(fd).is_some_and(|file| file.appends.load(Acquire)) {
        return Where::Anywhere;
    }
    Where::At(offset as u64, size as u64)
}

/// The most that the kernel writes at once, in bytes.
const WRITE_BYTES_MAX: usize = 0x7fff_f000;

/// Brackets a write. `data` is where that lies which the file holds there after full success, and its size, if it is in one piece.
///
/// # Safety
/// Nobody changes what the kernel took from there until this returns.
unsafe fn bracket(
    fd: c_int,
    target: Where,
    data: Option<(*const c_void, usize)>,
    write: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some((tier, id)) = keep_errno(|| changing(fd)) else {
        return write();
    };
    let (offset, size) = match target {
        Where::At(_, 0) => return write(),
        Where::At(offset, size) => (offset, size),
        Where::Anywhere => (0, u64::MAX),
    };
    let token = keep_errno(|| tier.write_begin(id, offset, size));
    let answer = write();
    let all = data.filter(|(start, size)| {
        let whole = *size <= WRITE_BYTES_MAX && answer == *size as ssize_t;
        whole && matches!(target, Where::At(..)) && !start.is_null()
    });
    // SAFETY: the kernel has read all of it; the rest is the caller's promise.
    let content = all.map(|(start, size)| unsafe { slice::from_raw_parts(start.cast(), size) });
    keep_errno(|| tier.write_end(token, content));
    answer
}

/// C7.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    data: *const c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    if file(fd).is_none() {
        // SAFETY: the caller's promise.
        return unsafe { real::pwrite64(fd, data, size, offset) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        bracket(fd, target(fd, offset, size), Some((data, size)), || {
            real::pwrite64(fd, data, size, offset)
        })
    }
}

/// As `pwrite64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(
    fd: c_int,
    data: *const c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pwrite64(fd, data, size, offset) }
}

/// Bytes of all parts; 0 for what the kernel refuses.
fn total(parts: *const iovec, count: c_int) -> usize {
    if !(1..=1024).contains(&count) || !is_readable(parts, count as usize) {
        return 0;
    }
    // SAFETY: the promise of the writes' callers; the probe found no EFAULT.
    let parts = unsafe { slice::from_raw_parts(parts, count as usize) };
    parts
        .iter()
        .fold(0, |sum, part| sum.saturating_add(part.iov_len))
}

/// C8.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if count == 1 && file(fd).is_some() && is_readable(parts, 1) {
            return pwrite64(fd, (*parts).iov_base, (*parts).iov_len, offset);
        }
        if file(fd).is_none() {
            return real::pwritev64(fd, parts, count, offset);
        }
        bracket(fd, target(fd, offset, total(parts, count)), None, || {
            real::pwritev64(fd, parts, count, offset)
        })
    }
}

/// As `pwritev64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pwritev64(fd, parts, count, offset) }
}

/// C8; flags can turn it into an append, and an offset of -1 means the descriptor's own position.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if file(fd).is_none() {
            return real::pwritev64v2(fd, parts, count, offset, flags);
        }
        let touched = if flags & libc::RWF_APPEND != 0 {
            Where::Anywhere
        } else {
            target(fd, offset, total(parts, count))
        };
        bracket(fd, touched, None, || {
            real::pwritev64v2(fd, parts, count, offset, flags)
        })
    }
}

/// As `pwritev64v2`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pwritev64v2(fd, parts, count, offset, flags) }
}

/// C9: where it lands is only known to the kernel when descriptors share a position, so all of the file leaves.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, size: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if file(fd).is_none() {
            return real::write(fd, data, size);
        }
        bracket(fd, Where::Anywhere, None, || real::write(fd, data, size))
    }
}

/// As `write`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if file(fd).is_none() {
            return real::writev(fd, parts, count);
        }
        bracket(fd, Where::Anywhere, None, || real::writev(fd, parts, count))
    }
}

/// The C library's other name for `pwrite64`.
///
/// # Safety
/// As `pwrite64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pwrite64(
    fd: c_int,
    data: *const c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pwrite64(fd, data, size, offset) }
}

/// The C library's other name for `write`.
///
/// # Safety
/// As `write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __write(fd: c_int, data: *const c_void, size: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { write(fd, data, size) }
}
