//! Changes other than writes: size, holes, copies from file to file.

use libc::{c_char, c_int, c_uint, c_ulong, off_t, size_t, ssize_t};
use tiercache::Reason;

use super::changing;
use super::name::{behind, identity};
use crate::descriptors::file;
use crate::process::{self, Side, count_bypass};
use crate::raw::keep_errno;
use crate::{files, real};

/// A copy from one file into another: which part of the second changes depends on its position, too.
fn copy(from: c_int, to: c_int, copy: impl FnOnce() -> ssize_t) -> ssize_t {
    if file(from).is_some() {
        count_bypass(Reason::Unsupported);
    }
    bracket(to, 0, u64::MAX, copy)
}

/// Everything from `offset` on leaves the tier, and stays out until the change is done.
fn bracket<T>(fd: c_int, offset: off_t, size: u64, change: impl FnOnce() -> T) -> T {
    let Some((tier, id)) = keep_errno(|| changing(fd)) else {
        return change();
    };
    let token = keep_errno(|| tier.write_begin(id, offset.max(0) as u64, size));
    let answer = change();
    keep_errno(|| tier.write_end(token, None));
    answer
}

fn to_the_end(offset: off_t) -> u64 {
    u64::MAX - offset.max(0) as u64
}

/// C10.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    bracket(fd, size, to_the_end(size), || unsafe {
        real::ftruncate64(fd, size)
    })
}

/// As `ftruncate64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(fd: c_int, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { ftruncate64(fd, size) }
}

/// As `bracket`, for a file that is found by its name. Any path may lead to a data file: which file it is, its identity says.
///
/// # Safety
/// As `identity`.
pub(super) unsafe fn by_name<T>(
    folder: c_int,
    path: *const c_char,
    size: off_t,
    change: impl FnOnce() -> T,
) -> T {
    match process::side() {
        Side::Owner(tier) => {
            let token = keep_errno(|| {
                // SAFETY: the caller's promise.
                let identity = unsafe { identity(folder, path, true) }?;
                let id = files::find(&identity)?.id()?;
                Some(tier.write_begin(id, size.max(0) as u64, to_the_end(size)))
            });
            let answer = change();
            if let Some(token) = token {
                keep_errno(|| tier.write_end(token, None));
            }
            answer
        }
        Side::Child => {
            // SAFETY: the caller's promise. Another name of a data file is not seen in a child.
            if unsafe { behind(folder, path, true) }.is_some() {
                process::spoil();
            }
            change()
        }
        Side::Spoilt(_) | Side::Nobody => change(),
    }
}

/// C10, by path.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truncate64(path: *const c_char, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { by_name(libc::AT_FDCWD, path, size, || real::truncate64(path, size)) }
}

/// As `truncate64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truncate(path: *const c_char, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { truncate64(path, size) }
}

/// C11: punching and zeroing touch their range, collapsing and inserting all that follows.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int {
    let moves = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    let touched = if mode & moves != 0 {
        to_the_end(offset)
    } else {
        size.max(1) as u64
    };
    // SAFETY: the caller's promise.
    bracket(fd, offset, touched, || unsafe {
        real::fallocate64(fd, mode, offset, size)
    })
}

/// As `fallocate64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fallocate64(fd, mode, offset, size) }
}

/// C11; the C library writes zeroes where the file system cannot allocate.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    bracket(fd, offset, size.max(1) as u64, || unsafe {
        real::posix_fallocate64(fd, offset, size)
    })
}

/// As `posix_fallocate64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fallocate(fd: c_int, offset: off_t, size: off_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { posix_fallocate64(fd, offset, size) }
}

/// C12.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    size: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    copy(from, to, || unsafe {
        real::sendfile64(to, from, offset, size)
    })
}

/// As `sendfile64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    size: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { sendfile64(to, from, offset, size) }
}

/// C12.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    size: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's promise.
    copy(from, to, || unsafe {
        real::copy_file_range(from, from_offset, to, to_offset, size, flags)
    })
}

/// C12.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    size: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's promise.
    copy(from, to, || unsafe {
        real::splice(from, from_offset, to, to_offset, size, flags)
    })
}

/// C24: a clone, a hole, zeroes: which of the file systems' many requests change the content, nobody can list.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    // SAFETY: the caller's promise.
    bracket(fd, 0, u64::MAX, || unsafe {
        real::ioctl(fd, request, argument)
    })
}
