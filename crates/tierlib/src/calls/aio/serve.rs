//! Asynchronous reads from the tier.
//!
//! The data is copied before the request is submitted. What is then submitted is a write of the same block to the null
//! device, which the kernel completes inside io_submit and without touching a byte: its completion has the block, the
//! program's word, the length and the eventfd of the read, and wakes whoever waits. Right after, the block is as it was.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, iovec};
use tiercache::own::OwnFile;
use tiercache::{FillToken, Lookup, Reason};

use super::{CHUNK, Iocb, READ, READ_PARTS, WRITE, WRITE_PARTS};
use crate::calls::audit::audited;
use crate::calls::read::{plausible, serve_parts, served};
use crate::filter;
use crate::process::count_bypass;

/// The completion goes to an eventfd too: the kernel does that by itself. All other flags are left to it altogether.
const RESULT_FD: u32 = 1;

/// What became of a read.
pub enum Served {
    /// The data is where it should be; `submit` the request.
    Yes,
    /// The file must be read; what comes back may come in.
    Admit(FillToken),
    /// The file must be read.
    No,
}

/// Copies the data of a read to its place, if the tier has all of it.
pub fn read(block: *mut Iocb, request: &Iocb) -> Served {
    let fd = request.fd as c_int;
    let Some((tier, id)) = served(fd) else {
        return Served::No;
    };
    // Flags change what the kernel does with a request.
    let plain = request.rw_flags == 0 && request.reserved == 0 && request.flags & !RESULT_FD == 0;
    if !plain || !block.cast::<AtomicU64>().is_aligned() || null_device().is_none() {
        count_bypass(Reason::ReadAhead);
        return Served::No;
    }
    if request.opcode == READ_PARTS {
        let (parts, count) = (request.buffer as *const iovec, request.bytes);
        let count = c_int::try_from(count).unwrap_or(0);
        // SAFETY: the caller of io_submit gives valid parts.
        let done = unsafe { serve_parts(fd, parts, count, request.offset, Reason::ReadAhead) };
        return if done.is_some() {
            Served::Yes
        } else {
            Served::No
        };
    }
    let (data, size) = (request.buffer as *mut c_void, request.bytes as usize);
    if !plausible(data, size, request.offset) {
        return Served::No;
    }
    // SAFETY: the caller of io_submit gives size writable bytes, which are the request's until its completion.
    let destination = unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), size) };
    let at = request.offset as u64;
    match audited(tier, id, fd, at, destination, |destination| {
        tier.read_ahead(id, at, destination)
    }) {
        Lookup::Hit => Served::Yes,
        Lookup::Miss(token) => Served::Admit(token),
        Lookup::Bypass(_) => Served::No,
    }
}

/// The null device, open for writing; None where it cannot be opened.
fn null_device() -> Option<c_int> {
    static DEVICE: OnceLock<Option<OwnFile>> = OnceLock::new();
    let open = || {
        let file = File::options().write(true).open("/dev/null");
        file.ok().map(OwnFile::new)
    };
    DEVICE
        .get_or_init(open)
        .as_ref()
        .map(|file| file.as_raw_fd())
}

/// Whether that is what the descriptor is: a program that closed it unseen must not get writes into what it opened next.
fn is_null_device(fd: c_int) -> bool {
    // SAFETY: stat is plain data with room for the answer.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut found) == 0
            && found.st_mode & libc::S_IFMT == libc::S_IFCHR
            && found.st_rdev == libc::makedev(1, 3)
    }
}

/// Blocks that are not what the program made them, with what they were: whoever gets a completion first puts its block back.
static CHANGED: [Changed; 4 * CHUNK] = [const { Changed::new() }; 4 * CHUNK];
/// How many there are: without any, nobody looks.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A place in that list; without a lock, because a signal handler may reap what it interrupted.
struct Changed {
    /// Address of the block; 0: free, 1: being written.
    block: AtomicU64,
    before: AtomicU64,
    now: AtomicU64,
}

impl Changed {
    const fn new() -> Self {
        Self {
            block: AtomicU64::new(0),
            before: AtomicU64::new(0),
            now: AtomicU64::new(0),
        }
    }

    /// Takes a free place for a block; None when there is none.
    fn enter(block: u64, before: u64, now: u64) -> Option<&'static Self> {
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let claim = |each: &&Self| each.block.compare_exchange(0, 1, success, failure).is_ok();
        let place = CHANGED.iter().find(claim)?;
        COUNT.fetch_add(1, Ordering::SeqCst);
        place.before.store(before, Ordering::Relaxed);
        place.now.store(now, Ordering::Relaxed);
        place.block.store(block, Ordering::SeqCst);
        Some(place)
    }

    fn leave(&self) {
        self.block.store(0, Ordering::SeqCst);
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The word of a block that says what is done to which file: opcode, priority and descriptor, lowest bits first (both
/// architectures are little-endian).
fn target(block: u64) -> &'static AtomicU64 {
    const WORD: u64 = std::mem::offset_of!(Iocb, opcode) as u64;
    // SAFETY: the block is aligned, and its memory there until the program has seen its completion.
    unsafe { AtomicU64::from_ptr((block + WORD) as *mut u64) }
}

/// The word of a read, turned into a write to the null device. The kernel does not look at the priority without its
/// flag: `tag` tells this change from a later one of the same block.
fn harmless(word: u64, null: c_int, tag: u16) -> u64 {
    let opcode = if word as u16 == READ {
        WRITE
    } else {
        WRITE_PARTS
    };
    u64::from(opcode) | u64::from(tag) << 16 | (null as u64) << 32
}

/// Submits reads that `read` has served, at most CHUNK; the kernel's answer.
pub fn submit(context: usize, blocks: &[*mut Iocb]) -> isize {
    static TAG: AtomicU16 = AtomicU16::new(0);
    let tag = TAG.fetch_add(1, Ordering::Relaxed);
    let mut changed = [None; CHUNK];
    if let Some(null) = null_device().filter(|fd| is_null_device(*fd)) {
        for (block, changed) in blocks.iter().zip(&mut changed) {
            let target = target(*block as u64);
            let before = target.load(Ordering::Relaxed);
            let now = harmless(before, null, tag);
            // Without room in the list, the kernel reads the file as well.
            *changed = Changed::enter(*block as u64, before, now);
            if changed.is_some() {
                target.store(now, Ordering::SeqCst);
            }
        }
    }
    // SAFETY: as many blocks, each valid.
    let answer = unsafe { filter::io_submit(context, blocks.len(), blocks.as_ptr().cast()) };
    for (block, changed) in blocks.iter().zip(changed) {
        if let Some(changed) = changed {
            put_back(*block as u64, changed);
            changed.leave();
        }
    }
    answer
}

/// Puts the block back unless that was done: who reaped it may use it again by now, and what it has changed stays.
fn put_back(block: u64, changed: &Changed) {
    let now = changed.now.load(Ordering::SeqCst);
    let before = changed.before.load(Ordering::SeqCst);
    // The place may have been given to another block between the loads.
    if changed.block.load(Ordering::SeqCst) == block {
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = target(block).compare_exchange(now, before, success, failure);
    }
}

/// Before a completion reaches the program, and before a block is submitted again: the block is as the program made it,
/// even while another thread is still inside the `submit` of it.
pub fn restore(block: u64) {
    if COUNT.load(Ordering::SeqCst) == 0 || !(block as *const AtomicU64).is_aligned() {
        return;
    }
    for changed in &CHANGED {
        if changed.block.load(Ordering::SeqCst) == block {
            put_back(block, changed);
        }
    }
}
