//! What turns a tier off, and what turns it on again.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{AUDIT, MEDIUM};
use crate::config::{Config, Mode};
use crate::engine::{FileId, Identity, Lookup, Tier};
use crate::status::{Counter, Reason, Request};

const PAGE: usize = 4096;
const PAGES: u64 = 8;

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
    let folder = crate::testing::Folder::new();
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
        (0..15).for_each(|_| tier.medium_failed(1, &"an error"));
        tier.off.forgive();
    }
    assert_eq!(tier.mode(), Mode::WriteThrough);
    (0..16).for_each(|_| tier.medium_failed(1, &"an error"));
    assert_eq!(tier.mode(), Mode::PassThrough);
}

/// A tier that an access of more than a second makes wait.
fn waiting() -> (crate::testing::Folder, Tier) {
    let folder = crate::testing::Folder::new();
    let config = Config {
        size_bytes: PAGES * PAGE as u64,
        page_size_bytes: PAGE,
        medium: crate::MediumChoice::File(folder.path("tier")),
        ..Config::default()
    };
    (folder, Tier::open(config).expect("tier"))
}

const SECOND: u64 = 1_000_000_000;

/// Slow, and right: a device that hangs is worse than none. However many wait, and for however long.
#[test]
fn a_medium_that_makes_readers_wait_for_sixteen_seconds_in_a_minute_is_off() {
    for (accesses, off) in [
        (vec![(0, 20)], true),
        (vec![(0, 15)], false),
        // Sixty of two seconds at once, one after the other, and each half a second after the one before.
        ((0..60).map(|_| (3, 5)).collect(), false),
        ((0..8).map(|at| (2 * at, 2 * at + 2)).collect(), true),
        ((0..7).map(|at| (2 * at, 2 * at + 2)).collect(), false),
        ((0..16).map(|at| (at, at + 4)).collect(), true),
    ] as [(Vec<(u64, u64)>, bool); 6]
    {
        let (_folder, tier) = waiting();
        for (from, to) in &accesses {
            tier.stalled(from * SECOND, to * SECOND);
        }
        assert_eq!(tier.mode() == Mode::PassThrough, off, "{accesses:?}");
        let seen = tier.status().snapshot();
        assert_eq!(seen.counter(Counter::MediumSlow), accesses.len() as u64);
    }
    let (_folder, tier) = waiting();
    for quarter in 0..80 {
        tier.stalled(quarter * SECOND / 4, quarter * SECOND / 4 + 3 * SECOND);
    }
    assert_eq!(tier.mode(), Mode::PassThrough, "parts of a second add up");
    let (_folder, tier) = waiting();
    tier.timed(Instant::now());
    assert_eq!(tier.status().snapshot().counter(Counter::MediumSlow), 0);
    let long_ago = Instant::now().checked_sub(Duration::from_secs(5));
    tier.timed(long_ago.expect("the machine runs for longer"));
    assert_eq!(tier.status().snapshot().counter(Counter::MediumSlow), 1);
    assert_eq!(tier.off.failures.load(Ordering::Relaxed), 5);
}

/// SIGSTOP, a debugger, a migration: the control thread stood still, too.
#[test]
fn a_pause_of_the_whole_process_is_no_failure() {
    let limit_ns = SECOND;
    for control_first in [false, true] {
        let (_folder, tier) = waiting();
        tier.off.rests(10 * SECOND);
        if control_first {
            tier.off.wakes(50 * SECOND, limit_ns);
        }
        (0..20).for_each(|_| tier.stalled(9 * SECOND, 50 * SECOND));
        assert_eq!(tier.mode(), Mode::WriteThrough, "{control_first}");
        // From then on it counts again.
        tier.off.wakes(51 * SECOND, limit_ns);
        tier.stalled(51 * SECOND, 71 * SECOND);
        assert_eq!(tier.mode(), Mode::PassThrough, "{control_first}");
    }
}

/// It rests and works as ever while the medium hangs.
#[test]
fn a_control_thread_that_wakes_in_time_excuses_no_medium() {
    let (_folder, tier) = waiting();
    for second in 10..30 {
        tier.off.rests(second * SECOND);
        tier.off.wakes(second * SECOND + SECOND / 10, SECOND);
    }
    tier.stalled(10 * SECOND, 30 * SECOND);
    assert_eq!(tier.mode(), Mode::PassThrough);
    let (_folder, tier) = waiting();
    tier.off.wakes(25 * SECOND, SECOND);
    tier.stalled(10 * SECOND, 30 * SECOND);
    assert_eq!(tier.mode(), Mode::PassThrough, "it has just begun");
}

#[test]
fn each_second_that_is_waited_is_one_failure() {
    let (_folder, tier) = waiting();
    for at in 0..4 {
        tier.stalled(3 * at * SECOND, 3 * (at + 1) * SECOND);
    }
    assert_eq!(tier.off.failures.load(Ordering::Relaxed), 12);
}

/// What is wrong weighs more than what fails: it cannot be turned on again, and is not kept.
#[test]
fn wrong_data_after_a_failed_medium_is_final() {
    let (folder, tier) = waiting();
    (0..16).for_each(|_| tier.medium_failed(1, &"an error"));
    assert!(
        tier.notice()
            .is_some_and(|text| text.contains("16 failures"))
    );
    tier.turn_off(AUDIT, "wrong");
    assert!(tier.notice().is_some_and(|text| text.contains("wrong")));
    tier.turn_off(MEDIUM, "failed again");
    let error = tier.perform(Request::Mode(Mode::WriteThrough));
    assert!(error.is_err_and(|why| why.contains("wrong")));
    tier.stop();
    let config = tier.config().clone();
    drop(tier);
    let start = Tier::open(config).expect("tier").status().snapshot().start;
    assert_eq!(start, "cold: the last stop was not clean");
    drop(folder);
}

/// A read that was under way at the stop may find wrong data after everything is saved.
#[test]
fn wrong_data_that_is_found_after_the_stop_is_not_kept() {
    let (_folder, tier) = waiting();
    tier.stop();
    assert!(tier.set_mode(Mode::WriteThrough).is_err(), "it has stopped");
    tier.turn_off(AUDIT, "wrong");
    let config = tier.config().clone();
    drop(tier);
    let start = Tier::open(config).expect("tier").status().snapshot().start;
    assert_eq!(start, "cold: the last stop was not clean");
}

/// To save would be to wait for a medium that hangs.
#[test]
fn a_medium_that_failed_is_left_alone_at_the_stop() {
    let (folder, tier) = waiting();
    (0..16).for_each(|_| tier.medium_failed(1, &"an error"));
    let changed = || {
        let about = folder.path("tier").metadata().expect("the medium");
        (about.mtime(), about.mtime_nsec())
    };
    let before = changed();
    tier.stop();
    assert_eq!(changed(), before);
}

/// Whoever saw the change has said so.
#[test]
fn a_child_that_changed_a_file_turns_the_tier_off_for_good() {
    let (tier, file) = audited();
    tier.changed_by_child();
    assert_eq!(tier.notice(), None);
    let mut dst = vec![0; PAGE];
    let past = tier.read(file, 0, &mut dst);
    assert!(matches!(past, Lookup::Bypass(Reason::Forked)));
    (0..16).for_each(|_| tier.medium_failed(1, &"an error"));
    let error = tier.perform(Request::Mode(Mode::WriteThrough));
    assert!(error.is_err_and(|why| why.contains("until the server's restart")));
    let off = tier.status().snapshot().off;
    assert!(off.contains("forked"), "{off}");
}
