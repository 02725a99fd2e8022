//! Errors of the medium: whichever access fails, what is served is the file's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{FileId, Identity, Lookup, Tier};
use crate::config::{Config, Mode};
use crate::index::Index;
use crate::medium::{Medium, MediumError};
use crate::status::{Counter, Reason, Request, StatusPage};

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
        let wait_us = if number % 97 == 0 {
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

/// A tier of one file whose medium never fails, every other read of a thread audited.
fn audited() -> (Tier, FileId) {
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        audit_every: 2,
        ..Config::default()
    };
    let tier = Tier::open(config).expect("tier");
    let file = tier.file(b"t.ibd", Identity::default()).expect("file");
    let mut dst = vec![0; PAGE];
    if let Lookup::Miss(token) = tier.read(file, 0, &mut dst) {
        tier.fill(token, &[7; PAGE]);
    }
    (tier, file)
}

#[test]
fn one_read_in_so_many_is_audited() {
    let (tier, file) = audited();
    let count = |tier: &Tier, file| {
        (0..100)
            .filter(|_| tier.audit(file, 0, 1).is_some())
            .count()
    };
    assert!((49..=50).contains(&count(&tier, file)));
    // Threads that read less often than that take part, too.
    let among = (0..200).filter(|_| {
        std::thread::scope(|scope| {
            let one = scope.spawn(|| (0..2).any(|_| tier.audit(file, 0, 1).is_some()));
            one.join().expect("a thread")
        })
    });
    assert!((50..150).contains(&among.count()));
    let never = Config {
        audit_every: 0,
        ..tier.config().clone()
    };
    let never = Tier::open(never).expect("tier");
    let other = never.file(b"t.ibd", Identity::default()).expect("file");
    std::thread::scope(|scope| {
        let none = scope.spawn(|| count(&never, other));
        assert_eq!(none.join().expect("a thread"), 0);
    });
}

#[test]
fn a_difference_turns_the_tier_off_for_good_unless_a_write_explains_it() {
    let (tier, file) = audited();
    let due = || {
        (0..4)
            .find_map(|_| tier.audit(file, 0, PAGE as u64))
            .expect("due")
    };
    assert!(tier.audited(due(), &[7; PAGE], &[7; PAGE]));
    let token = due();
    let write = tier.write_begin(file, 0, PAGE as u64);
    assert!(
        tier.audit(file, 0, 1).is_none() && tier.audit(file, 0, 1).is_none(),
        "a write is under way"
    );
    tier.write_end(write, None);
    assert!(
        tier.audited(token, &[7; PAGE], &[8; PAGE]),
        "written meanwhile"
    );
    assert_eq!(tier.notice(), None);
    let (differs, again) = (due(), due());
    assert!(!tier.audited(differs, &[7; PAGE], &[8; PAGE]));
    assert!(!tier.audited(again, &[7; PAGE], &[9; PAGE]));
    let notice = tier.notice().expect("said");
    assert!(
        notice.contains("byte 0 of t.ibd") && tier.notice().is_none(),
        "{notice}"
    );
    let mut dst = vec![0; PAGE];
    let past = tier.read(file, 0, &mut dst);
    assert!(matches!(past, Lookup::Bypass(Reason::Audit)));
    let error = tier.perform(Request::Mode(Mode::WriteThrough));
    assert!(error.is_err_and(|why| why.contains("restart")));
    tier.perform(Request::Mode(Mode::PassThrough))
        .expect("off it is");
    let seen = tier.status().snapshot();
    assert_eq!(
        (
            seen.counter(Counter::Audits),
            seen.counter(Counter::AuditDifferences)
        ),
        (4, 2)
    );
    assert!(seen.off.contains("t.ibd"));
}

/// Wrong pages are not kept for the next start.
#[test]
fn a_tier_that_served_wrong_data_starts_cold() {
    let folder = crate::testing::Folder::new("audit-cold");
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        medium: crate::MediumChoice::File(folder.path("tier")),
        audit_every: 1,
        ..Config::default()
    };
    let tier = Tier::open(config.clone()).expect("tier");
    let file = tier.file(b"t.ibd", Identity::default()).expect("file");
    let token = (0..3).find_map(|_| tier.audit(file, 0, 1)).expect("due");
    assert!(!tier.audited(token, &[1], &[2]));
    tier.stop();
    drop(tier);
    let tier = Tier::open(config).expect("tier");
    assert_eq!(
        tier.status().snapshot().start,
        "cold: the last stop was not clean"
    );
}

/// Sixteen in a minute are too many; time forgives.
#[test]
fn failures_that_are_forgiven_do_not_turn_the_tier_off() {
    let (tier, _) = audited();
    for _ in 0..4 {
        (0..15).for_each(|_| tier.medium_failed(&"an error"));
        tier.off.forgive();
    }
    assert_eq!(tier.mode(), Mode::WriteThrough);
    (0..16).for_each(|_| tier.medium_failed(&"an error"));
    assert_eq!(tier.mode(), Mode::PassThrough);
}

/// Slow, and right: a device that hangs is worse than none.
#[test]
fn a_medium_that_is_slow_counts_as_failing() {
    let folder = crate::testing::Folder::new("slow");
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        medium: crate::MediumChoice::File(folder.path("tier")),
        medium_latency_ms_max: 50,
        medium_errors_max: 2,
        ..Config::default()
    };
    let tier = Tier::open(config).expect("tier");
    let ago = |ms| std::time::Instant::now() - std::time::Duration::from_millis(ms);
    tier.timed(ago(0));
    tier.timed(ago(60));
    assert_eq!(tier.mode(), Mode::WriteThrough);
    tier.timed(ago(60));
    assert_eq!(tier.mode(), Mode::PassThrough);
    let notice = tier.notice().expect("said");
    assert!(notice.contains("an access took 6"), "{notice}");
    assert_eq!(tier.status().snapshot().counter(Counter::MediumSlow), 2);
}
