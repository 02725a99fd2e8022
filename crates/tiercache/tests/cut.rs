//! A medium that goes wrong under a running tier: its file is cut, its pages change. Each costs hits, never the process.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;
use tiercache::status::Request;
use tiercache::{Config, Counter, FileId, Identity, Lookup, MediumChoice, Mode, Reason, Tier};

const PAGE: usize = 4096;
const PAGES: u64 = 40;
const DATA_OFFSET: u64 = 2 << 20;

struct Setup {
    path: PathBuf,
    tier: Tier,
    file: FileId,
    _folder: TempDir,
}

impl Setup {
    fn new(direct: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("medium");
        let config = Config {
            size_bytes: 64 * PAGE as u64,
            page_size_bytes: PAGE,
            medium: if direct {
                MediumChoice::Direct(path.clone())
            } else {
                MediumChoice::File(path.clone())
            },
            sequential_cutoff_bytes: 0,
            ..Config::default()
        };
        let tier = Tier::open(config).expect("tier");
        let identity = Identity {
            inode: 1,
            ..Identity::default()
        };
        let file = tier.file(b"t.ibd", identity).expect("file");
        Self {
            path,
            tier,
            file,
            _folder: folder,
        }
    }

    fn medium(&self) -> File {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .open(&self.path)
            .expect("the medium")
    }

    /// Reads every page and fills what was missed; how many hits, each right.
    fn round(&self) -> u64 {
        let mut dst = vec![0; PAGE];
        let hit = |number: &u64| {
            let truth = vec![*number as u8 + 1; PAGE];
            match self.tier.read(self.file, number * PAGE as u64, &mut dst) {
                Lookup::Hit => {
                    assert!(dst == truth, "page {number}");
                    true
                }
                Lookup::Miss(token) => {
                    self.tier.fill(token, &truth);
                    false
                }
                Lookup::Bypass(_) => false,
            }
        };
        (0..PAGES).filter(hit).count() as u64
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.tier.status().snapshot().counter(counter)
    }
}

#[test]
fn a_cut_medium_turns_the_tier_off_once_and_it_can_be_turned_on_again() {
    for direct in [false, true] {
        let setup = Setup::new(direct);
        assert_eq!((setup.round(), setup.round()), (0, PAGES));
        setup.medium().set_len(0).expect("cut");
        assert_eq!(setup.round(), 0);
        assert_eq!(setup.counter(Counter::MediumReadErrors), 16);
        assert_eq!(setup.tier.mode(), Mode::PassThrough);
        let notice = setup.tier.notice().expect("said");
        assert!(notice.contains("16 failures of medium"), "{notice}");
        assert_eq!(setup.tier.notice(), None, "once");
        setup.tier.control();
        let seen = setup.tier.status().snapshot();
        assert!(notice.ends_with(&seen.off), "{}", seen.off);
        assert_eq!(seen.bypass(Reason::MediumError), PAGES - 16);
        let on = Request::Mode(Mode::WriteThrough);
        setup.tier.perform(on).expect("on again");
        // Found missing and filled again until the tier was off, then until it is off again.
        assert_eq!(setup.round(), 15);
        let on = Request::Mode(Mode::WriteThrough);
        setup.tier.perform(on).expect("on again");
        setup.round();
        assert_eq!(setup.round(), PAGES, "the file grew with its pages");
        assert_eq!(setup.tier.status().snapshot().off, "");
    }
}

#[test]
fn a_bit_that_flips_under_a_running_tier_is_a_miss() {
    for direct in [false, true] {
        let setup = Setup::new(direct);
        assert_eq!((setup.round(), setup.round()), (0, PAGES));
        for flipped in 1..=3 {
            let medium = setup.medium();
            let at = DATA_OFFSET + flipped * 5 * PAGE as u64 + 1000;
            let mut byte = [0];
            medium.read_exact_at(&mut byte, at).expect("a byte");
            medium.write_all_at(&[byte[0] ^ 16], at).expect("flipped");
            assert_eq!(setup.round(), PAGES - 1);
            assert_eq!(setup.counter(Counter::MediumMismatches), flipped);
            assert_eq!(setup.round(), PAGES, "filled again");
        }
        // Parts of pages are checked, too.
        let at = DATA_OFFSET + 7 * PAGE as u64;
        setup
            .medium()
            .write_all_at(&[0xff; 8], at)
            .expect("changed");
        let mut part = [0; 100];
        let misses = (0..PAGES).filter(|number| {
            let at = number * PAGE as u64 + 2000;
            !matches!(setup.tier.read(setup.file, at, &mut part), Lookup::Hit)
        });
        assert_eq!(misses.count(), 1);
        assert_eq!(setup.tier.mode(), Mode::WriteThrough, "four are forgiven");
    }
}
