//! Errors of the medium: whichever access fails, what is served is the file's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Identity, Lookup, Tier};
use crate::config::Config;
use crate::index::Index;
use crate::medium::{Medium, MediumError};
use crate::status::{Counter, StatusPage};

const PAGE: usize = 4096;
const PAGES: u64 = 8;

/// Memory whose n-th access fails: a write after half of the page, a read after garbage.
struct Failing {
    pages: std::sync::Mutex<Vec<u8>>,
    accesses: Arc<AtomicU64>,
    fail_at: u64,
}

impl Failing {
    fn fails(&self) -> bool {
        self.accesses.fetch_add(1, Ordering::Relaxed) == self.fail_at
    }
}

impl Medium for Failing {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        if self.fails() {
            dst.fill(0xee);
            return Err(MediumError::Io(io::Error::from_raw_os_error(libc::EIO)));
        }
        let at = slot as usize * PAGE + offset;
        dst.copy_from_slice(&self.pages.lock().expect("lock")[at..at + dst.len()]);
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        let failed = self.fails();
        let at = slot as usize * PAGE;
        let done = if failed { PAGE / 2 } else { PAGE };
        self.pages.lock().expect("lock")[at..at + done].copy_from_slice(&data[..done]);
        if failed {
            Err(MediumError::Io(io::Error::from_raw_os_error(libc::EIO)))
        } else {
            Ok(())
        }
    }

    fn resize(&self, _size_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

fn tier_on(config: Config, status: StatusPage, medium: Box<dyn Medium>) -> Tier {
    let index = Index::new(PAGES as u32, PAGES as u32, None).expect("index");
    Tier::with_medium(config, status, medium, index, PAGES * PAGE as u64).expect("tier")
}

/// A start, load and stop; returns how many accesses of the medium it made.
fn cycle(fail_at: u64) -> u64 {
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        ..Config::default()
    };
    let accesses = Arc::new(AtomicU64::new(0));
    let pages = std::sync::Mutex::new(vec![0; PAGES as usize * PAGE]);
    let medium = Box::new(Failing {
        pages,
        accesses: accesses.clone(),
        fail_at,
    });
    let status = StatusPage::private(&config).expect("status");
    let tier = tier_on(config, status, medium);
    let file = tier
        .file(
            b"t.ibd",
            Identity {
                inode: 1,
                ..Identity::default()
            },
        )
        .expect("file");
    let mut truth: Vec<u8> = (0..12).collect();
    for round in 0..4u8 {
        for (number, now) in truth.iter_mut().enumerate() {
            let mut dst = vec![0; PAGE];
            match tier.read(file, (number * PAGE) as u64, &mut dst) {
                Lookup::Hit => {
                    assert_eq!(dst, vec![*now; PAGE], "fail_at {fail_at}, page {number}")
                }
                Lookup::Miss(token) => tier.fill(token, &vec![*now; PAGE]),
                Lookup::Bypass(_) => (),
            }
            if number % 3 == 0 {
                let token = tier.write_begin(file, (number * PAGE) as u64, PAGE as u64);
                *now = now.wrapping_add(50 + round);
                tier.write_end(token, Some(&vec![*now; PAGE]));
            }
        }
    }
    let seen = tier.status().snapshot();
    let errors = seen.counter(Counter::MediumReadErrors) + seen.counter(Counter::MediumWriteErrors);
    tier.stop();
    let accesses = accesses.load(Ordering::Relaxed);
    assert_eq!(
        errors,
        u64::from(fail_at < accesses),
        "the failure is counted"
    );
    accesses
}

#[test]
fn whichever_access_of_the_medium_fails_the_data_is_right() {
    let accesses = cycle(u64::MAX);
    assert!(accesses > 40, "{accesses}");
    (0..accesses).for_each(|fail_at| {
        cycle(fail_at);
    });
}

/// Memory that takes its time, each access another one, and now and then stalls.
struct Slow {
    pages: std::sync::Mutex<Vec<u8>>,
    accesses: AtomicU64,
}

impl Slow {
    fn wait(&self) {
        let number = self.accesses.fetch_add(1, Ordering::Relaxed);
        let wait_us = if number.is_multiple_of(97) {
            20_000
        } else {
            number % 7 * 100
        };
        std::thread::sleep(std::time::Duration::from_micros(wait_us));
    }
}

impl Medium for Slow {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        let at = slot as usize * PAGE + offset;
        let (end, half) = (at + dst.len(), dst.len() / 2);
        // In two halves: what a writer puts between them must not be served.
        dst[..half].copy_from_slice(&self.pages.lock().expect("lock")[at..at + half]);
        self.wait();
        dst[half..].copy_from_slice(&self.pages.lock().expect("lock")[at + half..end]);
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        let at = slot as usize * PAGE;
        self.pages.lock().expect("lock")[at..at + PAGE / 2].copy_from_slice(&data[..PAGE / 2]);
        self.wait();
        self.pages.lock().expect("lock")[at + PAGE / 2..at + PAGE]
            .copy_from_slice(&data[PAGE / 2..]);
        Ok(())
    }

    fn resize(&self, _size_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Each page holds its version; a hit shows one between the last ended before it and the last begun after it.
#[test]
fn a_medium_that_stalls_serves_neither_old_nor_torn_pages() {
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        sequential_cutoff_bytes: 0,
        ..Config::default()
    };
    let medium = Box::new(Slow {
        pages: std::sync::Mutex::new(vec![0; PAGES as usize * PAGE]),
        accesses: AtomicU64::new(0),
    });
    let status = StatusPage::private(&config).expect("status");
    let tier = tier_on(config, status, medium);
    let identity = Identity {
        inode: 1,
        ..Identity::default()
    };
    let file = tier.file(b"t.ibd", identity).expect("file");
    let version = || (0..12).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let (begun, stored, ended) = (version(), version(), version());
    let content = |version: u64| vec![version as u8; PAGE];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..12).cycle().take(240) {
                let now = begun[number].fetch_add(1, Ordering::SeqCst) + 1;
                let token = tier.write_begin(file, (number * PAGE) as u64, PAGE as u64);
                stored[number].store(now, Ordering::SeqCst);
                tier.write_end(token, (now % 4 > 0).then(|| content(now)).as_deref());
                ended[number].store(now, Ordering::SeqCst);
            }
        });
        for start in 0..3 {
            let (begun, stored, ended, tier) = (&begun, &stored, &ended, &tier);
            scope.spawn(move || {
                for number in (0..12).cycle().skip(start * 5).take(300) {
                    let lowest = ended[number].load(Ordering::SeqCst);
                    let mut dst = vec![0; PAGE];
                    match tier.read(file, (number * PAGE) as u64, &mut dst) {
                        Lookup::Hit => {
                            let highest = begun[number].load(Ordering::SeqCst);
                            assert_eq!(dst, content(u64::from(dst[0])), "a torn page");
                            assert!((lowest..=highest).contains(&u64::from(dst[0])));
                        }
                        Lookup::Miss(token) => {
                            tier.fill(token, &content(stored[number].load(Ordering::SeqCst)));
                        }
                        Lookup::Bypass(_) => (),
                    }
                }
            });
        }
    });
    assert!(tier.status().snapshot().counter(Counter::Hits) > 50);
}
