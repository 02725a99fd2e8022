//! What the index promises, one clause a test.

use super::{Index, NAME_COST, Reserved, SHARDS_MAX, key, seqlock};
use crate::sync::{AtomicU32, Ordering};

fn named(row: u32, page: u64) -> u64 {
    key::name(row, page).expect("a name")
}

fn reserve(index: &Index, name: u64, misses: u8, share: u8) -> Reserved {
    let (mut shard, slots) = index.lock(key::hash(name));
    shard.reserve(slots, name, misses, share)
}

/// As a fill with room: the slot, and whose page left it.
fn reserved(index: &Index, name: u64) -> (u32, Option<u32>) {
    match reserve(index, name, 0, 0) {
        Reserved::Slot(slot, evicted) => (slot, evicted),
        other => panic!("{other:?}"),
    }
}

fn publish(index: &Index, name: u64, slot: u32) {
    let (mut shard, slots) = index.lock(key::hash(name));
    shard.publish(slots, slot);
}

fn insert(index: &Index, row: u32, page: u64) -> u32 {
    let name = named(row, page);
    let (slot, _) = reserved(index, name);
    publish(index, name, slot);
    slot
}

fn invalidate(index: &Index, name: u64) -> Option<u32> {
    let (mut shard, slots) = index.lock(key::hash(name));
    shard.invalidate(slots, name)
}

fn word(index: &Index, slot: u32) -> u64 {
    let entry = &index.slots().entries[slot as usize];
    entry.name.load(Ordering::Relaxed)
}

/// As a read finds it: without a lock.
fn readable(index: &Index, name: u64) -> Option<u32> {
    let slot = index.slots().find(name, key::hash(name))?;
    let entry = &index.slots().entries[slot as usize];
    seqlock::begin(&entry.version).map(|_| slot)
}

fn evict(index: &Index) -> Vec<u32> {
    let mut slots = vec![];
    let any = index.evict_each(|slot| slots.push(slot));
    assert_eq!(any, !slots.is_empty());
    slots
}

/// How many pages, and what that cost in names.
fn remove(index: &Index, row: u32, first: u64, last: u64) -> (u64, u64) {
    let (before, mut gone) = (index.visited(), 0);
    index.remove_row(row, first, last, |_| gone += 1);
    (gone, (index.visited() - before).div_ceil(NAME_COST))
}

#[test]
fn names_and_flags_have_bits_of_their_own() {
    for (row, page) in [(0, 0), (7, 9), ((1 << 20) - 1, key::PAGE_MAX)] {
        let name = named(row, page);
        assert_eq!((key::row(name), key::page(name)), (row, page));
        let flags = !key::NAME;
        assert_eq!((name & flags, key::row(name | flags)), (0, row));
    }
    assert_eq!(key::name(0, key::PAGE_MAX + 1), None);
    assert_eq!((key::PAGE_MAX, key::NAME), ((1 << 36) - 1, (1 << 56) - 1));
    let (one, all) = (key::FREQUENCY_ONE, key::FREQUENCY);
    assert_eq!((one, all), (1 << 56, 3 << 56));
    let flags = [
        key::MAIN,
        key::UNVERIFIED,
        key::PINNED,
        key::FILLING,
        key::MAPPED,
    ];
    assert_eq!(flags, [1 << 58, 1 << 59, 1 << 60, 1 << 61, 1 << 62]);
    // The first numbers of splitmix64 from the seed 0: a kept index has pages where these hashes put them.
    let golden = 0x9e37_79b9_7f4a_7c15_u64;
    let hashes = [0, golden, golden.wrapping_mul(2)].map(key::hash);
    assert_eq!(
        hashes,
        [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f
        ]
    );
}

#[test]
fn a_version_that_was_seen_before_a_change_never_comes_again() {
    let version = AtomicU32::new(u32::MAX - 1);
    let seen = seqlock::begin(&version).expect("readable");
    assert!(seqlock::unchanged(&version, seen));
    assert!(seqlock::close(&version));
    assert_eq!(seqlock::begin(&version), None);
    assert!(!seqlock::close(&version), "it was closed");
    assert!(!seqlock::unchanged(&version, seen));
    seqlock::open(&version);
    assert_eq!(seqlock::begin(&version), Some(0), "the count starts again");
    seqlock::open(&version);
    assert_eq!(seqlock::begin(&version), Some(2), "one that was open");
}

