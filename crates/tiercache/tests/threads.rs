//! Writers that overlap on whole pages, on the real engine and every medium, while the tier is resized and emptied.
//!
//! The file is a list of versions for each page, in the order in which they were stored. A hit must be what the file had
//! at some moment of the read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiercache::status::Request;
use tiercache::{Config, Counter, FileId, Identity, Lookup, MediumChoice, Mode, Tier};

const PAGE: usize = 4096;
const PAGES: usize = 12;
const WRITERS: u64 = 3;
const READERS: u64 = 2;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % limit as u64) as usize
    }
}

struct World {
    tier: Tier,
    id: FileId,
    /// Every version of each page, as the kernel stored them.
    stored: Vec<Mutex<Vec<u64>>>,
    next: AtomicU64,
}

fn content(page: usize, version: u64) -> Vec<u8> {
    (version << 8 | page as u64).to_le_bytes().repeat(PAGE / 8)
}

impl World {
    fn new(medium: MediumChoice) -> Self {
        let config = Config {
            size_bytes: (PAGES * PAGE) as u64,
            page_size_bytes: PAGE,
            medium,
            sequential_cutoff_bytes: 0,
            ..Config::default()
        };
        let tier = Tier::open(config).expect("tier");
        let identity = Identity {
            inode: 1,
            ..Identity::default()
        };
        let id = tier.file(b"/d/a.ibd", identity).expect("file");
        Self {
            tier,
            id,
            stored: (0..PAGES).map(|_| Mutex::new(vec![0])).collect(),
            next: AtomicU64::new(1),
        }
    }

    fn last(&self, page: usize) -> usize {
        self.stored[page].lock().expect("lock").len() - 1
    }

    /// One to three whole pages, of which other writers may write some at the same time.
    fn write(&self, random: &mut Random) {
        let first = random.below(PAGES);
        let count = (1 + random.below(3)).min(PAGES - first);
        let version = self.next.fetch_add(1, Ordering::Relaxed);
        let (offset, length) = ((first * PAGE) as u64, (count * PAGE) as u64);
        let token = self.tier.write_begin(self.id, offset, length);
        for page in first..first + count {
            if random.below(4) == 0 {
                std::thread::yield_now();
            }
            self.stored[page].lock().expect("lock").push(version);
        }
        if random.below(4) == 0 {
            std::thread::yield_now();
        }
        let data: Vec<u8> = (first..first + count)
            .flat_map(|page| content(page, version))
            .collect();
        let whole = random.below(8) > 0;
        self.tier.write_end(token, whole.then_some(&data[..]));
    }

    /// Whether the tier served it.
    fn read(&self, page: usize, pause: bool) -> bool {
        let mut dst = vec![0; PAGE];
        let before = self.last(page);
        match self.tier.read(self.id, (page * PAGE) as u64, &mut dst) {
            Lookup::Hit => {
                let word = u64::from_le_bytes(dst[..8].try_into().expect("eight bytes"));
                assert_eq!(word as u8 as usize, page, "another page");
                assert!(dst == content(page, word >> 8), "a torn page");
                let stored = self.stored[page].lock().expect("lock");
                let during = &stored[before..];
                assert!(
                    during.contains(&(word >> 8)),
                    "{} is not of {during:?}",
                    word >> 8
                );
                true
            }
            Lookup::Miss(token) => {
                let version = *self.stored[page].lock().expect("lock").last().expect("one");
                if pause {
                    std::thread::yield_now();
                }
                self.tier.fill(token, &content(page, version));
                false
            }
            Lookup::Bypass(_) => false,
        }
    }

    fn change(&self, random: &mut Random) {
        let request = match random.below(6) {
            0 => Request::Drop,
            1 => Request::Mode(Mode::ALL[random.below(4)]),
            2 => Request::Flush,
            _ => Request::Resize(((8 + random.below(16)) * PAGE) as u64),
        };
        self.tier.perform(request).expect("a change");
        self.tier.control();
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads until so many were hits, or for 20 seconds.
fn hits(world: &World, seed: u64, wanted: usize) -> usize {
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(20);
    let mut hits = 0;
    while hits < wanted && Instant::now() < end {
        let (page, pause) = (random.below(PAGES), random.below(2) == 0);
        hits += usize::from(world.read(page, pause));
    }
    hits
}

fn run(medium: MediumChoice, wanted: usize) {
    let name = medium.to_string();
    let world = World::new(medium);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (world, stop) = (&world, &stop);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut random = Random(writer);
                while !stop.load(Ordering::Relaxed) {
                    world.write(&mut random);
                    std::thread::sleep(Duration::from_micros(random.below(100) as u64));
                }
            });
        }
        scope.spawn(move || {
            let mut random = Random(99);
            while !stop.load(Ordering::Relaxed) {
                world.change(&mut random);
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        // Also when an assertion fails: nobody must run for ever.
        let _stop = Stop(stop);
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || hits(world, 1000 + reader, wanted)))
            .collect();
        for reader in readers {
            let hits = reader.join().expect("a reader");
            assert!(hits >= wanted, "{name}: {hits} hits");
        }
    });
    // Quiet now: a page that is served is the file's, and every page comes in again.
    world
        .tier
        .perform(Request::Mode(Mode::WriteThrough))
        .expect("mode");
    let size = Request::Resize((2 * PAGES * PAGE) as u64);
    world.tier.perform(size).expect("a size for all");
    for page in 0..PAGES {
        world.read(page, false);
        assert!(world.read(page, false), "{name}: page {page}");
    }
    let seen = world.tier.status().snapshot();
    for counter in [
        Counter::MediumReadErrors,
        Counter::MediumWriteErrors,
        Counter::MediumMismatches,
    ] {
        assert_eq!(seen.counter(counter), 0, "{name}: {}", counter.name());
    }
}

#[test]
fn overlapping_writers_in_memory() {
    run(MediumChoice::Memory, 20_000);
    run(MediumChoice::MemoryLz4, 3_000);
}

#[test]
fn overlapping_writers_on_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for medium in [
        MediumChoice::File(path("file")),
        MediumChoice::Direct(path("direct")),
    ] {
        run(medium, 2_000);
    }
}

/// The tier stops while threads read and write: nothing wrong is served, and nothing after that.
#[test]
fn a_stop_among_threads_is_clean() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stop");
    for medium in [MediumChoice::Memory, MediumChoice::File(file)] {
        let world = World::new(medium);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (world, stop) = (&world, &stop);
            for number in 0..3 {
                scope.spawn(move || {
                    let mut random = Random(number);
                    while !stop.load(Ordering::Relaxed) {
                        world.write(&mut random);
                        world.read(random.below(PAGES), false);
                    }
                });
            }
            let _stop = Stop(stop);
            std::thread::sleep(Duration::from_millis(30));
            world.tier.stop();
            let hits = world.tier.status().snapshot().counter(Counter::Hits);
            std::thread::sleep(Duration::from_millis(30));
            let later = world.tier.status().snapshot().counter(Counter::Hits);
            // One that was under way in each thread.
            assert!(later <= hits + 3, "{hits} {later}");
        });
        assert!(!world.tier.control());
    }
}
