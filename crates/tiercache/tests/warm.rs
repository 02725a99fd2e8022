//! What survives a restart, and what must not.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tiercache::status::Request;
use tiercache::{Config, Counter, FileId, Identity, Lookup, MediumChoice, Tier};

const PAGE: usize = 4096;
const PAGES: u64 = 16;

struct Setup {
    folder: TempDir,
    direct: bool,
    /// Of the tier.
    pages: u64,
    /// The data file has a name that leads to no folder of it: the tier cannot sync it itself at the stop.
    by_number: bool,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut file = File::create(folder.path().join("t.ibd")).expect("data file");
        (0..PAGES).for_each(|number| file.write_all(&page(number as u8)).expect("write"));
        Self {
            folder,
            direct: false,
            pages: 64,
            by_number: false,
        }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn config(&self) -> Config {
        let medium = if self.direct {
            MediumChoice::Direct(self.cache())
        } else {
            MediumChoice::File(self.cache())
        };
        Config {
            size_bytes: self.pages * PAGE as u64,
            page_size_bytes: PAGE,
            medium,
            sequential_cutoff_bytes: 0,
            rules: "cache=fd/*".parse().expect("rules"),
            ..Config::default()
        }
    }

    fn open(&self) -> (Tier, FileId, File) {
        let tier = Tier::open(self.config()).expect("tier");
        let data = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder.path().join("t.ibd"))
            .expect("data file");
        let identity = Identity::of(data.as_raw_fd()).expect("identity");
        let path = if self.by_number {
            format!("/proc/self/fd/{}", data.as_raw_fd()).into()
        } else {
            self.folder.path().join("t.ibd").into_os_string()
        };
        let id = tier.file(path.as_encoded_bytes(), identity);
        (tier, id.expect("cached"), data)
    }

    /// A server's life: everything read once, then a clean stop.
    fn fill_and_stop(&self) {
        let (tier, id, data) = self.open();
        assert_eq!(hits_and_fill(&tier, id, &data), 0);
        assert_eq!(hits_and_fill(&tier, id, &data), PAGES);
        std::thread::sleep(Duration::from_millis(25));
        tier.stop();
    }

    fn start(&self) -> String {
        Tier::open(self.config())
            .expect("tier")
            .status()
            .snapshot()
            .start
    }
}

fn page(byte: u8) -> Vec<u8> {
    vec![byte; PAGE]
}

/// Reads every page, fills what was missed; how many hits, all of them equal to the file.
fn hits_and_fill(tier: &Tier, id: FileId, data: &File) -> u64 {
    let mut hits = 0;
    for number in 0..PAGES {
        let (mut dst, mut truth) = (vec![0; PAGE], vec![0; PAGE]);
        data.read_exact_at(&mut truth, number * PAGE as u64)
            .expect("read");
        match tier.read(id, number * PAGE as u64, &mut dst) {
            Lookup::Hit => {
                assert!(dst == truth, "page {number} is not the file's");
                hits += 1;
            }
            Lookup::Miss(token) => tier.fill(token, &truth),
            Lookup::Bypass(_) => (),
        }
    }
    hits
}

#[test]
fn pages_are_there_after_a_clean_stop() {
    for direct in [false, true] {
        let mut setup = Setup::new();
        setup.direct = direct;
        setup.fill_and_stop();
        for _ in 0..2 {
            let (tier, id, data) = setup.open();
            assert_eq!(
                tier.status().snapshot().start,
                format!("warm: {PAGES} pages")
            );
            assert_eq!(hits_and_fill(&tier, id, &data), PAGES);
            assert_eq!(
                tier.status().snapshot().counter(Counter::WarmVerified),
                PAGES
            );
            tier.stop();
        }
    }
}

#[test]
fn pages_of_a_renamed_file_are_kept() {
    let setup = Setup::new();
    let (old, new) = (
        setup.folder.path().join("#sql-ib1.ibd"),
        setup.folder.path().join("t.ibd"),
    );
    std::fs::rename(&new, &old).expect("rename");
    let tier = Tier::open(setup.config()).expect("tier");
    let data = File::open(&old).expect("data file");
    let identity = Identity::of(data.as_raw_fd()).expect("identity");
    let id = tier
        .file(old.as_os_str().as_encoded_bytes(), identity)
        .expect("cached");
    assert_eq!(hits_and_fill(&tier, id, &data), 0);
    std::fs::rename(&old, &new).expect("rename");
    tier.renamed(id, new.as_os_str().as_encoded_bytes());
    tier.stop();
    drop(tier);
    let (tier, id, data) = setup.open();
    let start = tier.status().snapshot().start;
    assert_eq!(start, format!("warm: {PAGES} pages"));
    assert_eq!(hits_and_fill(&tier, id, &data), PAGES);
}

#[test]
fn an_unclean_stop_starts_cold() {
    let setup = Setup::new();
    setup.fill_and_stop();
    drop(setup.open());
    assert_eq!(setup.start(), "cold: the last stop was not clean");
}

