//! A hit allocates nothing: counted by an allocator of our own, on the thread that reads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tiercache::{Config, Identity, Lookup, MediumChoice, Tier};

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

struct Counting;

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hit_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let media = [
        MediumChoice::Memory,
        MediumChoice::MemoryLz4,
        MediumChoice::Direct(folder.path().join("medium")),
    ];
    for medium in media {
        let config = Config {
            size_bytes: 1 << 20,
            medium: medium.clone(),
            ..Config::default()
        };
        let page = config.page_size_bytes;
        let tier = Tier::open(config).expect("tier");
        let identity = Identity::default();
        let file = tier.file(b"t.ibd", identity).expect("file");
        let mut dst = vec![0; page];
        for number in 0..8 {
            if let Lookup::Miss(token) = tier.read(file, number * page as u64, &mut dst) {
                tier.fill(token, &dst);
            }
        }
        let before = ALLOCATIONS.with(Cell::get);
        let hits = (0..1000)
            .filter(|at| matches!(tier.read(file, at % 8 * page as u64, &mut dst), Lookup::Hit))
            .count();
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{medium}");
        assert_eq!(hits, 1000, "{medium}");
    }
}
