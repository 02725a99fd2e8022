//! Pages in a mapped file, on a fast file system.

use std::io;

use super::memory::{region_read, region_write};
use super::{Backing, Medium, MediumError, Region};

/// The medium.
pub struct Mapped {
    region: Region,
    backing: Backing,
    page_size_bytes: usize,
}

impl Mapped {
    /// Maps the pages of the file, as far as a resize may go.
    pub fn new(backing: Backing) -> Result<Self, String> {
        let layout = backing.layout();
        let size_bytes = layout.slots_max as usize * layout.page_size_bytes;
        let region = Region::shared(backing.file(), backing.data_offset(), size_bytes, true);
        let region = region.map_err(|error| format!("the tier file cannot be mapped: {error}"))?;
        Ok(Self {
            region,
            backing,
            page_size_bytes: layout.page_size_bytes,
        })
    }
}

impl Medium for Mapped {
    #[inline]
    fn read(&self, slot: u32, offset: usize, dst: &mut [u8]) -> Result<(), MediumError> {
        region_read(
            &self.region,
            slot as usize * self.page_size_bytes + offset,
            dst,
        )
    }

    fn write(&self, slot: u32, data: &[u8]) -> Result<(), MediumError> {
        region_write(&self.region, slot as usize * self.page_size_bytes, data)
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
