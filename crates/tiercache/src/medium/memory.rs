//! Pages in anonymous memory, in huge pages when the system has them.

use std::io;
use std::sync::Arc;

use super::{Medium, MediumError, Region};

/// The medium.
pub struct Memory {
    region: Arc<Region>,
    page_size_bytes: usize,
}

impl Memory {
    /// Memory for `size_bytes`, addresses for `size_bytes_max`; a resize brings memory with the pages.
    pub fn new(size_bytes: u64, size_bytes_max: u64, page_size_bytes: usize) -> io::Result<Self> {
        let region = Arc::new(Region::anonymous(size_bytes_max as usize)?);
        region.prefer_huge_pages();
        region.keep_out_of_dumps();
        region.populate(size_bytes as usize);
        Ok(Self {
            region,
            page_size_bytes,
        })
    }
}

impl Medium for Memory {
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
        self.region.release_from(size_bytes as usize);
        Ok(())
    }
}

/// Copies out of a region; out of bounds is `Torn`.
#[inline]
pub fn region_read(region: &Region, at: usize, dst: &mut [u8]) -> Result<(), MediumError> {
    if at
        .checked_add(dst.len())
        .is_none_or(|end| end > region.size_bytes())
    {
        return Err(MediumError::Torn);
    }
    // SAFETY: in bounds; dst is somebody else's memory. Another thread may write the source meanwhile: the caller's version check then
    // throws the copy away, and bytes have no invalid values. In Rust's memory model such a race is undefined behaviour all the same. What
    // makes it right is only that a copy of a length unknown here becomes a call of memcpy, which does no worse than mix old and new bytes.
    // By relaxed atomic words it would be defined, but compilers make no wide instructions of those, and this is the hit path.
    unsafe { std::ptr::copy_nonoverlapping(region.address().add(at), dst.as_mut_ptr(), dst.len()) };
    Ok(())
}

/// Copies into a region; out of bounds is `Full`.
#[inline]
pub fn region_write(region: &Region, at: usize, data: &[u8]) -> Result<(), MediumError> {
    if at
        .checked_add(data.len())
        .is_none_or(|end| end > region.size_bytes())
    {
        return Err(MediumError::Full);
    }
    // SAFETY: in bounds; the index gave the slot to this thread alone. Late readers race with it as said in region_read, and throw their
    // copy away.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), region.address().add(at), data.len()) };
    Ok(())
}
