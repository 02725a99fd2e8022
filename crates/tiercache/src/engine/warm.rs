//! Keeping pages over a clean stop.
//!
//! Saved are the files (identity, size, times) and which page is in which slot. A file's pages are served
//! again when it is opened unchanged; each page when its checksum, which holds file and number, is right.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::files::lock;
use super::{FileId, Identity, Tier};
use crate::index::key;
use crate::medium::Backing;
use crate::status::Counter;

impl Tier {
    /// Saves what may be served after the next start.
    pub(super) fn save(&self) {
        let Some(backing) = self.medium.backing() else {
            return;
        };
        let mut files = Vec::new();
        self.files.each(|file, _| files.push(file));
        // In the order in which `Files::add_at` takes them.
        files.sort_unstable_by_key(|file| file.row);
        self.sync_rest(&files);
        // A change from here on must get another time than the files have.
        let kept = files.iter().filter_map(|file| self.kept(*file));
        let settled = kept.map(|(identity, _)| identity.settles_in()).max();
        std::thread::sleep(settled.unwrap_or_default());
        self.seal.give(|| {
            if backing.seal(&self.saved(backing, files)).is_err() {
                self.status.add(Counter::MediumWriteErrors, 1);
            }
        });
    }

    /// What the next start takes back: files, and which page is where. `restore` reads it.
    fn saved(&self, backing: &Backing, files: Vec<FileId>) -> Vec<u8> {
        let mut rows = HashSet::new();
        let mut bytes = u64::from(self.index.shards()).to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        for file in files {
            let settled = |kept: &(Identity, Vec<u8>)| kept.0.is_settled();
            if let Some((identity, name)) = self.kept(file).filter(settled) {
                rows.insert(file.row);
                let words = [
                    u64::from(file.row),
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
        }
        bytes[8..16].copy_from_slice(&(rows.len() as u64).to_le_bytes());
        self.index.each(|slot, name| {
            if rows.contains(&key::row(name)) {
                bytes.extend(u64::from(slot).to_le_bytes());
                bytes.extend((name & key::NAME).to_le_bytes());
                let sum = backing.checksum(slot).load(Ordering::Relaxed);
                bytes.extend(sum.to_le_bytes());
            }
        });
        bytes
    }

    /// Syncs what was written and not synced (innodb_flush_method=O_DIRECT_NO_FSYNC), a file system at a time and by a
    /// folder in it: to open and close a data file would drop the program's locks on it.
    fn sync_rest(&self, files: &[FileId]) {
        let unsynced = |file: &FileId| {
            let row = self.files.row(*file)?;
            let begun = row.writes.quiet()?;
            (row.synced.load(Ordering::Acquire) < begun).then_some((row, begun))
        };
        let unsynced: Vec<_> = files.iter().filter_map(unsynced).collect();
        let mut done = HashMap::new();
        for (row, begun) in unsynced {
            let (device, name) = {
                let info = lock(&row.info);
                (info.identity.device, info.name.clone())
            };
            if !done.contains_key(&device)
                && let Some(folder) = folder_on(device, &name)
            {
                // SAFETY: the call takes an open descriptor.
                let synced = unsafe { libc::syncfs(folder.as_raw_fd()) } == 0;
                done.insert(device, synced);
            }
            if done.get(&device) == Some(&true) {
                row.synced.fetch_max(begun, Ordering::AcqRel);
            }
        }
    }

    /// A file whose pages can be trusted after a restart if it does not change from here on: all writes ended and synced, and
    /// the file under its name is still this one. While nobody has it open, another program may change it: it must still be
    /// as it was at its last close. That it was not settled then does not matter, or every file that a server writes at its
    /// end would start cold: only a change within the same tick stays unseen.
    fn kept(&self, file: FileId) -> Option<(Identity, Vec<u8>)> {
        let row = self.files.row(file)?;
        let info = lock(&row.info).clone();
        let begun = row.writes.quiet()?;
        if row.synced.load(Ordering::Acquire) < begun {
            return None;
        }
        let path = CString::new(info.name.clone()).ok()?;
        let now = Identity::of_path(&path).ok()?;
        let ours = match info.closed {
            // Nobody opened it since the restart. If it is gone or changed, nobody ever takes its pages: they would be kept at
            // every stop, and their row with them. One whose file system is not mounted now starts cold.
            _ if row.warm.load(Ordering::Acquire) => now == info.identity,
            None => now.same_file(&info.identity),
            Some(closed) => closed.last == Some(now),
        };
        ours.then_some((now, info.name))
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
        let backing = self.medium.backing()?;
        let mut rows = HashSet::new();
        let _shards = reader.word()?;
        for _ in 0..reader.word()? {
            let row = u32::try_from(reader.word()?).ok()?;
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
            if self.restore_file(row, name, identity).is_some() {
                rows.insert(row);
            }
        }
        let mut pages = Vec::with_capacity(reader.0.len() / 24);
        while !reader.0.is_empty() {
            let (slot, name, sum) = (reader.word()?, reader.word()?, reader.word()?);
            // A tier that is smaller now has no slot for some of them, and a rule may leave a file alone now.
            if slot < u64::from(self.index.capacity()) && rows.contains(&key::row(name)) {
                backing.checksum(slot as u32).store(sum, Ordering::Relaxed);
                pages.push((slot as u32, name & key::NAME));
            }
        }
        Some(self.index.restore(pages.into_iter()))
    }

    fn restore_file(&self, row: u32, name: &[u8], identity: Identity) -> Option<()> {
        let share = self.config.rules.action(name).share()?;
        self.files.add_at(row, name, identity, share)?;
        let row = self.files.any(row)?;
        row.warm.store(true, Ordering::Release);
        Some(())
    }
}

/// The folder of this name, opened, if it lies on that device: a link in it may lead elsewhere.
fn folder_on(device: u64, name: &[u8]) -> Option<File> {
    let folder = Path::new(OsStr::from_bytes(name)).parent()?;
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = File::open(folder).ok()?;
    let identity = Identity::of(folder.as_raw_fd()).ok()?;
    (identity.device == device).then_some(folder)
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
