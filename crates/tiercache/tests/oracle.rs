//! The differential oracle: random operations through the tier against plain arrays of bytes.
//!
//! OPERATIONS (default 1,000,000 in release, 100,000 otherwise) and SEED choose the run; the seeds are printed.
//! On a failure, the shortest failing beginning is sought and then thinned out, and printed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tiercache::status::Request;
use tiercache::{Config, FileId, Identity, Lookup, MediumChoice, Mode, Promotion, Tier};

const PAGE: u64 = 4096;
const FILES: usize = 3;
const FILE_PAGES: u64 = 48;

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Read {
        file: usize,
        offset: u64,
        length: u64,
    },
    /// A read whose fill comes only after the next operation.
    LateFill {
        file: usize,
        offset: u64,
        length: u64,
    },
    Write {
        file: usize,
        offset: u64,
        length: u64,
        seed: u64,
        outcome: Outcome,
    },
    Truncate {
        file: usize,
        at: u64,
    },
    Forget {
        file: usize,
    },
    Resize {
        pages: u64,
    },
    SetMode(Mode),
    Drop,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Whole,
    Short,
    Failed,
}

fn draw(random: &mut Random) -> Operation {
    let file = random.below(FILES as u64) as usize;
    let aligned = random.below(4) > 0;
    let unit = if aligned { PAGE } else { 512 };
    let offset = random.below(FILE_PAGES * PAGE / unit) * unit;
    let length =
        ((random.below(if aligned { 4 } else { 24 }) + 1) * unit).min(FILE_PAGES * PAGE - offset);
    match random.below(1000) {
        0..550 => Operation::Read {
            file,
            offset,
            length,
        },
        550..650 => Operation::LateFill {
            file,
            offset,
            length,
        },
        650..960 => {
            let outcome = match random.below(20) {
                0 => Outcome::Failed,
                1 => Outcome::Short,
                _ => Outcome::Whole,
            };
            Operation::Write {
                file,
                offset,
                length,
                seed: random.next(),
                outcome,
            }
        }
        960..975 => Operation::Truncate { file, at: offset },
        975..980 => Operation::Forget { file },
        980..988 => Operation::Resize {
            pages: 8 + random.below(200),
        },
        988..998 => Operation::SetMode(Mode::ALL[random.below(4) as usize]),
        _ => Operation::Drop,
    }
}

struct World {
    tier: Tier,
    ids: Vec<FileId>,
    files: Vec<Vec<u8>>,
    inode: u64,
    late: Option<(tiercache::FillToken, Vec<u8>)>,
}

impl World {
    fn new(config: Config) -> Self {
        let tier = Tier::open(config).expect("tier");
        let mut world = Self {
            tier,
            ids: vec![],
            files: vec![vec![0; (FILE_PAGES * PAGE) as usize]; FILES],
            inode: 0,
            late: None,
        };
        for file in 0..FILES {
            let id = world.open(file);
            world.ids.push(id);
        }
        world
    }

    fn open(&mut self, file: usize) -> FileId {
        self.inode += 1;
        let identity = Identity {
            device: 1,
            inode: self.inode,
            ..Identity::default()
        };
        self.tier
            .file(format!("/d/{file}.ibd").as_bytes(), identity)
            .expect("cached")
    }

    fn run(&mut self, operation: Operation) {
        let late = self.late.take();
        match operation {
            Operation::Read {
                file,
                offset,
                length,
            } => self.read(file, offset, length, false),
            Operation::LateFill {
                file,
                offset,
                length,
            } => self.read(file, offset, length, true),
            Operation::Write {
                file,
                offset,
                length,
                seed,
                outcome,
            } => self.write(file, offset, length, seed, outcome),
            Operation::Truncate { file, at } => {
                self.tier.invalidate(self.ids[file], at, u64::MAX);
                self.files[file][at as usize..].fill(0);
                self.tier.invalidate(self.ids[file], at, u64::MAX);
            }
            Operation::Forget { file } => {
                self.tier.forget(self.ids[file]);
                self.files[file].fill(0);
                self.ids[file] = self.open(file);
            }
            Operation::Resize { pages } => {
                self.tier
                    .perform(Request::Resize(pages.min(500) * PAGE))
                    .expect("resize");
            }
            Operation::SetMode(mode) => {
                self.tier.perform(Request::Mode(mode)).expect("mode");
            }
            Operation::Drop => {
                self.tier.perform(Request::Drop).expect("drop");
            }
        }
        if let Some((token, data)) = late {
            self.tier.fill(token, &data);
        }
    }

    fn read(&mut self, file: usize, offset: u64, length: u64, late: bool) {
        let mut dst = vec![0xee; length as usize];
        let truth = &self.files[file][offset as usize..(offset + length) as usize];
        match self.tier.read(self.ids[file], offset, &mut dst) {
            Lookup::Hit => assert!(dst == truth, "a hit differs from the file"),
            Lookup::Miss(token) if late => self.late = Some((token, truth.to_vec())),
            Lookup::Miss(token) => self.tier.fill(token, truth),
            Lookup::Bypass(_) => (),
        }
    }

    fn write(&mut self, file: usize, offset: u64, length: u64, seed: u64, outcome: Outcome) {
        let mut random = Random(seed);
        let data: Vec<u8> = (0..length / 8)
            .flat_map(|at| (random.next() & if at % 8 < 6 { 0 } else { u64::MAX }).to_le_bytes())
            .collect();
        let token = self.tier.write_begin(self.ids[file], offset, length);
        let done = match outcome {
            Outcome::Whole => data.len(),
            Outcome::Short => data.len() / 2,
            Outcome::Failed => 0,
        };
        self.files[file][offset as usize..offset as usize + done].copy_from_slice(&data[..done]);
        self.tier
            .write_end(token, (done == data.len()).then_some(&data[..]));
    }
}

