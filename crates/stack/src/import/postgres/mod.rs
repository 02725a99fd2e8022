//! PostgreSQL's log, in any of its three formats: what its messages say of statements.

pub(super) mod csv;
pub(super) mod json;
pub(super) mod prefix;
pub(super) mod stderr;
mod values;

use std::collections::HashMap;

use wire::passive::{Kind, ServerError};

use super::Tell;
use super::event::{Event, Read, Request, When};
use super::lines::split;
use super::when::span_ns;
use crate::failure::Failure;

/// One message with what belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) at_ns: u64,
    pub(super) session: String,
    pub(super) client: Option<String>,
    pub(super) severity: String,
    pub(super) sqlstate: String,
    pub(super) text: Vec<u8>,
    pub(super) detail: Vec<u8>,
    /// Of an error, the statement that failed.
    pub(super) statement: Vec<u8>,
}

/// What a session has said and not ended.
#[derive(Default)]
struct Session {
    client: Option<String>,
    /// A statement whose time comes in a line of its own, or never.
    begun: Option<Request>,
    /// A bind: the statement and how long it took.
    bound: Option<(Vec<u8>, u64)>,
}

impl Session {
    /// Tell of a client's name that is new.
    fn named(&mut self, message: &Message, tell: &mut Tell<'_>) -> Result<(), Failure> {
        let Some(client) = &message.client else {
            return Ok(());
        };
        if self.client.as_ref() == Some(client) {
            return Ok(());
        }
        self.client = Some(client.clone());
        tell(Event::Named {
            session: message.session.clone(),
            client: client.clone(),
        })
    }
}

/// Makes events of messages.
#[derive(Default)]
pub(super) struct Messages {
    sessions: HashMap<String, Session>,
    pub(super) read: Read,
}

impl Messages {
    /// # Errors
    /// `tell`'s.
    pub(super) fn take(&mut self, message: Message, tell: &mut Tell<'_>) -> Result<(), Failure> {
        let text = message.text.as_slice();
        if message.severity != "LOG" {
            return self.failed(message, tell);
        }
        if let Some(rest) = text.strip_prefix(b"starting PostgreSQL ") {
            self.started(message.at_ns, tell)?;
            let end = rest.iter().position(|byte| *byte == b' ');
            let version = String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len())]);
            return tell(Event::Version(version.into_owned()));
        }
        // After a crash of one of them.
        if text.starts_with(b"all server processes terminated; reinitializing") {
            return self.started(message.at_ns, tell);
        }
        let session = message.session.clone();
        if text.starts_with(b"connection received") {
            self.forget(&session, tell)?;
            let at_ns = message.at_ns;
            return tell(Event::Began { session, at_ns });
        }
        if text.starts_with(b"disconnection: ") {
            self.forget(&session, tell)?;
            let at_ns = message.at_ns;
            return tell(Event::Ended { session, at_ns });
        }
        if let Some((_, client)) = split(text, b"application_name=")
            && text.starts_with(b"connection authorized: ")
        {
            let client = String::from_utf8_lossy(without_encryption(client)).into_owned();
            self.sessions.entry(session.clone()).or_default().client = Some(client.clone());
            return tell(Event::Named { session, client });
        }
        self.logged(message, tell)
    }

    /// Everything that began and has no time.
    ///
    /// # Errors
    /// `tell`'s.
    pub(super) fn finish(mut self, tell: &mut Tell<'_>) -> Result<Read, Failure> {
        self.forget_all(tell)?;
        Ok(self.read)
    }

    /// No session is left: later ones may have their numbers again.
    fn started(&mut self, at_ns: u64, tell: &mut Tell<'_>) -> Result<(), Failure> {
        self.forget_all(tell)?;
        tell(Event::Started { at_ns })
    }

    fn forget_all(&mut self, tell: &mut Tell<'_>) -> Result<(), Failure> {
        let mut left: Vec<_> = self.sessions.keys().cloned().collect();
        left.sort();
        for session in left {
            self.forget(&session, tell)?;
        }
        Ok(())
    }

    fn forget(&mut self, session: &str, tell: &mut Tell<'_>) -> Result<(), Failure> {
        let ended = self.sessions.remove(session);
        match ended.and_then(|ended| ended.begun) {
            Some(request) => tell(request_of(session, request)),
            None => Ok(()),
        }
    }

    fn logged(&mut self, message: Message, tell: &mut Tell<'_>) -> Result<(), Failure> {
        let timed = message.text.strip_prefix(b"duration: ").and_then(|rest| {
            let (number, what) = split(rest, b" ms")?;
            let lasted_ns = span_ns(std::str::from_utf8(number).ok()?, 1e6)?;
            Some((lasted_ns, what.trim_ascii_start()))
        });
        let said = timed.map_or(message.text.as_slice(), |(_, what)| what);
        let known = self.sessions.entry(message.session.clone()).or_default();
        known.named(&message, tell)?;
        if let (Some((lasted_ns, _)), true) = (timed, said.is_empty()) {
            match known.begun.take() {
                Some(mut request) => {
                    request.when = When::From(request.when.shown_ns(), lasted_ns);
                    tell(request_of(&message.session, request))?;
                }
                None => self.read.unnamed += 1,
            }
            return Ok(());
        }
        let Some((what, text)) = statement(said) else {
            return Ok(());
        };
        let when = match timed {
            Some((lasted_ns, _)) => When::Until(message.at_ns, lasted_ns),
            None => When::Since(message.at_ns),
        };
        if let (What::Bind, Some((lasted_ns, _))) = (what, timed) {
            known.bound = Some((text.to_vec(), lasted_ns));
            return Ok(());
        }
        let What::Request(kind) = what else {
            return Ok(());
        };
        let mut request = Request::new(kind, when);
        request.text = Some(text.to_vec());
        request.values = values::values(&message.detail);
        if let Some(before) = known.begun.take() {
            tell(request_of(&message.session, before))?;
        }
        let bound = known.bound.take();
        match timed {
            Some((lasted_ns, _)) => {
                // A bind is a part of its execution.
                let own = bound.filter(|(bound, _)| kind == Kind::Execute && *bound == text);
                let bind_ns = own.map_or(0, |(_, bind_ns)| bind_ns);
                request.when = When::Until(message.at_ns, lasted_ns + bind_ns);
                tell(request_of(&message.session, request))
            }
            None => {
                known.begun = Some(request);
                Ok(())
            }
        }
    }

    fn failed(&mut self, message: Message, tell: &mut Tell<'_>) -> Result<(), Failure> {
        if !matches!(message.severity.as_str(), "ERROR" | "FATAL" | "PANIC") {
            return Ok(());
        }
        let known = self.sessions.entry(message.session.clone()).or_default();
        known.named(&message, tell)?;
        known.bound = None;
        let begun = known.begun.take();
        if message.statement.is_empty() {
            return match begun {
                Some(before) => tell(request_of(&message.session, before)),
                None => Ok(()),
            };
        }
        let error = Some(ServerError {
            code: 0,
            sqlstate: match message.sqlstate.is_empty() {
                true => sqlstate(&message.text).to_owned(),
                false => message.sqlstate,
            },
        });
        let mut request = match begun {
            Some(begun) if begun.text.as_deref() == Some(&message.statement) => {
                let lasted_ns = message.at_ns.saturating_sub(begun.when.shown_ns());
                let when = When::From(begun.when.shown_ns(), lasted_ns);
                Request { when, ..begun }
            }
            other => {
                if let Some(before) = other {
                    tell(request_of(&message.session, before))?;
                }
                Request::new(Kind::Query, When::Failed(message.at_ns))
            }
        };
        request.text = Some(message.statement);
        request.error = error;
        tell(request_of(&message.session, request))
    }
}

