//! An allocator that counts what each thread holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
    static HELD_BYTES_PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with what this thread holds counted.
struct Counting;

fn count(more: usize, less: usize) {
    let held = HELD_BYTES.get().saturating_add(more).saturating_sub(less);
    HELD_BYTES.set(held);
    HELD_BYTES_PEAK.set(HELD_BYTES_PEAK.get().max(held));
}

// SAFETY: every call goes to the system's allocator with the arguments that it came with; counting allocates nothing, since the thread's
// cells have constant initial values and no destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the work holds at most beyond what was held before, in bytes.
pub fn most(work: impl FnOnce()) -> usize {
    let before = HELD_BYTES.get();
    HELD_BYTES_PEAK.set(before);
    work();
    HELD_BYTES_PEAK.get() - before
}
