//! Descriptors come and go.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint, mode_t};

use super::change::by_name;
use crate::descriptors::{
    around_own, came_without_path, closed, closed_range, closing, closing_range, duplicated, file,
    is_own, lose_file, opened, opened_other,
};
use crate::process::{self, Side};
use crate::raw::{keep_errno, kernel, set_errno};
use crate::real;

/// # Safety
/// As the call that opened.
unsafe fn after(fd: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: where the open succeeded the kernel has read the path, up to its zero byte.
    unsafe {
        if fd >= 0 && process::named(path) {
            opened(fd, CStr::from_ptr(path), flags);
        } else if fd >= 0 {
            opened_other(fd);
        }
    }
    fd
}

/// An open; one that cuts its file takes the pages out first.
///
/// # Safety
/// As the call that opens.
unsafe fn cutting(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    open: impl FnOnce() -> c_int,
) -> c_int {
    if flags & libc::O_TRUNC == 0 {
        return open();
    }
    // SAFETY: the caller's promise.
    unsafe { by_name(folder, path, 0, open) }
}

/// The folder of paths without one.
const HERE: c_int = libc::AT_FDCWD;

macro_rules! opens {
    ($($name:ident($($arg:ident: $type:ty),*) = $folder:ident, $path:ident, $real:expr, $flags:expr;)*) => { $(
        /// C1.
        ///
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the caller's promise, handed on.
            unsafe {
                let path = $path as *const c_char;
                after(cutting($folder, path, $flags, || $real), path, $flags)
            }
        }
    )* };
}

opens! {
    open(path: *const c_char, flags: c_int, mode: mode_t) = HERE, path, real::open64(path, flags, mode), flags;
    open64(path: *const c_char, flags: c_int, mode: mode_t) = HERE, path, real::open64(path, flags | libc::O_LARGEFILE, mode), flags;
    __open(path: *const c_char, flags: c_int, mode: mode_t) = HERE, path, real::open64(path, flags, mode), flags;
    __open64(path: *const c_char, flags: c_int, mode: mode_t) = HERE, path, real::open64(path, flags | libc::O_LARGEFILE, mode), flags;
    __open_2(path: *const c_char, flags: c_int) = HERE, path, real::open64(path, flags, 0), flags;
    __open64_2(path: *const c_char, flags: c_int) = HERE, path, real::open64(path, flags, 0), flags;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) = folder, path, real::openat64(folder, path, flags, mode), flags;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) = folder, path, real::openat64(folder, path, flags, mode), flags;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) = folder, path, real::openat64(folder, path, flags, 0), flags;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) = folder, path, real::openat64(folder, path, flags, 0), flags;
    creat(path: *const c_char, mode: mode_t) = HERE, path, real::open64(path, CREATE, mode), CREATE;
    creat64(path: *const c_char, mode: mode_t) = HERE, path, real::open64(path, CREATE, mode), CREATE;
    mkstemp(path: *mut c_char) = HERE, path, real::mkostemps64(path, 0, 0), CREATE_NEW;
    mkstemp64(path: *mut c_char) = HERE, path, real::mkostemps64(path, 0, 0), CREATE_NEW;
    mkostemp(path: *mut c_char, flags: c_int) = HERE, path, real::mkostemps64(path, 0, flags), CREATE_NEW | flags;
    mkostemp64(path: *mut c_char, flags: c_int) = HERE, path, real::mkostemps64(path, 0, flags), CREATE_NEW | flags;
    mkstemps(path: *mut c_char, suffix: c_int) = HERE, path, real::mkostemps64(path, suffix, 0), CREATE_NEW;
    mkstemps64(path: *mut c_char, suffix: c_int) = HERE, path, real::mkostemps64(path, suffix, 0), CREATE_NEW;
    mkostemps(path: *mut c_char, suffix: c_int, flags: c_int) = HERE, path, real::mkostemps64(path, suffix, flags), CREATE_NEW | flags;
    mkostemps64(path: *mut c_char, suffix: c_int, flags: c_int) = HERE, path, real::mkostemps64(path, suffix, flags), CREATE_NEW | flags;
}

