//! The lock-free protocol under a scheduler that tries interleavings: the very code of `index/seqlock.rs` and
//! `engine/generation.rs` and `engine/seal.rs`, with shuttle's atomics in the place of std's.
//!
//! Shuttle interleaves sequentially consistent steps; weaker orders are argued in the comments of that code.

#[allow(dead_code, missing_docs)]
#[path = "../src/engine/generation.rs"]
mod generation;
#[allow(dead_code, missing_docs)]
#[path = "../src/engine/seal.rs"]
mod seal;
#[allow(dead_code, missing_docs)]
#[path = "../src/index/seqlock.rs"]
mod seqlock;

mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    pub use shuttle::sync::{Mutex, MutexGuard, PoisonError};
}

use generation::Stripe;
use seal::Seal;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const ITERATIONS: usize = 20_000;

/// One slot of two words, one page, one file of two words: what a tear would show.
#[derive(Default)]
struct World {
    version: AtomicU32,
    slot: [AtomicU64; 2],
    file: [AtomicU64; 2],
    stripe: Stripe,
    /// Of the shard; guards `filling`.
    lock: Mutex<bool>,
    ended: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        let world = Self::default();
        seqlock::close(&world.version);
        Arc::new(world)
    }

    /// The engine's read.
    fn read(&self) -> Option<[u64; 2]> {
        let seen = seqlock::begin(&self.version)?;
        let copy = [
            self.slot[0].load(Ordering::Relaxed),
            self.slot[1].load(Ordering::Relaxed),
        ];
        seqlock::unchanged(&self.version, seen).then_some(copy)
    }

    /// The engine's landing: reserve under the lock, write without it, publish under it.
    fn land(&self, data: [u64; 2], begun: u64) {
        {
            let mut filling = self.lock.lock().expect("lock");
            if self.stripe.begun() != begun || *filling || seqlock::begin(&self.version).is_some() {
                return;
            }
            *filling = true;
            seqlock::close(&self.version);
        }
        self.slot[0].store(data[0], Ordering::Relaxed);
        self.slot[1].store(data[1], Ordering::Relaxed);
        let mut filling = self.lock.lock().expect("lock");
        *filling = false;
        if self.stripe.begun() == begun {
            seqlock::open(&self.version);
        }
    }

    /// A miss: the file is read between the count of writes and the landing.
    fn miss(&self) {
        let Some(begun) = self.stripe.quiet() else {
            return;
        };
        let data = [
            self.file[0].load(Ordering::SeqCst),
            self.file[1].load(Ordering::SeqCst),
        ];
        self.land(data, begun);
    }

    /// A write, its refill included.
    fn write(&self, value: u64) {
        let (begun, alone) = self.stripe.begin();
        {
            let filling = self.lock.lock().expect("lock");
            if !*filling {
                seqlock::close(&self.version);
            }
        }
        self.file[0].store(value, Ordering::SeqCst);
        self.file[1].store(value, Ordering::SeqCst);
        if alone {
            self.land([value, value], begun);
        }
        self.stripe.end();
        self.ended.fetch_max(value, Ordering::SeqCst);
    }
}

fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(scenario, ITERATIONS);
}

#[test]
fn a_read_is_whole_and_not_older_than_the_last_ended_write() {
    explore(|| {
        let world = World::new();
        let writer = thread::spawn({
            let world = world.clone();
            move || (1..=2).for_each(|value| world.write(value))
        });
        let filler = thread::spawn({
            let world = world.clone();
            move || (0..2).for_each(|_| world.miss())
        });
        // Enough reads to be still at it when the first page is published and the second write closes it.
        for _ in 0..20 {
            let lowest = world.ended.load(Ordering::SeqCst);
            if let Some([first, second]) = world.read() {
                assert_eq!(first, second, "a torn page");
                assert!(first >= lowest, "an old page: {first} after {lowest}");
            }
        }
        writer.join().expect("writer");
        filler.join().expect("filler");
        if let Some(page) = world.read() {
            assert_eq!(page, [2, 2], "a stale page stays");
        }
    });
}

#[test]
fn two_writers_leave_what_the_file_has_or_nothing() {
    explore(|| {
        let world = World::new();
        let writers: Vec<_> = [1, 2]
            .map(|value| {
                let world = world.clone();
                thread::spawn(move || world.write(value))
            })
            .into();
        world.miss();
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("writer"));
        if let Some(page) = world.read() {
            let file = [
                world.file[0].load(Ordering::SeqCst),
                world.file[1].load(Ordering::SeqCst),
            ];
            assert_eq!(page, file);
        }
    });
}

/// A file, and the tier's own on a disk that a power cut leaves as it is at any moment.
#[derive(Default)]
struct Stop {
    seal: Seal,
    writes: Stripe,
    /// The tier's file is clean, and has this file's pages in it.
    clean: AtomicBool,
    saved: AtomicBool,
}

impl Stop {
    fn stop(&self) {
        self.seal.give(|| {
            self.saved
                .store(self.writes.quiet() == Some(0), Ordering::SeqCst);
            self.clean.store(true, Ordering::SeqCst);
        });
    }

    /// From here to its end, the file on the disk may have what the pages have not.
    fn write(&self) {
        self.writes.begin();
        self.seal
            .take_back(|| self.clean.store(false, Ordering::SeqCst));
        let trusted = self.clean.load(Ordering::SeqCst) && self.saved.load(Ordering::SeqCst);
        assert!(!trusted, "a cut here serves the pages of before");
        self.writes.end();
    }
}

#[test]
fn no_write_goes_on_while_a_power_cut_would_bring_the_pages_of_before() {
    explore(|| {
        let world = Arc::new(Stop::default());
        let writers = [(), ()].map(|()| {
            let world = world.clone();
            thread::spawn(move || world.write())
        });
        world.stop();
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("writer"));
    });
}
