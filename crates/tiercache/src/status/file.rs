//! The file of the page. Neither side maps it: a file system that is full or a program that cuts the file would end the
//! process with SIGBUS. Each has the page in memory of its own, and the file carries it over.
//!
//! The tier writes everything up to `control`, which both write under a lock. A reader says in `control.look` since when
//! it waits; the tier then publishes at once.

use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::layout::{Control, MAGIC, Page, VERSION, unix_ns};
use super::{StatusError, StatusPage};
use crate::config::Config;
use crate::medium::Region;
use crate::own::OwnFile;
use crate::private;

const CONTROL: Range<usize> =
    offset_of!(Page, control)..offset_of!(Page, control) + size_of::<Control>();
const PUBLISHED: Range<usize> = 0..CONTROL.start;

/// A tier that lives publishes within this; one that does not answer is shown as it was.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl StatusPage {
    /// Creates the page at `path`, mode 0600, locked against a second tier.
    pub fn create(path: &Path, config: &Config) -> Result<Self, StatusError> {
        let failed = |error| StatusError::Io(path.into(), error);
        let file = private::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        // A page that is not ours is somebody's file: never overwrite it.
        if found.len() != 0 {
            check_header(path, &file, found.len(), true)?;
        }
        // SAFETY: flock takes no memory; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let owner = Self::attach(path).map(|page| page.pid()).unwrap_or(0);
            return Err(StatusError::InUse(path.into(), owner));
        }
        let page = Self::in_memory(Some(OwnFile::new(file)), true, true).map_err(failed)?;
        page.page().describe(config);
        // All of its room now: a page that could not be published says nothing about the server.
        page.allocate()
            .and_then(|()| page.put(0..size_of::<Page>()))
            .inspect_err(|_| drop(std::fs::remove_file(path)))
            .map_err(failed)?;
        Ok(page)
    }

    /// A page that only this process sees.
    pub fn private(config: &Config) -> Result<Self, StatusError> {
        let page = Self::in_memory(None, true, false);
        let page = page.map_err(|error| StatusError::Io("anonymous".into(), error))?;
        page.page().describe(config);
        Ok(page)
    }

    /// Attaches to the page that a tier of this user created; refuses another magic or version.
    pub fn attach(path: &Path) -> Result<Self, StatusError> {
        // SAFETY: geteuid takes no arguments and cannot fail.
        Self::attach_of(path, unsafe { libc::geteuid() })
    }

    /// As `attach`, for a tier whose process runs as `owner`: nobody else can have made or changed the page.
    pub fn attach_of(path: &Path, owner: u32) -> Result<Self, StatusError> {
        let failed = |error| StatusError::Io(path.into(), error);
        let (file, writable) = private::attach(path, owner).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        check_header(path, &file, found.len(), false)?;
        let page = Self::in_memory(Some(OwnFile::new(file)), false, writable).map_err(failed)?;
        page.get(0..size_of::<Page>()).map_err(failed)?;
        Ok(page)
    }

    fn in_memory(file: Option<OwnFile>, counts: bool, writable: bool) -> io::Result<Self> {
        Ok(Self {
            region: Region::anonymous(size_of::<Page>())?,
            counts,
            writable,
            file,
        })
    }

    fn allocate(&self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        file.set_len(0)?;
        // SAFETY: takes no memory; the descriptor is open.
        let answer =
            unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size_of::<Page>() as i64) };
        match answer {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// These bytes of the page, here.
    fn bytes(&self, part: &Range<usize>) -> (*mut u8, usize) {
        assert!(part.end <= self.region.size_bytes());
        // SAFETY: inside the region.
        (unsafe { self.region.address().add(part.start) }, part.len())
    }

    /// Writes part of the page to the file.
    fn put(&self, part: Range<usize>) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let (address, length) = self.bytes(&part);
        // A copy: what other threads count meanwhile is not read through a reference.
        let mut copy = vec![0u8; length];
        // SAFETY: `length` bytes of the region; whoever changes them meanwhile does so word by word.
        unsafe { std::ptr::copy_nonoverlapping(address, copy.as_mut_ptr(), length) };
        file.write_all_at(&copy, part.start as u64)
    }

    /// Reads part of the page from the file.
    fn get(&self, part: Range<usize>) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let (address, length) = self.bytes(&part);
        let mut copy = vec![0u8; length];
        file.read_exact_at(&mut copy, part.start as u64)?;
        // SAFETY: as in `put`, the other way.
        unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), address, length) };
        Ok(())
    }

    /// Writes what the tier counted. What cannot be written is tried again the next time.
    pub(super) fn put_published(&self) {
        let page = self.page();
        let turn = page.published_first.load(Ordering::Relaxed) + 1;
        page.ticked_unix_ns.store(unix_ns(), Ordering::Relaxed);
        page.published_first.store(turn, Ordering::Relaxed);
        page.published_last.store(turn, Ordering::Relaxed);
        // A file that was cut gets the rest, too.
        let cut = self.get(CONTROL).is_err();
        let _ = self.put(
            0..if cut {
                size_of::<Page>()
            } else {
                PUBLISHED.end
            },
        );
    }

    /// Reads what the tier counts now. One that does not answer, or a page that this user cannot write to: what it counted
    /// about a second ago, or at its end.
    pub(super) fn refresh(&self) {
        if self.counts {
            return;
        }
        let asked = unix_ns();
        let end = Instant::now() + SHOWN_WITHIN;
        let look = offset_of!(Page, control) + offset_of!(Control, look);
        if let (true, Some(file)) = (self.writable, &self.file) {
            let _ = file.write_all_at(&asked.to_le_bytes(), look as u64);
        }
        loop {
            let whole = self.get_whole();
            let shown = self.page().ticked_unix_ns.load(Ordering::Relaxed) >= asked;
            let waits = self.writable && self.alive() && Instant::now() < end;
            if whole && shown || !waits {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Reads everything; false when the tier was writing meanwhile. It writes from the front, so this looks from the back.
    fn get_whole(&self) -> bool {
        let word = |at: usize| -> io::Result<u64> {
            self.get(at..at + 8)?;
            // SAFETY: a word of the page, aligned as it is there.
            Ok(unsafe { self.region.address().add(at).cast::<u64>().read() })
        };
        let turns = || -> io::Result<(u64, u64)> {
            let last = word(offset_of!(Page, published_last))?;
            self.get(PUBLISHED)?;
            Ok((last, word(offset_of!(Page, published_first))?))
        };
        turns().is_ok_and(|(last, first)| last == first)
    }

    /// Whether, when `answer` last looked, a reader waited for what was not yet published.
    pub(crate) fn asked(&self) -> bool {
        let page = self.page();
        page.control.look.load(Ordering::Relaxed) > page.ticked_unix_ns.load(Ordering::Relaxed)
    }

    /// Runs `change` on the words of `control` as they are in the file, which has them as changed afterwards; None where
    /// the file cannot be had. Others wait.
    pub(super) fn with_control<T>(&self, change: impl FnOnce(&Control) -> T) -> Option<T> {
        let file = self.file.as_ref()?;
        let _held = RangeLock::take(file)?;
        self.get(CONTROL).ok()?;
        let answer = change(&self.page().control);
        // Not `look`, which readers write without the lock.
        self.put(CONTROL.start + size_of::<u64>()..CONTROL.end)
            .ok()?;
        Some(answer)
    }

    /// Reads `control` as it is, without the lock.
    pub(super) fn peek_control(&self) -> Option<&Control> {
        self.file.as_ref()?;
        self.get(CONTROL).ok()?;
        Some(&self.page().control)
    }
}

/// A lock of `control` against other descriptors of the file; it goes with its process.
struct RangeLock<'a>(&'a File);

impl<'a> RangeLock<'a> {
    /// Holders have it for microseconds: one that has it longer is stopped.
    fn take(file: &'a File) -> Option<Self> {
        let end = Instant::now() + Duration::from_millis(500);
        while !set_lock(file, libc::F_WRLCK as i16) {
            if Instant::now() > end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Self(file))
    }
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        set_lock(self.0, libc::F_UNLCK as i16);
    }
}

fn set_lock(file: &File, kind: i16) -> bool {
    // SAFETY: flock is plain data; the descriptor is open.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind;
        lock.l_whence = libc::SEEK_SET as i16;
        lock.l_start = CONTROL.start as i64;
        lock.l_len = CONTROL.len() as i64;
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0
    }
}

/// Reads the first bytes of the file: a page whose version differs may differ in size too.
fn check_header(
    path: &Path,
    file: &File,
    length: u64,
    any_version: bool,
) -> Result<(), StatusError> {
    let mut head = [0u8; 16];
    if length < 16 || file.read_exact_at(&mut head, 0).is_err() || head[..8] != MAGIC.to_le_bytes()
    {
        return Err(StatusError::NotAStatusPage(path.into()));
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if !any_version && version != VERSION {
        return Err(StatusError::OtherVersion(path.into(), version, VERSION));
    }
    if !any_version && length < size_of::<Page>() as u64 {
        return Err(StatusError::NotAStatusPage(path.into()));
    }
    Ok(())
}
