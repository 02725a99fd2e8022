//! A file system that is really full: a small tmpfs, in a mount namespace of the test's own thread. Only root may mount.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tiercache::status::Request;
use tiercache::{Config, Identity, Lookup, MediumChoice, Tier};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Runs `test` in a folder whose file system has so much room; says so when it cannot.
fn in_room_of(mib: u64, test: impl FnOnce(&Path) + Send + 'static) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_owned();
    let thread = std::thread::spawn(move || {
        if let Err(error) = mount(&place, mib) {
            eprintln!("NOT RUN: no tmpfs can be mounted here ({error})");
            return;
        }
        test(&place);
    });
    thread.join().expect("the test");
}

fn mount(folder: &Path, mib: u64) -> std::io::Result<()> {
    let target = CString::new(folder.as_os_str().as_bytes()).expect("no zero byte");
    let size = CString::new(format!("size={mib}m")).expect("no zero byte");
    let failed = |code| match code {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    let none = std::ptr::null();
    // SAFETY: all texts end in a zero byte; the namespace is this thread's own and goes with it.
    unsafe {
        failed(libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        failed(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
        let kind = c"tmpfs".as_ptr();
        failed(libc::mount(
            kind,
            target.as_ptr(),
            kind,
            0,
            size.as_ptr().cast(),
        ))
    }
}

fn free_bytes(folder: &Path) -> u64 {
    capacity::disk_bytes(folder).expect("a file system")
}

fn config(path: PathBuf, size_bytes: u64) -> Config {
    Config {
        size_bytes,
        page_size_bytes: PAGE as usize,
        medium: MediumChoice::File(path),
        sequential_cutoff_bytes: 0,
        ..Config::default()
    }
}

#[test]
fn a_tier_without_room_gives_back_what_it_took() {
    in_room_of(16, |folder| {
        let before = free_bytes(folder);
        let path = folder.join("tier");
        let error = Tier::open(config(path.clone(), 32 * MIB))
            .err()
            .expect("refused");
        assert!(error.to_string().contains("has no room"), "{error}");
        assert_eq!(free_bytes(folder), before);
        // A tier of before keeps what it has, and no more.
        drop(Tier::open(config(path.clone(), 2 * MIB)).expect("a small one"));
        let held = free_bytes(folder);
        assert!(Tier::open(config(path, 32 * MIB)).is_err());
        assert_eq!(free_bytes(folder), held);
    });
}

#[test]
fn a_tier_that_finds_no_room_to_grow_goes_on_at_its_size() {
    in_room_of(16, |folder| {
        let tier = Tier::open(config(folder.join("tier"), 2 * MIB)).expect("tier");
        let identity = Identity::default();
        let file = tier.file(b"t.ibd", identity).expect("file");
        let mut dst = vec![0; PAGE as usize];
        let mut hits = |tier: &Tier| {
            let hit = |number: &u64| match tier.read(file, number * PAGE, &mut dst) {
                Lookup::Hit => dst == vec![*number as u8; PAGE as usize],
                Lookup::Miss(token) => {
                    tier.fill(token, &vec![*number as u8; PAGE as usize]);
                    false
                }
                Lookup::Bypass(_) => false,
            };
            (0..500).filter(hit).count()
        };
        assert_eq!((hits(&tier), hits(&tier)), (0, 500));
        let before = free_bytes(folder);
        let error = tier
            .perform(Request::Resize(15 * MIB))
            .expect_err("no room");
        assert!(error.contains("bytes free"), "{error}");
        assert_eq!((free_bytes(folder), hits(&tier)), (before, 500));
        tier.perform(Request::Resize(4 * MIB))
            .expect("room for that");
        assert_eq!(hits(&tier), 500);
        tier.perform(Request::Resize(2 * MIB)).expect("smaller");
        assert_eq!(free_bytes(folder), before);
    });
}

#[test]
fn a_status_page_without_room_is_refused_and_one_that_is_there_counts_on() {
    in_room_of(1, |folder| {
        let (status, other) = (folder.join("status"), folder.join("other"));
        let config = |path: &Path| Config {
            size_bytes: MIB,
            status_path: Some(path.into()),
            ..Config::default()
        };
        let tier = Tier::open(config(&status)).expect("room for a page");
        let filling = std::fs::write(folder.join("rest"), vec![1; 2 * MIB as usize]);
        assert!(filling.is_err() && free_bytes(folder) == 0);
        assert!(
            Tier::open(config(&other)).is_err(),
            "no room for a second page"
        );
        assert!(!other.exists());
        assert!(tier.control() && tier.control());
        // Cut, and no room to grow again: nobody is told, nobody falls.
        std::fs::File::create(&status).expect("cut");
        std::fs::write(folder.join("more"), vec![1; MIB as usize]).expect_err("full again");
        assert!(tier.control());
        tier.stop();
    });
}
