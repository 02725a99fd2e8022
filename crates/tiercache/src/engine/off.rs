//! How a tier turns itself off: its medium fails, or it served what its file has not.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::files::lock;
use super::{FileId, Tier};
use crate::config::Mode;
use crate::index::key;
use crate::status::{Counter, Reason};
use crate::thread;

/// Failures of the medium are forgiven after so long.
pub(super) const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

const ON: u32 = 0;
const MEDIUM: u32 = 1;
const AUDIT: u32 = 2;

/// Whether the tier is off, and why.
#[derive(Default)]
pub(super) struct Off {
    state: AtomicU32,
    /// Failures of the medium, as far as they are not forgiven.
    failures: AtomicU32,
    /// What is still to be said in the server's log.
    notice: Mutex<Option<String>>,
}

impl Off {
    pub(super) fn forgive(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Why requests go past the tier; None while it is on.
    pub(super) fn reason(&self) -> Option<Reason> {
        match self.state.load(Ordering::Relaxed) {
            ON => None,
            MEDIUM => Some(Reason::MediumError),
            _ => Some(Reason::Audit),
        }
    }
}

/// A read that is compared with its file.
#[derive(Debug, Clone, Copy)]
pub struct AuditToken {
    file: FileId,
    offset: u64,
    length: u64,
    begun: u64,
}

impl Tier {
    /// What the server's log must say now; each text once. Ask after `control`.
    pub fn notice(&self) -> Option<String> {
        lock(&self.off.notice).take()
    }

    /// Whether the read that comes now is one of those that are compared with their file: one in `audit_every`, counted
    /// by thread. Ask before `read`; if it is a hit, read the file to another place and call `audited`.
    #[inline]
    pub fn audit(&self, file: FileId, offset: u64, length: u64) -> Option<AuditToken> {
        thread_local!(static LEFT: Cell<u32> = const { Cell::new(0) });
        LEFT.with(|left| match left.get() {
            now @ 2.. => {
                left.set(now - 1);
                None
            }
            now => {
                left.set(self.reads_until_audit(now == 0));
                (now == 1).then(|| self.audit_token(file, offset, length))?
            }
        })
    }

    #[cold]
    fn reads_until_audit(&self, first: bool) -> u32 {
        match self.config.audit_every {
            0 => u32::MAX,
            // Threads that live shorter than the period take part, too.
            every if first => 1 + (key::hash(thread::number() as u64) % u64::from(every)) as u32,
            every => every,
        }
    }

    #[cold]
    fn audit_token(&self, file: FileId, offset: u64, length: u64) -> Option<AuditToken> {
        if self.config.audit_every == 0 {
            return None;
        }
        let pages = self.pages(offset, length)?;
        let begun = self.quiet(self.files.row(file)?, file.row, pages)?;
        Some(AuditToken {
            file,
            offset,
            length,
            begun,
        })
    }

    /// Compares what a hit gave with what the file has; false, and the tier is off, when they differ and no write came
    /// between.
    pub fn audited(&self, token: AuditToken, served: &[u8], in_file: &[u8]) -> bool {
        self.status.add(Counter::Audits, 1);
        if served == in_file {
            return true;
        }
        let pages = self.pages(token.offset, token.length);
        let (Some(row), Some(pages)) = (self.files.row(token.file), pages) else {
            return true;
        };
        if self.begun(row, token.file.row, pages) != token.begun {
            return true;
        }
        self.status.add(Counter::AuditDifferences, 1);
        let name = String::from_utf8_lossy(&lock(&row.info).name).into_owned();
        let offset = token.offset;
        self.turn_off(
            AUDIT,
            &format!(
                "the page at byte {offset} of {name} is not what the file has: something changed the file unseen"
            ),
        );
        false
    }

    /// Counts a failure of the medium; the tier turns off when there are too many.
    #[cold]
    pub(super) fn medium_failed(&self, what: &dyn std::fmt::Display) {
        let failures = self.off.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= self.config.medium_errors_max {
            let medium = &self.config.medium;
            self.turn_off(
                MEDIUM,
                &format!(
                    "{failures} failures of medium {medium} within a minute, the last: {what}"
                ),
            );
        }
    }

    /// An access of a file or device that took long counts as a failure.
    #[inline]
    pub(super) fn timed(&self, started: Instant) {
        let took = started.elapsed();
        if took.as_millis() > u128::from(self.config.medium_latency_ms_max) {
            self.status.add(Counter::MediumSlow, 1);
            self.medium_failed(&format_args!("an access took {} ms", took.as_millis()));
        }
    }

    fn turn_off(&self, why: u32, text: &str) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let state = &self.off.state;
        if state.compare_exchange(ON, why, success, failure).is_err() {
            return;
        }
        self.mode.store(Mode::PassThrough as u32, Ordering::SeqCst);
        self.status.page().off.set(text.as_bytes());
        *lock(&self.off.notice) = Some(format!("the tier is off: {text}"));
    }

    /// Whether a mode that serves may be set again: after failures of the medium, not after wrong data.
    pub(super) fn turn_on(&self) -> Result<(), String> {
        if self.off.state.load(Ordering::Acquire) == AUDIT {
            let text = self.status.page().off.get();
            return Err(format!(
                "the tier is off until the server's restart: {text}"
            ));
        }
        self.off.forgive();
        self.off.state.store(ON, Ordering::Release);
        self.status.page().off.set(b"");
        Ok(())
    }

    /// Whether the pages may be served after a restart.
    pub(super) fn trusted(&self) -> bool {
        self.off.state.load(Ordering::Acquire) != AUDIT
    }
}
