//! jsonlog: an object a line.

use std::fmt;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, de};

use super::{Message, Messages};
use crate::failure::Failure;
use crate::import::Tell;
use crate::import::event::Read;
use crate::import::lines::Lines;
use crate::import::when::time;

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    session_id: String,
    error_severity: String,
    #[serde(default)]
    state_code: String,
    #[serde(default)]
    message: Bytes,
    #[serde(default)]
    detail: Bytes,
    #[serde(default)]
    statement: Bytes,
    application_name: Option<Bytes>,
}

/// A text as it stands there: the server writes bytes that are not UTF-8 as they are.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_byte_buf(OfText)
    }
}

struct OfText;

impl Visitor<'_> for OfText {
    type Value = Bytes;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a text")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }
}

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(in crate::import) fn read(lines: &mut Lines, tell: &mut Tell<'_>) -> Result<Read, Failure> {
    let mut messages = Messages::default();
    while let Some(line) = lines.next()? {
        let ends = line.ends_with(b"\n");
        match message(&line, &mut messages.read) {
            Some(message) => messages.take(message, tell)?,
            None if ends => messages.read.unread_lines += 1,
            None => messages.read.cut += 1,
        }
    }
    messages.finish(tell)
}

fn message(line: &[u8], read: &mut Read) -> Option<Message> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let shown = time(&line.timestamp)?;
    read.clock = shown.clock;
    Some(Message {
        at_ns: shown.at_ns,
        session: line.session_id,
        client: line
            .application_name
            .map(|name| String::from_utf8_lossy(&name.0).into_owned())
            .filter(|name| !name.is_empty()),
        severity: line.error_severity,
        sqlstate: line.state_code,
        text: line.message.0,
        detail: line.detail.0,
        statement: line.statement.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_stay() {
        let begin = br#"{"timestamp":"2026-11-23 08:56:02.801 UTC","user":"b"#;
        let rest =
            br#"","session_id":"6b03f192.28c1","error_severity":"ERROR","message":"a\u00e9 "#;
        let line = [
            &begin[..],
            b"\xE9",
            rest,
            b"\xE9\\n",
            br#"","statement":"SELECT '"#,
            b"\xFF",
            br#"'","application_name":"x"#,
            b"\xFF\"}\n",
        ];
        let found = message(&line.concat(), &mut Read::default()).expect("a message");
        assert_eq!(found.text, b"a\xC3\xA9 \xE9\n");
        assert_eq!(found.statement, b"SELECT '\xFF'");
        assert_eq!(found.client.as_deref(), Some("x\u{fffd}"));
        assert_eq!((found.detail, found.sqlstate), (Vec::new(), String::new()));
    }
}
