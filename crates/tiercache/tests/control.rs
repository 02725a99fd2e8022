//! A running tier answers what is asked through its statistics page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tiercache::status::Request;
use tiercache::{Config, Identity, Lookup, MediumChoice, StatusPage, Tier};

const PAGE: usize = 4096;

/// A tier that holds three pages, its page as another program sees it, and the page's folder.
fn tier() -> (Tier, StatusPage, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page");
    let config = Config {
        size_bytes: 16 * PAGE as u64,
        page_size_bytes: PAGE,
        sequential_cutoff_bytes: 0,
        status_path: Some(path.clone()),
        ..Config::default()
    };
    let tier = Tier::open(config).expect("a tier");
    let identity = Identity {
        device: 1,
        inode: 1,
        birth_ns: 7,
        ..Identity::default()
    };
    let file = tier.file(b"/d/t1.ibd", identity).expect("a cached file");
    for number in 0..3 {
        let mut read = vec![0; PAGE];
        let Lookup::Miss(token) = tier.read(file, number * PAGE as u64, &mut read) else {
            panic!("the tier is empty");
        };
        tier.fill(token, &[1; PAGE]);
    }
    let page = StatusPage::attach(&path).expect("its page");
    (tier, page, folder)
}

#[test]
fn what_was_asked_is_done_until_the_tier_stops() {
    let (tier, page, _folder) = tier();
    assert!(tier.control());
    let ticket = page.request(Request::Drop).expect("a request");
    assert!(page.wait(ticket, Duration::ZERO).is_err());
    let ticket = page.request(Request::Drop).expect("a request");
    assert!(tier.control());
    let answer = page.wait(ticket, Duration::ZERO);
    assert_eq!(answer.as_deref(), Ok("3 pages left the tier"));
    tier.stop();
    assert!(!tier.control());
}

#[test]
fn a_reader_sees_what_is_held_now() {
    let (tier, page, _folder) = tier();
    let read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !read.load(Ordering::Relaxed) {
                tier.control();
            }
        });
        let used = page.snapshot().used_pages;
        read.store(true, Ordering::Relaxed);
        assert_eq!(used, 3);
    });
}

#[test]
fn a_tier_grows_to_the_size_that_a_refusal_names() {
    let (tier, _page, _folder) = tier();
    let refused = tier
        .perform(Request::Resize(1 << 38))
        .expect_err("too much");
    let most: u64 = refused
        .split(' ')
        .find_map(|word| word.parse().ok())
        .expect("a size");
    assert!(tier.perform(Request::Resize(most + PAGE as u64)).is_err());
    assert!(tier.perform(Request::Resize(most)).is_ok());
}

#[test]
fn what_a_medium_can_bring_to_stable_storage_and_keeps_of_each_page_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("medium");
    let stable = "everything that the medium holds is on stable storage";
    let none = "this medium has no stable storage";
    for (medium, answer, index_bytes) in [
        (MediumChoice::Memory, none, 31),
        // First block and length of a slot, and of four blocks the next one.
        (MediumChoice::MemoryLz4, none, 31 + 8 + 16),
        // A checksum.
        (MediumChoice::File(file), stable, 31 + 8),
    ] {
        let config = Config {
            size_bytes: 64 * PAGE as u64,
            page_size_bytes: PAGE,
            medium,
            ..Config::default()
        };
        let tier = Tier::open(config).expect("a tier");
        let told = tier.status().snapshot();
        let medium = told.medium;
        assert_eq!(
            told.index_bytes,
            told.capacity_pages * index_bytes,
            "{medium}"
        );
        let answered = tier.perform(Request::Flush);
        assert_eq!(answered.as_deref(), Ok(answer), "{medium}");
    }
}
