//! A block device as the medium, and a file system whose times have whole seconds: on loop devices, which only root has.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tiercache::{Config, FileId, Identity, Lookup, MediumChoice, Tier};

const PAGE: usize = 4096;
const PAGES: u64 = 16;

/// A loop device, and a folder for its image and other files; both go when dropped.
struct Disk {
    device: PathBuf,
    folder: TempDir,
}

impl Disk {
    /// None, and why, where there are no loop devices.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("image");
        let file = File::create(&image).expect("an image");
        file.set_len(16 << 20).expect("its size");
        let mut losetup = Command::new("losetup");
        let done = losetup.args(["--find", "--show"]).arg(&image).output();
        match done {
            Ok(done) if done.status.success() => {
                let device = String::from_utf8_lossy(&done.stdout).trim().into();
                Some(Self { device, folder })
            }
            _ => {
                eprintln!("NOT RUN: no loop device can be had here");
                None
            }
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = vec![0; 2 << 20];
        let device = File::open(&self.device).expect("the device");
        device.read_exact_at(&mut head, 0).expect("its head");
        head
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let done = Command::new(program).args(arguments).output();
    let done = done.expect("a program of every Linux");
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{program} {arguments:?}: {text}");
}

/// Runs `work` while the device is mounted, where no other process sees it.
fn mounted(disk: &Disk, work: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let inside = || {
        // SAFETY: the call takes a number; the name space is this thread's own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        run("mount", &["--make-rprivate".as_ref(), "/".as_ref()]);
        run("mount", &[&disk.device, folder]);
        work(folder);
        run("umount", &[folder]);
    };
    std::thread::scope(|scope| scope.spawn(inside).join().expect("the work"));
}

fn config(medium: MediumChoice, format: bool) -> Config {
    Config {
        size_bytes: 256 * PAGE as u64,
        page_size_bytes: PAGE,
        medium,
        format,
        sequential_cutoff_bytes: 0,
        ..Config::default()
    }
}

fn open(tier: &Tier, path: &Path) -> (FileId, File) {
    let data = File::options().read(true).write(true).open(path);
    let data = data.expect("the data file");
    let identity = Identity::of(data.as_raw_fd()).expect("identity");
    let id = tier.file(path.as_os_str().as_encoded_bytes(), identity);
    (id.expect("cached"), data)
}

/// Reads every page, and fills what was missed; how many were hits, each as the file has it.
fn hits(tier: &Tier, id: FileId, data: &File) -> u64 {
    let mut hits = 0;
    for number in 0..PAGES {
        let (mut got, mut truth) = (vec![0; PAGE], vec![0; PAGE]);
        let at = number * PAGE as u64;
        data.read_exact_at(&mut truth, at).expect("a read");
        match tier.read(id, at, &mut got) {
            Lookup::Hit => {
                assert_eq!(got, truth, "page {number} is not the file's");
                hits += 1;
            }
            Lookup::Miss(token) => tier.fill(token, &truth),
            Lookup::Bypass(_) => (),
        }
    }
    hits
}

#[test]
fn a_device_is_taken_empty_or_on_request_and_never_in_use() {
    let Some(disk) = Disk::new() else {
        return;
    };
    let data = disk.folder.path().join("t.ibd");
    fs::write(&data, vec![7; PAGES as usize * PAGE]).expect("a data file");
    for direct in [false, true] {
        let path = disk.device.clone();
        let medium = if direct {
            MediumChoice::Direct(path)
        } else {
            MediumChoice::File(path)
        };
        let refused = |format, wanted: &str| {
            let before = disk.head();
            let error = Tier::open(config(medium.clone(), format)).err();
            let error = error.expect("refused").to_string();
            assert!(error.contains(wanted), "{error}");
            assert!(disk.head() == before, "{wanted}: it is as it was");
        };
        run("mkfs.ext4", &["-qF".as_ref(), &disk.device]);
        refused(
            false,
            "an ext file system): name another device, or overwrite this one with --format",
        );
        mounted(&disk, |_| refused(true, "is in use"));
        let mode = disk.device.metadata().expect("the device").permissions();
        let open_to_all = Permissions::from_mode(0o666);
        fs::set_permissions(&disk.device, open_to_all).expect("a mode");
        refused(true, "cannot be opened");
        fs::set_permissions(&disk.device, mode).expect("a mode");

        let start = |format, start: &str, kept| {
            let tier = Tier::open(config(medium.clone(), format)).expect("a tier");
            assert_eq!(tier.status().snapshot().start, start);
            let (id, file) = open(&tier, &data);
            assert_eq!(hits(&tier, id, &file), kept);
            tier.stop();
        };
        start(true, "cold: a formatted device", 0);
        start(false, "warm: 16 pages", PAGES);
        start(true, "warm: 16 pages", PAGES);
    }
}

/// A change right after the stop may bear the time of the last write before it.
#[test]
fn where_times_are_coarse_a_change_right_after_the_stop_is_seen() {
    let Some(disk) = Disk::new() else {
        return;
    };
    // Inodes of 128 bytes have no room for parts of a second.
    run(
        "mkfs.ext4",
        &["-qF".as_ref(), "-I128".as_ref(), &disk.device],
    );
    let cache = disk.folder.path().join("tier");
    let config = config(MediumChoice::File(cache), false);
    mounted(&disk, |folder| {
        let path = folder.join("t.ibd");
        fs::write(&path, vec![1; PAGES as usize * PAGE]).expect("a data file");
        for changes in [true, false] {
            let tier = Tier::open(config.clone()).expect("a tier");
            let (id, data) = open(&tier, &path);
            hits(&tier, id, &data);
            // After the beginning of a second (the kernel's clock lags by a tick), so that all of this comes within it, but for
            // the stop.
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let within = now.expect("after 1970").subsec_nanos();
            std::thread::sleep(Duration::from_nanos(1_050_000_000 - u64::from(within)));
            let token = tier.write_begin(id, 0, PAGE as u64);
            data.write_all_at(&[2; PAGE], 0).expect("a write");
            tier.write_end(token, Some(&[2; PAGE]));
            let token = tier.sync_begin(id);
            data.sync_all().expect("a sync");
            tier.synced(token);
            tier.stop();
            drop(tier);
            if changes {
                data.write_all_at(&[3; PAGE], 0).expect("another program");
            }
            let tier = Tier::open(config.clone()).expect("a tier");
            let (id, data) = open(&tier, &path);
            let kept = hits(&tier, id, &data);
            assert_eq!(kept, if changes { 0 } else { PAGES });
        }
    });
}
