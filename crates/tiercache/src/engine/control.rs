//! Changes of a running tier, and what it publishes once a second.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Tier;
use super::files::lock;
use crate::config::Mode;
use crate::medium;
use crate::status::Request;

impl Tier {
    /// Does what was asked through the statistics page and publishes. Cheap when there is nothing to do; call
    /// it often (every few misses or writes, or from a thread of its own).
    pub fn tick(&self) {
        let Ok(mut last) = self.ticking.try_lock() else {
            return;
        };
        let pending = self.status.pending();
        if !pending && last.elapsed() < Duration::from_secs(1) {
            return;
        }
        if pending {
            self.status.answer(|request| self.perform(request));
        }
        self.publish();
        *last = Instant::now();
    }

    /// Makes a change.
    pub fn perform(&self, request: Request) -> Result<String, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("the tier has stopped".into());
        }
        match request {
            Request::Mode(mode) => {
                self.mode.store(mode as u32, Ordering::Relaxed);
                Ok(format!("mode {}", mode.as_str()))
            }
            Request::Resize(size_bytes) => self.resize(size_bytes),
            Request::Drop => {
                self.everything.begin();
                let mut pages = 0u64;
                self.index.remove_where(
                    |_| true,
                    |slot| {
                        self.medium.release(slot);
                        pages += 1;
                    },
                );
                self.everything.end();
                Ok(format!("{pages} pages dropped"))
            }
            Request::Flush => match self.medium.flush() {
                Ok(()) => Ok("flushed; the tier holds no page that its file has not".into()),
                Err(error) => Err(format!("the medium cannot be flushed: {error}")),
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
                "at most {max} bytes without a restart: {} times the first size",
                medium::GROWTH_MAX
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
        Ok(format!("{slots} pages"))
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
        let index_bytes = f64::from(self.index.capacity()) * crate::index::SLOT_BYTES;
        page.index_bytes
            .store(index_bytes as u64, Ordering::Relaxed);
        self.status
            .publish_files(&self.files.busiest(&self.index.pages_by_row()));
    }

    /// A clean stop: nothing is served any more, and file media keep their pages for the next start.
    pub fn stop(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        self.mode.store(Mode::PassThrough as u32, Ordering::SeqCst);
        // No change of size or mode from here on.
        let _ticking = lock(&self.ticking);
        self.save();
        self.publish();
        self.status.page().stopped.store(1, Ordering::Release);
    }
}
