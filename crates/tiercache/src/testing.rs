//! A folder of its own for a test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Removed when dropped.
pub struct Folder(TempDir);

impl Folder {
    /// A new folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the test"))
    }

    /// A path inside.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }
}
