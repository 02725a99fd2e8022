//! The list of differences that a patch is allowed: what it changes on purpose, and why.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::answer::{self, Answer};

/// The file's contents.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Each of them.
    #[serde(default)]
    pub allow: Vec<Entry>,
}

/// One allowed difference.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The patch that makes it.
    pub patch: String,
    /// Why its bytes must change.
    pub why: String,
    /// What the request holds.
    pub request: String,
    /// What stock's first packet that differs holds, as a difference shows it.
    pub stock: String,
    /// The same of the patched server's.
    pub patched: String,
}

impl Allowed {
    /// Read a file of TOML.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, an entry without a reason.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let list: Self = toml::from_str(&text).with_context(|| file.display().to_string())?;
        for each in &list.allow {
            let is_whole =
                !each.patch.is_empty() && !each.why.is_empty() && !each.request.is_empty();
            ensure!(
                is_whole,
                "{}: an entry names no patch, no reason or no request",
                file.display()
            );
        }
        Ok(list)
    }

    /// Whether a difference is one of the list's: the first packets that differ, and what was asked.
    #[must_use]
    pub fn holds(&self, request: &str, stock: &Answer, patched: &Answer) -> bool {
        let mut pairs = stock.each().zip(patched.each());
        let Some((ours, theirs)) = pairs.find(|(ours, theirs)| ours != theirs) else {
            return false;
        };
        let (ours, theirs) = (
            answer::shown(ours.0, ours.1),
            answer::shown(theirs.0, theirs.1),
        );
        self.allow.iter().any(|each| {
            request.contains(&each.request)
                && ours.contains(&each.stock)
                && theirs.contains(&each.patched)
        })
    }
}
