//! Syncs: what was written before and is now on stable storage may outlive a restart.

use libc::c_int;

use crate::descriptors::{file, lose};
use crate::process::{self, Side};
use crate::raw::keep_errno;
use crate::real;

/// A sync changes nothing, so a child may make one.
fn bracket(fd: c_int, sync: impl FnOnce() -> c_int) -> c_int {
    let begin = || match process::side() {
        Side::Owner(tier) => Some((tier, tier.sync_begin(file(fd)?.id()?))),
        _ => None,
    };
    let begun = keep_errno(begin);
    let answer = sync();
    if answer != 0 {
        // The kernel may have dropped what it could not write and say nothing at the next sync, which may be another
        // process's: nobody knows from here on what the disk has.
        lose(fd);
    } else if let Some((tier, token)) = begun {
        keep_errno(|| tier.synced(token));
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
