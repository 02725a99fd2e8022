//! Pages in a file or on a device, read and written by system calls: a medium that fails answers with an error, where a
//! mapping would end the server with SIGBUS.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use super::{Backing, Medium, MediumError, Scratch};
use crate::own::OwnFile;

/// Offsets, lengths and addresses of direct I/O are multiples of this on every device in use.
const ALIGN: usize = 4096;

/// The medium.
pub struct Paged {
    /// A second descriptor, for direct I/O: the first keeps the lock and the superblock.
    direct: Option<OwnFile>,
    backing: Backing,
    scratch: Scratch,
    page_size_bytes: usize,
}

impl Paged {
    /// Through the kernel's page cache.
    pub fn buffered(backing: Backing) -> Result<Self, String> {
        Self::new(backing, None)
    }

    /// Past the kernel's page cache.
    pub fn direct(backing: Backing, path: &Path) -> Result<Self, String> {
        let no_direct = |error: io::Error| {
            let path = path.display();
            format!(
                "tier file {path}: the file system refuses direct I/O: {error}; use the medium file:{path}"
            )
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let file = options.open(path).map_err(no_direct)?;
        let same = |one: &std::fs::File, other: &std::fs::File| -> io::Result<bool> {
            let (one, other) = (one.metadata()?, other.metadata()?);
            Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
        };
        if !same(&file, backing.file()).map_err(no_direct)? {
            return Err(format!(
                "tier file {} was replaced while it was opened: start the server again",
                path.display()
            ));
        }
        Self::new(backing, Some(OwnFile::new(file)))
    }

    fn new(backing: Backing, direct: Option<OwnFile>) -> Result<Self, String> {
        let scratch = Scratch::new()
            .map_err(|error| format!("no memory for the buffers of reads: {error}"))?;
        Ok(Self {
            page_size_bytes: backing.layout().page_size_bytes,
            direct,
            backing,
            scratch,
        })
    }

    fn at(&self, slot: u32) -> u64 {
        self.backing.data_offset() + u64::from(slot) * self.page_size_bytes as u64
    }

    /// Whether the system call may use this memory and range itself.
    fn fits(&self, address: *const u8, length: usize, offset: usize) -> bool {
        self.direct.is_none() || (address as usize | length | offset).is_multiple_of(ALIGN)
    }

    /// The system call itself: the libc function of this name may be ours, under the preloaded library.
    fn call(
        &self,
        number: libc::c_long,
        address: *mut u8,
        length: usize,
        offset: u64,
    ) -> Result<(), MediumError> {
        let fd = match &self.direct {
            Some(file) => file.as_raw_fd(),
            None => self.backing.file().as_raw_fd(),
        };
        // SAFETY: every caller owns `length` bytes at `address`.
        let done = unsafe { libc::syscall(number, fd, address, length, offset as i64) };
        match done {
            done if done == length as i64 => Ok(()),
            -1 => Err(MediumError::Io(io::Error::last_os_error())),
            _ => Err(MediumError::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Medium for Paged {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        let at = self.at(slot);
        if self.fits(dst.as_ptr(), dst.len(), offset) {
            let start = at + offset as u64;
            return self.call(libc::SYS_pread64, dst.as_mut_ptr(), dst.len(), start);
        }
        let mut lease = self.scratch.take();
        let page = &mut lease.room()[..self.page_size_bytes];
        self.call(libc::SYS_pread64, page.as_mut_ptr(), page.len(), at)?;
        let part = page.get(offset..offset + dst.len());
        dst.copy_from_slice(part.ok_or(MediumError::Torn)?);
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        let at = self.at(slot);
        if self.fits(data.as_ptr(), data.len(), 0) {
            let address = data.as_ptr().cast_mut();
            return self.call(libc::SYS_pwrite64, address, data.len(), at);
        }
        let mut lease = self.scratch.take();
        let page = lease
            .room()
            .get_mut(..data.len())
            .ok_or(MediumError::Full)?;
        page.copy_from_slice(data);
        self.call(libc::SYS_pwrite64, page.as_mut_ptr(), page.len(), at)
    }

    /// The checksums of pages.
    fn index_bytes(&self, slots: u32) -> u64 {
        u64::from(slots) * size_of::<AtomicU64>() as u64
    }

    fn resize(&self, size_bytes: u64) -> io::Result<()> {
        self.backing.resize(size_bytes)
    }

    fn flush(&self) -> io::Result<()> {
        self.backing.file().sync_data()
    }

    fn backing(&self) -> Option<&Backing> {
        Some(&self.backing)
    }
}
