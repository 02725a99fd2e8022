//! Requests that the kernel has and whose end the tier waits for, by the address of their control block.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tiercache::{FillToken, SyncToken, Tier, WriteToken};

use super::Iocb;
use crate::files::File;
use crate::process::{self, Side};

/// What is due at the end.
enum Due {
    /// The write ends.
    Write(WriteToken, &'static File),
    /// What was read may come in.
    Fill(FillToken),
    /// What was written before is on stable storage.
    Sync(SyncToken, &'static File),
}

/// As the result of a request that the kernel did not take, or whose end nobody saw. No errno has it.
pub const NEVER_MADE: i64 = -4096;

struct Pending {
    context: usize,
    due: Due,
    /// What the file holds after full success; 0 bytes when it is not in one piece.
    buffer: usize,
    bytes: usize,
}

/// One lock: it is held for a look, beside the microseconds of the system call that comes before or after.
static PENDING: LazyLock<Mutex<HashMap<u64, Pending>>> = LazyLock::new(Mutex::default);
/// Writes whose block was submitted again before their end was seen: they end with their context.
static REPLACED: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// A program that reaps in the ring makes that list longer with each write: from so many on, their files are not cached.
const REPLACED_MAX: usize = 4096;
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

fn replaced() -> MutexGuard<'static, Vec<Pending>> {
    REPLACED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the tables are this process's. A child of a fork copied them with their locks, which a thread may hold that it
/// does not have.
fn are_ours() -> bool {
    matches!(process::side(), Side::Owner(_) | Side::Spoilt(_))
}

fn take(block: u64) -> Option<Pending> {
    if COUNT.load(Ordering::SeqCst) == 0 || !are_ours() {
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
    file.take_off();
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

/// A sync of the file.
pub fn sync(context: usize, block: *const Iocb, file: &'static File, token: SyncToken) {
    let entry = Pending {
        context,
        due: Due::Sync(token, file),
        buffer: 0,
        bytes: 0,
    };
    add(block, entry);
}

/// The block is used again. The kernel has a copy of what it was: a write may still be under way, so its pages stay out
/// until its context is gone.
pub fn replace(block: *const Iocb) {
    let Some(entry) = take(block as u64) else {
        return;
    };
    let Due::Write(_, file) = entry.due else {
        return;
    };
    let mut all = replaced();
    all.push(entry);
    if all.len() <= REPLACED_MAX {
        return;
    }
    let of_file = |entry: &Pending| matches!(entry.due, Due::Write(_, each) if ptr::eq(each, file));
    let (over, others) = all.drain(..).partition(of_file);
    *all = others;
    std::mem::drop(all);
    if let Side::Owner(tier) = process::side() {
        file.bypass(tier);
        let over: Vec<Pending> = over;
        over.into_iter()
            .for_each(|entry| finish(tier, entry, NEVER_MADE));
    }
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
    if let Due::Sync(token, file) = entry.due {
        if result == 0 {
            tier.synced(token);
        } else if result != NEVER_MADE {
            crate::descriptors::lose_file(file);
        }
        return;
    }
    let got = usize::try_from(result).unwrap_or(0).min(entry.bytes);
    let data = match got {
        0 => &[], // The buffer of a request that failed may be null.
        // SAFETY: the buffer is the request's until its completion reaches the program, which is after this.
        _ => unsafe { std::slice::from_raw_parts(entry.buffer as *const u8, got) },
    };
    match entry.due {
        Due::Write(token, file) => {
            tier.write_end(token, (got > 0 && got == entry.bytes).then_some(data));
            file.land(tier);
        }
        Due::Fill(token) if got > 0 => tier.fill(token, data),
        Due::Fill(_) | Due::Sync(..) => {}
    }
}

/// What a context has in flight, out of the tables.
#[derive(Default)]
pub struct InFlight {
    pending: Vec<(u64, Pending)>,
    replaced: Vec<Pending>,
}

/// Before the kernel ends a context: takes out what it has in flight. The kernel gives the number away before it is done,
/// so that afterwards another thread's requests may have the same one.
pub fn take_all(context: usize) -> InFlight {
    if !are_ours() {
        return InFlight::default();
    }
    let mut pending = pending();
    let taken = pending.extract_if(|_, entry| entry.context == context);
    let taken = taken.collect();
    COUNT.store(pending.len(), Ordering::SeqCst);
    std::mem::drop(pending);
    let is_its = |entry: &mut Pending| entry.context == context;
    InFlight {
        pending: taken,
        replaced: replaced().extract_if(.., is_its).collect(),
    }
}

/// The context is gone, and with it everything that it had in flight.
pub fn end_all(over: InFlight) {
    if let Side::Owner(tier) = process::side() {
        let pending = over.pending.into_iter().map(|(_, entry)| entry);
        pending
            .chain(over.replaced)
            .for_each(|entry| finish(tier, entry, NEVER_MADE));
    }
}

/// The kernel did not end the context. A block that was submitted again meanwhile has its new request.
pub fn put_back(taken: InFlight) {
    if !are_ours() {
        return;
    }
    let mut pending = pending();
    let mut older = taken.replaced;
    for (block, entry) in taken.pending {
        match pending.entry(block) {
            Entry::Vacant(place) => {
                place.insert(entry);
            }
            Entry::Occupied(_) if matches!(entry.due, Due::Write(..)) => older.push(entry),
            Entry::Occupied(_) => {}
        }
    }
    COUNT.store(pending.len(), Ordering::SeqCst);
    std::mem::drop(pending);
    replaced().append(&mut older);
}
