//! The C library's own functions, found once by the constructor.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int, c_uint, c_ulong, c_void as void, iovec, mode_t, off_t, size_t, ssize_t};

use crate::raw::{call, keep_errno, set_errno};

/// Functions with what stands in for each before the constructor ran, and where the C library has none: `by_number` a system
/// call; `by_name` an answer, for functions that no system call replaces. Other libraries' constructors call those already
/// (libnuma's opens a stream), so they are found at their first call, too: they allocate anyway, as dlsym does.
macro_rules! real {
    (
        by_number { $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty = $early:expr;)* }
        by_name { $($named:ident($($given:ident: $kind:ty),*) -> $result:ty = $none:expr;)* }
    ) => {
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy)]
        enum Index { $($name,)* $($named,)* Count }

        static FOUND: [AtomicPtr<c_void>; Index::Count as usize] =
            [const { AtomicPtr::new(ptr::null_mut()) }; Index::Count as usize];

        /// Finds all of them. Allocates, as dlsym does: only the constructor may call it.
        pub fn find_all() {
            $(find(Index::$name, concat!(stringify!($name), "\0"));)*
            $(find(Index::$named, concat!(stringify!($named), "\0"));)*
        }

        $(
            /// The C library's function; before the constructor ran, or when it has none, the system call.
            ///
            /// # Safety
            /// As the function itself.
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: $type),*) -> $answer {
                let found = FOUND[Index::$name as usize].load(Ordering::Acquire);
                if found.is_null() {
                    #[allow(unused_unsafe)]
                    // SAFETY: the caller's promise.
                    return unsafe { $early } as $answer;
                }
                // SAFETY: dlsym found the function of this name, which has this signature.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> $answer = std::mem::transmute(found);
                    function($($arg),*)
                }
            }
        )*

        $(
            /// The C library's function, whenever it is called; ENOSYS when it has none.
            ///
            /// # Safety
            /// As the function itself.
            pub unsafe fn $named($($given: $kind),*) -> $result {
                let mut found = FOUND[Index::$named as usize].load(Ordering::Acquire);
                if found.is_null() {
                    found = keep_errno(|| find(Index::$named, concat!(stringify!($named), "\0")));
                }
                if found.is_null() {
                    set_errno(libc::ENOSYS);
                    return $none;
                }
                // SAFETY: dlsym found the function of this name, which has this signature.
                unsafe {
                    let function: unsafe extern "C" fn($($kind),*) -> $result = std::mem::transmute(found);
                    function($($given),*)
                }
            }
        )*
    };
}

/// Looks the function up; `name` ends in a zero byte.
fn find(index: Index, name: &'static str) -> *mut c_void {
    // SAFETY: the name ends in a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    FOUND[index as usize].store(found, Ordering::Release);
    found
}

const CWD: usize = libc::AT_FDCWD as usize;

