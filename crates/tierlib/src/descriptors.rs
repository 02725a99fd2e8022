//! Which file is behind a descriptor: an array by descriptor number, read without a lock.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use libc::c_int;
use tiercache::{Identity, own};

use crate::files::{self, File};
use crate::process::{self, Side};
use crate::raw::keep_errno;

/// Descriptors beyond are not cached. The array is 16 MiB of untouched address space.
const DESCRIPTORS: usize = 1 << 20;

struct Slot {
    file: AtomicPtr<File>,
    access: AtomicU32,
}

static SLOTS: [Slot; DESCRIPTORS] = [const {
    Slot {
        file: AtomicPtr::new(ptr::null_mut()),
        access: AtomicU32::new(0),
    }
}; DESCRIPTORS];
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// The file behind a descriptor.
#[inline]
pub fn file(fd: RawFd) -> Option<&'static File> {
    let slot = SLOTS.get(fd as usize)?;
    // SAFETY: files are never freed.
    unsafe { slot.file.load(Ordering::Acquire).as_ref() }
}

/// Whether the descriptor was opened for reading.
#[inline]
pub fn readable(fd: RawFd) -> bool {
    access(fd) != libc::O_WRONLY
}

/// Whether the descriptor was opened for writing.
#[inline]
pub fn writable(fd: RawFd) -> bool {
    access(fd) != libc::O_RDONLY
}

fn access(fd: RawFd) -> c_int {
    SLOTS
        .get(fd as usize)
        .map_or(0, |slot| slot.access.load(Ordering::Relaxed) as c_int)
}

fn put(fd: RawFd, file: &'static File, access: c_int) {
    let Some(slot) = SLOTS.get(fd as usize) else {
        if let Side::Owner(tier) = process::side() {
            file.bypass(tier);
        }
        return;
    };
    slot.access.store(access as u32, Ordering::Relaxed);
    slot.file
        .store(ptr::from_ref(file).cast_mut(), Ordering::Release);
    HIGHEST.fetch_max(fd as usize, Ordering::Relaxed);
}

/// Whether the number is one of the tier's own descriptors: to the program it is not open. Children have tables of their own.
pub fn is_own(fd: RawFd) -> bool {
    own::is_own(fd) && process::owns_tables()
}

/// Calls `close` with each part of `first..=last` that lies between the tier's own descriptors; its first answer that is not 0.
pub fn around_own(first: u32, last: u32, mut close: impl FnMut(u32, u32) -> c_int) -> c_int {
    let mut from = first;
    let lowest = |from| own::lowest_from(from).filter(|own| *own <= last);
    while let Some(own) = lowest(from).filter(|own| is_own(*own as RawFd)) {
        if from < own {
            let answer = close(from, own - 1);
            if answer != 0 {
                return answer;
            }
        }
        from = own + 1;
        if from > last {
            return 0;
        }
    }
    close(from, last)
}

/// After the open of a path that a rule names.
pub fn opened(fd: RawFd, path: &CStr, flags: c_int) {
    keep_errno(|| {
        if matches!(process::side(), Side::Child) {
            if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
                process::spoil();
            }
            return;
        }
        // What was closed unseen is not this file.
        opened_other(fd);
        if !is_regular(fd) || flags & libc::O_PATH != 0 {
            return;
        }
        // There, a file gets another time of birth when it is first opened for writing, and this descriptor reads the new one.
        if flags & libc::O_ACCMODE == libc::O_RDONLY && is_on_overlay(fd) {
            return;
        }
        let Some(tier) = process::open_tier() else {
            return;
        };
        let Ok(identity) = Identity::of(fd) else {
            return;
        };
        let file = files::open(tier, identity, path);
        if flags & libc::O_APPEND != 0 {
            file.appends.store(true, Ordering::Relaxed);
        }
        if let (Some(id), true) = (file.id(), flags & libc::O_TRUNC != 0) {
            tier.invalidate(id, 0, u64::MAX);
        }
        put(fd, file, flags & libc::O_ACCMODE);
    });
}

fn is_regular(fd: RawFd) -> bool {
    // SAFETY: stat is plain data with room for the answer.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut found) == 0 && found.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

fn is_on_overlay(fd: RawFd) -> bool {
    // SAFETY: statfs is plain data with room for the answer.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut found) == 0 && found.f_type == libc::OVERLAYFS_SUPER_MAGIC
    }
}

