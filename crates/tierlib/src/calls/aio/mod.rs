//! libaio: reads are served when they are submitted; writes are told to the tier then, and when their completion is reaped.
//!
//! A completion that is never reaped through these calls keeps its pages out of the tier.
//! The five functions are the system calls, with errors as negative numbers, as in libaio itself.

mod pending;
mod serve;

use libc::{c_int, c_long, timespec};

use super::changing;
use crate::probe::is_readable;
use crate::raw::{keep_errno, kernel};
use crate::{descriptors, filter};
use serve::Served;

/// The kernel's control block (linux/aio_abi.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: u16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// The kernel's completion.
#[repr(C)]
pub struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// The libc crate has no name for it yet.
pub(super) const IO_PGETEVENTS: c_long = if cfg!(target_arch = "aarch64") {
    292
} else {
    333
};

const READ: u16 = 0;
const WRITE: u16 = 1;
const SYNC: u16 = 2;
const SYNC_DATA: u16 = 3;
const READ_PARTS: u16 = 7;
const WRITE_PARTS: u16 = 8;

/// Requests that are looked at together: a bit each.
const CHUNK: usize = u64::BITS as usize;

/// Tells the tier of one request before it is submitted; whether the tier has served it.
fn begin(context: usize, block: *mut Iocb) -> bool {
    if !is_readable(block, 1) {
        return false;
    }
    // Its completion was reaped elsewhere.
    pending::replace(block);
    serve::restore(block as u64);
    // SAFETY: the promise of io_submit's caller; the probe found no EFAULT, and the kernel has not seen the block yet.
    let request = unsafe { block.read_unaligned() };
    let fd = request.fd as c_int;
    if descriptors::file(fd).is_none() {
        return false;
    }
    match request.opcode {
        READ | READ_PARTS => match serve::read(block, &request) {
            Served::Yes => return true,
            Served::Admit(token) => pending::read(context, block, &request, token),
            Served::No => {}
        },
        WRITE | WRITE_PARTS => begin_write(context, block, &request),
        SYNC | SYNC_DATA => {
            if let (Some(file), Some((tier, id))) = (descriptors::file(fd), changing(fd)) {
                pending::sync(context, block, file, tier.sync_begin(id));
            }
        }
        _ => {}
    }
    false
}

fn begin_write(context: usize, block: *mut Iocb, request: &Iocb) {
    let fd = request.fd as c_int;
    let (Some(file), Some((tier, id))) = (descriptors::file(fd), changing(fd)) else {
        return;
    };
    let appends = file.appends.load(std::sync::atomic::Ordering::Acquire) || request.offset < 0;
    let whole = appends || request.opcode == WRITE_PARTS || request.rw_flags != 0;
    let (offset, size) = if whole {
        (0, u64::MAX)
    } else {
        (request.offset as u64, request.bytes)
    };
    let token = tier.write_begin(id, offset, size);
    pending::write(context, block, request, file, token, whole);
}

/// C20. A shorter count than asked for says where the kernel stopped, as ever.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_submit(context: usize, count: c_long, blocks: *mut *mut Iocb) -> c_int {
    // SAFETY: the caller's promise.
    let straight = |count: usize, blocks: *const *mut Iocb| unsafe {
        filter::io_submit(context, count, blocks.cast())
    };
    if count <= 0 || !is_readable(blocks, count as usize) {
        return straight(count as usize, blocks) as c_int;
    }
    // SAFETY: the caller's promise; the probe found no EFAULT.
    let all = unsafe { std::slice::from_raw_parts(blocks, count as usize) };
    let mut done = 0;
    for chunk in all.chunks(CHUNK) {
        let mut served = 0u64;
        for (at, block) in chunk.iter().enumerate() {
            served |= u64::from(keep_errno(|| begin(context, *block))) << at;
        }
        let is_served = |at: usize| served >> at & 1 == 1;
        let mut at = 0;
        while at < chunk.len() {
            let end = (at..chunk.len()).find(|next| is_served(*next) != is_served(at));
            let run = &chunk[at..end.unwrap_or(chunk.len())];
            let answer = if is_served(at) {
                serve::submit(context, run)
            } else {
                straight(run.len(), run.as_ptr())
            };
            at += answer.max(0) as usize;
            done += answer.max(0);
            if answer < run.len() as isize {
                keep_errno(|| {
                    chunk[at..]
                        .iter()
                        .for_each(|block| pending::end(*block as u64, pending::NEVER_MADE))
                });
                return if done > 0 { done } else { answer } as c_int;
            }
        }
    }
    done as c_int
}

/// What the tier does about completions before the program sees them.
///
/// # Safety
/// The kernel has written that many events there.
pub(super) unsafe fn reaped(answer: isize, events: *const Event) -> c_int {
    if answer > 0 {
        // SAFETY: the caller's promise.
        let all = unsafe { std::slice::from_raw_parts(events, answer as usize) };
        keep_errno(|| {
            for event in all {
                serve::restore(event.object);
                pending::end(event.object, event.result);
            }
        });
    }
    answer as c_int
}

/// C20.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_getevents(
    context: usize,
    least: c_long,
    most: c_long,
    events: *mut Event,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let arguments = [
            context,
            least as usize,
            most as usize,
            events as usize,
            timeout as usize,
            0,
        ];
        reaped(kernel(libc::SYS_io_getevents, arguments), events)
    }
}

/// C20.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_pgetevents(
    context: usize,
    least: c_long,
    most: c_long,
    events: *mut Event,
    timeout: *mut timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // The kernel wants the mask with its size, 8 bytes as the kernel counts signals.
    let sized = [mask as usize, 8];
    // SAFETY: the caller's promise.
    unsafe {
        let arguments = [
            context,
            least as usize,
            most as usize,
            events as usize,
            timeout as usize,
            sized.as_ptr() as usize,
        ];
        reaped(kernel(IO_PGETEVENTS, arguments), events)
    }
}

/// C20: the completion still comes through the ring, unless the old kernels' event does.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_cancel(context: usize, block: *mut Iocb, event: *mut Event) -> c_int {
    // SAFETY: the caller's promise.
    let answer = unsafe {
        kernel(
            libc::SYS_io_cancel,
            [context, block as usize, event as usize, 0, 0, 0],
        )
    };
    if answer == 0 {
        keep_errno(|| pending::end(block as u64, pending::NEVER_MADE));
    }
    answer as c_int
}

/// C20: the kernel waits for what is in flight.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_destroy(context: usize) -> c_int {
    let in_flight = keep_errno(|| pending::take_all(context));
    // SAFETY: the caller's promise.
    let answer = unsafe { kernel(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0]) };
    keep_errno(|| {
        if answer == 0 {
            pending::end_all(in_flight);
        } else {
            pending::put_back(in_flight);
        }
    });
    answer as c_int
}
