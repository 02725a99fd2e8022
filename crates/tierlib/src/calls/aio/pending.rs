//! Requests that the kernel has and whose end the tier waits for, by the address of their control block.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tiercache::{FillToken, Tier, WriteToken};

use super::Iocb;
use crate::files::File;
use crate::process::{self, Side};

/// What is due at the end.
enum Due {
    /// The write ends; the file is held until then.
    Write(WriteToken, &'static File),
    /// What was read may come in.
    Fill(FillToken),
}

struct Pending {
    context: usize,
    due: Due,
    /// What the file holds after full success; 0 bytes when it is not in one piece.
    buffer: usize,
    bytes: usize,
}

static PENDING: LazyLock<Mutex<HashMap<u64, Pending>>> = LazyLock::new(Mutex::default);
/// How many there are: without any, nobody takes the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn pending() -> MutexGuard<'static, HashMap<u64, Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(block: *const Iocb, entry: Pending) {
    let mut pending = pending();
    pending.insert(block as u64, entry);
    COUNT.store(pending.len(), Ordering::SeqCst);
}

fn take(block: u64) -> Option<Pending> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let mut pending = pending();
    let entry = pending.remove(&block);
    COUNT.store(pending.len(), Ordering::SeqCst);
    entry
}

/// A write; `whole`: nobody knows where it lands.
pub fn write(
    context: usize,
    block: *const Iocb,
    request: &Iocb,
    file: &'static File,
    token: WriteToken,
    whole: bool,
) {
    file.hold();
    let entry = Pending {
        context,
        due: Due::Write(token, file),
        buffer: request.buffer as usize,
        bytes: if whole { 0 } else { request.bytes as usize },
    };
    add(block, entry);
}

/// A read in one piece whose pages may come in.
pub fn read(context: usize, block: *const Iocb, request: &Iocb, token: FillToken) {
    let entry = Pending {
        context,
        due: Due::Fill(token),
        buffer: request.buffer as usize,
        bytes: request.bytes as usize,
    };
    add(block, entry);
}

/// The block is used again: whatever it stood for never ends.
pub fn drop(block: *const Iocb) {
    take(block as u64);
}

/// The request ended with this answer.
pub fn end(block: u64, result: i64) {
    let Some(entry) = take(block) else {
        return;
    };
    if let Side::Owner(tier) = process::side() {
        finish(tier, entry, result);
    }
}

fn finish(tier: &Tier, entry: Pending, result: i64) {
    let got = usize::try_from(result).unwrap_or(0).min(entry.bytes);
    // SAFETY: the buffer is the request's until its completion reaches the program, which is after this.
    let data = unsafe { std::slice::from_raw_parts(entry.buffer as *const u8, got) };
    match entry.due {
        Due::Write(token, file) => {
            tier.write_end(token, (got > 0 && got == entry.bytes).then_some(data));
            file.release(tier, None);
        }
        Due::Fill(token) if got > 0 => tier.fill(token, data),
        Due::Fill(_) => {}
    }
}

/// The context is gone, and with it everything in flight.
pub fn end_all(context: usize) {
    let all = pending();
    let over = all.iter().filter(|(_, entry)| entry.context == context);
    let over: Vec<u64> = over.map(|(block, _)| *block).collect();
    std::mem::drop(all);
    over.into_iter().for_each(|block| end(block, -1));
}
