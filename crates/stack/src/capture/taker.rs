//! What takes the bytes of connections, wherever they come from.

use wire::passive::Side;

/// Called by one thread, in the order in which things happened.
pub trait Taker {
    /// A connection: from its first byte on, or joined in its middle.
    fn open(&mut self, connection: u32, at_ns: u64, joined_late: bool);
    /// Bytes of a side.
    fn bytes(&mut self, connection: u32, side: Side, bytes: &[u8], at_ns: u64);
    /// So many bytes of a side are missing.
    fn gap(&mut self, connection: u32, side: Side, missing: u64, at_ns: u64);
    /// Nothing more will come of it: it was closed, or the capture ended before it.
    fn end(&mut self, connection: u32, at_ns: u64, closed: bool);
}
