//! Syncs: what was written before and is now on stable storage may outlive a restart.

use libc::c_int;

use super::changing;
use crate::descriptors::lose;
use crate::raw::keep_errno;
use crate::real;

fn bracket(fd: c_int, sync: impl FnOnce() -> c_int) -> c_int {
    let Some((tier, id)) = keep_errno(|| changing(fd)) else {
        return sync();
    };
    let token = keep_errno(|| tier.sync_begin(id));
    let answer = sync();
    if answer == 0 {
        keep_errno(|| tier.synced(token));
    } else {
        // The kernel may have dropped what it could not write and say nothing at the next sync: nobody knows from
        // here on what the disk has.
        lose(fd);
    }
    answer
}

/// C15.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    bracket(fd, || unsafe { real::fsync(fd) })
}

/// C15.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    bracket(fd, || unsafe { real::fdatasync(fd) })
}