real! {
    by_number {
        open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
            call(libc::SYS_openat, [CWD, path as usize, flags as usize, mode as usize, 0, 0]);
        openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
            call(libc::SYS_openat, [folder as usize, path as usize, flags as usize, mode as usize, 0, 0]);
        close(fd: c_int) -> c_int = call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int =
            call(libc::SYS_close_range, [first as usize, last as usize, flags as usize, 0, 0, 0]);
        dup(fd: c_int) -> c_int = call(libc::SYS_dup, [fd as usize, 0, 0, 0, 0, 0]);
        dup2(fd: c_int, wanted: c_int) -> c_int =
            if fd == wanted { if call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) < 0 { -1 } else { fd as isize } }
            else { call(libc::SYS_dup3, [fd as usize, wanted as usize, 0, 0, 0, 0]) };
        dup3(fd: c_int, wanted: c_int, flags: c_int) -> c_int =
            call(libc::SYS_dup3, [fd as usize, wanted as usize, flags as usize, 0, 0, 0]);
        fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int =
            call(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]);
        read(fd: c_int, data: *mut void, size: size_t) -> ssize_t =
            call(libc::SYS_read, [fd as usize, data as usize, size, 0, 0, 0]);
        readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t =
            call(libc::SYS_readv, [fd as usize, parts as usize, count as usize, 0, 0, 0]);
        pread64(fd: c_int, data: *mut void, size: size_t, offset: off_t) -> ssize_t =
            call(libc::SYS_pread64, [fd as usize, data as usize, size, offset as usize, 0, 0]);
        preadv64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
            call(libc::SYS_preadv, [fd as usize, parts as usize, count as usize, offset as usize, 0, 0]);
        preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
            call(libc::SYS_preadv2, [fd as usize, parts as usize, count as usize, offset as usize, 0, flags as usize]);
        write(fd: c_int, data: *const void, size: size_t) -> ssize_t =
            call(libc::SYS_write, [fd as usize, data as usize, size, 0, 0, 0]);
        writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t =
            call(libc::SYS_writev, [fd as usize, parts as usize, count as usize, 0, 0, 0]);
        pwrite64(fd: c_int, data: *const void, size: size_t, offset: off_t) -> ssize_t =
            call(libc::SYS_pwrite64, [fd as usize, data as usize, size, offset as usize, 0, 0]);
        pwritev64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
            call(libc::SYS_pwritev, [fd as usize, parts as usize, count as usize, offset as usize, 0, 0]);
        pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
            call(libc::SYS_pwritev2, [fd as usize, parts as usize, count as usize, offset as usize, 0, flags as usize]);
        ftruncate64(fd: c_int, size: off_t) -> c_int = call(libc::SYS_ftruncate, [fd as usize, size as usize, 0, 0, 0, 0]);
        truncate64(path: *const c_char, size: off_t) -> c_int =
            call(libc::SYS_truncate, [path as usize, size as usize, 0, 0, 0, 0]);
        fallocate64(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int =
            call(libc::SYS_fallocate, [fd as usize, mode as usize, offset as usize, size as usize, 0, 0]);
        posix_fallocate64(fd: c_int, offset: off_t, size: off_t) -> c_int =
            -crate::raw::kernel(libc::SYS_fallocate, [fd as usize, 0, offset as usize, size as usize, 0, 0]);
        fsync(fd: c_int) -> c_int = call(libc::SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]);
        fdatasync(fd: c_int) -> c_int = call(libc::SYS_fdatasync, [fd as usize, 0, 0, 0, 0, 0]);
        renameat(from: c_int, old: *const c_char, to: c_int, new: *const c_char) -> c_int =
            call(libc::SYS_renameat2, [from as usize, old as usize, to as usize, new as usize, 0, 0]);
        renameat2(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint) -> c_int =
            call(libc::SYS_renameat2, [from as usize, old as usize, to as usize, new as usize, flags as usize, 0]);
        linkat(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> c_int =
            call(libc::SYS_linkat, [from as usize, old as usize, to as usize, new as usize, flags as usize, 0]);
        unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int =
            call(libc::SYS_unlinkat, [folder as usize, path as usize, flags as usize, 0, 0, 0]);
        remove(path: *const c_char) -> c_int = call(libc::SYS_unlinkat, [CWD, path as usize, 0, 0, 0, 0]);
        mmap64(at: *mut void, size: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut void =
            call(libc::SYS_mmap, [at as usize, size, protection as usize, flags as usize, fd as usize, offset as usize]);
        sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t =
            call(libc::SYS_sendfile, [to as usize, from as usize, offset as usize, size, 0, 0]);
        copy_file_range(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint) -> ssize_t =
            call(libc::SYS_copy_file_range, [from as usize, from_offset as usize, to as usize, to_offset as usize, size, flags as usize]);
        splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint) -> ssize_t =
            call(libc::SYS_splice, [from as usize, from_offset as usize, to as usize, to_offset as usize, size, flags as usize]);
        ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int =
            call(libc::SYS_ioctl, [fd as usize, request as usize, argument, 0, 0, 0]);
        open_by_handle_at(mount: c_int, handle: *mut void, flags: c_int) -> c_int =
            call(libc::SYS_open_by_handle_at, [mount as usize, handle as usize, flags as usize, 0, 0, 0]);
    }
    by_name {
        fopen64(path: *const c_char, mode: *const c_char) -> *mut void = ptr::null_mut();
        fdopen(fd: c_int, mode: *const c_char) -> *mut void = ptr::null_mut();
        mkostemps64(path: *mut c_char, suffix: c_int, flags: c_int) -> c_int = -1;
        freopen64(path: *const c_char, mode: *const c_char, stream: *mut void) -> *mut void = ptr::null_mut();
        lio_listio64(mode: c_int, list: *const *mut void, count: c_int, event: *mut void) -> c_int = -1;
        aio_write64(request: *mut void) -> c_int = -1;
    }
}
