//! System calls by number: those that a server is known to make so, or that close descriptors.

use libc::{c_int, c_long, c_uint};

use super::{aio, open};
use crate::process;
use crate::raw::{call, kernel, set_errno};

/// libaio's functions answer with errors as negative numbers, the C library's `syscall` with -1 and errno.
fn with_errno(answer: c_int) -> c_long {
    if answer < 0 {
        set_errno(-answer);
        return -1;
    }
    c_long::from(answer)
}

/// C2, C3, C20 and C23 by number; C19. Everything else goes on as it is.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise, for the call of that number.
    unsafe {
        if !process::is_ready() {
            return call(number, [a, b, c, d, e, f]) as c_long;
        }
        match number {
            libc::SYS_io_uring_setup => {
                process::refuse_io_uring();
                with_errno(-libc::ENOSYS)
            }
            libc::SYS_close => open::close(a as c_int).into(),
            libc::SYS_close_range => open::close_range(a as c_uint, b as c_uint, c as c_int).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => open::dup2(a as c_int, b as c_int).into(),
            libc::SYS_dup3 => open::dup3(a as c_int, b as c_int, c as c_int).into(),
            libc::SYS_io_submit => with_errno(aio::io_submit(a, b as c_long, c as *mut _)),
            // MariaDB reaps its completions so, because libaio's own io_getevents looks into the ring.
            libc::SYS_io_getevents => with_errno(aio::io_getevents(
                a,
                b as c_long,
                c as c_long,
                d as *mut _,
                e as *mut _,
            )),
            aio::IO_PGETEVENTS => {
                let answer = kernel(number, [a, b, c, d, e, f]);
                with_errno(aio::reaped(answer, d as *const _))
            }
            _ => call(number, [a, b, c, d, e, f]) as c_long,
        }
    }
}
