//! A trace that was printed by `dump`, made into a trace again.

use std::collections::HashSet;

use trace::{Begin, Ending, Record, TraceWriter, VERSION};
use wire::Family;
use wire::passive::Observed;

use super::event::Read;
use super::lines::Lines;
use super::options::Options;
use super::summary::Summary;
use super::survey::Missing;
use crate::failure::Failure;
use crate::line::Line;

/// `dump` prints none that is longer: a text has 256 KiB, parameters have 64, each byte at most six characters.
const LINE_BYTES_MAX: usize = 4 << 20;
const FAMILIES: [&str; 2] = ["mysql", "postgres"];
/// Why a trace of lines without their end is not whole.
const NO_END: &str = "the JSON lines end before the trace does";

/// Make the trace, and say what is in it.
///
/// # Errors
/// Lines that do not begin as a trace does, or are of another version; a trace that cannot be written.
pub(super) fn run(options: &Options) -> Result<Summary<'_>, Failure> {
    let mut lines = Lines::open(&options.log)?;
    let mut begin = begin(options, lines.next()?)?;
    begin.masked |= options.mask;
    let writer = TraceWriter::create(&options.trace, &begin, 0)?;
    writer.waits();
    let mut copy = Copy::new(&writer, begin.family());
    let read = copy.all(&mut lines);
    let ending = copy.ending.take().unwrap_or_else(|| Ending {
        duration_us: copy.last_ns / 1000,
        lost: copy.lost,
        stopped: Some(NO_END.to_owned()),
        ..Ending::default()
    });
    // A trace that could not be written says why at its end.
    let written = writer.finish(ending)?;
    // One of which a part is refused would stand in the way of the next attempt.
    read.inspect_err(|_| {
        let _ = std::fs::remove_file(&options.trace);
    })?;
    let log = begin.log;
    Ok(Summary {
        trace: &options.trace,
        format: options.format.name().to_owned(),
        duration_s: written.ending.duration_us as f64 / 1e6,
        connections: copy.connections.len() as u64,
        requests: copy.requests,
        trace_bytes: written.bytes,
        shortest_us: log.as_ref().and_then(|log| log.shortest_us),
        missing: log.as_ref().and_then(Missing::of),
        clock: log.as_ref().and_then(|log| log.clock.clone()),
        lacks: log.map(|log| log.lacks).unwrap_or_default(),
        read: Read {
            lines: lines.count,
            ..copy.read
        },
    })
}

/// What the first line says.
fn begin(options: &Options, first: Option<Vec<u8>>) -> Result<Begin, Failure> {
    let log = options.log.display();
    let first = first.unwrap_or_default();
    // A later version may have other keys.
    let json: serde_json::Value = serde_json::from_slice(&first).unwrap_or_default();
    if let (Some("begin"), Some(version)) = (json["record"].as_str(), json["version"].as_u64())
        && version != u64::from(VERSION)
    {
        let (release, hint) = match version < u64::from(VERSION) {
            true => ("an older", "print the trace again with this release's dump"),
            false => ("a newer", "import them with that release"),
        };
        return Err(Failure::failed(
            format!(
                "{log} has lines of version {version}, of {release} release; this reads version {VERSION}"
            ),
            hint,
        ));
    }
    match serde_json::from_slice(&first) {
        Ok(Line::Begin { begin, .. }) if FAMILIES.contains(&begin.family.as_str()) => Ok(begin),
        _ => Err(Failure::failed(
            format!("the first line of {log} is not what a trace begins with"),
            "name a file of what `upshift stack dump TRACE` printed, from its first line on",
        )),
    }
}

/// Lines on their way into a trace.
struct Copy<'a> {
    writer: &'a TraceWriter,
    family: Family,
    connections: HashSet<u32>,
    requests: u64,
    lost: u64,
    last_ns: u64,
    ending: Option<Ending>,
    ended: bool,
    read: Read,
}

impl<'a> Copy<'a> {
    fn new(writer: &'a TraceWriter, family: Family) -> Self {
        Self {
            writer,
            family,
            connections: HashSet::new(),
            requests: 0,
            lost: 0,
            last_ns: 0,
            ending: None,
            ended: false,
            read: Read::default(),
        }
    }

    /// All that follow the first.
    ///
    /// # Errors
    /// The file's; a second trace behind the first.
    fn all(&mut self, lines: &mut Lines) -> Result<(), Failure> {
        while let Some(line) = lines.next()? {
            let is_long = line.len() > LINE_BYTES_MAX;
            let parsed = (!is_long).then(|| serde_json::from_slice::<Line>(&line));
            match parsed {
                Some(Ok(Line::Begin { .. })) => {
                    return Err(Failure::failed(
                        format!("line {} begins another trace", lines.count),
                        "import the lines of each trace separately",
                    ));
                }
                Some(Ok(Line::End { ending, .. })) if !self.ended => {
                    self.ending = ending;
                    self.ended = true;
                }
                Some(Ok(line)) if !self.ended => match line.record(self.family) {
                    Some(record) => self.record(&record),
                    None => self.read.unread_lines += 1,
                },
                _ if line.ends_with(b"\n") => self.read.unread_lines += 1,
                _ => self.read.cut += 1,
            }
            // Why is said by who finishes the trace.
            if self.writer.failure().is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Connected {
                connection,
                at_ns,
                joined_late,
            } => {
                self.connections.insert(*connection);
                self.saw(*at_ns);
                self.writer.connected_as(*connection, *at_ns, *joined_late);
            }
            Record::Session { connection, facts } => {
                self.joins(*connection, facts.began_ns);
                self.tell(*connection, &Observed::Session(facts.clone()));
            }
            Record::Exchange {
                connection,
                exchange,
            } => {
                self.joins(*connection, exchange.request_ns);
                let answered_ns = exchange.answer_ns.map_or(0, |(_, last_ns)| last_ns);
                self.saw(exchange.request_end_ns.max(answered_ns));
                self.requests += 1;
                self.tell(*connection, &Observed::Exchange(exchange.clone()));
            }
            Record::Gap {
                connection,
                at_ns,
                side,
                bytes,
            } => {
                self.joins(*connection, *at_ns);
                self.writer.gap(*connection, *side, *bytes, *at_ns);
            }
            Record::Unread {
                connection,
                at_ns,
                why,
            } => {
                self.joins(*connection, *at_ns);
                let (why, at_ns) = (*why, *at_ns);
                self.tell(*connection, &Observed::Broken { why, at_ns });
            }
            Record::Closed {
                connection,
                at_ns,
                totals,
            } => {
                self.joins(*connection, *at_ns);
                self.writer.closed(*connection, *at_ns, *totals);
            }
            Record::Lost { exchanges } => {
                self.lost += exchanges;
                self.writer.lost(*exchanges);
            }
        }
    }

    fn tell(&self, connection: u32, observed: &Observed) {
        self.writer.observed(connection, observed);
    }

    fn saw(&mut self, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// A connection of which no line says that it began was there before.
    fn joins(&mut self, connection: u32, at_ns: u64) {
        self.saw(at_ns);
        if self.connections.insert(connection) {
            self.writer.connected_as(connection, at_ns, true);
        }
    }
}
