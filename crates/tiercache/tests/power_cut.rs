//! The machine loses power: the data file goes back to its last completed sync, the tier's file keeps what it had.
//!
//! After a cut, each page that was written since the last sync holds the new or the old content, as the disk pleases.
//! The file's times say nothing about it: the identity handed to the tier is the one it has seen last.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tiercache::{Config, FileId, Identity, Lookup, MediumChoice, Tier};

const PAGE: usize = 4096;
const PAGES: usize = 24;
/// Bytes of the superblock that mean something.
const SUPER_BYTES: usize = 80;
/// File systems stamp times by the kernel's tick: the tier keeps no file that changed within it.
const TICK: Duration = Duration::from_millis(25);

/// A disk with one data file, and the tier in front of it.
struct Machine {
    folder: TempDir,
    direct: bool,
    data: File,
    /// One byte for each page: what a read of the file gives, and what is on stable storage.
    now: Vec<u8>,
    durable: Vec<u8>,
    seen: Identity,
    random: u64,
}

impl Machine {
    fn new(direct: bool) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("t.ibd");
        std::fs::write(&path, vec![0; PAGES * PAGE]).expect("data file");
        let data = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .expect("data file");
        let seen = Identity::of(data.as_raw_fd()).expect("identity");
        let (now, durable) = (vec![0; PAGES], vec![0; PAGES]);
        Self {
            folder,
            direct,
            data,
            now,
            durable,
            seen,
            random: 20_261_121,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        // An LCG's high bits (Knuth's MMIX constants).
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % limit
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn start(&self) -> (Tier, FileId) {
        let medium = if self.direct {
            MediumChoice::Direct(self.cache())
        } else {
            MediumChoice::File(self.cache())
        };
        let config = Config {
            size_bytes: (2 * PAGES * PAGE) as u64,
            page_size_bytes: PAGE,
            medium,
            sequential_cutoff_bytes: 0,
            rules: "cache=fd/*".parse().expect("rules"),
            ..Config::default()
        };
        let tier = Tier::open(config).expect("tier");
        // By a name that leads to no folder of the file: the tier cannot sync it itself at the stop.
        let path = format!("/proc/self/fd/{}", self.data.as_raw_fd());
        let id = tier.file(path.as_bytes(), self.seen);
        (tier, id.expect("cached"))
    }

    /// Reads every page; how many the tier served, each as the file has it.
    fn read_all(&self, tier: &Tier, id: FileId) -> usize {
        let hit = |(number, byte): (usize, &u8)| {
            let mut page = vec![0; PAGE];
            match tier.read(id, (number * PAGE) as u64, &mut page) {
                Lookup::Hit => {
                    assert_eq!(page, vec![*byte; PAGE], "page {number} is not the file's");
                    true
                }
                Lookup::Miss(token) => {
                    tier.fill(token, &vec![*byte; PAGE]);
                    false
                }
                Lookup::Bypass(_) => false,
            }
        };
        self.now
            .iter()
            .enumerate()
            .filter(|page| hit(*page))
            .count()
    }

    fn write(&mut self, tier: &Tier, id: FileId) {
        let number = self.below(PAGES);
        let page = vec![self.now[number].wrapping_add(1); PAGE];
        let token = tier.write_begin(id, (number * PAGE) as u64, PAGE as u64);
        self.put(number, page[0]);
        tier.write_end(token, Some(&page));
    }

    fn put(&mut self, number: usize, byte: u8) {
        let at = (number * PAGE) as u64;
        self.data.write_all_at(&[byte; PAGE], at).expect("write");
        self.now[number] = byte;
    }

    fn sync(&mut self, tier: &Tier, id: FileId) {
        let token = tier.sync_begin(id);
        self.durable.clone_from(&self.now);
        tier.synced(token);
    }

    /// What the disk has after the cut.
    fn roll_back(&mut self) {
        for number in 0..PAGES {
            if self.durable[number] != self.now[number] && self.below(3) > 0 {
                self.put(number, self.durable[number]);
            }
        }
        self.durable.clone_from(&self.now);
    }

    fn remember(&mut self) {
        self.seen = Identity::of(self.data.as_raw_fd()).expect("identity");
    }
}

#[test]
fn a_cut_at_any_moment_serves_no_page_newer_than_the_file() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (mut kept, mut lost) = (0, 0);
        for _ in 0..40 {
            let (tier, id) = machine.start();
            machine.read_all(&tier, id);
            for _ in 0..machine.below(60) {
                machine.write(&tier, id);
                if machine.below(10) == 0 {
                    machine.sync(&tier, id);
                }
            }
            let (stops, synced) = (machine.below(3) > 0, machine.below(2) == 0);
            if stops && synced {
                machine.sync(&tier, id);
            }
            machine.remember();
            if stops {
                std::thread::sleep(TICK);
                tier.stop();
            }
            // What the tier wrote is on its disk, in the worst case all of it.
            let left = std::fs::read(machine.cache()).expect("the tier's file");
            drop(tier);
            std::fs::write(machine.cache(), left).expect("the tier's file");
            let unsynced = machine.durable != machine.now;
            machine.roll_back();
            let (tier, id) = machine.start();
            let hits = machine.read_all(&tier, id);
            assert!(hits == 0 || stops && !unsynced, "{hits} hits");
            kept += usize::from(hits > 0);
            lost += usize::from(hits == 0);
        }
        assert!(kept > 3 && lost > 3, "{kept} warm starts, {lost} cold ones");
    }
}

/// Of the last write of the superblock only a beginning reached the disk: "clean" over "unclean", and the other way.
#[test]
fn a_torn_clean_mark_starts_cold() {
    let mut machine = Machine::new(false);
    let (tier, id) = machine.start();
    machine.read_all(&tier, id);
    machine.write(&tier, id);
    machine.sync(&tier, id);
    machine.remember();
    let unclean = std::fs::read(machine.cache()).expect("the tier's file");
    std::thread::sleep(TICK);
    tier.stop();
    drop(tier);
    let clean = std::fs::read(machine.cache()).expect("the tier's file");
    for (old, new) in [(&unclean, &clean), (&clean, &unclean)] {
        for torn in 0..=SUPER_BYTES {
            let mut file = clean.clone();
            file[..SUPER_BYTES].copy_from_slice(&old[..SUPER_BYTES]);
            file[..torn].copy_from_slice(&new[..torn]);
            let whole = file[..SUPER_BYTES] == clean[..SUPER_BYTES];
            std::fs::write(machine.cache(), file).expect("the tier's file");
            let (tier, id) = machine.start();
            let hits = machine.read_all(&tier, id);
            assert_eq!(hits, if whole { PAGES } else { 0 }, "{torn} bytes");
        }
    }
}
