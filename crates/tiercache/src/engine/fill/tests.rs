//! What happens while a page goes into the medium: a write to its file, or no room.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::config::Config;
use crate::engine::{FileId, Identity, Lookup, Tier};
use crate::index::Index;
use crate::medium::{Medium, MediumError};
use crate::status::{Counter, StatusPage, quantile_ns};

const PAGE: usize = 4096;
const PAGES: u32 = 8;

/// What the next writes of the medium meet.
#[derive(Default)]
struct Ahead {
    tier: OnceLock<(Weak<Tier>, FileId)>,
    /// A write to the first page of the file.
    meddle: AtomicU32,
    /// No room.
    full: AtomicU32,
    /// They take so long.
    wait_ms: AtomicU32,
    released: Mutex<Vec<u32>>,
}

fn take(count: &AtomicU32) -> bool {
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let less = |left: u32| left.checked_sub(1);
    count.fetch_update(success, failure, less).is_ok()
}

struct Memory {
    pages: Mutex<Vec<u8>>,
    ahead: Arc<Ahead>,
}

impl Medium for Memory {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        let at = slot as usize * PAGE + offset;
        dst.copy_from_slice(&self.pages.lock().expect("lock")[at..at + dst.len()]);
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        let wait_ms = self.ahead.wait_ms.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(wait_ms.into()));
        if take(&self.ahead.full) {
            return Err(MediumError::Full);
        }
        if take(&self.ahead.meddle) {
            let (tier, file) = self.ahead.tier.get().expect("set");
            let tier = tier.upgrade().expect("it lives");
            let token = tier.write_begin(*file, 0, PAGE as u64);
            tier.write_end(token, None);
        }
        let at = slot as usize * PAGE;
        self.pages.lock().expect("lock")[at..at + PAGE].copy_from_slice(data);
        Ok(())
    }

    fn release(&self, slot: u32) {
        self.ahead.released.lock().expect("lock").push(slot);
    }

    fn resize(&self, _size_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

fn tier() -> (Arc<Tier>, FileId, Arc<Ahead>) {
    let size_bytes = u64::from(PAGES) * PAGE as u64;
    let config = Config {
        size_bytes,
        page_size_bytes: PAGE,
        sequential_cutoff_bytes: 0,
        ..Config::default()
    };
    let ahead = Arc::new(Ahead::default());
    let medium = Box::new(Memory {
        pages: Mutex::new(vec![0; size_bytes as usize]),
        ahead: ahead.clone(),
    });
    let status = StatusPage::private(&config).expect("status");
    let index = Index::new(PAGES, PAGES, None).expect("index");
    let tier = Tier::with_medium(config, status, medium, index, size_bytes).expect("tier");
    let tier = Arc::new(tier);
    let file = tier.file(b"t.ibd", Identity::default()).expect("file");
    let me = (Arc::downgrade(&tier), file);
    assert!(ahead.tier.set(me).is_ok());
    (tier, file, ahead)
}

/// Whether the page is served; if not, it is filled.
fn hit(tier: &Tier, file: FileId, number: u64) -> bool {
    let mut dst = vec![0; PAGE];
    match tier.read(file, number * PAGE as u64, &mut dst) {
        Lookup::Hit => {
            assert_eq!(dst, vec![number as u8 + 1; PAGE]);
            true
        }
        Lookup::Miss(token) => {
            tier.fill(token, &vec![number as u8 + 1; PAGE]);
            false
        }
        Lookup::Bypass(reason) => panic!("{reason:?}"),
    }
}

fn counters<const N: usize>(tier: &Tier, counters: [Counter; N]) -> [u64; N] {
    let seen = tier.status().snapshot();
    counters.map(|counter| seen.counter(counter))
}

#[test]
fn a_write_while_its_page_goes_in_keeps_it_out() {
    let (tier, file, ahead) = tier();
    for round in 1..=3 {
        ahead.meddle.store(1, Ordering::Relaxed);
        assert!(!hit(&tier, file, 0));
        assert_eq!(
            counters(
                &tier,
                [Counter::FillsStale, Counter::Fills, Counter::FillBytes]
            ),
            [round, 0, 0]
        );
        assert_eq!(tier.index.used(), 0);
        assert_eq!(ahead.released.lock().expect("lock").len() as u64, round);
    }
    // The refill of a write meets another write.
    ahead.meddle.store(1, Ordering::Relaxed);
    let token = tier.write_begin(file, 0, PAGE as u64);
    tier.write_end(token, Some(&[9; PAGE]));
    assert_eq!(tier.index.used(), 0);
    assert!(!hit(&tier, file, 0) && hit(&tier, file, 0));
    let fills = counters(&tier, [Counter::Fills, Counter::FillBytes]);
    assert_eq!(fills, [1, PAGE as u64]);
}

#[test]
fn a_medium_without_room_gives_up_other_pages_and_then_this_one() {
    let (tier, file, ahead) = tier();
    let kinds = [
        Counter::Evictions,
        Counter::FillsNoRoom,
        Counter::FillsStale,
    ];
    (0..4).for_each(|number| assert!(!hit(&tier, file, number)));
    ahead.full.store(2, Ordering::Relaxed);
    assert!(!hit(&tier, file, 4) && hit(&tier, file, 4));
    assert_eq!(counters(&tier, kinds), [2, 0, 0]);
    assert_eq!(
        (
            tier.index.used(),
            ahead.released.lock().expect("lock").len()
        ),
        (3, 2)
    );
    // Nothing is left to be given up before it finds room.
    ahead.full.store(40, Ordering::Relaxed);
    assert!(!hit(&tier, file, 5));
    assert_eq!(counters(&tier, kinds), [5, 1, 0]);
    assert_eq!(tier.index.used(), 0);
    assert_eq!(counters(&tier, [Counter::MediumWriteErrors]), [0]);
    ahead.full.store(0, Ordering::Relaxed);
    assert!(!hit(&tier, file, 5) && hit(&tier, file, 5));
}

#[test]
fn a_miss_lasts_until_its_page_is_in() {
    let (tier, file, ahead) = tier();
    ahead.wait_ms.store(20, Ordering::Relaxed);
    assert!(!hit(&tier, file, 0));
    let misses = tier.status().snapshot().miss_ns;
    // The upper bound of its bucket, which is less than twice as long.
    let most_ns = quantile_ns(&misses, 0.0).expect("a miss");
    assert_eq!(misses.iter().sum::<u64>(), 1);
    assert!(most_ns > 20_000_000, "{most_ns} ns");
}
