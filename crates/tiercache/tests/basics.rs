//! What each call of the tier promises, one clause a test.

use tempfile::TempDir;
use tiercache::{
    Config, Counter, FileId, Identity, Lookup, MediumChoice, Mode, Promotion, Reason, StatusPage,
    Tier,
};

const PAGE: usize = 4096;

fn config(pages: u64) -> Config {
    Config {
        size_bytes: pages * PAGE as u64,
        page_size_bytes: PAGE,
        sequential_cutoff_bytes: 0,
        ..Config::default()
    }
}

fn identity(inode: u64) -> Identity {
    Identity {
        device: 1,
        inode,
        birth_ns: 7,
        ..Identity::default()
    }
}

fn file(tier: &Tier, inode: u64) -> FileId {
    tier.file(format!("/d/t{inode}.ibd").as_bytes(), identity(inode))
        .expect("a cached file")
}

fn page(byte: u8) -> Vec<u8> {
    (0..PAGE)
        .map(|at| byte.wrapping_add((at / 64) as u8))
        .collect()
}

fn bring(tier: &Tier, file: FileId, number: u64, data: &[u8]) {
    let mut dst = vec![0; data.len()];
    if let Lookup::Miss(token) = tier.read(file, number * PAGE as u64, &mut dst) {
        tier.fill(token, data);
    }
}

fn reads(tier: &Tier, file: FileId, number: u64) -> Option<Vec<u8>> {
    let mut dst = vec![0; PAGE];
    matches!(tier.read(file, number * PAGE as u64, &mut dst), Lookup::Hit).then_some(dst)
}

fn media(folder: &TempDir) -> [MediumChoice; 4] {
    let path = |name: &str| folder.path().join(name);
    [
        MediumChoice::Memory,
        MediumChoice::MemoryLz4,
        MediumChoice::File(path("file")),
        MediumChoice::Direct(path("direct")),
    ]
}

#[test]
fn every_medium_serves_what_was_filled() {
    let folder = tempfile::tempdir().expect("a folder");
    for medium in media(&folder) {
        let tier = Tier::open(Config {
            medium: medium.clone(),
            ..config(64)
        })
        .expect("tier");
        let file = file(&tier, 1);
        for number in 0..40 {
            bring(&tier, file, number, &page(number as u8));
        }
        let served = (0..40)
            .filter(|number| reads(&tier, file, *number) == Some(page(*number as u8)))
            .count();
        assert_eq!(served, 40, "{medium}");
        let mut part = vec![0; 100];
        assert!(
            matches!(
                tier.read(file, 5 * PAGE as u64 + 10, &mut part),
                Lookup::Hit
            ),
            "{medium}"
        );
        assert_eq!(part, page(5)[10..110]);
        let mut three = vec![0; 3 * PAGE];
        assert!(
            matches!(tier.read(file, 7 * PAGE as u64, &mut three), Lookup::Hit),
            "{medium}"
        );
        assert_eq!(three, [page(7), page(8), page(9)].concat());
        drop(tier);
    }
}

#[test]
fn a_write_between_miss_and_fill_makes_the_fill_stale() {
    let tier = Tier::open(config(64)).expect("tier");
    let file = file(&tier, 1);
    let mut dst = vec![0; PAGE];
    let Lookup::Miss(before) = tier.read(file, 0, &mut dst) else {
        panic!("empty")
    };
    let token = tier.write_begin(file, 0, PAGE as u64);
    assert!(matches!(
        tier.read(file, 0, &mut dst),
        Lookup::Bypass(Reason::WriteInFlight)
    ));
    tier.write_end(token, None);
    tier.fill(before, &page(1));
    assert_eq!(reads(&tier, file, 0), None);
    assert_eq!(tier.status().snapshot().counter(Counter::FillsStale), 1);
}

#[test]
fn modes_differ_in_what_a_write_leaves() {
    for (mode, known, new) in [
        (Mode::WriteThrough, true, true),
        (Mode::WriteAround, true, false),
        (Mode::WriteInvalidate, false, false),
    ] {
        let tier = Tier::open(Config { mode, ..config(64) }).expect("tier");
        let file = file(&tier, 1);
        bring(&tier, file, 0, &page(1));
        for number in [0, 20] {
            let token = tier.write_begin(file, number * PAGE as u64, PAGE as u64);
            assert_eq!(reads(&tier, file, number), None);
            tier.write_end(token, Some(&page(2)));
        }
        assert_eq!(reads(&tier, file, 0), known.then(|| page(2)), "{mode:?}");
        assert_eq!(reads(&tier, file, 20), new.then(|| page(2)), "{mode:?}");
    }
}

