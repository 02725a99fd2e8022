//! The shared statistics page: what the tier counts, and the words by which it is asked to change.
//!
//! The tier creates the page, `upshift-cache` attaches to it; both map the same file. Its layout is
//! `layout::Page`; a reader of another version is refused.

mod control;
mod counters;
mod layout;
mod snapshot;

pub use control::{Request, Ticket};
pub use counters::{Counter, Reason};
pub use layout::{FILES, LATENCY_BUCKETS, VERSION};
pub use snapshot::{FileStatus, Snapshot, quantile_ns};

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::config::Config;
use crate::medium::Region;
use crate::own::OwnFile;
use layout::{MAGIC, Page};

/// A mapped statistics page.
pub struct StatusPage {
    region: Region,
    writable: bool,
    // Held for its lock: two servers must not count into one page.
    _file: Option<OwnFile>,
}

/// Why a statistics page could not be created or attached.
#[derive(Debug)]
pub enum StatusError {
    /// The file could not be opened, sized, locked or mapped.
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
            Self::Io(path, error) => write!(out, "status page {}: {error}", path.display()),
            Self::NotAStatusPage(path) => {
                write!(out, "{} is not a status page of the tier", path.display())
            }
            Self::OtherVersion(path, theirs, ours) => {
                write!(
                    out,
                    "status page {} has version {theirs}, this program reads {ours}",
                    path.display()
                )
            }
            Self::InUse(path, pid) => write!(
                out,
                "status page {} belongs to running process {pid}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StatusError {}

impl StatusPage {
    /// Creates the page at `path`, mode 0600, locked against a second tier.
    pub fn create(path: &Path, config: &Config) -> Result<Self, StatusError> {
        let failed = |error| StatusError::Io(path.into(), error);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        // A page that is not ours is somebody's file: never overwrite it.
        if length != 0 {
            check_header(path, &file, length, true)?;
        }
        // SAFETY: flock takes no memory; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let owner = Self::attach(path).map(|page| page.pid()).unwrap_or(0);
            return Err(StatusError::InUse(path.into(), owner));
        }
        file.set_len(0)
            .and_then(|()| file.set_len(size_of::<Page>() as u64))
            .map_err(failed)?;
        let region = Region::shared(&file, 0, size_of::<Page>(), true).map_err(failed)?;
        let page = Self {
            region,
            writable: true,
            _file: Some(OwnFile::new(file)),
        };
        page.page().describe(config);
        Ok(page)
    }

    /// A page that only this process sees.
    pub fn private(config: &Config) -> Result<Self, StatusError> {
        let region = Region::anonymous(size_of::<Page>())
            .map_err(|error| StatusError::Io("anonymous".into(), error))?;
        let page = Self {
            region,
            writable: true,
            _file: None,
        };
        page.page().describe(config);
        Ok(page)
    }

    /// Attaches to the page that a tier created; refuses another magic or version.
    pub fn attach(path: &Path) -> Result<Self, StatusError> {
        let failed = |error| StatusError::Io(path.into(), error);
        let (file, writable) = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (File::open(path).map_err(failed)?, false)
            }
            other => (other.map_err(failed)?, true),
        };
        let length = file.metadata().map_err(failed)?.len();
        check_header(path, &file, length, false)?;
        let region = Region::shared(&file, 0, size_of::<Page>(), writable).map_err(failed)?;
        Ok(Self {
            region,
            writable,
            _file: None,
        })
    }

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
        // SAFETY: every constructor maps at least size_of::<Page>() bytes, page-aligned, for as long as the
        // region lives; Page is atomics and byte cells only, for which any bits are a value.
        unsafe { &*self.region.address().cast::<Page>() }
    }
}

/// Reads the first bytes of the file: a page whose version differs may differ in size too.
fn check_header(
    path: &Path,
    file: &File,
    length: u64,
    any_version: bool,
) -> Result<(), StatusError> {
    use std::os::unix::fs::FileExt;
    let mut head = [0u8; 16];
    if length < 16 || file.read_exact_at(&mut head, 0).is_err() || head[..8] != MAGIC.to_le_bytes()
    {
        return Err(StatusError::NotAStatusPage(path.into()));
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if !any_version && version != VERSION {
        return Err(StatusError::OtherVersion(path.into(), version, VERSION));
    }
    if !any_version && length < size_of::<Page>() as u64 {
        return Err(StatusError::NotAStatusPage(path.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