fn fails(config: &Config, operations: &[Operation]) -> bool {
    catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(config.clone());
        operations
            .iter()
            .for_each(|operation| world.run(*operation));
    }))
    .is_err()
}

/// Leaves out ever smaller parts while the rest still fails.
fn shrink(config: &Config, mut operations: Vec<Operation>) -> Vec<Operation> {
    let mut part = operations.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < operations.len() {
            let mut fewer = operations.clone();
            fewer.drain(at..(at + part).min(fewer.len()));
            if fails(config, &fewer) {
                operations = fewer;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    operations
}

fn operations() -> u64 {
    let default = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    std::env::var("OPERATIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn seeds() -> Vec<u64> {
    let fresh = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    match std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => vec![20_261_121, fresh],
    }
}

fn config(medium: MediumChoice) -> Config {
    let sequential_cutoff_bytes = 0;
    Config {
        size_bytes: 64 * PAGE,
        page_size_bytes: PAGE as usize,
        medium,
        sequential_cutoff_bytes,
        ..Config::default()
    }
}

#[test]
fn one_thread_sees_the_file_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let nhit = Config {
        promotion: Promotion::NHit(2),
        ..config(MediumChoice::Memory)
    };
    let arms = [
        (config(MediumChoice::Memory), 5),
        (nhit, 2),
        (config(MediumChoice::MemoryLz4), 2),
        (config(MediumChoice::File(folder.path().join("medium"))), 1),
    ];
    for seed in seeds() {
        println!("SEED={seed}");
        for (config, tenths) in &arms {
            let mut random = Random(seed);
            let mut done = Vec::new();
            let failed = catch_unwind(AssertUnwindSafe(|| {
                let mut world = World::new(config.clone());
                for _ in 0..operations() * tenths / 10 {
                    let operation = draw(&mut random);
                    done.push(operation);
                    world.run(operation);
                }
            }));
            if failed.is_err() {
                let short = shrink(config, done);
                panic!("SEED={seed} {}: fails with {short:#?}", config.medium);
            }
        }
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each page of a file holds one 32-bit number, repeated: the version that its last write gave it. A reader
/// may see any version between the last one ended before it began and the last one begun when it ends.
#[test]
fn threads_see_no_torn_page_and_no_old_one() {
    use std::sync::atomic::AtomicU64;
    const PAGES: usize = 96;
    for (medium, name) in [
        (MediumChoice::Memory, "memory"),
        (MediumChoice::MemoryLz4, "lz4"),
    ] {
        let tier = Tier::open(config(medium)).expect("tier");
        let id = tier
            .file(
                b"/d/a.ibd",
                Identity {
                    inode: 1,
                    ..Identity::default()
                },
            )
            .expect("file");
        let begun: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let ended: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let stored: Vec<Mutex<u64>> = (0..PAGES).map(|_| Mutex::new(0)).collect();
        let (stop, steps) = (AtomicBool::new(false), operations() / 10);
        let content = |page: usize, version: u64| {
            (version << 8 | page as u64)
                .to_le_bytes()
                .repeat(PAGE as usize / 8)
        };
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let (tier, begun, ended, stored, stop) = (&tier, &begun, &ended, &stored, &stop);
                scope.spawn(move || {
                    let mut random = Random(writer + 77);
                    while !stop.load(Ordering::Relaxed) {
                        // Writers do not overlap on a page, as InnoDB's do not.
                        let page = (random.below(PAGES as u64 / 2) * 2 + writer) as usize;
                        let version = begun[page].fetch_add(1, Ordering::SeqCst) + 1;
                        let token = tier.write_begin(id, page as u64 * PAGE, PAGE);
                        *stored[page].lock().expect("lock") = version;
                        tier.write_end(
                            token,
                            (version % 3 > 0).then(|| content(page, version)).as_deref(),
                        );
                        ended[page].store(version, Ordering::SeqCst);
                        if version % 64 == 0 {
                            let size = (16 + random.below(100)) * PAGE;
                            tier.perform(Request::Resize(size)).expect("resize");
                        }
                    }
                });
            }
            // Also when an assertion below fails: the writers must not run for ever.
            let _stop = Stop(&stop);
            let mut random = Random(5);
            let mut dst = vec![0; PAGE as usize];
            for _ in 0..steps {
                let page = random.below(PAGES as u64) as usize;
                let lowest = ended[page].load(Ordering::SeqCst);
                match tier.read(id, page as u64 * PAGE, &mut dst) {
                    Lookup::Hit => {
                        let word = u64::from_le_bytes(dst[..8].try_into().expect("eight bytes"));
                        let highest = begun[page].load(Ordering::SeqCst);
                        assert_eq!(word as u8 as usize, page, "{name}: another page");
                        assert!(
                            dst.chunks(8).all(|chunk| chunk == word.to_le_bytes()),
                            "{name}: a torn page"
                        );
                        assert!(
                            (lowest..=highest).contains(&(word >> 8)),
                            "{name}: {lowest} {} {highest}",
                            word >> 8
                        );
                    }
                    Lookup::Miss(token) => {
                        let version = *stored[page].lock().expect("lock");
                        tier.fill(token, &content(page, version));
                    }
                    Lookup::Bypass(_) => (),
                }
            }
        });
    }
}