#[test]
fn a_write_after_the_stop_makes_it_unclean() {
    let setup = Setup::new();
    let (tier, id, data) = setup.open();
    hits_and_fill(&tier, id, &data);
    tier.stop();
    let token = tier.write_begin(id, 0, PAGE as u64);
    tier.write_end(token, None);
    drop(tier);
    assert_eq!(setup.start(), "cold: the last stop was not clean");
}

#[test]
fn a_file_changed_or_replaced_meanwhile_is_not_served() {
    for replace in [false, true] {
        let setup = Setup::new();
        setup.fill_and_stop();
        let path = setup.folder.path().join("t.ibd");
        if replace {
            let other = setup.folder.path().join("other");
            std::fs::copy(&path, &other).expect("copy");
            std::fs::rename(&other, &path).expect("rename");
        }
        let data = OpenOptions::new().write(true).open(&path).expect("open");
        data.write_all_at(&page(99), 3 * PAGE as u64)
            .expect("write");
        let (tier, id, data) = setup.open();
        assert_eq!(hits_and_fill(&tier, id, &data), 0);
    }
}

/// A second start opens none of the files, and stops; the third says what is left.
#[test]
fn pages_of_a_file_that_nobody_opened_are_kept_while_it_is_there_unchanged() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("same", |_| ()),
        ("gone", |path| std::fs::remove_file(path).expect("removed")),
        ("replaced", |path| {
            let other = path.with_extension("other");
            std::fs::copy(path, &other).expect("copy");
            std::fs::rename(&other, path).expect("rename");
        }),
        ("changed", |path| {
            let data = OpenOptions::new().write(true).open(path).expect("open");
            data.write_all_at(&page(99), 0).expect("write");
        }),
    ];
    for (name, change) in changes {
        let setup = Setup::new();
        setup.fill_and_stop();
        change(&setup.folder.path().join("t.ibd"));
        let tier = Tier::open(setup.config()).expect("tier");
        let start = tier.status().snapshot().start;
        assert_eq!(start, format!("warm: {PAGES} pages"), "{name}");
        tier.stop();
        drop(tier);
        let kept = if name == "same" { PAGES } else { 0 };
        assert_eq!(setup.start(), format!("warm: {kept} pages"), "{name}");
    }
}

/// As a server that closes its files before it stops; another program may write in between.
#[test]
fn a_closed_file_is_kept_as_it_was_at_its_last_close() {
    for (known, again, changed) in [
        (true, false, false),
        (true, false, true),
        (true, true, true),
        (false, false, false),
    ] {
        let setup = Setup::new();
        let (tier, id, data) = setup.open();
        hits_and_fill(&tier, id, &data);
        let now = || Identity::of(data.as_raw_fd()).expect("identity");
        tier.closed(id, known.then(now));
        std::thread::sleep(Duration::from_millis(25));
        if changed {
            data.write_all_at(&page(99), 3 * PAGE as u64)
                .expect("write");
        }
        if again {
            tier.reopened(id, now());
            assert_eq!(hits_and_fill(&tier, id, &data), 0);
        }
        tier.stop();
        drop((tier, data));
        let (tier, id, data) = setup.open();
        let kept = if known && changed == again { PAGES } else { 0 };
        let hits = hits_and_fill(&tier, id, &data);
        assert_eq!(hits, kept, "{known} {again} {changed}");
    }
}

/// The server's syncs, or else (innodb_flush_method=O_DIRECT_NO_FSYNC) the tier's own at the stop.
#[test]
fn writes_that_nobody_synced_are_not_kept() {
    for (sync, by_number) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut setup = Setup::new();
        setup.by_number = by_number;
        let (tier, id, data) = setup.open();
        hits_and_fill(&tier, id, &data);
        let token = tier.write_begin(id, 0, PAGE as u64);
        data.write_all_at(&page(50), 0).expect("write");
        tier.write_end(token, Some(&page(50)));
        let token = tier.sync_begin(id);
        if sync {
            data.sync_all().expect("sync");
            tier.synced(token);
        }
        std::thread::sleep(Duration::from_millis(25));
        tier.stop();
        drop((tier, data));
        let (tier, id, data) = setup.open();
        let kept = if sync || !by_number { PAGES } else { 0 };
        assert_eq!(hits_and_fill(&tier, id, &data), kept, "{sync} {by_number}");
    }
}

#[test]
fn other_files_and_second_servers_are_refused() {
    let setup = Setup::new();
    setup.fill_and_stop();
    let (tier, ..) = setup.open();
    let error = Tier::open(setup.config())
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("another server"), "{error}");
    drop(tier);
    std::fs::write(setup.cache(), vec![7; 8192]).expect("write");
    let error = Tier::open(setup.config())
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("something else"), "{error}");
    assert_eq!(
        std::fs::read(setup.cache()).expect("read"),
        vec![7; 8192],
        "somebody's file stays as it is"
    );
}

