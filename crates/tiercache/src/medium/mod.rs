//! Where pages live. A new medium is one file with one implementation of `Medium`.

mod backing;
mod claim;
mod file;
mod lz4;
mod memory;
mod region;
mod scratch;

pub use backing::{Backing, Layout, page_checksum};
pub use region::Region;
pub use scratch::Scratch;

use std::io;

use crate::config::{Config, MediumChoice};

/// Why a page could not be written or read.
#[derive(Debug)]
pub enum MediumError {
    /// No room: another page must be evicted first.
    Full,
    /// What was read is no page: a writer was faster, or the medium is damaged.
    Torn,
    /// The system's error.
    Io(io::Error),
}

impl std::fmt::Display for MediumError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => out.write_str("no room"),
            Self::Torn => out.write_str("a page is not what was written"),
            Self::Io(error) => error.fmt(out),
        }
    }
}

/// Slots that hold a page each. The index says who may read and write which slot when; a read may run while
/// another thread writes the same slot, and its result is then thrown away.
pub trait Medium: Send + Sync {
    /// Copies part of a slot's page.
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError>;
    /// Replaces a slot's page; `data` is one page.
    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError>;
    /// The slot's page is gone for good.
    fn release(&self, _slot: u32) {}
    /// Bytes that pages take, where that is not slots times page size.
    fn used_bytes(&self) -> Option<u64> {
        None
    }
    /// Bytes of memory that it keeps about so many slots, beside the index.
    fn index_bytes(&self, _slots: u32) -> u64 {
        0
    }
    /// Makes room for, or gives back, everything past so many bytes.
    fn resize(&self, size_bytes: u64) -> io::Result<()>;
    /// After a resize to less, once pages have left: gives back memory that resize itself could not.
    fn give_back(&self) {}
    /// Puts everything on stable storage, where there is any.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    /// The file that survives a restart.
    fn backing(&self) -> Option<&Backing> {
        None
    }
}

/// LZ4 gives the index so many slots for each page of memory: database pages rarely shrink more.
pub const LZ4_SLOTS_A_PAGE: u64 = 4;

/// LZ4 cuts a page of memory into so many blocks.
pub const BLOCKS_A_PAGE: u64 = 16;

/// A resize may grow the tier to so many times its first size: addresses are reserved, memory is not.
pub const GROWTH_MAX: u64 = 8;

/// `GROWTH_MAX`, or 1 where the system counts addresses as memory (vm.overcommit_memory=2).
pub fn growth_max() -> u64 {
    match std::fs::read("/proc/sys/vm/overcommit_memory") {
        Ok(mode) if mode.starts_with(b"2") => 1,
        _ => GROWTH_MAX,
    }
}

/// Slots for a size.
pub fn slots(config: &Config, size_bytes: u64) -> u32 {
    let factor = if config.medium == MediumChoice::MemoryLz4 {
        LZ4_SLOTS_A_PAGE
    } else {
        1
    };
    (size_bytes / config.page_size_bytes as u64 * factor).min(crate::index::SLOTS_MAX) as u32
}

/// Opens the medium that the configuration names. `size_bytes_max` is as far as a resize may go.
pub fn open(config: &Config, size_bytes_max: u64) -> Result<Box<dyn Medium>, String> {
    let page = config.page_size_bytes;
    let memory = |error: io::Error| {
        format!("the system has no memory for the tier: {error}; choose a smaller size")
    };
    Ok(match &config.medium {
        MediumChoice::Memory => {
            Box::new(memory::Memory::new(config.size_bytes, size_bytes_max, page).map_err(memory)?)
        }
        MediumChoice::MemoryLz4 => {
            Box::new(lz4::Lz4::new(config.size_bytes, size_bytes_max, page).map_err(memory)?)
        }
        MediumChoice::File(path) => {
            let backing = Backing::open(path, config, size_bytes_max)?;
            Box::new(file::Paged::buffered(backing)?)
        }
        MediumChoice::Direct(path) => {
            let backing = Backing::open(path, config, size_bytes_max)?;
            Box::new(file::Paged::direct(backing, path)?)
        }
    })
}
