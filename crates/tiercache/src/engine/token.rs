//! What the tier hands out between the two halves of an operation.

use crate::status::Reason;

/// A file of the tier: the row of the table of files and how often that row was given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    pub(crate) row: u32,
    pub(crate) generation: u32,
}

/// The answer to a read.
#[derive(Debug)]
#[must_use]
pub enum Lookup {
    /// The destination holds the bytes, all of them.
    Hit,
    /// Read the file, then `fill` with what was read. The destination may hold garbage.
    Miss(FillToken),
    /// Read the file; nothing is inserted. Already counted. The destination may hold garbage.
    Bypass(Reason),
}

/// Leave to fill what was missed, unless somebody writes there first.
#[derive(Debug, Clone, Copy)]
pub struct FillToken {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) begun: u64,
    pub(crate) started_ns: u64,
}

/// A write under way. Must reach `write_end`: until then its pages are not cached.
#[derive(Debug, Clone, Copy)]
#[must_use = "pages of a write that never ends are never cached again"]
pub struct WriteToken {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) begun: u64,
    pub(crate) alone: bool,
}

/// A sync under way.
#[derive(Debug, Clone, Copy)]
pub struct SyncToken {
    pub(crate) file: FileId,
    pub(crate) writes: u64,
}
