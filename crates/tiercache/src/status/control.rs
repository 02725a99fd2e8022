//! Asking the running tier for a change, through the page.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::StatusPage;
use super::layout::Control;
use crate::config::Mode;

const IDLE: u64 = 0;
const PENDING: u64 = 1;
const RUNNING: u64 = 2;
const DONE: u64 = 3;

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

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The tier refused it: its answer.
    Refused(String),
    /// The tier did not answer: what became of the request.
    Unanswered(&'static str),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(text) => out.write_str(text),
            Self::Unanswered(text) => out.write_str(text),
        }
    }
}

impl std::error::Error for RequestError {}

/// The number of a request that was put on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl StatusPage {
    /// Puts a request on the page. Err says why not: read-only, or another request is under way.
    pub fn request(&self, request: Request) -> Result<Ticket, String> {
        if !self.writable {
            return Err("this user may only read the statistics page".into());
        }
        let (word, argument) = request.words();
        let claim = |control: &Control, taken: Option<u64>| {
            let state = control.state.load(Ordering::Relaxed);
            let sequence = control.sequence.load(Ordering::Relaxed);
            if state != IDLE && !(state == DONE && taken == Some(sequence)) {
                return Err(sequence);
            }
            control.request.store(word, Ordering::Relaxed);
            control.argument.store(argument, Ordering::Relaxed);
            control.sequence.store(sequence + 1, Ordering::Relaxed);
            control.state.store(PENDING, Ordering::Relaxed);
            Ok(Ticket(sequence + 1))
        };
        let busy = || "another request is under way".to_owned();
        match self
            .with_control(|control| claim(control, None))
            .ok_or_else(busy)?
        {
            Ok(ticket) => Ok(ticket),
            // An answer that nobody takes belongs to a program that gave up waiting: its place is free.
            Err(sequence) => {
                std::thread::sleep(ABANDONED);
                let again = self.with_control(|control| claim(control, Some(sequence)));
                again.and_then(Result::ok).ok_or_else(busy)
            }
        }
    }

    /// Waits for the answer, which carries the tier's text. A request that the tier does not take up within `timeout` is
    /// taken back.
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<String, RequestError> {
        let end = Instant::now() + timeout;
        loop {
            let last = Instant::now() >= end;
            let seen = self.with_control(|control| taken(control, ticket, last));
            match seen {
                Some(Seen::Answer(answer)) => return answer.map_err(RequestError::Refused),
                Some(Seen::Lost) => {
                    let why = "another request took the place of this one";
                    return Err(RequestError::Unanswered(why));
                }
                Some(Seen::Withdrawn) => {
                    let why = "the server did not take up the request in time";
                    return Err(RequestError::Unanswered(why));
                }
                Some(Seen::Nothing) | None if last => {
                    let why = "the server took up the request and has not finished it";
                    return Err(RequestError::Unanswered(why));
                }
                Some(Seen::Nothing) | None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Answers a waiting request with what `perform` says; whether there was one.
    pub(crate) fn answer(&self, perform: impl FnOnce(Request) -> Result<String, String>) -> bool {
        let pending = |control: &Control| control.state.load(Ordering::Relaxed) == PENDING;
        if !self.peek_control().is_some_and(pending) {
            return false;
        }
        let take = |control: &Control| {
            pending(control).then(|| {
                control.state.store(RUNNING, Ordering::Relaxed);
                let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
                (word(&control.request), word(&control.argument))
            })
        };
        let Some(Some(words)) = self.with_control(take) else {
            return false;
        };
        let result = match Request::from_words(words.0, words.1) {
            Some(request) => perform(request),
            None => Err(format!("unknown request {}", words.0)),
        };
        let _ = self.with_control(|control| {
            let failed = u64::from(result.is_err());
            control.failed.store(failed, Ordering::Relaxed);
            let text = result.unwrap_or_else(|error| error);
            control.answer.set(text.as_bytes());
            control.state.store(DONE, Ordering::Relaxed);
        });
        true
    }
}

/// What a program that waits finds.
enum Seen {
    Answer(Result<String, String>),
    Lost,
    Withdrawn,
    Nothing,
}

fn taken(control: &Control, ticket: Ticket, last: bool) -> Seen {
    if control.sequence.load(Ordering::Relaxed) != ticket.0 {
        return Seen::Lost;
    }
    match control.state.load(Ordering::Relaxed) {
        DONE => {
            let answer = control.answer.get();
            control.state.store(IDLE, Ordering::Relaxed);
            Seen::Answer(if control.failed.load(Ordering::Relaxed) != 0 {
                Err(answer)
            } else {
                Ok(answer)
            })
        }
        PENDING if last => {
            control.state.store(IDLE, Ordering::Relaxed);
            Seen::Withdrawn
        }
        _ => Seen::Nothing,
    }
}