#[test]
fn an_index_has_the_shards_of_before_where_they_fit() {
    for (capacity, before, shards) in [
        (4096, None, 4),
        (4096, Some(3), 3),
        (4096, Some(0), 4),
        (64, Some(64), 64),
        (64, Some(65), 1),
        (4096, Some(65), 4),
        (8, Some(9), 1),
        (1 << 20, None, SHARDS_MAX),
    ] {
        let index = Index::new(capacity, capacity, before).expect("memory");
        assert_eq!(index.shards(), shards, "{capacity} {before:?}");
    }
}

#[test]
fn every_slot_is_used_before_and_after_a_resize() {
    let index = Index::new(16, 100, Some(3)).expect("memory");
    for (wanted, capacity) in [(16, 16), (200, 100), (10, 10), (100, 100), (3, 3)] {
        let before = index.used();
        let mut gone = vec![];
        index.resize(wanted, |slot| gone.push(slot));
        assert_eq!(index.capacity(), capacity);
        assert_eq!(index.used() + gone.len() as u64, before);
        assert!(gone.iter().all(|slot| *slot >= capacity), "{gone:?}");
        let mut kept = vec![];
        index.each(|slot, name| kept.push((slot, name & key::NAME)));
        for (slot, name) in kept {
            assert_eq!(readable(&index, name), Some(slot));
        }
        (0..1000).for_each(|page| {
            let name = named(1, page);
            if readable(&index, name).is_none() {
                insert(&index, 1, page);
            }
        });
        let mut seen = 0;
        index.each(|slot, name| {
            let shard = index.slots().shard_of(key::hash(name & key::NAME));
            assert_eq!(shard as u32, slot % 3);
            assert_eq!(readable(&index, name & key::NAME), Some(slot));
            seen += 1;
        });
        assert_eq!((seen, index.used()), (capacity, u64::from(capacity)));
    }
}

#[test]
fn shards_share_no_buckets_ghosts_or_counts() {
    let index = Index::new(4096, 4096, None).expect("memory");
    let slots = index.slots();
    let heads = [0, 1 << 62, 2 << 62, 3 << 62].map(|hash| std::ptr::from_ref(slots.head(hash)));
    let apart = heads
        .windows(2)
        .all(|two| two[1] as usize - two[0] as usize >= 4096);
    assert!(apart, "each of them has 1024 buckets of 4 bytes: {heads:?}");
    let bases = [0, 1, 2, 3].map(|shard| slots.base(shard));
    assert_eq!(bases, [0, 1024, 2048, 3072]);
    // Two pages of different shards whose counts would be at one place, were it not for the shard.
    let place = |name: u64| ((key::hash(name) & 0xffff_ffff) * 512) >> 32;
    let shard = |name: u64| slots.shard_of(key::hash(name));
    // Within a shard, pages have places of their own: among eight, no two share one.
    let eight: Vec<u64> = (0..)
        .map(|page| named(7, page))
        .filter(|name| shard(*name) == 3)
        .take(8)
        .collect();
    let places: std::collections::BTreeSet<u64> = eight.iter().map(|name| place(*name)).collect();
    assert_eq!(places.len(), 8);
    for name in &eight {
        assert_eq!(reserve(&index, *name, 2, 0), Reserved::NotPromoted);
    }
    for name in eight {
        let now = reserve(&index, name, 2, 0);
        assert!(matches!(now, Reserved::Slot(_, None)), "{now:?}");
    }
    for shard_of_other in 1..4 {
        let one = (0..)
            .map(|page| named(shard_of_other as u32, page))
            .find(|name| shard(*name) == 0)
            .expect("a page");
        let other = (0..)
            .map(|page| named(9, page))
            .find(|name| shard(*name) == shard_of_other && place(*name) == place(one))
            .expect("a page");
        for name in [one, other] {
            assert_eq!(reserve(&index, name, 2, 0), Reserved::NotPromoted);
        }
        for name in [one, other] {
            assert!(matches!(
                reserve(&index, name, 2, 0),
                Reserved::Slot(_, None)
            ));
        }
    }
}

