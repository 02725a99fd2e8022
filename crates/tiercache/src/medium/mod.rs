//! Where pages live.

mod region;

pub use region::Region;