const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
const CREATE_NEW: c_int = libc::O_CREAT | libc::O_RDWR | libc::O_EXCL;

/// C24.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open_by_handle_at(
    mount: c_int,
    handle: *mut libc::c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let fd = unsafe { real::open_by_handle_at(mount, handle, flags) };
    if fd >= 0 {
        came_without_path(fd, flags);
    }
    fd
}

/// The answer for the tier's own descriptors, which are not open as far as the program knows.
fn not_open() -> c_int {
    set_errno(libc::EBADF);
    -1
}

/// C2 and C23.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if is_own(fd) {
        return not_open();
    }
    let taken = closing(fd);
    // SAFETY: the caller's promise.
    let answer = unsafe { real::close(fd) };
    // Network file systems may write at the close only, and say here that they could not.
    if let (true, Some((file, _))) = (answer != 0, &taken) {
        lose_file(file);
    }
    closed(taken);
    answer
}

/// C2 and C23.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    let taken = closes.then(|| keep_errno(|| closing_range(first as usize, last as usize)));
    let answer = around_own(first, last, |first, last| {
        // SAFETY: the caller's promise.
        unsafe { real::close_range(first, last, flags) }
    });
    if let Some(taken) = taken {
        keep_errno(|| closed_range(taken, answer == 0));
    }
    answer
}

/// C2 and C23.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    let first = first.max(0) as c_uint;
    keep_errno(|| {
        let taken = closing_range(first as usize, usize::MAX);
        // SAFETY: the caller's promise.
        let close = |first, last| unsafe { real::close_range(first, last, 0) };
        if around_own(first, c_uint::MAX, close) != 0 {
            close_each_from(first);
        }
        closed_range(taken, true);
    });
}

/// For kernels without close_range (before Linux 5.9).
fn close_each_from(first: c_uint) {
    // SAFETY: the call has no argument but a constant.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for fd in (first as usize..limit.max(0) as usize).filter(|fd| !is_own(*fd as c_int)) {
        // SAFETY: the program asked for it.
        unsafe { kernel(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
    }
}

/// C3.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let answer = unsafe { real::dup(fd) };
    if answer >= 0 {
        duplicated(fd, answer);
    }
    answer
}

/// C3 and C23.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, wanted: c_int) -> c_int {
    if is_own(fd) || is_own(wanted) {
        return not_open();
    }
    // SAFETY: the caller's promise.
    let answer = unsafe { real::dup2(fd, wanted) };
    if answer >= 0 {
        duplicated(fd, answer);
    }
    answer
}

/// C3 and C23.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, wanted: c_int, flags: c_int) -> c_int {
    if is_own(fd) || is_own(wanted) {
        return not_open();
    }
    // SAFETY: the caller's promise.
    let answer = unsafe { real::dup3(fd, wanted, flags) };
    if answer >= 0 {
        duplicated(fd, answer);
    }
    answer
}

/// C3 and C5. Locks go to the kernel untouched.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    if command == libc::F_SETFL
        && argument as c_int & libc::O_APPEND != 0
        && let Some(file) = file(fd)
    {
        file.appends
            .store(true, std::sync::atomic::Ordering::Release);
        // The owner's descriptor is the same open file: its writes append now, too.
        if matches!(process::side(), Side::Child) {
            process::spoil();
        }
    }
    // SAFETY: the caller's promise.
    let answer = unsafe { real::fcntl64(fd, command, argument) };
    if answer >= 0 && matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        duplicated(fd, answer);
    }
    answer
}

/// As `fcntl64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fcntl64(fd, command, argument) }
}

/// The C library's other name for `close`.
///
/// # Safety
/// As `close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __close(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { close(fd) }
}

/// The C library's other name for `dup2`.
///
/// # Safety
/// As `dup2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __dup2(fd: c_int, wanted: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { dup2(fd, wanted) }
}

/// The C library's other name for `fcntl`.
///
/// # Safety
/// As `fcntl64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fcntl64(fd, command, argument) }
}
