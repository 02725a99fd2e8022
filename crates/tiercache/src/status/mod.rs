//! The shared statistics page: what the tier counts, and the words by which it is asked to change.
//!
//! The tier creates the page, `upshift-cache` attaches to it; a file carries it over. Its layout is `layout::Page`; a
//! reader of another version is refused.

mod control;
mod counters;
mod file;
mod layout;
mod snapshot;

pub use control::{Request, RequestError, Ticket};
pub use counters::{Counter, Reason};
pub use layout::{FILES, LATENCY_BUCKETS, VERSION};
pub use snapshot::{FileStatus, Snapshot, quantile_ns};

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::medium::Region;
use crate::own::OwnFile;
use layout::Page;

/// A statistics page.
pub struct StatusPage {
    region: Region,
    /// This is the tier's side.
    counts: bool,
    /// This user may ask for changes.
    writable: bool,
    /// The tier's is locked: two servers must not count into one page.
    file: Option<OwnFile>,
}

/// Why a statistics page could not be created or attached.
#[derive(Debug)]
pub enum StatusError {
    /// The file could not be opened, sized or locked.
    Io(PathBuf, io::Error),
    /// The file is not a statistics page.
    NotAStatusPage(PathBuf),
    /// The page is of another version: its own, then ours.
    OtherVersion(PathBuf, u32, u32),
    /// Another running process counts into it: its process id.
    InUse(PathBuf, u32),
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(path, error) => write!(out, "statistics page {}: {error}", path.display()),
            Self::NotAStatusPage(path) => {
                write!(out, "{} is not a statistics page of a tier", path.display())
            }
            Self::OtherVersion(path, theirs, ours) => {
                write!(
                    out,
                    "statistics page {} has version {theirs}; this program reads version {ours}: use the program that came with the server's library",
                    path.display()
                )
            }
            Self::InUse(path, pid) => write!(
                out,
                "statistics page {} belongs to process {pid}, which runs: name another file with UPSHIFT_TIER_STATUS",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StatusError {}

impl StatusPage {
    /// Process id of the tier that counts here.
    pub fn pid(&self) -> u32 {
        self.page().pid.load(Ordering::Relaxed) as u32
    }

    /// Whether the tier's process still runs (a zombie or another's process counts as running).
    pub fn alive(&self) -> bool {
        let stopped = self.page().stopped.load(Ordering::Acquire) != 0;
        // SAFETY: signal 0 only asks whether the process is there.
        let found = unsafe { libc::kill(self.pid() as i32, 0) } == 0;
        !stopped
            && self.pid() != 0
            && (found || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
    }

    pub(crate) fn page(&self) -> &Page {
        // SAFETY: every constructor has at least size_of::<Page>() bytes, page-aligned, for as long as the
        // region lives; Page is atomics and byte cells only, for which any bits are a value.
        unsafe { &*self.region.address().cast::<Page>() }
    }
}

#[cfg(test)]
mod tests;
