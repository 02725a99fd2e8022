//! The file behind a medium that survives a restart: superblock, checksums, pages, and the index after a clean stop.
//!
//! The superblock says "clean" only between a clean stop and the next open; whatever else is found starts cold.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Region;
use crate::config::Config;
use crate::own::OwnFile;

const MAGIC: u64 = u64::from_le_bytes(*b"UPSTIERF");
const VERSION: u64 = 1;
const SUPER_BYTES: usize = 4096;
const WORDS: usize = 10;
const ALIGN: u64 = 2 << 20;
/// Bytes of the saved index for each slot, with room for the table of files.
const SAVED_SLOT_BYTES: u64 = 16;
const SAVED_FILES_BYTES: u64 = 4 << 20;

/// Where things are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a page.
    pub page_size_bytes: usize,
    /// Pages now.
    pub slots: u64,
    /// Pages after the largest resize: the checksums have room for so many.
    pub slots_max: u64,
}

impl Layout {
    /// First byte of the pages.
    pub fn data_offset(&self) -> u64 {
        (SUPER_BYTES as u64 + self.slots_max * 8).next_multiple_of(ALIGN)
    }

    /// First byte of the saved index.
    fn saved_offset(&self) -> u64 {
        self.data_offset() + self.slots * self.page_size_bytes as u64
    }

    /// Bytes of the whole file.
    fn file_bytes(&self) -> u64 {
        self.saved_offset() + self.slots * SAVED_SLOT_BYTES + SAVED_FILES_BYTES
    }
}

/// The file, locked against other processes.
pub struct Backing {
    file: OwnFile,
    device: bool,
    layout: Mutex<Layout>,
    data_offset: u64,
    checksums: Region,
    saved: Mutex<Option<Result<Vec<u8>, String>>>,
}