/// The tier was resized while it ran, the server starts with the old size or with the new one, or with yet another.
#[test]
fn pages_are_there_after_a_resize() {
    for direct in [false, true] {
        for (live, next, kept) in [
            (0, 64, PAGES),
            (200, 64, PAGES),
            (200, 200, PAGES),
            (0, 4096, PAGES),
            (16, 64, PAGES),
            (0, 8, 8),
        ] {
            let mut setup = Setup::new();
            setup.direct = direct;
            let (tier, id, data) = setup.open();
            if live > 0 {
                let size = Request::Resize(live * PAGE as u64);
                tier.perform(size).expect("a resize");
            }
            hits_and_fill(&tier, id, &data);
            std::thread::sleep(Duration::from_millis(25));
            tier.stop();
            drop(tier);
            setup.pages = next;
            let (tier, id, data) = setup.open();
            let start = tier.status().snapshot().start;
            assert_eq!(start, format!("warm: {kept} pages"), "{live} {next}");
            assert_eq!(hits_and_fill(&tier, id, &data), kept);
        }
    }
}

/// Each name is as long as a path may be: more than a thousand of them need more than 4 MiB.
#[test]
fn a_table_of_files_larger_than_4_mib_is_kept() {
    let mut setup = Setup::new();
    setup.pages = 2048;
    let long = setup.folder.path().join("d".repeat(200));
    let deep = (0..17).fold(long, |path, _| path.join("e".repeat(200)));
    std::fs::create_dir_all(&deep).expect("folders");
    let files = 1200u64;
    let path = |number: u64| deep.join(format!("{number:0>150}.ibd"));
    let open = |tier: &Tier, number: u64| {
        let data = File::open(path(number)).expect("data file");
        let name = path(number).into_os_string().into_encoded_bytes();
        let identity = Identity::of(data.as_raw_fd()).expect("identity");
        tier.file(&name, identity).expect("cached")
    };
    for number in 0..files {
        std::fs::write(path(number), page(number as u8)).expect("write");
    }
    std::thread::sleep(Duration::from_millis(25));
    let tier = Tier::open(setup.config()).expect("tier");
    for number in 0..files {
        let id = open(&tier, number);
        let mut dst = page(0);
        if let Lookup::Miss(token) = tier.read(id, 0, &mut dst) {
            tier.fill(token, &page(number as u8));
        }
    }
    tier.stop();
    drop(tier);
    let tier = Tier::open(setup.config()).expect("tier");
    assert_eq!(
        tier.status().snapshot().start,
        format!("warm: {files} pages")
    );
    for number in 0..files {
        let id = open(&tier, number);
        let mut dst = page(0);
        assert!(matches!(tier.read(id, 0, &mut dst), Lookup::Hit));
        assert_eq!(dst, page(number as u8));
    }
}

/// Every byte of the superblock's words and of the saved index, one bit each; pages too.
#[test]
fn a_flipped_bit_costs_pages_and_never_serves_wrong_ones() {
    let setup = Setup::new();
    setup.fill_and_stop();
    let good = std::fs::read(setup.cache()).expect("read");
    let data_offset = 2usize << 20;
    let saved = data_offset + 64 * PAGE;
    let saved_bytes =
        16 + 8 * 8 + setup.folder.path().join("t.ibd").as_os_str().len() + PAGES as usize * 24;
    let ranges = [
        (0, 80),
        (saved, saved + saved_bytes),
        (data_offset, data_offset + 20 * PAGE),
    ];
    for (start, end) in ranges {
        let step = if start == data_offset { 1021 } else { 1 };
        for at in (start..end).step_by(step) {
            let bit = 1u8 << (at % 8);
            let cache = OpenOptions::new()
                .write(true)
                .open(setup.cache())
                .expect("open");
            // Only what the last round may have changed is put back.
            cache.write_all_at(&good[..8192], 0).expect("restore");
            cache
                .write_all_at(
                    &good[data_offset..data_offset + 64 * PAGE],
                    data_offset as u64,
                )
                .expect("restore");
            cache
                .write_all_at(&good[saved..saved + saved_bytes], saved as u64)
                .expect("restore");
            cache
                .write_all_at(&[good[at] ^ bit], at as u64)
                .expect("flip");
            drop(cache);
            let Ok(tier) = Tier::open(setup.config()) else {
                assert!(at < 8, "only a damaged magic is refused, not byte {at}");
                continue;
            };
            let data = File::open(setup.folder.path().join("t.ibd")).expect("data file");
            let path = setup
                .folder
                .path()
                .join("t.ibd")
                .into_os_string()
                .into_encoded_bytes();
            let id = tier
                .file(&path, Identity::of(data.as_raw_fd()).expect("identity"))
                .expect("cached");
            let hits = hits_and_fill(&tier, id, &data);
            if start == 0 || start == saved {
                assert_eq!(hits, 0, "byte {at}: {}", tier.status().snapshot().start);
            } else {
                assert!(hits >= PAGES - 1, "byte {at}: {hits}");
                let rejected = tier.status().snapshot().counter(Counter::WarmRejected);
                assert_eq!(rejected, PAGES - hits, "byte {at}");
            }
        }
    }
}
