//! Random reads and small synced writes on a folder's disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::failure::Failure;
use crate::stopwatch::latencies_us;

/// Large enough that a device's own cache rarely holds all of it, small enough to be written in a second or two.
const FILE_BYTES: u64 = 256 << 20;
/// A disk on which filling takes longer than its time gets a file of at least this size.
const LEAST_FILE_BYTES: u64 = 16 << 20;
/// What must stay free beside the file: a full disk stops other programs.
const SPARE_BYTES: u64 = 256 << 20;
/// The unit in which the file is written.
const FILL_BYTES: usize = 1 << 20;
/// A read, and what it and its place in the file must be a multiple of.
const READ_BYTES: usize = 4096;
/// A block of InnoDB's redo log.
const WRITE_BYTES: usize = 512;
/// Operations of a repetition even on a disk that takes longer for them.
const LEAST_OPERATIONS: usize = 10;

/// A page where direct I/O can take it from.
#[repr(C, align(4096))]
struct Page([u8; READ_BYTES]);

/// A file full of noise in a folder. It has no name any more: nothing is left of it, however the program ends.
pub struct Disk {
    written: File,
    /// None where the file system refuses direct I/O.
    direct: Option<File>,
    /// How much of it is filled.
    pub file_bytes: u64,
    random: Xoshiro256PlusPlus,
}

impl Disk {
    /// Make the file and fill it, for at most `length` but for the least size.
    ///
    /// # Errors
    /// No such folder, no right to write in it, no room for the file, or an error of the disk.
    pub fn new(folder: &Path, length: Duration) -> Result<Self, Failure> {
        if !folder.is_dir() {
            return Err(Failure::usage(
                format!("{} is not a folder", folder.display()),
                "name a folder on the disk that holds the data",
            ));
        }
        let written = require_room(folder)?;
        let name = folder.join(format!(".upshift-card-{}", std::process::id()));
        let in_folder = |error: io::Error| {
            Failure::failed(
                format!("{} cannot be written to: {error}", folder.display()),
                "name a folder that this user may write to",
            )
        };
        let mut options = OpenOptions::new();
        let made = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&name)
            .map_err(in_folder)?;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&name)
            .ok();
        std::fs::remove_file(&name).map_err(in_folder)?;
        let mut disk = Self {
            written: made,
            direct,
            file_bytes: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        };
        disk.fill(written, length)
            .map_err(|error| failed(folder, &error))?;
        Ok(disk)
    }

    /// Noise, which no layer below can compress away or find twice.
    fn fill(&mut self, most_bytes: u64, length: Duration) -> io::Result<()> {
        let started = Instant::now();
        let mut noise = vec![0; FILL_BYTES];
        while self.file_bytes < most_bytes
            && (self.file_bytes < LEAST_FILE_BYTES || started.elapsed() < length)
        {
            self.random.fill_bytes(&mut noise);
            self.written.write_all_at(&noise, self.file_bytes)?;
            self.file_bytes += noise.len() as u64;
            // Writing would otherwise fill memory, not the disk, and the wait come later.
            if self.file_bytes.is_multiple_of(LEAST_FILE_BYTES) {
                self.written.sync_data()?;
            }
        }
        self.written.sync_all()
    }

    /// Whether the file system takes direct I/O.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The microseconds of direct reads at random places, one at a time, sorted; none where direct I/O is refused.
    ///
    /// # Errors
    /// The disk's.
    pub fn reads_us(&mut self, length: Duration) -> io::Result<Vec<f64>> {
        let Some(direct) = &self.direct else {
            return Ok(Vec::new());
        };
        let mut page = Box::new(Page([0; READ_BYTES]));
        let pages = self.file_bytes / READ_BYTES as u64;
        latencies_us(length, LEAST_OPERATIONS, || {
            let at = self.random.random_range(0..pages) * READ_BYTES as u64;
            direct.read_exact_at(&mut page.0, at)
        })
    }

    /// The microseconds of writing a block over an old one and of syncing it, sorted.
    ///
    /// # Errors
    /// The disk's.
    pub fn syncs_us(
        &mut self,
        length: Duration,
        sync: fn(&File) -> io::Result<()>,
    ) -> io::Result<Vec<f64>> {
        let mut noise = [0; WRITE_BYTES];
        let mut at = 0;
        latencies_us(length, LEAST_OPERATIONS, || {
            self.random.fill_bytes(&mut noise);
            at = (at + WRITE_BYTES as u64) % self.file_bytes;
            self.written.write_all_at(&noise, at)?;
            sync(&self.written)
        })
    }
}

/// How large the file may be. Less than the whole where the disk is nearly full.
fn require_room(folder: &Path) -> Result<u64, Failure> {
    let free = capacity::disk_bytes(folder).map_err(|error| failed(folder, &error))?;
    file_bytes(free).ok_or_else(|| {
        let needed_mib = (LEAST_FILE_BYTES + SPARE_BYTES) >> 20;
        Failure::failed(
            format!(
                "{} has {} MiB free, and the card needs {needed_mib} MiB there for a moment",
                folder.display(),
                free >> 20
            ),
            "free some space, or name another folder of the same disk",
        )
    })
}

fn file_bytes(free_bytes: u64) -> Option<u64> {
    let bytes = free_bytes.saturating_sub(SPARE_BYTES).min(FILE_BYTES);
    (bytes >= LEAST_FILE_BYTES).then_some(bytes - bytes % FILL_BYTES as u64)
}

/// An error of the disk in a folder.
pub fn failed(folder: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name another folder of the same disk"
        }
        _ => "see the kernel's log (dmesg)",
    };
    Failure::failed(format!("the disk of {}: {error}", folder.display()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_no_name_and_can_be_read_and_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disk = Disk::new(folder.path(), Duration::ZERO).expect("a disk");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
        assert_eq!(disk.file_bytes, LEAST_FILE_BYTES);
        let reads = disk.reads_us(Duration::ZERO).expect("reads");
        assert_eq!(
            reads.len(),
            if disk.is_direct() {
                LEAST_OPERATIONS
            } else {
                0
            }
        );
        let syncs = disk
            .syncs_us(Duration::ZERO, File::sync_data)
            .expect("syncs");
        assert_eq!(syncs.len(), LEAST_OPERATIONS);
        assert_eq!(
            disk.written.metadata().expect("a file").len(),
            LEAST_FILE_BYTES
        );
        drop(disk);
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
    }

    #[test]
    fn without_direct_reads_there_are_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disk = Disk::new(folder.path(), Duration::ZERO).expect("a disk");
        disk.direct = None;
        assert!(!disk.is_direct());
        assert_eq!(
            disk.reads_us(Duration::ZERO).expect("no reads"),
            [0.0_f64; 0]
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
    }

    #[test]
    fn the_file_leaves_room_on_a_disk_that_is_nearly_full() {
        assert_eq!(file_bytes(100 << 30), Some(FILE_BYTES));
        assert_eq!(file_bytes(SPARE_BYTES + (20 << 20) + 1), Some(20 << 20));
        assert_eq!(file_bytes(SPARE_BYTES + LEAST_FILE_BYTES - 1), None);
        assert_eq!(file_bytes(0), None);
    }

    #[test]
    fn a_page_lies_where_direct_io_takes_it() {
        let page = Box::new(Page([0; READ_BYTES]));
        assert_eq!(page.0.as_ptr() as usize % 4096, 0);
    }
}
