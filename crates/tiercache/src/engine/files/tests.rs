use super::{CHUNK, CHUNKS, Files, Identity};
use crate::index::key;

fn identity(inode: u64) -> Identity {
    Identity {
        device: 1,
        inode,
        ..Identity::default()
    }
}

#[test]
fn a_row_is_given_away_again_once_its_pages_are_gone() {
    let files = Files::new();
    let (first, new) = files.add(b"a", identity(1), 100).expect("a row");
    assert!(new && files.add(b"a", identity(1), 100) == Some((first, false)));
    assert!(files.end(first) && !files.end(first));
    let (second, _) = files.add(b"b", identity(2), 100).expect("a row");
    assert_ne!(second.row, first.row);
    files.reuse(first.row);
    let (third, _) = files.add(b"c", identity(3), 100).expect("a row");
    assert_eq!(third.row, first.row);
    assert!(files.row(first).is_none() && files.row(third).is_some());
    assert_eq!(files.find(&identity(3)), Some(third));
}

#[test]
fn rows_below_one_that_was_asked_for_are_free_and_each_is_given_once() {
    let files = Files::new();
    let asked = files.add_at(5, b"a", identity(1), 100).expect("a row");
    assert_eq!(asked.row, 5);
    assert!(files.add_at(5, b"b", identity(2), 100).is_none());
    assert!(files.add_at(4, b"b", identity(2), 100).is_none());
    let mut rows: Vec<u32> = (10..16)
        .map(|inode| files.add(b"c", identity(inode), 100).expect("a row").0.row)
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2, 3, 4, 6]);
}

#[test]
fn the_last_row_is_the_last() {
    let files = Files::new();
    let last = (CHUNK * CHUNKS - 1) as u32;
    assert!(files.add_at(last + 1, b"a", identity(1), 100).is_none());
    assert!(files.add_at(last, b"a", identity(1), 100).is_some());
    lock_free(&files);
    assert!(files.add(b"b", identity(2), 100).is_none());
}

/// As if all rows that are free had been given away.
fn lock_free(files: &Files) {
    super::lock(&files.known).free.clear();
}

#[test]
fn the_busiest_files_come_first_with_what_they_hold() {
    use std::sync::atomic::Ordering;
    let files = Files::new();
    for (inode, hits, misses) in [(1, 1, 2), (2, 50, 7), (3, 4, 9)] {
        let name = format!("t{inode}");
        let (id, _) = files
            .add(name.as_bytes(), identity(inode), 100)
            .expect("a row");
        let row = files.row(id).expect("its row");
        row.hits.store(hits, Ordering::Relaxed);
        row.misses.store(misses, Ordering::Relaxed);
    }
    let found = files.busiest(|row| u64::from(row) + 10);
    let told: Vec<_> = found
        .iter()
        .map(|each| (each.name.as_str(), each.hits, each.misses, each.pages))
        .collect();
    assert_eq!(
        told,
        [("t2", 50, 7, 11), ("t3", 4, 9, 12), ("t1", 1, 2, 10)]
    );
}

#[test]
fn a_renamed_file_has_the_share_of_its_new_name() {
    use std::sync::atomic::Ordering;
    let tier = crate::Tier::open(crate::Config {
        size_bytes: 8 << 14,
        rules: "pin:30=o*.ibd".parse().expect("rules"),
        ..crate::Config::default()
    })
    .expect("a tier");
    let file = tier.file(b"d/#sql-ib1.ibd", identity(1)).expect("a row");
    let now = || {
        let row = tier.files.row(file).expect("its row");
        let name = super::lock(&row.info).name.clone();
        (name, row.share.load(Ordering::Relaxed))
    };
    tier.renamed(file, b"d/orders.ibd");
    assert_eq!(now(), (b"d/orders.ibd".to_vec(), 30));
    // A name that no rule names, and a file that is gone.
    tier.renamed(file, b"d/orders.frm");
    assert_eq!(now(), (b"d/orders.ibd".to_vec(), 30));
    tier.renamed(file, b"d/items.ibd");
    assert_eq!(now(), (b"d/items.ibd".to_vec(), 0));
    tier.forget(file);
    let (other, _) = tier.files.add(b"x", identity(2), 7).expect("a row");
    assert_eq!(other.row, file.row);
    tier.renamed(file, b"d/orders.ibd");
    let row = tier.files.row(other).expect("its row");
    assert_eq!(super::lock(&row.info).name, b"x");
}

#[test]
fn the_checksums_of_two_files_and_of_two_pages_begin_otherwise() {
    let tier = crate::Tier::open(crate::Config {
        size_bytes: 8 << 14,
        ..crate::Config::default()
    })
    .expect("a tier");
    let rows = [(1, 1), (1, 2), (2, 1)].map(|(device, inode)| {
        let file = Identity {
            device,
            inode,
            ..Identity::default()
        };
        tier.file(b"t.ibd", file).expect("a cached file").row
    });
    let seeds: std::collections::BTreeSet<u64> = rows
        .iter()
        .flat_map(|&row| (0..4).map(move |page| key::name(row, page).expect("a name")))
        .map(|name| tier.seed(name))
        .collect();
    assert_eq!(seeds.len(), 12);
}

#[test]
fn a_rename_explains_another_time_of_the_inode_and_no_other_change() {
    use super::Closed;
    let at = |modified_ns, changed_ns| Identity {
        modified_ns,
        changed_ns,
        ..identity(1)
    };
    let (closed, renamed) = (at(5, 5), at(5, 9));
    for (before, now, last) in [
        (closed, renamed, renamed),
        // Changed before the rename, and during it.
        (at(7, 7), at(7, 9), closed),
        (closed, at(9, 9), closed),
    ] {
        let files = Files::new();
        let (file, _) = files.add(b"a", closed, 100).expect("a row");
        files.note_renamed(file, &before, now);
        assert!(files.note_closed(file, None).is_none(), "it is open");
        let noted = Closed {
            last: Some(closed),
            settled: true,
        };
        files.note_closed(file, Some(noted));
        files.note_renamed(file, &before, now);
        let noted = files.note_closed(file, None).expect("it is closed");
        assert_eq!((noted.last, noted.settled), (Some(last), true));
    }
}
