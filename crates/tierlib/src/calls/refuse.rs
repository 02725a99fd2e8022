//! Ways by which a data file could change unseen: refused, or the file is not cached from then on.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint, c_void, off_t, size_t};

use super::name::behind;
use crate::descriptors::{came_without_path, closed, closing, lose, writable};
use crate::process::{self, Side};
use crate::raw::keep_errno;
use crate::{files, real};

/// C16.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    size: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // MAP_SHARED_VALIDATE has the bit of MAP_SHARED too; the mapping may be made writable later.
    if fd >= 0 && flags & libc::MAP_ANONYMOUS == 0 && flags & libc::MAP_SHARED != 0 && writable(fd)
    {
        lose(fd);
    }
    // SAFETY: the caller's promise.
    unsafe { real::mmap64(at, size, protection, flags, fd, offset) }
}

/// As `mmap64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    size: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap64(at, size, protection, flags, fd, offset) }
}

/// Whether a stream of this mode may write.
///
/// # Safety
/// It must end in a zero byte.
unsafe fn writes(mode: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let letters = unsafe { CStr::from_ptr(mode) }.to_bytes();
    letters.iter().any(|letter| b"wa+".contains(letter))
}

/// # Safety
/// The mode must be null or end in a zero byte; the path is as for openat.
unsafe fn stream_opened(path: *const c_char, mode: *const c_char) {
    // SAFETY: the caller's promise.
    let found = unsafe {
        if path.is_null() || mode.is_null() || !writes(mode) {
            return;
        }
        behind(libc::AT_FDCWD, path, true)
    };
    match (process::side(), found) {
        (Side::Owner(_) | Side::Nobody, Some(identity)) => {
            keep_errno(|| files::never_cache(&identity));
        }
        (Side::Child, Some(_)) => process::spoil(),
        _ => {}
    }
}

/// C17: a stream's writes cannot be seen.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        // Before, too: mode "w" cuts the file off within the C library, and its pages have to be gone by then.
        stream_opened(path, mode);
        let stream = real::fopen64(path, mode);
        if !stream.is_null() {
            stream_opened(path, mode);
        }
        stream
    }
}

/// As `fopen64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { fopen64(path, mode) }
}

/// C17: the descriptor belongs to the stream from here on, whose fclose is not seen either.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let stream = unsafe { real::fdopen(fd, mode) };
    if !stream.is_null() {
        // The descriptor may still be written to by its number, and is not watched any more.
        if writable(fd) {
            lose(fd);
        }
        closed(closing(fd));
    }
    stream
}

/// C17.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        stream_opened(path, mode);
        let stream = real::freopen64(path, mode, stream);
        if !stream.is_null() && path.is_null() {
            // The same file with another mode: only its descriptor says which.
            if writes(mode) {
                came_without_path(libc::fileno(stream.cast()), libc::O_RDWR);
            }
        } else if !stream.is_null() {
            stream_opened(path, mode);
        }
        stream
    }
}

/// As `freopen64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { freopen64(path, mode, stream) }
}

/// C18: POSIX AIO writes from threads of the C library.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write64(request: *mut c_void) -> c_int {
    // SAFETY: the caller's promise; the first field of an aiocb is the descriptor.
    unsafe {
        if !request.is_null() {
            lose(*request.cast::<c_int>());
        }
        real::aio_write64(request)
    }
}

/// As `aio_write64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write(request: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { aio_write64(request) }
}

/// C18: a list of such requests, of which some may be writes.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lio_listio64(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise; the first field of an aiocb is the descriptor.
    unsafe {
        for number in 0..usize::try_from(count).unwrap_or(0) {
            let request = list.add(number).read();
            if !request.is_null() {
                lose(*request.cast::<c_int>());
            }
        }
        real::lio_listio64(mode, list, count, event)
    }
}

/// As `lio_listio64`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lio_listio(
    mode: c_int,
    list: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lio_listio64(mode, list, count, event) }
}

/// C19: the functions of a shared liburing that make a ring. The kernel refuses those of a static one (see `filter`).
macro_rules! rings {
    ($($name:ident($($argument:ty),*);)*) => { $(
        /// C19.
        ///
        /// # Safety
        /// Touches nothing.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $argument),*) -> c_int {
            // A program that has no tier, as one that the server starts, says nothing.
            if process::is_ready() {
                process::refuse_io_uring();
            }
            -libc::ENOSYS
        }
    )* };
}

rings! {
    io_uring_queue_init(c_uint, *mut c_void, c_uint);
    io_uring_queue_init_params(c_uint, *mut c_void, *mut c_void);
    io_uring_queue_init_mem(c_uint, *mut c_void, *mut c_void, *mut c_void, size_t);
    io_uring_setup(c_uint, *mut c_void);
}
