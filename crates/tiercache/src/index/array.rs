//! A long array of atomics in memory that is committed only where it is touched.
//!
//! Without huge pages: the first touch of one clears 2 MiB in a query, and buckets, which lie apart by shards with addresses for
//! eight times the size, would take memory that nothing uses.

use std::io;
use std::marker::PhantomData;
use std::ops::Index;

use crate::medium::Region;

/// Types for which all bits zero is a value, and that are shared between threads as they are.
///
/// # Safety
/// Zeroed memory must be a valid value, without destructor.
pub unsafe trait Zeroed: Sync {}
// SAFETY: an atomic integer of zero.
unsafe impl Zeroed for std::sync::atomic::AtomicU16 {}
// SAFETY: an atomic integer of zero.
unsafe impl Zeroed for std::sync::atomic::AtomicU32 {}
// SAFETY: an atomic integer of zero.
unsafe impl Zeroed for std::sync::atomic::AtomicU64 {}

// SAFETY: atomic integers of zero.
unsafe impl Zeroed for super::Entry {}
// SAFETY: atomic integers of zero.
unsafe impl Zeroed for super::Held {}

/// `length` zeroed values.
pub struct Array<T> {
    region: Region,
    length: usize,
    kind: PhantomData<T>,
}

impl<T: Zeroed> Array<T> {
    /// Reserves the addresses; memory comes with the first touch.
    pub fn new(length: usize) -> io::Result<Self> {
        Ok(Self {
            region: Region::anonymous((length * size_of::<T>()).max(4096))?,
            length,
            kind: PhantomData,
        })
    }
}

impl<T: Zeroed> Index<usize> for Array<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        assert!(at < self.length);
        // SAFETY: in bounds of the region, aligned (regions start at a page), zeroed or written as T.
        unsafe { &*self.region.address().cast::<T>().add(at) }
    }
}
