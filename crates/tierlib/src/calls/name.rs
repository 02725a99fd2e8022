//! Names come and go: what loses its last name leaves the tier with its last descriptor.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint};
use tiercache::Identity;

use crate::process::{self, Side};
use crate::raw::keep_errno;
use crate::{files, real};

/// Who is behind a name; None where there is no tier, and none will be opened. `follow`: a symbolic link stands for what it leads to.
///
/// # Safety
/// As for openat: what is no path is refused by the kernel.
pub(super) unsafe fn identity(
    folder: c_int,
    path: *const c_char,
    follow: bool,
) -> Option<Identity> {
    if matches!(process::side(), Side::Nobody) && !process::may_open() {
        return None;
    }
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // Without a descriptor: the file changes also where none is free. SAFETY: the caller's promise.
    keep_errno(|| unsafe { Identity::behind(folder, path, flags) }.ok())
}

/// Who is behind a name that a rule names; None for other names, and as `identity`.
///
/// # Safety
/// As `identity`.
pub(super) unsafe fn behind(folder: c_int, path: *const c_char, follow: bool) -> Option<Identity> {
    // SAFETY: the caller's promise, and the kernel has read the path by the second call.
    unsafe {
        let found = identity(folder, path, follow)?;
        process::named(path).then_some(found)
    }
}

fn gone(identity: Option<Identity>) {
    let Some(identity) = identity else { return };
    match process::side() {
        Side::Owner(tier) => keep_errno(|| files::unlinked(tier, &identity)),
        Side::Child => process::spoil(),
        Side::Spoilt(_) | Side::Nobody => {}
    }
}

/// C13.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let (before, answer) = unsafe {
        (
            behind(folder, path, false),
            real::unlinkat(folder, path, flags),
        )
    };
    if answer == 0 {
        gone(before);
    }
    answer
}

/// C13.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// C13.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (before, answer) = unsafe { (behind(libc::AT_FDCWD, path, false), real::remove(path)) };
    if answer == 0 {
        gone(before);
    }
    answer
}

/// A file has a name that a rule names and one that no rule names, one after the other or both: descriptors that come by
/// the second are not watched, and may write to it. `name` is one of the two that it has now.
///
/// # Safety
/// The kernel has read all of them.
unsafe fn changed_sides(
    old: *const c_char,
    new: *const c_char,
    folder: c_int,
    name: *const c_char,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if matches!(process::side(), Side::Owner(_) | Side::Nobody)
            && process::named(old) != process::named(new)
            && let Some(identity) = identity(folder, name, false)
        {
            keep_errno(|| files::never_cache(&identity));
        }
    }
}

/// A file that had a name that a rule names has another one.
///
/// # Safety
/// The kernel has read the path.
unsafe fn renamed(identity: Option<Identity>, folder: c_int, path: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(identity) = identity
            && let Side::Owner(tier) = process::side()
            && process::named(path)
        {
            let path = CStr::from_ptr(path);
            // One below a folder leads elsewhere without it.
            if folder == libc::AT_FDCWD || path.to_bytes().starts_with(b"/") {
                keep_errno(|| files::renamed(tier, &identity, path));
            }
        }
    }
}

/// C14.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let replaced = behind(to, new, false);
        let moved = behind(from, old, false);
        let answer = if flags == 0 {
            real::renameat(from, old, to, new)
        } else {
            real::renameat2(from, old, to, new, flags)
        };
        if answer == 0 {
            let exchanged = flags & libc::RENAME_EXCHANGE != 0;
            // Two names of one file: rename does nothing.
            if replaced != moved && !exchanged {
                gone(replaced);
            }
            changed_sides(old, new, to, new);
            renamed(moved, to, new);
            if exchanged {
                changed_sides(old, new, from, old);
                renamed(replaced, from, old);
            }
        }
        answer
    }
}

/// C14.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { renameat2(from, old, to, new, 0) }
}

/// C14.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { renameat2(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0) }
}

/// C14.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let answer = real::linkat(from, old, to, new, flags);
        if answer == 0 {
            changed_sides(old, new, to, new);
        }
        answer
    }
}

/// C14.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { linkat(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0) }
}
