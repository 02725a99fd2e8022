//! The tier: what the preloaded library calls.

mod identity;
mod token;

pub use identity::Identity;
pub use token::{FileId, FillToken, Lookup, SyncToken, WriteToken};

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{Action, Config, ConfigError, Mode};
use crate::status::{Counter, Reason, StatusError, StatusPage};

/// Why a tier could not be opened.
#[derive(Debug)]
pub enum TierError {
    /// A setting cannot be used.
    Config(ConfigError),
    /// The statistics page cannot be had.
    Status(StatusError),
    /// The medium cannot be had: what failed, and a hint.
    Medium(String),
}

impl std::fmt::Display for TierError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => error.fmt(out),
            Self::Status(error) => error.fmt(out),
            Self::Medium(text) => out.write_str(text),
        }
    }
}

impl std::error::Error for TierError {}

#[derive(Default)]
struct State {
    files: Vec<(Identity, u32)>,
    pages: HashMap<(FileId, u64), Vec<u8>>,
    begun: u64,
    writing: u64,
}

/// The cache. All methods take `&self` and may be called from any thread.
pub struct Tier {
    config: Config,
    mode: Mutex<Mode>,
    status: StatusPage,
    state: Mutex<State>,
}

impl Tier {
    /// Opens the medium and the statistics page.
    pub fn open(config: Config) -> Result<Self, TierError> {
        config.validate().map_err(TierError::Config)?;
        let status = match &config.status_path {
            Some(path) => StatusPage::create(path, &config),
            None => StatusPage::private(&config),
        };
        let status = status.map_err(TierError::Status)?;
        Ok(Self {
            mode: Mutex::new(config.mode),
            config,
            status,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of this path and identity; None when a rule leaves it alone.
    pub fn file(&self, path: &[u8], identity: Identity) -> Option<FileId> {
        let mut state = self.state();
        if let Some(row) = state
            .files
            .iter()
            .position(|(known, _)| known.same_file(&identity))
        {
            return Some(FileId {
                row: row as u32,
                generation: state.files[row].1,
            });
        }
        if self.config.rules.action(path) == Action::Skip {
            self.bypass(Reason::Rule);
            return None;
        }
        state.files.push((identity, 0));
        Some(FileId {
            row: state.files.len() as u32 - 1,
            generation: 0,
        })
    }

    /// Serves a read, or says how to go on.
    pub fn read(&self, file: FileId, offset: u64, dst: &mut [u8]) -> Lookup {
        if *self.mode.lock().unwrap_or_else(PoisonError::into_inner) == Mode::PassThrough {
            self.bypass(Reason::PassThrough);
            return Lookup::Bypass(Reason::PassThrough);
        }
        let state = self.state();
        let page = self.config.page_size_bytes as u64;
        let mut done = 0;
        while done < dst.len() {
            let at = offset + done as u64;
            let within = (at % page) as usize;
            let Some(found) = state.pages.get(&(file, at / page)) else {
                if state.writing > 0 {
                    self.bypass(Reason::WriteInFlight);
                    return Lookup::Bypass(Reason::WriteInFlight);
                }
                self.status.add(Counter::Misses, 1);
                return Lookup::Miss(FillToken {
                    file,
                    offset,
                    begun: state.begun,
                    started_ns: 0,
                });
            };
            let part = (page as usize - within).min(dst.len() - done);
            dst[done..done + part].copy_from_slice(&found[within..within + part]);
            done += part;
        }
        self.status.add(Counter::Hits, 1);
        Lookup::Hit
    }

    /// Brings in what was read from the file after the miss; lands only if no write touched it since.
    pub fn fill(&self, token: FillToken, data: &[u8]) {
        let mut state = self.state();
        if state.begun != token.begun {
            self.status.add(Counter::FillsStale, 1);
            return;
        }
        self.insert(&mut state, token.file, token.offset, data);
    }

    fn insert(&self, state: &mut State, file: FileId, offset: u64, data: &[u8]) {
        let page = self.config.page_size_bytes as u64;
        let skipped = offset.next_multiple_of(page) - offset;
        let chunks = data
            .get(skipped as usize..)
            .unwrap_or_default()
            .chunks_exact(page as usize);
        for (index, chunk) in chunks.enumerate() {
            state.pages.insert(
                (file, (offset + skipped) / page + index as u64),
                chunk.to_vec(),
            );
        }
    }

    /// Before a write: its pages leave the tier, and reads of them go to the file until `write_end`.
    pub fn write_begin(&self, file: FileId, offset: u64, length: u64) -> WriteToken {
        let mut state = self.state();
        state.begun += 1;
        state.writing += 1;
        self.remove(&mut state, file, offset, length);
        WriteToken {
            file,
            offset,
            length,
            begun: state.begun,
            alone: state.writing == 1,
        }
    }

    /// After a write: with the data if all of it reached the file, with None otherwise.
    pub fn write_end(&self, token: WriteToken, data: Option<&[u8]>) {
        let mut state = self.state();
        state.writing -= 1;
        if let Some(data) = data.filter(|data| {
            data.len() as u64 == token.length && token.alone && state.begun == token.begun
        }) {
            self.insert(&mut state, token.file, token.offset, data);
        }
    }

    fn remove(&self, state: &mut State, file: FileId, offset: u64, length: u64) {
        let page = self.config.page_size_bytes as u64;
        let last = offset.saturating_add(length.saturating_sub(1)) / page;
        state
            .pages
            .retain(|(of, number), _| *of != file || *number < offset / page || *number > last);
    }

    /// Takes pages out that changed some other way; a length of u64::MAX reaches to the end of the file.
    pub fn invalidate(&self, file: FileId, offset: u64, length: u64) {
        let mut state = self.state();
        state.begun += 1;
        self.remove(&mut state, file, offset, length);
    }

    /// The file was removed or replaced: its pages leave, its id is not served any more.
    pub fn forget(&self, file: FileId) {
        self.invalidate(file, 0, u64::MAX);
        if let Some(row) = self.state().files.get_mut(file.row as usize) {
            *row = (
                Identity {
                    inode: u64::MAX,
                    ..row.0
                },
                row.1 + 1,
            );
        }
    }

    /// Before an fsync or fdatasync of the file.
    pub fn sync_begin(&self, file: FileId) -> SyncToken {
        SyncToken { file, writes: 0 }
    }

    /// After the sync succeeded: what was written before `sync_begin` is on stable storage.
    pub fn synced(&self, token: SyncToken) {
        let _ = (token.file, token.writes);
    }

    /// Counts a request that went past the tier.
    pub fn bypass(&self, reason: Reason) {
        self.status.bypass(reason);
    }

    /// Does what was asked through the statistics page. Cheap when nothing was.
    pub fn tick(&self) {
        if self.status.pending() {
            self.status.answer(|_| Err("not yet".into()));
        }
    }

    /// A clean stop: file media keep their pages for the next start.
    pub fn stop(&self) {
        self.state().pages.clear();
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The statistics page.
    pub fn status(&self) -> &StatusPage {
        &self.status
    }
}
