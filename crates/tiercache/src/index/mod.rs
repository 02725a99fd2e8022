//! Which page is where.

/// Most slots an index can have: slot numbers are 32 bits with one value for "none".
pub const SLOTS_MAX: u64 = 1 << 31;
