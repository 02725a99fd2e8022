//! libaio as a program uses it, without the library: control blocks, contexts, and the ring of completions.
#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::{CStr, c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};

/// Opcodes (linux/aio_abi.h).
pub const READ: u64 = 0;
pub const WRITE: u64 = 1;
pub const READ_PARTS: u64 = 7;

/// A control block: data, key and flags, opcode and descriptor, buffer, bytes, offset, reserved, flags and eventfd.
pub type Block = [u64; 8];
/// A completion: data, block, result, second result.
pub type Event = [u64; 4];

type Submit = unsafe extern "C" fn(usize, c_long, *mut *mut Block) -> c_int;
type GetEvents =
    unsafe extern "C" fn(usize, c_long, c_long, *mut Event, *mut libc::timespec) -> c_int;

/// A function of the preloaded library that the program is not linked to.
pub fn found<T: Copy>(name: &CStr) -> T {
    // SAFETY: T is the function pointer type of that name.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        assert!(!function.is_null(), "{name:?}");
        std::mem::transmute_copy(&function)
    }
}

/// A block for `size` bytes at `offset`; its data word is 77.
pub fn block(opcode: u64, fd: c_int, buffer: *mut u8, size: usize, offset: u64) -> Block {
    let target = opcode | (fd as u64) << 32;
    [77, 0, target, buffer as u64, size as u64, offset, 0, 0]
}

/// A context for so many requests.
pub fn context(requests: c_long) -> usize {
    let mut context = 0usize;
    // SAFETY: room for the context.
    let answer = unsafe { libc::syscall(libc::SYS_io_setup, requests, &raw mut context) };
    assert_eq!(answer, 0);
    context
}

/// Submits blocks, in this order; the answer.
///
/// # Safety
/// The blocks and their buffers live until their completions.
pub unsafe fn submit(context: usize, blocks: &mut [*mut Block]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { found::<Submit>(c"io_submit")(context, blocks.len() as c_long, blocks.as_mut_ptr()) }
}

/// Waits for one completion.
pub fn reap(context: usize) -> Event {
    let mut event = Event::default();
    let null = std::ptr::null_mut();
    // SAFETY: room for one event.
    let got = unsafe { found::<GetEvents>(c"io_getevents")(context, 1, 1, &raw mut event, null) };
    assert_eq!(got, 1);
    event
}

/// As `reap`, by looking into the ring that the kernel shares with the program (struct aio_ring in fs/aio.c).
pub fn reap_in_ring(context: usize) -> Event {
    let word = |number: usize| {
        // SAFETY: the ring's head is eight words of 32 bits, mapped as long as the context is there.
        unsafe { AtomicU32::from_ptr((context as *mut u32).add(number)) }
    };
    let (count, head, tail, length) = (word(1), word(2), word(3), word(7));
    let at = head.load(Ordering::Acquire);
    while tail.load(Ordering::Acquire) == at {
        std::thread::yield_now();
    }
    let place =
        context + length.load(Ordering::Relaxed) as usize + at as usize * size_of::<Event>();
    // SAFETY: the kernel has written the event before it moved the tail.
    let event = unsafe { (place as *const Event).read() };
    head.store((at + 1) % count.load(Ordering::Relaxed), Ordering::Release);
    event
}
