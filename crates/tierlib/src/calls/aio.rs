//! libaio: writes are told to the tier when they are submitted and when their completion is reaped.
//!
//! A completion that is never reaped through these calls keeps its pages out of the tier. Reads go to the file.
//! The five functions are the system calls, with errors as negative numbers, as in libaio itself.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use libc::{c_int, c_long, timespec};
use tiercache::{Reason, WriteToken};

use super::changing;
use crate::descriptors;
use crate::files::File;
use crate::process::{self, Side, count_bypass};
use crate::raw::{keep_errno, kernel};

/// The kernel's control block (linux/aio_abi.h).
#[repr(C)]
pub struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
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
const IO_PGETEVENTS: c_long = if cfg!(target_arch = "aarch64") {
    292
} else {
    333
};

const READ: u16 = 0;
const WRITE: u16 = 1;
const READ_PARTS: u16 = 7;
const WRITE_PARTS: u16 = 8;

struct Pending {
    context: usize,
    token: WriteToken,
    file: &'static File,
    /// What the file holds after full success; 0 bytes when it is not in one piece.
    buffer: usize,
    bytes: usize,
}

static PENDING: LazyLock<Mutex<HashMap<u64, Pending>>> = LazyLock::new(Mutex::default);

fn pending() -> MutexGuard<'static, HashMap<u64, Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the tier of one request before it is submitted.
fn begin(context: usize, block: *const Iocb) {
    // SAFETY: the caller of io_submit gives valid blocks; the kernel has not seen it yet.
    let Some(request) = (unsafe { block.as_ref() }) else {
        return;
    };
    let fd = request.fd as c_int;
    let Some(file) = descriptors::file(fd) else {
        return;
    };
    match request.opcode {
        READ | READ_PARTS => count_bypass(Reason::ReadAhead),
        WRITE | WRITE_PARTS => {
            let Some((tier, id)) = changing(fd) else {
                return;
            };
            let appends =
                file.appends.load(std::sync::atomic::Ordering::Acquire) || request.offset < 0;
            let whole = appends || request.opcode == WRITE_PARTS || request.rw_flags != 0;
            let (offset, size) = if whole {
                (0, u64::MAX)
            } else {
                (request.offset as u64, request.bytes)
            };
            let token = tier.write_begin(id, offset, size);
            file.hold();
            let entry = Pending {
                context,
                token,
                file,
                buffer: request.buffer as usize,
                bytes: if whole { 0 } else { request.bytes as usize },
            };
            // A block submitted twice: the first write never ends, its pages stay out.
            pending().insert(block as u64, entry);
        }
        _ => {}
    }
}

fn end(block: u64, result: i64) {
    let Some(done) = pending().remove(&block) else {
        return;
    };
    let Side::Owner(tier) = process::side() else {
        return;
    };
    let full = done.bytes > 0 && result == done.bytes as i64;
    // SAFETY: the buffer is the request's until its completion reaches the program, which is after this.
    let data =
        full.then(|| unsafe { std::slice::from_raw_parts(done.buffer as *const u8, done.bytes) });
    tier.write_end(done.token, data);
    done.file.release(tier, None);
}

/// C20.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_submit(context: usize, count: c_long, blocks: *mut *mut Iocb) -> c_int {
    let all: &[*mut Iocb] = if count > 0 && !blocks.is_null() {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(blocks, count as usize) }
    } else {
        &[]
    };
    keep_errno(|| all.iter().for_each(|block| begin(context, *block)));
    // SAFETY: the caller's promise.
    let answer = unsafe {
        kernel(
            libc::SYS_io_submit,
            [context, count as usize, blocks as usize, 0, 0, 0],
        )
    };
    let refused = all.get(answer.max(0) as usize..).unwrap_or_default();
    keep_errno(|| refused.iter().for_each(|block| end(*block as u64, -1)));
    answer as c_int
}

/// # Safety
/// The kernel has written that many events there.
unsafe fn reaped(answer: isize, events: *const Event) -> c_int {
    if answer > 0 {
        // SAFETY: the caller's promise.
        let all = unsafe { std::slice::from_raw_parts(events, answer as usize) };
        keep_errno(|| all.iter().for_each(|event| end(event.object, event.result)));
    }
    if let Side::Owner(tier) = process::side() {
        keep_errno(|| tier.tick());
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
        keep_errno(|| end(block as u64, -1));
    }
    answer as c_int
}

/// C20: the kernel waits for what is in flight.
///
/// # Safety
/// As libaio's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_destroy(context: usize) -> c_int {
    // SAFETY: the caller's promise.
    let answer = unsafe { kernel(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0]) };
    if answer == 0 {
        let over: Vec<u64> = pending()
            .iter()
            .filter(|(_, entry)| entry.context == context)
            .map(|(block, _)| *block)
            .collect();
        keep_errno(|| over.into_iter().for_each(|block| end(block, -1)));
    }
    answer as c_int
}
