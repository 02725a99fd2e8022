//! Changes of a running tier, and what it publishes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::files::lock;
use super::{Tier, off};
use crate::config::Mode;
use crate::medium;
use crate::status::Request;

/// The table of files and what is held are brought up to date so often.
const PUBLISHED_EVERY: Duration = Duration::from_secs(1);

/// When control work was last done.
pub(super) struct Control {
    published: Instant,
    forgiven: Instant,
}

impl Control {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            published: now,
            forgiven: now,
        }
    }
}

impl Tier {
    /// Does what was asked through the statistics page and publishes; then `notice` may have a text for the server's log.
    ///
    /// For a thread of its own (see `thread::start`) that calls it every 20 ms or so: a change may take long, and no query
    /// should wait for it. False once the tier has stopped.
    pub fn control(&self) -> bool {
        self.off.wakes(self.now_ns(), self.latency_ns_max());
        self.turn(&mut lock(&self.ticking));
        self.off.rests(self.now_ns());
        !self.stopped.load(Ordering::Relaxed)
    }

    fn turn(&self, control: &mut Control) {
        let answered = self.status.answer(|request| self.change(request));
        if control.forgiven.elapsed() >= off::FORGIVEN_AFTER {
            self.off.forgive();
            control.forgiven = Instant::now();
        }
        if answered || control.published.elapsed() >= PUBLISHED_EVERY || self.status.asked() {
            self.publish();
            control.published = Instant::now();
        }
    }

    /// Makes a change, after any other that is under way.
    pub fn perform(&self, request: Request) -> Result<String, String> {
        let _ticking = lock(&self.ticking);
        self.change(request)
    }

    /// Makes a change. The caller holds `ticking`: of two resizes at once, the smaller would give back memory that the
    /// larger has just let pages into.
    fn change(&self, request: Request) -> Result<String, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("the tier has stopped".into());
        }
        match request {
            Request::Mode(mode) => {
                self.set_mode(mode)?;
                Ok(format!("mode {}", mode.as_str()))
            }
            Request::Resize(size_bytes) => self.resize(size_bytes),
            Request::Drop => {
                self.everything.begin();
                let mut pages = 0u64;
                self.index.remove_all(|slot| {
                    self.medium.release(slot);
                    pages += 1;
                });
                self.everything.end();
                Ok(format!("{pages} pages left the tier"))
            }
            Request::Flush if self.config.medium.in_memory() => {
                Ok("this medium has no stable storage".into())
            }
            Request::Flush => match self.medium.flush() {
                Ok(()) => Ok("everything that the medium holds is on stable storage".into()),
                Err(error) => Err(format!("the medium cannot be synced: {error}")),
            },
        }
    }

    fn resize(&self, size_bytes: u64) -> Result<String, String> {
        let mut wanted = self.config.clone();
        wanted.size_bytes = size_bytes;
        wanted.validate().map_err(|error| error.to_string())?;
        if size_bytes > self.size_bytes_max {
            let max = self.size_bytes_max;
            return Err(format!(
                "the tier can grow to {max} bytes; for more, start the server again with a larger --size"
            ));
        }
        let slots = medium::slots(&self.config, size_bytes);
        let failed = |error| format!("the medium cannot be resized: {error}");
        // Room before slots when growing, slots before room when shrinking.
        if slots > self.index.capacity() {
            self.medium.resize(size_bytes).map_err(failed)?;
            self.index.resize(slots, |_| ());
        } else {
            self.index.resize(slots, |slot| self.medium.release(slot));
            self.medium.resize(size_bytes).map_err(failed)?;
            // Compressed pages: fewer slots may still hold more bytes than the new size.
            let too_full = || {
                self.medium
                    .used_bytes()
                    .is_some_and(|used| used > size_bytes)
            };
            while too_full() && self.index.evict_each(|slot| self.medium.release(slot)) {}
            self.medium.give_back();
        }
        self.status
            .page()
            .size_bytes
            .store(size_bytes, Ordering::Relaxed);
        Ok(format!("the tier has room for {slots} pages"))
    }

    /// Puts what changes slowly on the statistics page.
    pub(super) fn publish(&self) {
        let page = self.status.page();
        let used = self.index.used();
        let mode = if self.stopped.load(Ordering::Relaxed) {
            Mode::PassThrough
        } else {
            self.mode()
        };
        page.mode.store(mode as u64, Ordering::Relaxed);
        page.capacity_pages
            .store(u64::from(self.index.capacity()), Ordering::Relaxed);
        page.used_pages.store(used, Ordering::Relaxed);
        let used_bytes = self.medium.used_bytes().unwrap_or(used * self.page_size());
        page.used_bytes.store(used_bytes, Ordering::Relaxed);
        let slots = self.index.capacity();
        let index_bytes = (f64::from(slots) * crate::index::SLOT_BYTES) as u64;
        page.index_bytes.store(
            index_bytes + self.medium.index_bytes(slots),
            Ordering::Relaxed,
        );
        let busiest = self.files.busiest(|row| self.index.pages_of(row));
        self.status.publish(&busiest);
    }

    /// A clean stop: nothing is served any more, and file media keep their pages for the next start.
    pub fn stop(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        let _ = self.set_mode(Mode::PassThrough);
        // No change of size from here on.
        let _ticking = lock(&self.ticking);
        if self.trusted() {
            self.save();
        }
        if !self.trusted() {
            // A read that was under way found wrong data.
            self.unseal();
        }
        self.status.page().stopped.store(1, Ordering::Release);
        self.publish();
    }
}
