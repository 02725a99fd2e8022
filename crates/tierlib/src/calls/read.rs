//! Reads: served by position; by the descriptor's own position they go to the file, which is always current.

use std::slice;

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use tiercache::{FileId, Lookup, Reason, Tier};

use super::audit::audited;
use crate::descriptors::{file, readable};
use crate::probe::is_readable;
use crate::process::{self, Side, count_bypass};
use crate::raw::keep_errno;
use crate::real;

/// The tier and the file of a descriptor whose reads may be served.
#[inline]
pub(super) fn served(fd: c_int) -> Option<(&'static Tier, FileId)> {
    let id = file(fd)?.id()?;
    match process::side() {
        Side::Owner(tier) if readable(fd) => Some((tier, id)),
        Side::Spoilt(tier) => {
            tier.bypass(Reason::Forked);
            None
        }
        _ => None,
    }
}

/// Whether a hit may copy there: what the kernel would refuse with EFAULT or EINVAL is left to it.
#[inline]
pub(super) fn plausible(data: *mut c_void, size: usize, offset: off_t) -> bool {
    let top = isize::MAX as usize;
    size > 0
        && size <= 0x7fff_f000
        && !data.is_null()
        && (data as usize)
            .checked_add(size)
            .is_some_and(|end| end <= top)
        && offset >= 0
        && offset.checked_add(size as off_t).is_some()
}

/// C4.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    let Some((tier, id)) = served(fd).filter(|_| plausible(data, size, offset)) else {
        // SAFETY: the caller's promise.
        return unsafe { real::pread64(fd, data, size, offset) };
    };
    // SAFETY: the caller gives size writable bytes.
    let destination = unsafe { slice::from_raw_parts_mut(data.cast::<u8>(), size) };
    let at = offset as u64;
    match audited(tier, id, fd, at, destination, |destination| {
        tier.read(id, at, destination)
    }) {
        Lookup::Hit => size as ssize_t,
        // SAFETY: the caller's promise.
        Lookup::Bypass(_) => unsafe { real::pread64(fd, data, size, offset) },
        Lookup::Miss(token) => {
            // SAFETY: the caller's promise.
            let answer = unsafe { real::pread64(fd, data, size, offset) };
            if answer > 0 {
                // SAFETY: the kernel wrote that many bytes there.
                let got = unsafe { slice::from_raw_parts(data.cast::<u8>(), answer as usize) };
                keep_errno(|| tier.fill(token, got));
            }
            answer
        }
    }
}

/// As `pread64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pread64(fd, data, size, offset) }
}

fn check(size: usize, room: usize) {
    if size > room {
        process::say("upshift tier: a read is larger than its buffer: the process ends\n");
        std::process::abort();
    }
}

/// As `pread64`, for programs built with _FORTIFY_SOURCE.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread64_chk(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    check(size, room);
    // SAFETY: the caller's promise.
    unsafe { pread64(fd, data, size, offset) }
}

/// As `__pread64_chk`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread_chk(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { __pread64_chk(fd, data, size, offset, room) }
}

/// Serves all parts of a vectored read, or none: how many bytes. It counts once, as a hit or as a bypass; `missing` is the
/// reason where pages are not in the tier.
///
/// # Safety
/// If `parts` can be read, they must be parts of writable memory.
pub(super) unsafe fn serve_parts(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    missing: Reason,
) -> Option<ssize_t> {
    let (tier, id) = served(fd)?;
    if !(1..=1024).contains(&count) || offset < 0 || !is_readable(parts, count as usize) {
        return None;
    }
    let mut end = offset;
    // SAFETY: the caller's promise; the probe found no EFAULT.
    for part in unsafe { slice::from_raw_parts(parts, count as usize) } {
        if !plausible(part.iov_base, part.iov_len, end) {
            return None;
        }
        // SAFETY: the caller's promise.
        let destination =
            unsafe { slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), part.iov_len) };
        let at = end as u64;
        if let Lookup::Bypass(reason) = audited(tier, id, fd, at, destination, |destination| {
            tier.read_part(id, at, destination, missing)
        }) {
            tier.bypass(reason);
            return None;
        }
        end += part.iov_len as off_t;
    }
    tier.parts_read(id, (end - offset) as u64);
    Some((end - offset) as ssize_t)
}

/// C4, for several parts; a miss is not filled.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if count == 1 && file(fd).is_some() && is_readable(parts, 1) {
            return pread64(fd, (*parts).iov_base, (*parts).iov_len, offset);
        }
        serve_parts(fd, parts, count, offset, Reason::Unsupported)
            .unwrap_or_else(|| real::preadv64(fd, parts, count, offset))
    }
}

/// As `preadv64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { preadv64(fd, parts, count, offset) }
}

/// As `preadv64` without flags and with a position; otherwise straight to the file.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        if flags & !libc::RWF_HIPRI == 0 && offset >= 0 {
            return serve_parts(fd, parts, count, offset, Reason::Unsupported)
                .unwrap_or_else(|| real::preadv64v2(fd, parts, count, offset, flags));
        }
        real::preadv64v2(fd, parts, count, offset, flags)
    }
}

/// As `preadv64v2`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { preadv64v2(fd, parts, count, offset, flags) }
}

/// C6.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, size: size_t) -> ssize_t {
    if file(fd).is_some() {
        count_bypass(Reason::Unsupported);
    }
    // SAFETY: the caller's promise.
    unsafe { real::read(fd, data, size) }
}

/// C6.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    room: size_t,
) -> ssize_t {
    check(size, room);
    // SAFETY: the caller's promise.
    unsafe { read(fd, data, size) }
}

/// C6.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if file(fd).is_some() {
        count_bypass(Reason::Unsupported);
    }
    // SAFETY: the caller's promise.
    unsafe { real::readv(fd, parts, count) }
}

/// The C library's other name for `pread64`.
///
/// # Safety
/// As `pread64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread64(
    fd: c_int,
    data: *mut c_void,
    size: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pread64(fd, data, size, offset) }
}

/// The C library's other name for `read`.
///
/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read(fd: c_int, data: *mut c_void, size: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { read(fd, data, size) }
}
