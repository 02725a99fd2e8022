//! The file or device behind a medium that survives a restart: superblock, pages, and the index after a clean stop.
//!
//! The superblock says "clean" only between a clean stop and the next open; whatever else is found starts cold.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::claim::{self, Content, HEAD_BYTES, MAGIC, SUPER_BYTES};
use crate::config::Config;
use crate::index::Array;
use crate::own::OwnFile;

const VERSION: u64 = 2;
const WORDS: usize = SUPER_BYTES / 8;
/// Bytes of the saved index for each slot; a file keeps 4 MiB for the table of files, and grows when that is larger.
const SAVED_SLOT_BYTES: u64 = 24;
const SAVED_FILES_BYTES: u64 = 4 << 20;

/// Where things are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a page.
    pub page_size_bytes: usize,
    /// Pages now.
    pub slots: u64,
}

impl Layout {
    /// As a tier with this configuration begins.
    pub fn new(config: &Config) -> Self {
        Self {
            page_size_bytes: config.page_size_bytes,
            slots: config.size_bytes / config.page_size_bytes as u64,
        }
    }

    /// First byte of the saved index.
    fn saved_offset(&self) -> u64 {
        HEAD_BYTES + self.slots * self.page_size_bytes as u64
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.saved_offset() + self.slots * SAVED_SLOT_BYTES + SAVED_FILES_BYTES
    }
}

/// The file, locked against other processes.
pub struct Backing {
    file: OwnFile,
    device: bool,
    layout: Mutex<Layout>,
    checksums: Array<AtomicU64>,
    saved: Mutex<Option<Result<Vec<u8>, String>>>,
}

impl Backing {
    /// Opens or creates the file, locks it, and reads what a clean stop left.
    pub fn open(path: &Path, config: &Config, size_bytes_max: u64) -> Result<Self, String> {
        let failed =
            |what: &str, error: io::Error| format!("tier file {}: {what}: {error}", path.display());
        let (file, device) = claim::open(path)?;
        let size_bytes =
            size_bytes(&file).map_err(|error| failed("does not say its size", error))?;
        let unreadable = |error| failed("cannot be read", error);
        let saved = match claim::inspect(&file, size_bytes, device).map_err(unreadable)? {
            Content::Empty => Err("a new file".into()),
            Content::Tier => load(&file, config.page_size_bytes, size_bytes),
            Content::Foreign(_) if device && config.format => {
                let formatted = claim::format(&file, size_bytes);
                formatted.map_err(|error| failed("cannot be written", error))?;
                Err("a formatted device".into())
            }
            Content::Foreign(what) => {
                let hint = if device {
                    "name another device, or overwrite this one with --format"
                } else {
                    "name a new file"
                };
                let path = path.display();
                return Err(format!(
                    "tier file {path} holds something else ({what}): {hint}"
                ));
            }
        };
        let layout = Layout::new(config);
        allocate(&file, layout.file_bytes(), device).map_err(|error| {
            failed("has no room", error) + "; free some space or choose a smaller size"
        })?;
        let checksums = Array::new((size_bytes_max / config.page_size_bytes as u64) as usize)
            .map_err(|error| format!("no memory for the checksums of pages: {error}"))?;
        let backing = Self {
            file,
            device,
            layout: Mutex::new(layout),
            checksums,
            saved: Mutex::new(Some(saved)),
        };
        // From here on the file counts as unclean, whatever happens to us.
        backing
            .write_super(false, 0, 0)
            .and_then(|()| backing.trim(&layout))
            .map_err(|error| failed("cannot be written", error))?;
        Ok(backing)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn lock(&self) -> MutexGuard<'_, Layout> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where things are now.
    pub fn layout(&self) -> Layout {
        *self.lock()
    }

    /// First byte of the pages; does not change.
    pub fn data_offset(&self) -> u64 {
        HEAD_BYTES
    }

    /// What a clean stop saved, or why there is nothing. Once.
    pub fn take_saved(&self) -> Option<Result<Vec<u8>, String>> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.take()
    }

    /// The first word of what a clean stop saved.
    pub fn saved_word(&self) -> Option<u64> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = saved.as_ref()?.as_ref().ok()?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// The checksum of a slot's page. In memory: the file gets them with the index.
    #[inline]
    pub fn checksum(&self, slot: u32) -> &AtomicU64 {
        &self.checksums[slot as usize]
    }

    /// Changes the number of pages.
    pub fn resize(&self, size_bytes: u64) -> io::Result<()> {
        let mut layout = self.lock();
        let new = Layout {
            slots: size_bytes / layout.page_size_bytes as u64,
            ..*layout
        };
        if new.slots > layout.slots {
            allocate(&self.file, new.file_bytes(), self.device)?;
        } else {
            self.trim(&new)?;
        }
        *layout = new;
        Ok(())
    }

