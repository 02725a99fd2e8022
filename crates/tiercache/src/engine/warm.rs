//! Keeping pages over a clean stop.
//!
//! Saved are the files (identity, size, times) and which page is in which slot. A file's pages are served
//! again when it is opened unchanged; each page when its checksum, which holds file and number, is right.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::files::lock;
use super::{FileId, Identity, Tier};
use crate::config::Action;
use crate::index::key;
use crate::status::Counter;

/// File systems stamp times by the tick of the kernel's clock (at most 10 ms): a change this soon after
/// another may bear the same time.
const TICK: Duration = Duration::from_millis(20);

impl Tier {
    /// Saves what may be served after the next start.
    pub(super) fn save(&self) {
        let Some(backing) = self.medium.backing() else {
            return;
        };
        std::thread::sleep(TICK);
        let mut rows = HashMap::new();
        let mut bytes = vec![0u8; 8];
        self.files.each(|file, _| {
            if let Some((identity, name)) = self.unchanged(file) {
                let number = rows.len() as u64;
                rows.insert(file.row, number);
                let words = [
                    identity.device,
                    identity.inode,
                    identity.birth_ns,
                    identity.size_bytes,
                    identity.modified_ns,
                    identity.changed_ns,
                    name.len() as u64,
                ];
                words
                    .iter()
                    .for_each(|word| bytes.extend(word.to_le_bytes()));
                bytes.extend(name);
            }
        });
        bytes[..8].copy_from_slice(&(rows.len() as u64).to_le_bytes());
        self.index.each(|slot, name| {
            if let Some(number) = rows.get(&key::row(name)) {
                bytes.extend((u64::from(slot) << 32 | number).to_le_bytes());
                bytes.extend(key::page(name).to_le_bytes());
            }
        });
        match backing.seal(&bytes) {
            Ok(()) => self.sealed.store(true, Ordering::Release),
            Err(_) => {
                self.status.add(Counter::MediumWriteErrors, 1);
            }
        }
    }

    /// A file whose pages can be trusted after a restart: all writes ended and synced, and the file under its
    /// name is still this one and did not change within the last tick.
    fn unchanged(&self, file: FileId) -> Option<(Identity, Vec<u8>)> {
        let row = self.files.row(file)?;
        let info = lock(&row.info).clone();
        if row.warm.load(Ordering::Acquire) {
            return Some((info.identity, info.name));
        }
        let begun = row.writes.quiet()?;
        if row.synced.load(Ordering::Acquire) < begun {
            return None;
        }
        let path = CString::new(info.name.clone()).ok()?;
        let now = Identity::of_path(&path)
            .ok()
            .filter(|now| now.same_file(&info.identity))?;
        let clock = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .ok()?;
        let settled = Duration::from_nanos(now.changed_ns) + TICK <= clock;
        settled.then_some((now, info.name))
    }

    /// Takes back what the last clean stop saved.
    pub(super) fn take_back(&self) {
        let start = match self
            .medium
            .backing()
            .and_then(|backing| backing.take_saved())
        {
            None => "cold: this medium does not survive a restart".into(),
            Some(Err(reason)) => format!("cold: {reason}"),
            Some(Ok(saved)) => match self.restore(&saved) {
                Some(pages) => {
                    self.status.add(Counter::WarmPages, pages);
                    format!("warm: {pages} pages")
                }
                None => "cold: the saved index is damaged".into(),
            },
        };
        self.status.page().start.set(start.as_bytes());
    }

    fn restore(&self, saved: &[u8]) -> Option<u64> {
        let mut reader = Reader(saved);
        let mut rows = Vec::new();
        for _ in 0..reader.word()? {
            let identity = Identity {
                device: reader.word()?,
                inode: reader.word()?,
                birth_ns: reader.word()?,
                size_bytes: reader.word()?,
                modified_ns: reader.word()?,
                changed_ns: reader.word()?,
            };
            let length = reader.word()?;
            let name = reader.bytes(length as usize)?;
            rows.push(self.restore_file(name, identity));
        }
        let mut pages = Vec::with_capacity(reader.0.len() / 16);
        while !reader.0.is_empty() {
            let (word, page) = (reader.word()?, reader.word()?);
            let row = *rows.get((word & 0xffff_ffff) as usize)?;
            if let Some(name) = row.and_then(|row| key::name(row, page)) {
                pages.push(((word >> 32) as u32, name));
            }
        }
        Some(self.index.restore(pages.into_iter()))
    }

    fn restore_file(&self, name: &[u8], identity: Identity) -> Option<u32> {
        let share = match self.config.rules.action(name) {
            Action::Skip => return None,
            Action::Cache => 0,
            Action::Pin(share) => share,
        };
        let (file, _) = self.files.add(name, identity, share)?;
        self.files
            .any(file.row)?
            .warm
            .store(true, Ordering::Release);
        Some(file.row)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        self.bytes(8)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
    }
}
