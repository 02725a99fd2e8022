//! Which pages a change takes out, and which it inserts: to the page.

use tiercache::status::Request;
use tiercache::{Config, Counter, FileId, Identity, Lookup, Mode, Reason, Tier};

const PAGE: u64 = 4096;
const PAGES: u64 = 1300;
/// Changes of more pages than this are not followed page by page.
const WIDE: u64 = 512;

fn full() -> (Tier, FileId) {
    let config = Config {
        size_bytes: 2 * PAGES * PAGE,
        page_size_bytes: PAGE as usize,
        sequential_cutoff_bytes: 0,
        ..Config::default()
    };
    let tier = Tier::open(config).expect("tier");
    let file = tier.file(b"/d/a.ibd", Identity::default()).expect("file");
    for number in 0..PAGES {
        let mut dst = page(0);
        if let Lookup::Miss(token) = tier.read(file, number * PAGE, &mut dst) {
            tier.fill(token, &page(1));
        }
    }
    (tier, file)
}

fn page(byte: u8) -> Vec<u8> {
    vec![byte; PAGE as usize]
}

/// The pages that are not served, and whether all others hold 1 or, within `new`, 2.
fn missing(tier: &Tier, file: FileId, new: std::ops::Range<u64>) -> Vec<u64> {
    let gone = |number: &u64| {
        let mut dst = page(0);
        let hit = matches!(tier.read(file, number * PAGE, &mut dst), Lookup::Hit);
        assert!(
            !hit || dst == page(1 + u8::from(new.contains(number))),
            "{number}"
        );
        !hit
    };
    (0..PAGES).filter(gone).collect()
}

#[test]
fn a_write_takes_out_its_pages_and_inserts_them_when_it_is_narrow() {
    for (first, count, inserts) in [
        (0, 1, true),
        (700, 3, true),
        (0, WIDE, true),
        (600, WIDE, true),
        (0, WIDE + 1, false),
        (600, WIDE + 1, false),
    ] {
        let (tier, file) = full();
        let token = tier.write_begin(file, first * PAGE, count * PAGE);
        let range: Vec<u64> = (first..first + count).collect();
        assert_eq!(missing(&tier, file, 0..0), range, "{first} {count}");
        let out = tier.status().snapshot().counter(Counter::Invalidations);
        assert_eq!(out, count);
        tier.write_end(token, Some(&page(2).repeat(count as usize)));
        let left = missing(&tier, file, first..first + count);
        assert_eq!(
            left,
            if inserts { vec![] } else { range },
            "{first} {count}"
        );
    }
}

#[test]
fn a_punched_range_takes_out_each_page_that_it_touches_and_no_other() {
    for (offset, length, pages) in [
        (0, 0, 0..0),
        (5 * PAGE, 1, 5..6),
        (5 * PAGE - 1, 2, 4..6),
        (5 * PAGE, 3 * PAGE, 5..8),
        (5 * PAGE, WIDE * PAGE, 5..5 + WIDE),
        (5 * PAGE, 600 * PAGE, 5..605),
        (700 * PAGE, u64::MAX, 700..PAGES),
        (1299 * PAGE, u64::MAX, 1299..PAGES),
    ] {
        let (tier, file) = full();
        tier.invalidate(file, offset, length);
        let out = tier.status().snapshot().counter(Counter::Invalidations);
        assert_eq!(out, pages.end - pages.start, "{offset} {length}");
        assert_eq!(missing(&tier, file, 0..0), pages.collect::<Vec<_>>());
    }
}

#[test]
fn a_write_that_ends_short_or_after_its_file_inserts_nothing() {
    let (tier, file) = full();
    let token = tier.write_begin(file, 0, 2 * PAGE);
    tier.write_end(token, Some(&page(2)));
    assert_eq!(missing(&tier, file, 0..0), [0, 1]);
    let token = tier.write_begin(file, 0, PAGE);
    tier.forget(file);
    let fills = tier.status().snapshot().counter(Counter::Fills);
    tier.write_end(token, Some(&page(2)));
    assert_eq!(tier.status().snapshot().counter(Counter::Fills), fills);
}

#[test]
fn a_miss_is_not_filled_after_a_wide_write_or_a_switch_and_parts_are_counted() {
    let (tier, file) = full();
    tier.invalidate(file, 0, 9 * PAGE);
    let miss = |number: u64| match tier.read(file, number * PAGE, &mut page(0)) {
        Lookup::Miss(token) => token,
        other => panic!("{other:?}"),
    };
    let unaligned = || tier.status().snapshot().bypass(Reason::Unaligned);
    tier.fill(miss(8), &page(1));
    assert_eq!(unaligned(), 0);
    let late = miss(0);
    let token = tier.write_begin(file, 0, (WIDE + 1) * PAGE);
    tier.write_end(token, None);
    tier.fill(late, &page(1));
    assert_eq!(tier.status().snapshot().counter(Counter::FillsStale), 1);
    let late = miss(0);
    let switch = |mode| tier.perform(Request::Mode(mode)).expect("a mode");
    switch(Mode::PassThrough);
    tier.fill(late, &page(1));
    switch(Mode::WriteThrough);
    let late = miss(0);
    tier.fill(late, &page(1)[1..]);
    assert_eq!(unaligned(), 1, "no whole page");
    tier.fill(miss(0), &page(1));
    assert!(matches!(tier.read(file, 0, &mut page(0)), Lookup::Hit));
}