#[test]
fn chains_are_short_enough_for_readers() {
    let index = Index::new(4096, 4096, None).expect("memory");
    // Fewer than any shard has room for.
    let slots: Vec<u32> = (0..3000).map(|page| insert(&index, 1, page)).collect();
    for (page, slot) in slots.into_iter().enumerate() {
        assert_eq!(readable(&index, named(1, page as u64)), Some(slot));
    }
    assert_eq!(readable(&index, named(1, 3000)), None);
    assert_eq!(readable(&index, named(2, 1)), None);
}

#[test]
fn reads_are_counted_to_three() {
    let index = Index::new(64, 64, None).expect("memory");
    let slot = insert(&index, 1, 1);
    for reads in [1, 2, 3, 3] {
        let before = word(&index, slot);
        index.slots().touch(slot, before);
        let after = word(&index, slot);
        assert_eq!(after & key::FREQUENCY, reads * key::FREQUENCY_ONE);
        assert_eq!(after & !key::FREQUENCY, before & !key::FREQUENCY);
    }
}

#[test]
fn what_is_being_filled_or_was_taken_out_is_not_listed() {
    let index = Index::new(64, 64, None).expect("memory");
    let slots: Vec<u32> = (0..4).map(|page| insert(&index, 0, page)).collect();
    assert_eq!(invalidate(&index, named(0, 1)), Some(slots[1]));
    reserved(&index, named(0, 9));
    let mut listed = vec![];
    index.each(|slot, name| listed.push((slot, name)));
    listed.sort_by_key(|(_, name)| *name);
    let expected = [0, 2, 3].map(|page| (slots[page], named(0, page as u64) | key::MAPPED));
    assert_eq!(listed, expected);
}

#[test]
fn a_page_is_there_from_publishing_to_the_next_change() {
    let index = Index::new(64, 64, None).expect("memory");
    let name = named(3, 5);
    let has_place = || {
        let (shard, slots) = index.lock(key::hash(name));
        shard.has_place(slots, name)
    };
    assert_eq!((has_place(), invalidate(&index, name)), (false, None));
    let (slot, evicted) = reserved(&index, name);
    assert_eq!((evicted, readable(&index, name)), (None, None));
    assert_eq!(reserve(&index, name, 0, 0), Reserved::Busy);
    assert_eq!(invalidate(&index, name), None, "it is being filled");
    let (mut shard, slots) = index.lock(key::hash(name));
    assert_eq!(shard.take_out(slots, name), None, "it is being filled");
    drop(shard);
    publish(&index, name, slot);
    assert_eq!(readable(&index, name), Some(slot));
    assert_eq!(reserve(&index, name, 0, 0), Reserved::Present);
    assert_eq!(invalidate(&index, name), Some(slot));
    assert_eq!(invalidate(&index, name), None, "once");
    assert_eq!((has_place(), readable(&index, name)), (true, None));
    assert_eq!(reserved(&index, name), (slot, None), "it kept its place");
    assert_eq!(reserve(&index, name, 0, 0), Reserved::Busy);
    let (mut shard, slots) = index.lock(key::hash(name));
    shard.abandon(slots, slot);
    drop(shard);
    assert_eq!(
        (has_place(), index.used(), index.pages_of(3)),
        (false, 0, 0)
    );
    assert_eq!((word(&index, slot), reserved(&index, name).0), (0, slot));
}

#[test]
fn only_who_saw_the_page_as_it_is_may_vouch_for_it_or_reject_it() {
    let index = Index::new(64, 64, None).expect("memory");
    let name = named(3, 5);
    assert_eq!(index.restore([(7, name)].into_iter()), 1);
    let flags = key::MAPPED | key::MAIN | key::UNVERIFIED;
    assert_eq!(word(&index, 7), name | flags);
    let version = &index.slots().entries[7].version;
    let seen = seqlock::begin(version).expect("readable");
    let (mut shard, slots) = index.lock(key::hash(name));
    assert!(!shard.verified(slots, 7, seen + 2), "another version");
    assert!(shard.verified(slots, 7, seen));
    assert!(!shard.verified(slots, 7, seen), "no news");
    assert!(!shard.reject(slots, 7, seen + 2), "another version");
    assert!(shard.holds(slots, 7, name) && !shard.holds(slots, 7, name + 1));
    assert!(shard.reject(slots, 7, seen));
    assert!(!shard.holds(slots, 7, name) && !shard.holds(slots, 7, 0));
}

