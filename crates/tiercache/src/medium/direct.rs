//! Pages in a file or on a device that the tier reads and writes itself, past the kernel's page cache.

use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Backing, Medium, MediumError};
use crate::config::PAGE_SIZE_BYTES_MAX;
use crate::own::OwnFile;

/// Offsets, lengths and addresses of direct I/O are multiples of this on every device in use.
const ALIGN: usize = 4096;

#[repr(C, align(4096))]
struct Bounce(MaybeUninit<[u8; PAGE_SIZE_BYTES_MAX]>);

/// The medium.
pub struct Direct {
    file: OwnFile,
    backing: Backing,
    page_size_bytes: usize,
}

impl Direct {
    /// Opens a second descriptor for direct I/O: the first keeps the lock and the superblock.
    pub fn new(backing: Backing, path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path);
        let file = file.map(OwnFile::new).map_err(|error| {
            format!(
                "tier file {}: no direct I/O: {error}; use medium file: there",
                path.display()
            )
        })?;
        let page_size_bytes = backing.layout().page_size_bytes;
        Ok(Self {
            file,
            backing,
            page_size_bytes,
        })
    }

    fn at(&self, slot: u32) -> u64 {
        self.backing.data_offset() + u64::from(slot) * self.page_size_bytes as u64
    }

    /// The system call itself: the libc function of this name may be ours, under the preloaded library.
    fn call(
        &self,
        number: libc::c_long,
        address: *mut u8,
        length: usize,
        offset: u64,
    ) -> Result<(), MediumError> {
        // SAFETY: every caller owns `length` bytes at `address`.
        let done = unsafe {
            libc::syscall(
                number,
                self.file.as_raw_fd(),
                address,
                length,
                offset as i64,
            )
        };
        match done {
            done if done == length as i64 => Ok(()),
            -1 => Err(MediumError::Io(io::Error::last_os_error())),
            _ => Err(MediumError::Io(io::Error::from(
                io::ErrorKind::UnexpectedEof,
            ))),
        }
    }
}

impl Medium for Direct {
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        let at = self.at(slot);
        if (dst.as_ptr() as usize | dst.len() | offset) % ALIGN == 0 {
            return self.call(
                libc::SYS_pread64,
                dst.as_mut_ptr(),
                dst.len(),
                at + offset as u64,
            );
        }
        let start = offset / ALIGN * ALIGN;
        let length = (offset + dst.len()).next_multiple_of(ALIGN) - start;
        if length > PAGE_SIZE_BYTES_MAX {
            return Err(MediumError::Torn);
        }
        let mut bounce = Bounce(MaybeUninit::uninit());
        let room = bounce.0.as_mut_ptr().cast::<u8>();
        self.call(libc::SYS_pread64, room, length, at + start as u64)?;
        // SAFETY: the call filled `length` bytes of the room, and the wanted part lies within.
        unsafe {
            std::ptr::copy_nonoverlapping(room.add(offset - start), dst.as_mut_ptr(), dst.len())
        };
        Ok(())
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        if data.as_ptr() as usize % ALIGN == 0 {
            return self.call(
                libc::SYS_pwrite64,
                data.as_ptr().cast_mut(),
                data.len(),
                self.at(slot),
            );
        }
        if data.len() > PAGE_SIZE_BYTES_MAX {
            return Err(MediumError::Full);
        }
        let mut bounce = Bounce(MaybeUninit::uninit());
        let room = bounce.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the room has PAGE_SIZE_BYTES_MAX bytes and is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), room, data.len()) };
        self.call(libc::SYS_pwrite64, room, data.len(), self.at(slot))
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
