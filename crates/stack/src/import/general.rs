//! MySQL's general log, and MariaDB's.

use std::collections::HashMap;

use wire::passive::Kind;

use super::event::{Event, Read, Request, When};
use super::lines::{Lines, split};
use super::slow::version;
use super::when::{Shown, short_time, time};
use crate::failure::Failure;

/// Every name of a command that may stand in a line. A statement of several lines may have any other text in them.
const COMMANDS: [(&str, Kind); 40] = [
    ("Query", Kind::Query),
    ("Prepare", Kind::Prepare),
    ("Execute", Kind::Execute),
    ("Bulk_execute", Kind::BulkExecute),
    ("Fetch", Kind::Fetch),
    ("Close stmt", Kind::CloseStatement),
    ("Reset stmt", Kind::ResetStatement),
    ("Long Data", Kind::LongData),
    ("Ping", Kind::Ping),
    ("Reset Connection", Kind::ResetConnection),
    ("Reset connection", Kind::ResetConnection),
    ("Change user", Kind::ChangeUser),
    ("Init DB", Kind::InitDb),
    ("Statistics", Kind::Statistics),
    ("Quit", Kind::Quit),
    ("Connect", Kind::Other),
    ("Connect Out", Kind::Other),
    ("Field List", Kind::Other),
    ("Create DB", Kind::Other),
    ("Drop DB", Kind::Other),
    ("Refresh", Kind::Other),
    ("Shutdown", Kind::Other),
    ("Processlist", Kind::Other),
    ("Kill", Kind::Other),
    ("Debug", Kind::Other),
    ("Time", Kind::Other),
    ("Sleep", Kind::Other),
    ("Delayed insert", Kind::Other),
    ("Binlog Dump", Kind::Other),
    ("Binlog Dump GTID", Kind::Other),
    ("Table Dump", Kind::Other),
    ("Register Slave", Kind::Other),
    ("Register Replica", Kind::Other),
    ("Set option", Kind::Other),
    ("clone", Kind::Other),
    ("Group Replication Data Stream subscription", Kind::Other),
    ("Daemon", Kind::Other),
    ("Slave_IO", Kind::Other),
    ("Slave_SQL", Kind::Other),
    ("Error", Kind::Other),
];

/// The request of a command.
pub(super) fn kind(command: &str) -> Kind {
    let found = COMMANDS.iter().find(|(name, _)| *name == command);
    found.map_or(Kind::Other, |(_, kind)| *kind)
}

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
    let mut shown = None;
    let mut within = Within::default();
    while let Some(line) = lines.next()? {
        if let Some(version) = version(&line, lines.ahead()) {
            within.finish(&mut entry, tell)?;
            tell(Event::Version(version))?;
            lines.next()?;
            lines.next()?;
        } else if let Some(next) = Entry::of(&line, &mut shown) {
            within.finish(&mut entry, tell)?;
            entry = Some(next);
        } else if let Some(entry) = &mut entry {
            entry.argument.extend_from_slice(&line);
        } else {
            read.unread_lines += 1;
        }
    }
    if let Some(last) = &entry
        && !last.argument.ends_with(b"\n")
    {
        read.cut += 1;
        entry = None;
    }
    within.finish(&mut entry, tell)?;
    read.clock = shown.and_then(|shown: Shown| shown.clock);
    Ok(read)
}

struct Entry {
    at_ns: u64,
    session: String,
    command: String,
    argument: Vec<u8>,
}

impl Entry {
    /// `2026-11-23T07:50:22.926619Z\t    8 Query\tSELECT 1`; MariaDB leaves the time out where its second is the last one's.
    fn of(line: &[u8], shown: &mut Option<Shown>) -> Option<Self> {
        let (time_text, rest) = split(line, b"\t")?;
        let rest = if time_text.is_empty() {
            rest.strip_prefix(b"\t")?
        } else {
            rest
        };
        let (head, argument) = split(rest, b"\t")?;
        let head = std::str::from_utf8(head).ok()?.trim_start();
        let (session, command) = head.split_once(' ')?;
        let is_number = session.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || !COMMANDS.iter().any(|(name, _)| *name == command) {
            return None;
        }
        if !time_text.is_empty() {
            let text = std::str::from_utf8(time_text).ok()?;
            *shown = Some(time(text).or_else(|| short_time(text))?);
        }
        Some(Self {
            at_ns: shown.as_ref()?.at_ns,
            session: session.to_owned(),
            command: command.to_owned(),
            argument: argument.to_vec(),
        })
    }
}

/// What a statement of SQL's own PREPARE and EXECUTE is logged as a second time: no request.
#[derive(Default)]
struct Within(HashMap<String, &'static str>);

impl Within {
    fn finish(
        &mut self,
        entry: &mut Option<Entry>,
        tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(entry) = entry.take() else {
            return Ok(());
        };
        let (session, at_ns) = (entry.session.clone(), entry.at_ns);
        // The server's own statements have no connection.
        if session == "0" {
            return Ok(());
        }
        if entry.command == "Connect" {
            return match entry.argument.starts_with(b"Access denied") {
                true => tell(Event::Ended { session, at_ns }),
                false => tell(Event::Began { session, at_ns }),
            };
        }
        if self.0.remove(&session) == Some(entry.command.as_str()) {
            return Ok(());
        }
        let kind = kind(&entry.command);
        let argument = super::lines::trimmed(&entry.argument);
        let mut request = Request::new(kind, When::Since(at_ns));
        if matches!(
            kind,
            Kind::Query | Kind::Prepare | Kind::Execute | Kind::BulkExecute | Kind::InitDb
        ) {
            request.text = Some(argument.to_vec());
        }
        let first = argument.split(u8::is_ascii_whitespace).next();
        let is =
            |word: &str| first.is_some_and(|first| first.eq_ignore_ascii_case(word.as_bytes()));
        for (word, logged) in [("PREPARE", "Prepare"), ("EXECUTE", "Execute")] {
            if kind == Kind::Query && is(word) {
                self.0.insert(session.clone(), logged);
            }
        }
        tell(Event::Request {
            session: session.clone(),
            request,
        })?;
        match kind {
            Kind::Quit => tell(Event::Ended { session, at_ns }),
            _ => Ok(()),
        }
    }
}
