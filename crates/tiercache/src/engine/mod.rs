//! The tier: what the preloaded library calls.

mod control;
mod files;
mod fill;
mod generation;
mod identity;
mod off;
mod read;
mod seal;
mod token;
mod warm;
mod write;

pub use identity::Identity;
pub use off::AuditToken;
pub use token::{FileId, FillToken, Lookup, SyncToken, WriteToken};

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use crate::config::{Action, Config, ConfigError, Mode};
use crate::index::{Index, key};
use crate::medium::{self, Medium, Scratch};
use crate::status::{Counter, Reason, StatusError, StatusPage};
use control::Control;
use files::{Closed, Files, Row, lock};
use generation::{Generations, Stripe};
use off::Off;
use seal::Seal;

/// Why a tier could not be opened.
#[derive(Debug)]
pub enum TierError {
    /// A setting cannot be used.
    Config(ConfigError),
    /// What is wrong with the statistics page.
    Status(StatusError),
    /// What is wrong with the medium, and a hint.
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

/// Wider operations than this many pages are not taken page by page.
pub(crate) const WIDE_PAGES: u64 = 512;

/// The cache. All methods take `&self` and may be called from any thread.
///
/// Not across fork: in a child, the locks may be held by threads that are not there, and a file medium would
/// have two masters. A child must not call the tier that it inherited; it may open its own.
pub struct Tier {
    config: Config,
    mode: AtomicU32,
    stopped: AtomicBool,
    /// Whether the medium's file says that it is clean.
    seal: Seal,
    status: StatusPage,
    files: Files,
    index: Index,
    medium: Box<dyn Medium>,
    /// The medium is a file or device: every hit is compared with its checksum.
    checked: bool,
    scratch: Scratch,
    off: Off,
    generations: Generations,
    /// Changes of everything at once: drop.
    everything: Stripe,
    size_bytes_max: u64,
    born: Instant,
    ticking: Mutex<Control>,
}

impl Tier {
    /// Opens the medium and the statistics page; takes back what a clean stop left on a file medium.
    pub fn open(config: Config) -> Result<Self, TierError> {
        config.validate().map_err(TierError::Config)?;
        let status = match &config.status_path {
            Some(path) => StatusPage::create(path, &config),
            None => StatusPage::private(&config),
        };
        let status = status.map_err(TierError::Status)?;
        match Self::room(&config) {
            Ok((medium, index, size_bytes_max)) => {
                Self::with_medium(config, status, medium, index, size_bytes_max)
            }
            Err(error) => {
                status.refuse(&error.to_string());
                Err(error)
            }
        }
    }

    fn room(config: &Config) -> Result<(Box<dyn Medium>, Index, u64), TierError> {
        let up_to = |size_bytes_max| {
            let opened = Self::open_up_to(config, size_bytes_max);
            opened.map(|(medium, index)| (medium, index, size_bytes_max))
        };
        let size_bytes_max = config.size_bytes_max(medium::growth_max());
        match up_to(size_bytes_max) {
            // Where not even addresses are to be had: as much as it needs now.
            Err(_) if size_bytes_max > config.size_bytes && config.medium.in_memory() => {
                up_to(config.size_bytes)
            }
            done => done,
        }
    }

    fn open_up_to(
        config: &Config,
        size_bytes_max: u64,
    ) -> Result<(Box<dyn Medium>, Index), TierError> {
        let medium = medium::open(config, size_bytes_max).map_err(TierError::Medium)?;
        let slots = medium::slots(config, config.size_bytes);
        let slots_max = medium::slots(config, size_bytes_max);
        // A page stays in its shard: after a restart there are as many as before.
        let before = medium.backing().and_then(|backing| backing.saved_word());
        let index = Index::new(slots, slots_max, before)
            .map_err(|error| TierError::Medium(format!("no memory for the index: {error}")))?;
        Ok((medium, index))
    }

    fn with_medium(
        config: Config,
        status: StatusPage,
        medium: Box<dyn Medium>,
        index: Index,
        size_bytes_max: u64,
    ) -> Result<Self, TierError> {
        let scratch = Scratch::new().map_err(|error| {
            TierError::Medium(format!("no memory for the buffers of reads: {error}"))
        })?;
        let tier = Self {
            mode: AtomicU32::new(config.mode as u32),
            stopped: AtomicBool::new(false),
            seal: Seal::default(),
            status,
            files: Files::new(),
            checked: medium.backing().is_some(),
            scratch,
            off: Off::default(),
            generations: Generations::new(u64::from(index.capacity())),
            index,
            medium,
            everything: Stripe::default(),
            size_bytes_max,
            born: Instant::now(),
            ticking: Mutex::new(Control::new()),
            config,
        };
        tier.take_back();
        tier.publish();
        Ok(tier)
    }

