//! How a tier turns itself off: its medium fails, it served what its file has not, or its files change unseen.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
const FORKED: u32 = 3;

/// Off until the server's restart: what the tier holds may be wrong.
fn is_final(state: u32) -> bool {
    state == AUDIT || state == FORKED
}

/// Whether the tier is off, and why.
#[derive(Default)]
pub(super) struct Off {
    state: AtomicU32,
    /// Failures of the medium, as far as they are not forgiven.
    failures: AtomicU32,
    /// For how long some access took too long, as far as it is not forgiven; time that several did counts once.
    stalled_ns: AtomicU64,
    /// Up to when that is counted, since the tier's start.
    stalled_until_ns: AtomicU64,
    /// When the control thread last went to rest; 0 while it works, and without one.
    resting_since_ns: AtomicU64,
    /// What is still to be said in the server's log. Whoever changes the state or the mode holds it.
    notice: Mutex<Option<String>>,
}

impl Off {
    pub(super) fn forgive(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.stalled_ns.store(0, Ordering::Relaxed);
    }

    /// The control thread begins to work. One that rested for longer than an access may take was stopped with the whole
    /// process (a signal, a migration): no medium is to blame for that time.
    pub(super) fn wakes(&self, now_ns: u64, limit_ns: u64) {
        let since = self.resting_since_ns.swap(0, Ordering::AcqRel);
        if since > 0 && now_ns.saturating_sub(since) > limit_ns {
            self.stalled_until_ns.fetch_max(now_ns, Ordering::AcqRel);
        }
    }

    /// The control thread goes to rest.
    pub(super) fn rests(&self, now_ns: u64) {
        self.resting_since_ns.store(now_ns, Ordering::Release);
    }

    /// Why requests go past the tier; None while it is on.
    pub(super) fn reason(&self) -> Option<Reason> {
        match self.state.load(Ordering::Relaxed) {
            ON => None,
            MEDIUM => Some(Reason::MediumError),
            FORKED => Some(Reason::Forked),
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

    /// A child of a fork of this process changed a file of the tier: the tier is off for good. Whoever saw the change says so
    /// in the server's log.
    pub fn changed_by_child(&self) {
        self.turn_off(
            FORKED,
            "a process that the server forked changed a data file",
        );
    }

    /// Counts failures of the medium; the tier turns off when there are too many.
    #[cold]
    pub(super) fn medium_failed(&self, count: u32, what: &dyn std::fmt::Display) {
        let before = self.off.failures.fetch_add(count, Ordering::Relaxed);
        let failures = before.saturating_add(count);
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

    /// An access of a file or device may have taken too long.
    #[inline]
    pub(super) fn timed(&self, started: Instant) {
        let took = started.elapsed();
        if took.as_millis() > u128::from(self.config.medium_latency_ms_max) {
            let from_ns = started.saturating_duration_since(self.born).as_nanos() as u64;
            self.stalled(from_ns, from_ns + took.as_nanos() as u64);
        }
    }

    /// Each time the limit goes by while some access takes longer than that is a failure.
    #[cold]
    fn stalled(&self, from_ns: u64, to_ns: u64) {
        self.status.add(Counter::MediumSlow, 1);
        let limit_ns = self.latency_ns_max();
        let resting_since_ns = self.off.resting_since_ns.load(Ordering::Acquire);
        let stopped = resting_since_ns > 0 && to_ns.saturating_sub(resting_since_ns) > limit_ns;
        let end_ns = if stopped { resting_since_ns } else { to_ns };
        let until_ns = self
            .off
            .stalled_until_ns
            .fetch_max(end_ns, Ordering::AcqRel);
        let new_ns = end_ns.saturating_sub(from_ns.max(until_ns));
        let before_ns = self.off.stalled_ns.fetch_add(new_ns, Ordering::Relaxed);
        let count = (before_ns + new_ns) / limit_ns - before_ns / limit_ns;
        if count > 0 {
            let took_ms = (to_ns - from_ns) / 1_000_000;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.medium_failed(count, &format_args!("an access took {took_ms} ms"));
        }
    }

    /// So long an access of the medium may take.
    pub(super) fn latency_ns_max(&self) -> u64 {
        u64::from(self.config.medium_latency_ms_max.max(1)) * 1_000_000
    }

    fn turn_off(&self, why: u32, text: &str) {
        let mut notice = lock(&self.off.notice);
        let state = self.off.state.load(Ordering::Relaxed);
        // A medium that fails is the lesser evil.
        if state == why || is_final(state) {
            return;
        }
        self.off.state.store(why, Ordering::Release);
        self.mode.store(Mode::PassThrough as u32, Ordering::SeqCst);
        self.status.page().off.set(text.as_bytes());
        if why != FORKED {
            *notice = Some(format!("the tier is off: {text}"));
        }
        if is_final(why) {
            self.unseal();
        }
    }

    /// Sets the mode. One that serves: not after wrong data or unseen changes, and not after the stop.
    pub(super) fn set_mode(&self, mode: Mode) -> Result<(), String> {
        let _changing = lock(&self.off.notice);
        if mode != Mode::PassThrough {
            if self.stopped.load(Ordering::Acquire) {
                return Err("the tier has stopped".into());
            }
            if is_final(self.off.state.load(Ordering::Relaxed)) {
                let text = self.status.page().off.get();
                return Err(format!(
                    "the tier is off until the server's restart: {text}"
                ));
            }
            self.off.forgive();
            self.off.state.store(ON, Ordering::Release);
            self.status.page().off.set(b"");
        }
        self.mode.store(mode as u32, Ordering::SeqCst);
        Ok(())
    }

    /// Whether its pages may be served after a restart: it did not turn itself off. A medium that failed is not written to any
    /// more, either: the server's end might wait for it.
    pub(super) fn trusted(&self) -> bool {
        self.off.state.load(Ordering::Acquire) == ON
    }
}

#[cfg(test)]
mod tests;