/// After a duplicate was made; whatever was at its number is closed.
pub fn duplicated(fd: RawFd, duplicate: RawFd) {
    if (file(fd).is_none() && file(duplicate).is_none()) || fd == duplicate {
        return;
    }
    if matches!(process::side(), Side::Child) {
        // Its own copy of the table; nothing is counted there.
        take(duplicate);
        if let Some(file) = file(fd) {
            put(duplicate, file, access(fd));
        }
        return;
    }
    if !process::owns_tables() {
        return;
    }
    keep_errno(|| {
        let replaced = take(duplicate);
        if let Some(file) = file(fd) {
            file.hold();
            put(duplicate, file, access(fd));
        }
        if let Some(replaced) = replaced {
            release(replaced, None);
        }
    });
}

/// Before a close: takes the descriptor out of the array, so that the number can be used again at once.
pub fn closing(fd: RawFd) -> Option<(&'static File, Option<Identity>)> {
    file(fd)?;
    if !process::owns_tables() {
        // In the child's own copy of the table, its next file of that number is no data file.
        if matches!(process::side(), Side::Child) {
            take(fd);
        }
        return None;
    }
    keep_errno(|| {
        let last = Identity::of(fd).ok();
        take(fd).map(|file| (file, last))
    })
}

/// After the close.
pub fn closed(taken: Option<(&'static File, Option<Identity>)>) {
    if let Some((file, last)) = taken {
        keep_errno(|| release(file, last));
    }
}

fn take(fd: RawFd) -> Option<&'static File> {
    let slot = SLOTS.get(fd as usize)?;
    // SAFETY: files are never freed.
    unsafe { slot.file.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() }
}

fn release(file: &'static File, last: Option<Identity>) {
    if let Side::Owner(tier) | Side::Spoilt(tier) = process::side() {
        file.release(tier, last);
    }
}

/// The data files that a range of descriptors stood for.
pub struct Taken {
    files: Vec<(&'static File, Option<Identity>)>,
    /// A child took some out of its own table. It makes no list: after a fork there may be no memory to be had.
    by_child: bool,
}

/// Before a range of descriptors is closed: takes them out of the array.
pub fn closing_range(first: usize, last: usize) -> Taken {
    let mut taken = Taken {
        files: Vec::new(),
        by_child: false,
    };
    let highest = HIGHEST.load(Ordering::Relaxed);
    if highest < first {
        return taken;
    }
    let in_child = matches!(process::side(), Side::Child);
    for fd in (first..=last.min(highest)).map(|fd| fd as RawFd) {
        taken.by_child |= in_child && file(fd).is_some();
        taken.files.extend(closing(fd));
    }
    taken
}

/// After the range was closed, or was not: then some may be open still, and nobody watches them.
pub fn closed_range(taken: Taken, all: bool) {
    if !all && taken.by_child {
        process::spoil();
    }
    for (file, last) in taken.files {
        if !all {
            lose_file(file);
        }
        closed(Some((file, last)));
    }
}

/// The file may from now on change unseen through this descriptor, here or in a child that does so.
pub fn lose(fd: RawFd) {
    if let Some(file) = file(fd) {
        match process::side() {
            Side::Child => process::spoil(),
            _ => lose_file(file),
        }
    }
}

/// After an open of a path that no rule names: the number was closed unseen if it still stands for a data file.
pub fn opened_other(fd: RawFd) {
    if file(fd).is_some()
        && process::owns_tables()
        && let Some(file) = take(fd)
    {
        keep_errno(|| release(file, None));
    }
}

/// A descriptor that came without a path: if it may write to a regular file, that file is never cached.
pub fn came_without_path(fd: RawFd, flags: c_int) {
    opened_other(fd);
    if flags & libc::O_ACCMODE == libc::O_RDONLY || !keep_errno(|| is_regular(fd)) {
        return;
    }
    match process::side() {
        Side::Child => process::spoil(),
        Side::Spoilt(_) => {}
        Side::Nobody if !process::may_open() => {}
        Side::Owner(_) | Side::Nobody => keep_errno(|| {
            if let Ok(identity) = Identity::of(fd) {
                files::never_cache(&identity);
            }
        }),
    }
}

/// As `lose`, where the descriptor is closed already.
pub fn lose_file(file: &File) {
    if let Side::Owner(tier) = process::side() {
        keep_errno(|| file.bypass(tier));
    }
}

/// Before a clean stop.
pub fn forget_unlinked() {
    if let Side::Owner(tier) = process::side() {
        files::forget_unlinked(tier);
    }
}