    /// The file of this path and identity; None when a rule leaves it alone.
    ///
    /// A file that is known keeps its id under whatever name it is opened: all its writes must be seen.
    pub fn file(&self, path: &[u8], identity: Identity) -> Option<FileId> {
        let action = self.config.rules.action(path);
        if let Some(known) = self.files.find(&identity) {
            let row = self.files.row(known)?;
            if !row.warm.swap(false, Ordering::AcqRel) {
                return Some(known);
            }
            let unchanged = lock(&row.info).identity == identity;
            if unchanged && action != Action::Skip {
                return Some(known);
            }
            self.status
                .add(Counter::WarmRejected, self.forget_pages(known));
            self.end(known);
        }
        let Some(share) = action.share() else {
            self.bypass(Reason::Rule);
            return None;
        };
        let added = self.files.add(path, identity, share);
        if added.is_none() {
            self.bypass(Reason::TooManyFiles);
        }
        added.map(|(file, _)| file)
    }

    /// The file has another name. One that a rule leaves alone changes nothing here: whether the file is cached is the
    /// caller's to say, who sees what opens it by that name.
    pub fn renamed(&self, file: FileId, path: &[u8]) {
        if let Some(share) = self.config.rules.action(path).share() {
            self.files.rename(file, path, share);
        }
    }

    /// After a rename, which changed the file's times: how it was before and is now. For a file that nobody has open.
    pub fn restamped(&self, file: FileId, before: &Identity, now: Identity) {
        self.files.note_renamed(file, before, now);
    }

    /// Nobody has the file open any more. `last` is how it was then; None when a change of it may still come.
    pub fn closed(&self, file: FileId, last: Option<Identity>) {
        let settled = last.is_some_and(|last| last.is_settled());
        self.files.note_closed(file, Some(Closed { last, settled }));
    }

    /// Somebody opened the file again; `now` is how it is. Unless it is sure that nobody changed it meanwhile, its pages
    /// are taken out.
    pub fn reopened(&self, file: FileId, now: Identity) {
        let closed = self.files.note_closed(file, None);
        if closed.is_some_and(|closed| !closed.settled || closed.last != Some(now)) {
            self.invalidate(file, 0, u64::MAX);
        }
    }

    /// The file was removed or replaced: its pages are taken out, its id is not served any more.
    pub fn forget(&self, file: FileId) {
        self.end(file);
    }

    fn end(&self, file: FileId) {
        if self.files.end(file) {
            self.forget_pages(file);
            self.index.reset_row(file.row);
            self.files.reuse(file.row);
        }
    }

    fn forget_pages(&self, file: FileId) -> u64 {
        let Some(row) = self.files.any(file.row) else {
            return 0;
        };
        let mut gone = 0;
        row.whole.begin();
        self.index.remove_row(file.row, 0, u64::MAX, |slot| {
            self.medium.release(slot);
            gone += 1;
        });
        row.whole.end();
        self.status.add(Counter::Invalidations, gone);
        gone
    }

    /// Before an fsync or fdatasync of the file.
    pub fn sync_begin(&self, file: FileId) -> SyncToken {
        let writes = self.files.row(file).map_or(0, |row| row.writes.ended());
        SyncToken { file, writes }
    }

    /// After the sync succeeded: what was written before `sync_begin` is on stable storage.
    pub fn synced(&self, token: SyncToken) {
        if let Some(row) = self.files.row(token.file) {
            row.synced.fetch_max(token.writes, Ordering::AcqRel);
        }
    }

    /// Counts a request that went past the tier.
    pub fn bypass(&self, reason: Reason) {
        self.status.bypass(reason);
    }

    /// The mode now.
    pub fn mode(&self) -> Mode {
        Mode::from_number(u64::from(self.mode.load(Ordering::Relaxed))).unwrap_or(Mode::PassThrough)
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The statistics page.
    pub fn status(&self) -> &StatusPage {
        &self.status
    }

    fn now_ns(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64
    }

    fn page_size(&self) -> u64 {
        self.config.page_size_bytes as u64
    }

    /// First and last page of a range; None when there is none, or none that has a name.
    fn pages(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        let last = offset.checked_add(length.checked_sub(1)?)? / self.page_size();
        (last < 1 << key::PAGE_BITS).then_some((offset / self.page_size(), last))
    }

    /// Writes begun to these pages so far; None while one is under way.
    fn quiet(&self, row: &Row, number: u32, pages: (u64, u64)) -> Option<u64> {
        let wide = self.everything.quiet()?.wrapping_add(row.whole.quiet()?);
        let mut stripes = self.generations.stripes(number, pages.0, pages.1);
        stripes.try_fold(wide, |sum, stripe| Some(sum.wrapping_add(stripe.quiet()?)))
    }

    /// Writes begun to these pages so far.
    fn begun(&self, row: &Row, number: u32, pages: (u64, u64)) -> u64 {
        let wide = self.everything.begun().wrapping_add(row.whole.begun());
        let stripes = self.generations.stripes(number, pages.0, pages.1);
        stripes.fold(wide, |sum, stripe| sum.wrapping_add(stripe.begun()))
    }
}

#[cfg(test)]
mod resize_tests;
#[cfg(test)]
mod stripes_tests;
#[cfg(test)]
mod tests;
