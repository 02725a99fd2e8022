//! Which pages are inserted and which are evicted.

mod ghosts;
mod s3fifo;
mod sequential;
mod sketch;

pub use ghosts::Ghosts;
pub use s3fifo::{Queue, S3Fifo};
pub use sequential::Streams;
pub use sketch::Sketch;
