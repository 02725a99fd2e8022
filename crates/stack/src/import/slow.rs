//! MySQL's slow log, with or without log_slow_extra, and MariaDB's.

use wire::passive::{Kind, ServerError};

use super::event::{Event, Read, Request, When};
use super::lines::{Lines, split, trimmed};
use super::when::{Shown, short_time, span_ns, time};
use crate::failure::Failure;

const USER: &[u8] = b"# User@Host: ";
const TIME: &[u8] = b"# Time: ";
const COMMAND: &[u8] = b"# administrator command: ";

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(super) fn read(
    lines: &mut Lines,
    tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<Read, Failure> {
    let mut read = Read::default();
    let mut entry: Option<Entry> = None;
    // MariaDB writes a time where its second has changed.
    let mut written = None;
    while let Some(line) = lines.next()? {
        if let Some(version) = version(&line, lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            tell(Event::Version(version))?;
            // The two lines of the header that follow; a log begins with it again after FLUSH LOGS and each start.
            lines.next()?;
            lines.next()?;
        } else if let Some(shown) = shown(&line, lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            written = Some(shown);
        } else if line.starts_with(USER) && begins_figures(lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            entry = Some(Entry::new(&line, written.clone()));
        } else if let Some(entry) = &mut entry {
            entry.add(&line);
        } else {
            read.unread_lines += 1;
        }
    }
    if let Some(last) = &entry
        && !last.is_whole()
    {
        read.cut += 1;
        entry = None;
    }
    finish(&mut entry, &mut read, tell)?;
    Ok(read)
}

/// `/usr/sbin/mysqld, Version: 9.7.4 (Source distribution). started with:`, which begins a log of MySQL or MariaDB.
pub(super) fn version(line: &[u8], ahead: &[u8]) -> Option<String> {
    if !trimmed(line).ends_with(b"started with:") || !ahead.starts_with(b"Tcp port:") {
        return None;
    }
    let (_, rest) = split(line, b", Version: ")?;
    let end = rest.iter().position(|byte| *byte == b' ')?;
    Some(text(&rest[..end]))
}

/// `# Time: 2026-11-23T07:50:22.926772Z` before an entry.
fn shown(line: &[u8], ahead: &[u8]) -> Option<Shown> {
    let shown = text(line.strip_prefix(TIME)?);
    let shown = time(&shown).or_else(|| short_time(&shown))?;
    let begins = ahead.is_empty() || ahead.starts_with(USER);
    begins.then_some(shown)
}

fn begins_figures(line: &[u8]) -> bool {
    line.starts_with(b"# Query_time: ") || line.starts_with(b"# Thread_id: ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// An entry whose lines are being gathered.
struct Entry {
    /// When it was written.
    written: Option<Shown>,
    figures: Vec<(String, String)>,
    /// `SET timestamp=...;` stands before the statement.
    in_body: bool,
    body: Vec<u8>,
}

impl Entry {
    fn new(user: &[u8], written: Option<Shown>) -> Self {
        let mut entry = Self {
            written,
            figures: Vec::new(),
            in_body: false,
            body: Vec::new(),
        };
        let id = split(user, b"  Id: ").map(|(_, id)| text(id));
        entry.figures.extend(id.map(|id| ("Id".to_owned(), id)));
        entry
    }

    fn add(&mut self, line: &[u8]) {
        if self.in_body {
            self.body.extend_from_slice(line);
        } else if line.starts_with(b"#") {
            self.figures.extend(figures(&text(line)));
        } else if line.starts_with(b"SET ") {
            self.in_body = true;
        }
        // What else stands there is `use DATABASE;`.
    }

    fn is_whole(&self) -> bool {
        self.body.ends_with(b";\n")
    }

    fn figure(&self, name: &str) -> Option<&str> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.figure(name)?.parse().ok()
    }

    fn event(&self, clock: &mut Option<String>) -> Option<Event> {
        let session = self.figure("Id").or_else(|| self.figure("Thread_id"))?;
        let lasted_ns = span_ns(self.figure("Query_time")?, 1e9)?;
        let when = self.when(lasted_ns, clock)?;
        let statement = self.body.strip_suffix(b";\n")?;
        let command = statement.strip_prefix(COMMAND);
        let mut request = Request::new(command.map_or(Kind::Query, kind), when);
        if command.is_none() {
            request.text = Some(statement.to_vec());
        }
        request.rows = self.count("Rows_sent");
        request.affected = self.count("Rows_affected");
        request.bytes = self.count("Bytes_received").zip(self.count("Bytes_sent"));
        request.error = self
            .count("Errno")
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| *code > 0)
            .map(|code| ServerError {
                code,
                sqlstate: String::new(),
            });
        Some(Event::Request {
            session: session.to_owned(),
            request,
        })
    }

    /// The clock shows when the entry was written. A session can set the time that `Start` and `SET timestamp` have.
    fn when(&self, lasted_ns: u64, clock: &mut Option<String>) -> Option<When> {
        let Shown {
            at_ns,
            clock: of_entry,
        } = self.written.clone()?;
        *clock = of_entry;
        Some(When::Until(at_ns, lasted_ns))
    }
}

/// `# Query_time: 0.000006  Lock_time: 0.000000 ...`; a value may be empty.
fn figures(line: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for word in line.trim_start_matches('#').split_whitespace() {
        match word.strip_suffix(':') {
            Some(name) => found.push((name.to_owned(), String::new())),
            None => {
                if let Some((_, value)) = found.last_mut()
                    && value.is_empty()
                {
                    word.clone_into(value);
                }
            }
        }
    }
    found
}

fn kind(command: &[u8]) -> Kind {
    super::general::kind(&String::from_utf8_lossy(command))
}

fn finish(
    entry: &mut Option<Entry>,
    read: &mut Read,
    tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(entry) = entry.take() else {
        return Ok(());
    };
    let Some(event) = entry.event(&mut read.clock) else {
        read.cut += 1;
        return Ok(());
    };
    let ended = match &event {
        Event::Request { session, request } if request.kind == Kind::Quit => {
            let at_ns = request.when.placed_ns(0).1.unwrap_or_default();
            Some((session.clone(), at_ns))
        }
        _ => None,
    };
    tell(event)?;
    match ended {
        Some((session, at_ns)) => tell(Event::Ended { session, at_ns }),
        None => Ok(()),
    }
}