/// As InnoDB's page cleaner does: all submitted, then all reaped.
#[test]
fn a_batch_of_writes_under_way_at_once_comes_in_whole() {
    const BATCH: u64 = 512;
    let tier = Tier::open(config(2 * BATCH)).expect("tier");
    let file = file(&tier, 1);
    let tokens: Vec<_> = (0..BATCH)
        .map(|number| tier.write_begin(file, number * PAGE as u64, PAGE as u64))
        .collect();
    for (number, token) in tokens.into_iter().enumerate() {
        tier.write_end(token, Some(&page(number as u8)));
    }
    let there =
        (0..BATCH).filter(|number| reads(&tier, file, *number) == Some(page(*number as u8)));
    assert_eq!(there.count() as u64, BATCH);
    assert_eq!(tier.status().snapshot().counter(Counter::FillsStale), 0);
}

#[test]
fn overlapping_writes_leave_nothing() {
    let tier = Tier::open(config(64)).expect("tier");
    let file = file(&tier, 1);
    let first = tier.write_begin(file, 0, PAGE as u64);
    let second = tier.write_begin(file, 0, PAGE as u64);
    tier.write_end(first, Some(&page(1)));
    tier.write_end(second, Some(&page(2)));
    assert_eq!(reads(&tier, file, 0), None);
    assert_eq!(tier.status().snapshot().counter(Counter::FillsStale), 2);
    bring(&tier, file, 0, &page(2));
    assert_eq!(reads(&tier, file, 0), Some(page(2)));
}

#[test]
fn truncation_takes_the_tail_and_forgetting_takes_all() {
    let tier = Tier::open(config(64)).expect("tier");
    let id = file(&tier, 1);
    (0..8).for_each(|number| bring(&tier, id, number, &page(number as u8)));
    tier.invalidate(id, 4 * PAGE as u64 + 1, u64::MAX);
    assert_eq!(
        (0..8)
            .filter(|number| reads(&tier, id, *number).is_some())
            .collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    tier.forget(id);
    assert!(matches!(
        tier.read(id, 0, &mut [0; PAGE]),
        Lookup::Bypass(Reason::Forgotten)
    ));
    let again = file(&tier, 1);
    assert_ne!(id, again);
    assert_eq!(reads(&tier, again, 0), None);
}

#[test]
fn resize_keeps_what_fits_and_never_serves_wrong_pages() {
    for medium in [MediumChoice::Memory, MediumChoice::MemoryLz4] {
        let tier = Tier::open(Config {
            medium,
            ..config(64)
        })
        .expect("tier");
        let file = file(&tier, 1);
        for (pages, expected) in [(128u64, 100), (16, 16), (256, 16)] {
            tier.perform(tiercache::status::Request::Resize(pages * PAGE as u64))
                .expect("resize");
            if pages == 128 {
                (0..100).for_each(|number| bring(&tier, file, number, &page(number as u8)));
            }
            let found: Vec<_> = (0..100)
                .filter_map(|number| reads(&tier, file, number).map(|data| (number, data)))
                .collect();
            assert!(
                found
                    .iter()
                    .all(|(number, data)| *data == page(*number as u8))
            );
            assert!(found.len() >= expected.min(16), "{pages}: {}", found.len());
        }
        let error = tier
            .perform(tiercache::status::Request::Resize(1 << 40))
            .expect_err("too large");
        let limits = ["can grow to", "at most 2^32 blocks"];
        assert!(limits.iter().any(|limit| error.contains(limit)), "{error}");
    }
}

#[test]
fn nhit_lets_a_page_in_at_its_nth_miss() {
    let tier = Tier::open(Config {
        promotion: Promotion::NHit(3),
        ..config(64)
    })
    .expect("tier");
    let file = file(&tier, 1);
    for expected in [None, None, None, Some(page(1))] {
        assert_eq!(reads(&tier, file, 0), expected);
        bring(&tier, file, 0, &page(1));
        if expected.is_none() && reads(&tier, file, 0).is_some() {
            break;
        }
    }
    assert_eq!(reads(&tier, file, 0), Some(page(1)));
    assert_eq!(
        tier.status().snapshot().counter(Counter::FillsNotPromoted),
        2
    );
}

#[test]
fn a_long_sequential_run_does_not_come_in() {
    let tier = Tier::open(Config {
        sequential_cutoff_bytes: 8 * PAGE as u64,
        ..config(64)
    })
    .expect("tier");
    let file = file(&tier, 1);
    (0..40).for_each(|number| bring(&tier, file, number, &page(0)));
    assert_eq!(tier.status().snapshot().counter(Counter::Fills), 8);
    assert_eq!(tier.status().snapshot().bypass(Reason::Sequential), 32);
}

#[test]
fn pinned_pages_stay_up_to_their_share() {
    let rules = "pin:25=pinned.ibd".parse().expect("rules");
    let tier = Tier::open(Config {
        rules,
        ..config(64)
    })
    .expect("tier");
    let pinned = tier.file(b"/d/pinned.ibd", identity(9)).expect("file");
    (0..32).for_each(|number| bring(&tier, pinned, number, &page(number as u8)));
    let other = file(&tier, 1);
    (0..1000).for_each(|number| bring(&tier, other, number, &page(0)));
    assert_eq!(
        (0..32)
            .filter(|number| reads(&tier, pinned, *number).is_some())
            .count(),
        16
    );
}

#[test]
fn files_of_other_names_are_left_alone_and_counted() {
    let tier = Tier::open(config(64)).expect("tier");
    assert!(
        tier.file(b"/d/#innodb_redo/#ib_redo1", identity(1))
            .is_none()
    );
    assert_eq!(tier.status().snapshot().bypass(Reason::Rule), 1);
    let known = file(&tier, 2);
    assert_eq!(
        tier.file(b"/d/ibtmp1", identity(2)),
        Some(known),
        "a known file keeps its id under any name"
    );
}

#[test]
fn a_smaller_compressed_tier_holds_less_at_once() {
    let tier = Tier::open(Config {
        medium: MediumChoice::MemoryLz4,
        ..config(256)
    })
    .expect("tier");
    let file = file(&tier, 1);
    // Does not compress, so that bytes count before slots do.
    let noise = |number: u64| -> Vec<u8> {
        let mut word = number + 1;
        (0..PAGE)
            .map(|_| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word as u8
            })
            .collect()
    };
    (0..256).for_each(|number| bring(&tier, file, number, &noise(number)));
    let held = || (0..256).filter(|number| reads(&tier, file, *number).is_some());
    assert!(held().count() > 200);
    let size_bytes = 64 * PAGE as u64;
    tier.perform(tiercache::status::Request::Resize(size_bytes))
        .expect("smaller");
    let kept: Vec<u64> = held().collect();
    assert!((32..=64).contains(&kept.len()), "{} pages", kept.len());
    for number in kept {
        assert_eq!(reads(&tier, file, number), Some(noise(number)));
    }
}

