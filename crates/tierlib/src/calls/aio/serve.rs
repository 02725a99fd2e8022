//! Asynchronous reads from the tier.
//!
//! The data is copied before the request is submitted. What is then submitted is a write of the same block to the null
//! device, which the kernel completes inside io_submit and without touching a byte: its completion has the block, the
//! program's word, the length and the eventfd of the read, and wakes whoever waits. Right after, the block is as it was.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, iovec};
use tiercache::own::OwnFile;
use tiercache::{FillToken, Lookup, Reason};

use super::{CHUNK, Iocb, READ, READ_PARTS, WRITE, WRITE_PARTS};
use crate::calls::read::{each_part, plausible, served};
use crate::process::count_bypass;
use crate::raw::kernel;

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
    let Some((tier, id)) = served(request.fd as c_int) else {
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
        let done = unsafe {
            each_part(parts, count, request.offset, |at, place| {
                tier.read_ahead(id, at, place)
            })
        };
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
    let place = unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), size) };
    match tier.read_ahead(id, request.offset as u64, place) {
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

/// Submissions whose blocks are not what the program made them.
static CHANGED: AtomicUsize = AtomicUsize::new(0);

/// The word of a block that says what is done to which file: opcode, priority and descriptor, lowest bits first (both
/// architectures are little-endian).
fn target(block: u64) -> &'static AtomicU64 {
    const PLACE: u64 = std::mem::offset_of!(Iocb, opcode) as u64;
    // SAFETY: the block is aligned, and its memory there until the program has seen its completion.
    unsafe { AtomicU64::from_ptr((block + PLACE) as *mut u64) }
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
    // SAFETY: as many blocks, each valid.
    let kernel = || unsafe {
        let arguments = [context, blocks.len(), blocks.as_ptr() as usize, 0, 0, 0];
        kernel(libc::SYS_io_submit, arguments)
    };
    let Some(null) = null_device().filter(|fd| is_null_device(*fd)) else {
        return kernel();
    };
    let tag = TAG.fetch_add(1, Ordering::Relaxed);
    let mut before = [0u64; CHUNK];
    CHANGED.fetch_add(1, Ordering::SeqCst);
    for (block, before) in blocks.iter().zip(&mut before) {
        let target = target(*block as u64);
        *before = target.load(Ordering::Relaxed);
        target.store(harmless(*before, null, tag), Ordering::Relaxed);
    }
    let answer = kernel();
    for (block, before) in blocks.iter().zip(before) {
        let changed = harmless(before, null, tag);
        // A program that reaps in the ring itself may use the block again by now.
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = target(*block as u64).compare_exchange(changed, before, success, failure);
    }
    CHANGED.fetch_sub(1, Ordering::SeqCst);
    answer
}

/// Before a completion reaches the program: waits while another thread is still inside the `submit` of its block.
/// Bounded, for a signal handler that reaps what it interrupted; the block is then restored later.
pub fn wait_until_restored(block: u64) {
    const TURNS: u32 = 200;
    for turn in 0..TURNS {
        if CHANGED.load(Ordering::SeqCst) == 0 || !is_changed(block) {
            return;
        }
        if turn < TURNS / 2 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

fn is_changed(block: u64) -> bool {
    if block == 0 || !(block as *const AtomicU64).is_aligned() {
        return false;
    }
    let word = target(block).load(Ordering::SeqCst);
    let (opcode, fd) = (word as u16, (word >> 32) as c_int);
    (opcode == WRITE || opcode == WRITE_PARTS) && tiercache::own::is_own(fd)
}
