//! C4, C7 and C15 with one file for all threads, while another program resizes the tier and switches its mode.
//!
//! Each thread owns a quarter of every page: a page in the tier that misses any thread's last write shows at once.
//! UPSHIFT_ORACLE_OPERATIONS (default 200000) and UPSHIFT_ORACLE_SEED choose the run; the seed is printed.

mod common;

use std::ffi::{CString, c_int};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Numbers, counter, preloaded};
use tiercache::status::Request;
use tiercache::{Mode, StatusPage};

workers!(worker);

const PAGE: usize = 4096;
const PAGES: usize = 96;
const THREADS: usize = 4;
/// What a thread owns of each page.
const PART: usize = PAGE / THREADS;

#[test]
fn threads_that_share_pages_see_their_own_writes_whatever_the_size_and_mode() {
    let fresh = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    let seed = std::env::var("UPSHIFT_ORACLE_SEED")
        .map_or(fresh, |text| text.parse().expect("a number as seed"));
    for seed in [1, seed] {
        println!("seed {seed}");
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = preloaded("worker", &folder);
        command.env("UPSHIFT_ORACLE_SEED", seed.to_string());
        let done = command.output().expect("the test program runs");
        let text = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "seed {seed}: {text}");
        for (name, least) in [("hits", 1000), ("fills", 1000), ("changes", 10)] {
            let count = counter(&text, name);
            assert!(count > least, "seed {seed}: only {count} {name}: {text}");
        }
    }
}

fn worker() {
    let number = |name: &str| std::env::var(name).map(|text| text.parse().expect("a number"));
    let seed: u64 = number("UPSHIFT_ORACLE_SEED").expect("a seed");
    let operations: u64 = number("UPSHIFT_ORACLE_OPERATIONS").unwrap_or(200_000);
    let path = CString::new(format!("{}/t.ibd", common::folder())).expect("no zero byte");
    // SAFETY: the path ends in a zero byte.
    let fd = unsafe { libc::open64(path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600) };
    assert!(fd >= 0);
    // SAFETY: our own descriptor.
    assert_eq!(unsafe { libc::ftruncate64(fd, (PAGES * PAGE) as i64) }, 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let operator = scope.spawn(|| change_the_tier(seed, &over));
        let sharers: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    let mut sharer = Sharer::new(seed, number, fd);
                    (0..operations / THREADS as u64).for_each(|step| sharer.step(step));
                })
            })
            .collect();
        let ended: Vec<_> = sharers.into_iter().map(|sharer| sharer.join()).collect();
        over.store(true, Ordering::Relaxed);
        let changes = operator.join().expect("requests are answered");
        eprintln!("changes={changes}");
        assert!(ended.iter().all(Result::is_ok), "a thread saw a difference");
    });
}

/// Requests through the status page, as `upshift-cache resize`, `mode` and `drop` make them; how many were done.
fn change_the_tier(seed: u64, over: &AtomicBool) -> u64 {
    let status = Path::new(&common::folder()).join("status");
    let page = StatusPage::attach(&status).expect("the tier's status page");
    let (mut numbers, mut changes) = (Numbers(seed ^ 77), 0);
    while !over.load(Ordering::Relaxed) {
        let request = match numbers.below(8) {
            0..4 => Request::Resize((8 + numbers.below(150)) * PAGE as u64),
            4..6 => Request::Mode(Mode::ALL[numbers.below(4) as usize]),
            6 => Request::Mode(Mode::WriteThrough),
            _ => Request::Drop,
        };
        let ticket = page.request(request).expect("nobody else asks");
        match page.wait(ticket, Duration::from_secs(5)) {
            Ok(_) => changes += 1,
            Err(error) => assert!(over.load(Ordering::Relaxed), "{request:?}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    changes
}

/// One thread; `versions` has what it last wrote into its part of each page.
struct Sharer {
    numbers: Numbers,
    number: usize,
    fd: c_int,
    versions: Vec<u8>,
}

impl Sharer {
    fn new(seed: u64, number: usize, fd: c_int) -> Self {
        let numbers = Numbers(seed.wrapping_mul(31).wrapping_add(number as u64));
        Self {
            numbers,
            number,
            fd,
            versions: vec![0; PAGES],
        }
    }

    fn step(&mut self, step: u64) {
        let page = self.numbers.below(PAGES as u64) as usize;
        let own = page * PAGE + self.number * PART;
        match self.numbers.below(100) {
            0..50 => self.check(page, page * PAGE, PAGE, step),
            50..65 => self.check(page, own, PART, step),
            65..70 => self.check(page, page * PAGE, PAGE * 3, step),
            70..99 => self.write(page, own),
            _ => {
                // SAFETY: our own descriptor.
                assert_eq!(unsafe { libc::fdatasync(self.fd) }, 0);
            }
        }
    }

    fn write(&mut self, page: usize, own: usize) {
        self.versions[page] = self.versions[page].wrapping_add(1);
        let data = [self.versions[page]; PART];
        // SAFETY: data has PART bytes.
        let answer = unsafe { libc::pwrite64(self.fd, data.as_ptr().cast(), PART, own as i64) };
        assert_eq!(answer, PART as isize);
    }

    /// Reads a range from `page` on and looks at this thread's parts of it.
    fn check(&self, page: usize, offset: usize, size: usize, step: u64) {
        let mut got = vec![0xEE; size];
        // SAFETY: got has size bytes.
        let answer =
            unsafe { libc::pread64(self.fd, got.as_mut_ptr().cast(), size, offset as i64) };
        assert_eq!(answer as usize, size.min(PAGES * PAGE - offset));
        let start = if size == PART { 0 } else { self.number * PART };
        for (next, part) in got[..answer as usize].chunks(PAGE).enumerate() {
            let wanted = [self.versions[page + next]; PART];
            assert!(
                part[start..start + PART] == wanted,
                "thread {} page {} step {step}: {} for {}",
                self.number,
                page + next,
                part[start],
                wanted[0]
            );
        }
    }
}
