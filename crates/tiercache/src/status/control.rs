//! Asking the running tier for a change, through the page.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::StatusPage;
use crate::config::Mode;

const IDLE: u64 = 0;
const WRITING: u64 = 1;
const PENDING: u64 = 2;
const RUNNING: u64 = 3;
const DONE: u64 = 4;

/// A program that waits looks every 2 ms: an answer that stands this long has no reader.
const ABANDONED: Duration = Duration::from_millis(50);

/// A change that a running tier can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Another mode.
    Mode(Mode),
    /// Another size, in bytes.
    Resize(u64),
    /// Everything out of the tier.
    Drop,
    /// What the medium has not yet on stable storage, there.
    Flush,
}

impl Request {
    fn words(self) -> (u64, u64) {
        match self {
            Self::Mode(mode) => (1, mode as u64),
            Self::Resize(size_bytes) => (2, size_bytes),
            Self::Drop => (3, 0),
            Self::Flush => (4, 0),
        }
    }

    fn from_words(request: u64, argument: u64) -> Option<Self> {
        match request {
            1 => Mode::from_number(argument).map(Self::Mode),
            2 => Some(Self::Resize(argument)),
            3 => Some(Self::Drop),
            4 => Some(Self::Flush),
            _ => None,
        }
    }
}

/// The number of a request that was put on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl StatusPage {
    /// Puts a request on the page. Err says why not: read-only, or another request is under way.
    pub fn request(&self, request: Request) -> Result<Ticket, String> {
        if !self.writable {
            return Err("the status page is read-only for this user".into());
        }
        let control = &self.page().control;
        let claim = |from| {
            let exchanged =
                control
                    .state
                    .compare_exchange(from, WRITING, Ordering::AcqRel, Ordering::Relaxed);
            exchanged.is_ok()
        };
        // An answer that nobody takes belongs to a program that gave up waiting: its slot is free.
        let free = claim(IDLE) || {
            std::thread::sleep(ABANDONED);
            claim(IDLE) || claim(DONE)
        };
        if !free {
            return Err("another request is under way".into());
        }
        let (word, argument) = request.words();
        control.request.store(word, Ordering::Relaxed);
        control.argument.store(argument, Ordering::Relaxed);
        let sequence = control.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        control.state.store(PENDING, Ordering::Release);
        Ok(Ticket(sequence))
    }

    /// Waits for the answer: Ok and Err carry the tier's text. A request that the tier does not take up
    /// within `timeout` is taken back.
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<String, String> {
        let control = &self.page().control;
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            if control.sequence.load(Ordering::Acquire) != ticket.0 {
                return Err("another request took the place of this one".into());
            }
            if control.state.load(Ordering::Acquire) == DONE {
                let failed = control.failed.load(Ordering::Relaxed) != 0;
                let answer = control.answer.get();
                control.state.store(IDLE, Ordering::Release);
                return if failed { Err(answer) } else { Ok(answer) };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let withdrawn = control
            .state
            .compare_exchange(PENDING, IDLE, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        Err(if withdrawn {
            "the server did not take up the request: it does no I/O, or it has stopped".into()
        } else {
            "the server took up the request and has not finished it".into()
        })
    }

    /// Frees the request slot after a program that died while asking; for the user who knows that.
    pub fn clear_request(&self) {
        if self.writable {
            self.page().control.state.store(IDLE, Ordering::Release);
        }
    }

    /// Whether a request waits. One relaxed load: cheap enough for every tick.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.page().control.state.load(Ordering::Relaxed) == PENDING
    }

    /// Takes the waiting request, answers it with what `perform` says.
    pub(crate) fn answer(&self, perform: impl FnOnce(Request) -> Result<String, String>) {
        let control = &self.page().control;
        if control
            .state
            .compare_exchange(PENDING, RUNNING, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let words = (
            control.request.load(Ordering::Relaxed),
            control.argument.load(Ordering::Relaxed),
        );
        let result = match Request::from_words(words.0, words.1) {
            Some(request) => perform(request),
            None => Err(format!("unknown request {}", words.0)),
        };
        control
            .failed
            .store(u64::from(result.is_err()), Ordering::Relaxed);
        control
            .answer
            .set(result.unwrap_or_else(|error| error).as_bytes());
        control.state.store(DONE, Ordering::Release);
    }
}
