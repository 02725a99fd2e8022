//! Lines for people: each message begins with log_line_prefix, and its further lines with a tab.

use super::prefix::{Prefix, Said};
use super::{Message, Messages};
use crate::failure::Failure;
use crate::import::Tell;
use crate::import::event::Read;
use crate::import::lines::{Lines, trimmed};

/// What a server says a message is, or what belongs to the one before.
const SEVERITIES: [&str; 13] = [
    "LOG", "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO", "DEBUG1", "DEBUG2", "DEBUG3",
    "DEBUG4", "DEBUG5", "DEBUG",
];
const MORE: [&str; 7] = [
    "DETAIL",
    "HINT",
    "STATEMENT",
    "CONTEXT",
    "QUERY",
    "LOCATION",
    "BACKTRACE",
];

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(in crate::import) fn read(
    lines: &mut Lines,
    prefix: &Prefix,
    tell: &mut Tell<'_>,
) -> Result<Read, Failure> {
    let mut messages = Messages::default();
    let mut at_hand: Option<Gathered> = None;
    while let Some(line) = lines.next()? {
        let ends = line.ends_with(b"\n");
        let own = trimmed(&line);
        if let Some(more) = own.strip_prefix(b"\t") {
            match &mut at_hand {
                Some(gathered) => gathered.add(more),
                None => messages.read.unread_lines += 1,
            }
        } else if let Some((said, name, rest)) = begins(prefix, own) {
            messages.read.clock.clone_from(&said.clock);
            match &mut at_hand {
                Some(gathered) if MORE.contains(&name) => gathered.part(name, rest),
                _ if MORE.contains(&name) => messages.read.unread_lines += 1,
                before => {
                    if let Some(before) = before.replace(Gathered::new(said, name, rest)) {
                        messages.take(before.message, tell)?;
                    }
                }
            }
        } else {
            messages.read.unread_lines += 1;
        }
        if !ends {
            // It broke off within a line.
            at_hand = None;
            messages.read.cut += 1;
        }
    }
    if let Some(last) = at_hand {
        messages.take(last.message, tell)?;
    }
    messages.finish(tell)
}

/// A message whose lines are being gathered.
struct Gathered {
    message: Message,
    part: String,
}

impl Gathered {
    fn new(said: Said, severity: &str, text: &[u8]) -> Self {
        Self {
            message: Message {
                at_ns: said.at_ns,
                session: said.session,
                client: said.client,
                severity: severity.to_owned(),
                sqlstate: said.sqlstate,
                text: text.to_vec(),
                ..Message::default()
            },
            part: String::new(),
        }
    }

    fn part(&mut self, name: &str, text: &[u8]) {
        name.clone_into(&mut self.part);
        if let Some(place) = self.place() {
            place.extend_from_slice(text);
        }
    }

    fn add(&mut self, text: &[u8]) {
        if let Some(place) = self.place() {
            place.push(b'\n');
            place.extend_from_slice(text);
        }
    }

    fn place(&mut self) -> Option<&mut Vec<u8>> {
        match self.part.as_str() {
            "" => Some(&mut self.message.text),
            "DETAIL" => Some(&mut self.message.detail),
            "STATEMENT" => Some(&mut self.message.statement),
            _ => None,
        }
    }
}

/// `PREFIX LOG:  text`: what the prefix says, the word, the text.
fn begins<'a>(prefix: &Prefix, line: &'a [u8]) -> Option<(Said, &'static str, &'a [u8])> {
    // A statement may hold any bytes; a prefix does not.
    let valid = match std::str::from_utf8(line) {
        Ok(line) => line,
        Err(error) => std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default(),
    };
    let (said, rest) = prefix.of(valid, |rest| word(rest).is_some())?;
    let named = word(rest)?;
    let from = valid.len() - rest.len() + named.len() + 3;
    Some((said, named, &line[from..]))
}

/// The word that a message begins with.
fn word(rest: &str) -> Option<&'static str> {
    let mut words = SEVERITIES.iter().chain(&MORE);
    let begins = |name: &&&str| {
        rest.strip_prefix(**name)
            .is_some_and(|rest| rest.starts_with(":  "))
    };
    words.find(begins).copied()
}