/// A client's name without what stands behind it where the connection is encrypted.
fn without_encryption(client: &[u8]) -> &[u8] {
    [&b" SSL enabled (protocol="[..], b" GSS (authenticated="]
        .iter()
        .fold(client, |client, more| {
            split(client, more).map_or(client, |(name, _)| name)
        })
}

/// The SQLSTATE of an error whose line has none, as far as its words say it. Of the others only waits and conflicts matter.
fn sqlstate(words: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 5] = [
        (b"deadlock detected", "40P01"),
        (b"could not serialize access", "40001"),
        (b"canceling statement due to lock timeout", "55P03"),
        (b"could not obtain lock on ", "55P03"),
        (b"canceling statement due to statement timeout", "57014"),
    ];
    let found = known.iter().find(|(begin, _)| words.starts_with(begin));
    found.map_or("", |(_, sqlstate)| sqlstate)
}

fn request_of(session: &str, request: Request) -> Event {
    Event::Request {
        session: session.to_owned(),
        request,
    }
}

#[derive(Clone, Copy)]
enum What {
    Bind,
    Request(Kind),
}

/// `statement: SELECT 1`, `parse NAME: ...`, `bind NAME: ...`, `execute NAME: ...`, `execute fetch from NAME: ...`.
fn statement(said: &[u8]) -> Option<(What, &[u8])> {
    let (head, text) = split(said, b": ")?;
    let what = match head {
        b"statement" => What::Request(Kind::Query),
        _ if head.starts_with(b"parse ") => What::Request(Kind::Prepare),
        _ if head.starts_with(b"bind ") => What::Bind,
        _ if head.starts_with(b"execute fetch from ") => What::Request(Kind::Fetch),
        _ if head.starts_with(b"execute ") => What::Request(Kind::Execute),
        _ => return None,
    };
    Some((what, text))
}
