//! A folder of its own for a test.

use std::path::{Path, PathBuf};

/// Removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder whose name contains `name`.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tiercache-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    /// A path inside.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