#[test]
fn pages_from_before_come_back_where_they_fit() {
    let index = Index::new(8, 16, Some(2)).expect("memory");
    let shard = |name: &u64| index.slots().shard_of(key::hash(*name)) as u32;
    let mut of_first = (0..)
        .map(|page| named(1, page))
        .filter(|name| shard(name) == 0);
    let mut next = || of_first.next().expect("a page");
    let (one, two, three) = (next(), next(), next());
    let pages = [(2, one), (2, two), (3, two), (8, two), (4, three)];
    let restored = index.restore(pages.into_iter());
    assert_eq!((restored, index.used(), index.pages_of(1)), (2, 2, 2));
    assert_eq!(readable(&index, one), Some(2));
    assert_eq!(readable(&index, three), Some(4));
    assert_eq!(readable(&index, two), None);
    for page in 0..100 {
        insert(&index, 2, page);
    }
    assert_eq!(index.used(), 8, "the others were free");
}

#[test]
fn a_page_that_was_saved_twice_comes_back_once() {
    let index = Index::new(8, 8, Some(1)).expect("memory");
    let (twice, other) = (named(1, 5), named(1, 6));
    let pages = [(2, twice), (3, other), (6, twice), (0, twice)];
    assert_eq!(index.restore(pages.into_iter()), 2);
    assert_eq!((index.used(), index.pages_of(1)), (2, 2));
    assert_eq!(invalidate(&index, twice), Some(2));
    assert_eq!(readable(&index, twice), None, "after a write");
    let (mut shard, slots) = index.lock(key::hash(twice));
    assert_eq!(shard.take_out(slots, twice), Some(2));
    drop(shard);
    assert_eq!(readable(&index, twice), None, "once its place is gone");
    for page in 0..100 {
        insert(&index, 2, page);
    }
    assert_eq!(index.used(), 8, "the others were free");
}