impl Backing {
    /// Opens or creates the file, locks it, and reads what a clean stop left.
    pub fn open(path: &Path, config: &Config, size_bytes_max: u64) -> Result<Self, String> {
        let failed =
            |what: &str, error: io::Error| format!("tier file {}: {what}: {error}", path.display());
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options
            .open(path)
            .map(OwnFile::new)
            .map_err(|error| failed("cannot be opened", error))?;
        // SAFETY: flock takes no memory; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(format!(
                "tier file {} is used by another server: give each its own",
                path.display()
            ));
        }
        let kind = file
            .metadata()
            .map_err(|error| failed("cannot be read", error))?
            .file_type();
        let page = config.page_size_bytes as u64;
        let (slots, slots_max) = (config.size_bytes / page, size_bytes_max / page);
        let layout = Layout {
            page_size_bytes: config.page_size_bytes,
            slots,
            slots_max,
        };
        let saved = load(&file, &layout);
        if let Err(Refusal::Foreign) = saved {
            return Err(format!(
                "tier file {} holds something else: name a new file",
                path.display()
            ));
        }
        let device = kind.is_block_device();
        let room = allocate(&file, &layout, device).map_err(|error| failed("has no room", error));
        room.map_err(|text| format!("{text}; free some space or use a smaller size"))?;
        let checksums = Region::shared(&file, 0, layout.data_offset() as usize, true);
        let checksums = checksums.map_err(|error| failed("cannot be mapped", error))?;
        let backing = Self {
            file,
            device,
            layout: Mutex::new(layout),
            data_offset: layout.data_offset(),
            checksums,
            saved: Mutex::new(Some(saved.map_err(Refusal::text))),
        };
        // From here on the file counts as unclean, whatever happens to us.
        backing
            .write_super(false, 0, 0)
            .map_err(|error| failed("cannot be written", error))?;
        Ok(backing)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where things are now.
    pub fn layout(&self) -> Layout {
        *self
            .layout
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// First byte of the pages; does not change.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// What a clean stop saved, or why there is nothing. Once.
    pub fn take_saved(&self) -> Option<Result<Vec<u8>, String>> {
        self.saved
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    /// The checksum of a slot's page, kept on the medium.
    pub fn checksum(&self, slot: u32) -> Option<&AtomicU64> {
        let at = SUPER_BYTES + slot as usize * 8;
        // SAFETY: in bounds of the mapping, aligned to eight, shared with nobody who is not atomic.
        (at + 8 <= self.checksums.size_bytes())
            .then(|| unsafe { &*self.checksums.address().add(at).cast::<AtomicU64>() })
    }

    /// Changes the number of pages.
    pub fn resize(&self, size_bytes: u64) -> io::Result<()> {
        let mut layout = self
            .layout
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let new = Layout {
            slots: size_bytes / layout.page_size_bytes as u64,
            ..*layout
        };
        if new.slots > layout.slots {
            allocate(&self.file, &new, self.device)?;
        } else if !self.device {
            let start = new.file_bytes() as i64;
            // Punched, not cut: a late reader of the mapping must find zeroes, not a SIGBUS.
            let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let length = layout.file_bytes() as i64 - start;
            // SAFETY: takes no memory; the descriptor is open. A file system without holes keeps the room.
            unsafe { libc::fallocate(self.file.as_raw_fd(), flags, start, length) };
        }
        *layout = new;
        Ok(())
    }

    /// After the last page: saves the index and calls the file clean.
    pub fn seal(&self, saved: &[u8]) -> io::Result<()> {
        let layout = self.layout();
        if saved.len() as u64 > layout.file_bytes() - layout.saved_offset() {
            return Err(io::Error::other(
                "the table of files is too large to be saved",
            ));
        }
        self.file.write_all_at(saved, layout.saved_offset())?;
        self.checksums.sync()?;
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
            layout.slots_max,
            host(),
            u64::from(clean),
            saved_bytes,
            saved_hash,
            0,
        ];
        let mut block = vec![0u8; SUPER_BYTES];
        for (at, word) in words.iter().enumerate() {
            block[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        let hash = xxh3_64(&block[..(WORDS - 1) * 8]);
        block[(WORDS - 1) * 8..WORDS * 8].copy_from_slice(&hash.to_le_bytes());
        self.file.write_all_at(&block, 0)?;
        self.file.sync_data()
    }
}

/// Checksum of a page that belongs to this key and no other.
pub fn page_checksum(data: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(data, seed)
}

enum Refusal {
    Foreign,
    Cold(String),
}

impl Refusal {
    fn text(self) -> String {
        match self {
            Self::Foreign => "the file holds something else".into(),
            Self::Cold(reason) => reason,
        }
    }
}

fn load(file: &File, layout: &Layout) -> Result<Vec<u8>, Refusal> {
    let cold = |reason: &str| Refusal::Cold(reason.into());
    let mut block = vec![0u8; SUPER_BYTES];
    match file.read_at(&mut block, 0) {
        Ok(0) => return Err(cold("a new file")),
        Ok(SUPER_BYTES) => (),
        Ok(_) => return Err(Refusal::Foreign),
        Err(error) => {
            return Err(Refusal::Cold(format!(
                "the superblock cannot be read: {error}"
            )));
        }
    }
    if block.iter().all(|byte| *byte == 0) {
        return Err(cold("an empty file"));
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| block[at * 8 + byte]));
    if word(0) != MAGIC {
        return Err(Refusal::Foreign);
    }
    if word(WORDS - 1) != xxh3_64(&block[..(WORDS - 1) * 8]) {
        return Err(cold("the superblock is damaged"));
    }
    let expected = [
        (1, VERSION, "another version"),
        (2, layout.page_size_bytes as u64, "another page size"),
        (3, layout.slots, "another size"),
        (4, layout.slots_max, "another size"),
        (5, host(), "another host"),
        (6, 1, "the last stop was not clean"),
    ];
    if let Some((_, _, reason)) = expected.iter().find(|(at, value, _)| word(*at) != *value) {
        return Err(cold(reason));
    }
    if word(7) > layout.file_bytes() - layout.saved_offset() {
        return Err(cold("the saved index is damaged"));
    }
    let mut saved = vec![0u8; word(7) as usize];
    let read = file.read_exact_at(&mut saved, layout.saved_offset());
    if read.is_err() || xxh3_64(&saved) != word(8) {
        return Err(cold("the saved index is damaged"));
    }
    Ok(saved)
}

/// Real blocks for everything, so that no store into a mapping can fail later for want of room.
fn allocate(file: &File, layout: &Layout, device: bool) -> io::Result<()> {
    let wanted = layout.file_bytes();
    if device {
        use std::io::Seek;
        let mut file = file;
        let there = file.seek(io::SeekFrom::End(0))?;
        let short = || {
            io::Error::new(
                io::ErrorKind::StorageFull,
                format!("the device has {there} bytes, {wanted} are needed"),
            )
        };
        return if there < wanted { Err(short()) } else { Ok(()) };
    }
    if file.metadata()?.len() < wanted {
        file.set_len(wanted)?;
    }
    // The checksums of slots that a later resize may add stay a hole: they are written only then.
    let used_checks = SUPER_BYTES as u64 + layout.slots * 8;
    for (start, length) in [
        (0, used_checks),
        (layout.data_offset(), wanted - layout.data_offset()),
    ] {
        // SAFETY: takes no memory; the descriptor is open.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), start as i64, length as i64) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    Ok(())
}

/// This machine, so that a disk carried to another one starts cold.
fn host() -> u64 {
    xxh3_64(&std::fs::read("/etc/machine-id").unwrap_or_default())
}
