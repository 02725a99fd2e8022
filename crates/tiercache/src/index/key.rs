//! The word that names the page in a slot: row of the file, number of the page, and flags.

/// Bits of the number of a page within its file.
pub const PAGE_BITS: u32 = 36;
/// The highest number of a page.
pub const PAGE_MAX: u64 = (1 << PAGE_BITS) - 1;
/// Bits of the row of a file.
pub const ROW_BITS: u32 = 20;
/// The bits that name the page.
pub const NAME: u64 = (1 << (PAGE_BITS + ROW_BITS)) - 1;
/// One read more; two bits.
pub const FREQUENCY_ONE: u64 = 1 << 56;
/// Both bits.
pub const FREQUENCY: u64 = 3 << 56;
/// In the main queue; otherwise in the small one.
pub const MAIN: u64 = 1 << 58;
/// Taken back from before a restart and not yet checked.
pub const UNVERIFIED: u64 = 1 << 59;
/// Kept from eviction.
pub const PINNED: u64 = 1 << 60;
/// Somebody writes the page into the slot.
pub const FILLING: u64 = 1 << 61;
/// The slot is in the table.
pub const MAPPED: u64 = 1 << 62;

/// The name of a page; None when the file is too long for it.
#[inline]
pub fn name(row: u32, page: u64) -> Option<u64> {
    (page <= PAGE_MAX).then_some(u64::from(row) << PAGE_BITS | page)
}

/// The row of the file in a name.
pub fn row(name: u64) -> u32 {
    ((name & NAME) >> PAGE_BITS) as u32
}

/// The number of the page in a name.
pub fn page(name: u64) -> u64 {
    name & ((1 << PAGE_BITS) - 1)
}

/// Spreads names evenly (the finalizer of splitmix64).
#[inline]
pub fn hash(name: u64) -> u64 {
    let mut x = name.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
