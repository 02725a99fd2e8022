//! jsonlog: an object a line.

use serde::Deserialize;

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
    message: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    statement: String,
    application_name: Option<String>,
}

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(in crate::import) fn read(lines: &mut Lines, tell: &mut Tell<'_>) -> Result<Read, Failure> {
    let mut messages = Messages::default();
    while let Some(line) = lines.next()? {
        let ends = line.ends_with(b"\n");
        // The server writes bytes that are not UTF-8 as they are.
        let text = String::from_utf8_lossy(&line);
        match message(&text, &mut messages.read) {
            Some(message) => messages.take(message, tell)?,
            None if ends => messages.read.unread_lines += 1,
            None => messages.read.cut += 1,
        }
    }
    messages.finish(tell)
}

fn message(line: &str, read: &mut Read) -> Option<Message> {
    let line: Line = serde_json::from_str(line).ok()?;
    let shown = time(&line.timestamp)?;
    read.clock = shown.clock;
    Some(Message {
        at_ns: shown.at_ns,
        session: line.session_id,
        client: line.application_name.filter(|name| !name.is_empty()),
        severity: line.error_severity,
        sqlstate: line.state_code,
        text: line.message.into_bytes(),
        detail: line.detail.into_bytes(),
        statement: line.statement.into_bytes(),
    })
}