#[test]
fn pinned_pages_have_their_share_and_it_comes_back() {
    let index = Index::new(8, 8, None).expect("memory");
    let pinned = |page| {
        let name = named(1, page);
        match reserve(&index, name, 0, 25) {
            Reserved::Slot(slot, _) => {
                publish(&index, name, slot);
                let flags = word(&index, slot) & (key::PINNED | key::MAIN);
                assert!(flags == 0 || flags == key::PINNED | key::MAIN);
                flags != 0
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([0, 1, 2, 3].map(pinned), [true, true, false, false]);
    assert_eq!(remove(&index, 1, 1, 2).0, 2);
    assert_eq!([4, 5].map(pinned), [true, false]);
}

#[test]
fn a_page_that_comes_again_after_its_eviction_is_no_newcomer() {
    let index = Index::new(64, 64, None).expect("memory");
    let slot = insert(&index, 1, 1);
    assert_eq!(word(&index, slot) & key::MAIN, 0);
    assert_eq!(evict(&index), [slot]);
    assert_eq!(readable(&index, named(1, 1)), None);
    assert_eq!(insert(&index, 1, 1), slot);
    assert_eq!(word(&index, slot) & key::MAIN, key::MAIN);
    // It is known from then on by its place alone: who leaves the main queue is a newcomer the next time.
    assert_eq!(evict(&index), [slot]);
    assert_eq!(insert(&index, 1, 1), slot);
    assert_eq!(word(&index, slot) & key::MAIN, 0);
    evict(&index);
    assert_eq!(evict(&index), [], "nothing is left");
}

#[test]
fn a_page_is_evicted_for_another_only_where_nobody_fills_it() {
    let index = Index::new(2, 2, None).expect("memory");
    let names = [0, 1, 2].map(|page| named(1, page));
    let (first, second) = (reserved(&index, names[0]).0, reserved(&index, names[1]).0);
    assert_ne!(first, second);
    assert_eq!(reserve(&index, names[2], 0, 0), Reserved::NoRoom);
    publish(&index, names[1], second);
    assert_eq!(reserved(&index, names[2]), (second, Some(second)));
    assert_eq!((index.used(), index.pages_of(1)), (2, 2));
    let mut gone = 0;
    index.remove_all(|_| gone += 1);
    assert_eq!((gone, index.used()), (0, 2), "both are being filled");
}

#[test]
fn removing_a_file_looks_at_its_own_pages_only() {
    let index = Index::new(64 << 10, 64 << 10, None).expect("memory");
    assert_eq!(index.shards(), SHARDS_MAX);
    for row in 0..400 {
        for page in 0..100 {
            insert(&index, row, page);
        }
    }
    assert_eq!((index.pages_of(7), index.used()), (100, 40_000));
    let nothing = remove(&index, 500, 0, u64::MAX);
    assert_eq!(nothing, (0, 0), "nothing of it is there");
    assert_eq!(remove(&index, 7, 100, u64::MAX), (0, 0), "past its end");
    assert_eq!(remove(&index, 7, 50, u64::MAX), (50, 50), "its tail");
    assert_eq!(remove(&index, 7, 90, u64::MAX), (0, 10));
    let rest = remove(&index, 7, 0, u64::MAX);
    assert_eq!(rest, (50, 50), "the rest, and no further");
    assert_eq!(remove(&index, 7, 0, u64::MAX), (0, 0));
    assert_eq!((index.pages_of(7), index.pages_of(8)), (0, 100));
    // A page far out, and one less far: every slot costs less than every number, and the count ends it early.
    let all = u64::from(index.capacity()) / NAME_COST;
    for (row, number) in [(9, key::PAGE_MAX), (10, 60_000), (11, all + 1)] {
        insert(&index, row, number);
        let (gone, visited) = remove(&index, row, 0, u64::MAX);
        assert!(
            gone == 101 && (1..=all).contains(&visited),
            "{number}: {gone} {visited}"
        );
    }
    // A narrow range far out: its numbers cost less.
    for number in 60_000..60_010 {
        insert(&index, 12, number);
    }
    assert_eq!(remove(&index, 12, 60_001, 60_004), (4, 4));
    index.reset_row(9);
    insert(&index, 9, 3);
    let another = remove(&index, 9, 0, u64::MAX);
    assert_eq!(another, (1, 4), "the row is another file's");
}

#[test]
fn what_is_evicted_or_given_back_is_not_held() {
    let index = Index::new(64, 128, None).expect("memory");
    for page in 0..200 {
        insert(&index, 1, page);
    }
    assert_eq!((index.pages_of(1), index.used()), (64, 64));
    index.resize(16, |_| ());
    assert_eq!((index.pages_of(1), index.used()), (16, 16));
    assert!(index.evict_each(|_| ()));
    assert_eq!(index.pages_of(1), 15);
    let mut gone = 0;
    index.remove_all(|_| gone += 1);
    assert_eq!((gone, index.pages_of(1), index.used()), (15, 0, 0));
}

#[test]
fn a_free_slot_is_never_read_as_page_0_of_the_first_file() {
    let index = Index::new(4, 8, None).expect("memory");
    let name = key::name(0, 0).expect("a name");
    let all_closed = |capacity: u32| {
        (0..capacity).all(|slot| {
            let entry = &index.slots().entries[slot as usize];
            entry.name.load(Ordering::Relaxed) == 0 && seqlock::begin(&entry.version).is_none()
        })
    };
    // A reader in the middle of the page's chain goes on along the free slots.
    index
        .slots()
        .head(key::hash(name))
        .store(3, Ordering::Relaxed);
    assert_eq!(index.slots().find(name, key::hash(name)), Some(2));
    assert_eq!(readable(&index, name), None);
    assert!(all_closed(4), "never used");
    index
        .slots()
        .head(key::hash(name))
        .store(0, Ordering::Relaxed);
    index.resize(8, |_| ());
    assert!(all_closed(8), "there since the resize");
    insert(&index, 0, 0);
    assert!(readable(&index, name).is_some());
    index.remove_all(|_| ());
    assert!(all_closed(8), "used before");
}
