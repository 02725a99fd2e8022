//! csvlog: a row a message.

use super::{Message, Messages};
use crate::failure::Failure;
use crate::import::Tell;
use crate::import::event::Read;
use crate::import::lines::Lines;
use crate::import::when::time;

/// Columns of PostgreSQL 12 and older; newer ones have more at their end.
const COLUMNS: usize = 23;

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(in crate::import) fn read(lines: &mut Lines, tell: &mut Tell<'_>) -> Result<Read, Failure> {
    let mut messages = Messages::default();
    let mut row = Vec::new();
    let mut is_quoted = false;
    while let Some(line) = lines.next()? {
        row.extend_from_slice(&line);
        is_quoted ^= line.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
        // A line that ends within quotes goes on in the next one, unless the log began within quotes.
        let is_whole = !is_quoted && line.ends_with(b"\n");
        if !is_whole && !begins_row(lines.ahead()) {
            continue;
        }
        match message(&row, &mut messages.read) {
            Some(message) => messages.take(message, tell)?,
            None => messages.read.unread_lines += 1,
        }
        row.clear();
        is_quoted = false;
    }
    if !row.is_empty() {
        messages.read.cut += 1;
    }
    messages.finish(tell)
}

fn begins_row(line: &[u8]) -> bool {
    let first = line.split(|byte| *byte == b',').next();
    first
        .and_then(|first| std::str::from_utf8(first).ok())
        .is_some_and(|first| time(first).is_some())
}

fn message(row: &[u8], read: &mut Read) -> Option<Message> {
    let fields = fields(row.trim_ascii_end());
    if fields.len() < COLUMNS {
        return None;
    }
    let text = |place: usize| String::from_utf8_lossy(&fields[place]).into_owned();
    let shown = time(&text(0))?;
    read.clock = shown.clock;
    let client = fields.get(22).filter(|name| !name.is_empty());
    Some(Message {
        at_ns: shown.at_ns,
        session: text(5),
        client: client.map(|_| text(22)),
        severity: text(11),
        sqlstate: text(12),
        text: fields[13].clone(),
        detail: fields[14].clone(),
        statement: fields[19].clone(),
    })
}

fn fields(row: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![Vec::new()];
    let mut quoted = false;
    let mut bytes = row.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if quoted && bytes.peek() == Some(&&b'"') => {
                bytes.next();
                found.last_mut().expect("one").push(b'"');
            }
            b'"' => quoted = !quoted,
            b',' if !quoted => found.push(Vec::new()),
            byte => found.last_mut().expect("one").push(*byte),
        }
    }
    found
}