#[test]
fn bytes_of_writes_are_counted_where_they_are_known() {
    let tier = Tier::open(config(64)).expect("tier");
    let file = file(&tier, 1);
    for (offset, length) in [(0, 8192), (4096, u64::MAX - 4096), (0, u64::MAX)] {
        let token = tier.write_begin(file, offset, length);
        tier.write_end(token, None);
    }
    let seen = tier.status().snapshot();
    assert_eq!(seen.counter(Counter::Writes), 3);
    assert_eq!(seen.counter(Counter::WriteBytes), 8192);
}

/// Neighbours in a file are no neighbours in the medium.
#[test]
fn a_read_that_begins_within_a_page_gets_each_pages_own_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    for medium in media(&folder) {
        let tier = Tier::open(Config {
            medium: medium.clone(),
            ..config(64)
        })
        .expect("tier");
        let file = file(&tier, 1);
        for number in [2, 0, 3, 1] {
            bring(&tier, file, number, &page(number as u8));
        }
        let whole: Vec<u8> = (0..4).flat_map(page).collect();
        for (at, length) in [(100, 5000), (4000, 200), (4095, 8194), (1, 3 * PAGE)] {
            let mut dst = vec![0; length];
            let found = tier.read(file, at as u64, &mut dst);
            assert!(matches!(found, Lookup::Hit), "{medium}: {at}, {length}");
            assert_eq!(dst, whole[at..at + length], "{medium}: {at}, {length}");
        }
        let seen = tier.status().snapshot();
        assert_eq!(seen.counter(Counter::TornReads), 0, "{medium}");
    }
}

#[test]
fn a_tier_that_was_not_opened_is_not_shown_as_one_that_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let status = folder.join("status");
    let config = |status_path| Config {
        medium: MediumChoice::File(folder.join("tier")),
        status_path,
        ..config(64)
    };
    let shown = || StatusPage::attach(&status).expect("a page").snapshot();

    let first = Tier::open(config(None)).expect("a tier");
    assert!(Tier::open(config(Some(status.clone()))).is_err());
    let refused = shown();
    assert!(!refused.alive, "this process has no tier with that page");
    assert!(
        refused.off.contains("used by another server"),
        "{refused:?}"
    );

    drop(first);
    let second = Tier::open(config(Some(status.clone()))).expect("a tier");
    assert!(shown().alive && shown().off.is_empty());
    drop(second);
}