    /// Gives back what the file has beyond its layout.
    fn trim(&self, layout: &Layout) -> io::Result<()> {
        if !self.device && self.file.metadata()?.len() > layout.file_bytes() {
            self.file.set_len(layout.file_bytes())?;
        }
        Ok(())
    }

    /// After the last page: saves the index and calls the file clean.
    pub fn seal(&self, saved: &[u8]) -> io::Result<()> {
        let at = self.layout().saved_offset();
        if self.device && saved.len() as u64 > size_bytes(&self.file)? - at {
            return Err(io::Error::other(
                "the device has no room for the table of files",
            ));
        }
        self.file.write_all_at(saved, at)?;
        self.file.sync_all()?;
        self.write_super(true, saved.len() as u64, xxh3_64(saved))
    }

    /// The pages changed after all: the file counts as unclean again.
    pub fn unseal(&self) -> io::Result<()> {
        self.write_super(false, 0, 0)
    }

    fn write_super(&self, clean: bool, saved_bytes: u64, saved_hash: u64) -> io::Result<()> {
        let layout = self.layout();
        let words = [
            MAGIC,
            VERSION,
            layout.page_size_bytes as u64,
            layout.slots,
            0,
            host(),
            u64::from(clean),
            saved_bytes,
            saved_hash,
        ];
        let mut block = [0u8; SUPER_BYTES];
        for (at, word) in words.iter().enumerate() {
            block[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        let hash = xxh3_64(&block[..(WORDS - 1) * 8]);
        block[(WORDS - 1) * 8..].copy_from_slice(&hash.to_le_bytes());
        self.file.write_all_at(&block, 0)?;
        self.file.sync_data()
    }
}

/// Checksum of a page that belongs to this key and no other.
pub fn page_checksum(data: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(data, seed)
}

/// What a clean stop saved; in Err, why the tier starts cold.
fn load(file: &File, page_size_bytes: usize, size_bytes: u64) -> Result<Vec<u8>, String> {
    let mut block = [0u8; SUPER_BYTES];
    file.read_exact_at(&mut block, 0)
        .map_err(|error| format!("the superblock cannot be read: {error}"))?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| block[at * 8 + byte]));
    if word(WORDS - 1) != xxh3_64(&block[..(WORDS - 1) * 8]) {
        return Err("the superblock is damaged".into());
    }
    let expected = [
        (1, VERSION, "another version"),
        (2, page_size_bytes as u64, "another page size"),
        (5, host(), "another host"),
        (6, 1, "the last stop was not clean"),
    ];
    if let Some((_, _, reason)) = expected.iter().find(|(at, value, _)| word(*at) != *value) {
        return Err((*reason).into());
    }
    let damaged = || "the saved index is damaged".to_owned();
    // As large as it was at the stop, whatever it was made for and will have from now on.
    let layout = Layout {
        page_size_bytes,
        slots: word(3),
    };
    if word(7) > size_bytes.saturating_sub(layout.saved_offset()) {
        return Err(damaged());
    }
    let mut saved = vec![0u8; word(7) as usize];
    let read = file.read_exact_at(&mut saved, layout.saved_offset());
    if read.is_err() || xxh3_64(&saved) != word(8) {
        return Err(damaged());
    }
    Ok(saved)
}

/// Bytes of a file or device.
fn size_bytes(file: &File) -> io::Result<u64> {
    use std::io::Seek;
    let mut file = file;
    file.seek(io::SeekFrom::End(0))
}

/// Real blocks for everything, so that writes do not fail later for want of room. What is not enough is given back: a
/// full file system stops whoever else writes there.
fn allocate(file: &File, wanted: u64, device: bool) -> io::Result<()> {
    let short = |what: String| io::Error::new(io::ErrorKind::StorageFull, what);
    if device {
        let there = size_bytes(file)?;
        return if there < wanted {
            let what = format!("the device has {there} bytes, {wanted} are needed");
            Err(short(what))
        } else {
            Ok(())
        };
    }
    let before = file.metadata()?;
    let missing = wanted.saturating_sub(before.blocks() * 512);
    let free = free_bytes(file)?;
    if missing > free {
        let what = format!("the file system has {free} bytes free, {missing} are needed");
        return Err(short(what));
    }
    // SAFETY: takes no memory; the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, wanted as i64) } {
        0 => Ok(()),
        code => {
            file.set_len(before.len())?;
            Err(io::Error::from_raw_os_error(code))
        }
    }
}

/// Bytes that this user can still take from the file's file system.
fn free_bytes(file: &File) -> io::Result<u64> {
    // SAFETY: plain data with room for the answer; the descriptor is open.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        match libc::fstatvfs(file.as_raw_fd(), &raw mut found) {
            0 => Ok(found.f_bavail * found.f_frsize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// This machine, so that a disk carried to another one starts cold.
fn host() -> u64 {
    xxh3_64(&std::fs::read("/etc/machine-id").unwrap_or_default())
}
