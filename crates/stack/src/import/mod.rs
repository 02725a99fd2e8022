//! A server's log made into a trace. What the log has not, the trace has not, and says so.
//!
//! A reader of a format tells [`event::Event`]s. The log is read twice: [`survey`] finds what it has, and [`sessions`] writes.

mod event;
mod general;
mod lines;
mod options;
mod postgres;
mod sessions;
mod slow;
mod summary;
mod survey;
mod when;

use trace::{Begin, Capture, Ending, TraceWriter};

use crate::failure::Failure;
use event::{Event, Read};
use lines::Lines;
use postgres::prefix::Prefix;
use sessions::Sessions;
use summary::Summary;
use survey::Survey;

pub use options::{Format, Options};

/// Make the trace, and say what is in it.
///
/// # Errors
/// A log that cannot be read or has nothing of its format, a prefix that cannot be used, a trace that cannot be written.
pub fn run(options: &Options) -> Result<(), Failure> {
    let prefix = Prefix::parse(&options.prefix)?;
    let mut survey = Survey::default();
    let read = read(options, &prefix, &mut |event| {
        survey.take(&event);
        Ok(())
    })?;
    let Some(began_ns) = survey.began_ns.filter(|_| survey.requests > 0) else {
        return Err(nothing(options, &read));
    };
    let log = survey.log(options.format, &read);
    let begin = Begin {
        family: options.format.family().to_owned(),
        began_unix_us: began_ns / 1000,
        capture: Capture::Log,
        masked: options.mask,
        log: Some(log.clone()),
    };
    let writer = TraceWriter::create(&options.trace, &begin, began_ns)?;
    writer.waits();
    let version = survey.version.unwrap_or_default();
    let mut sessions = Sessions::new(&writer, begin.family(), version);
    // The log may have grown meanwhile: what is new in it is taken, too.
    let read = self::read(options, &prefix, &mut |event| {
        sessions.take(event);
        match writer.failure() {
            None => Ok(()),
            Some(_) => Err(Failure::failed("", "")),
        }
    });
    let (connections, requests) = (sessions.connections, sessions.requests);
    let ending = Ending {
        duration_us: sessions.last_ns.saturating_sub(began_ns) / 1000,
        ..Ending::default()
    };
    // A trace that could not be written says why at its end.
    let written = writer.finish(ending)?;
    let summary = Summary {
        trace: &options.trace,
        format: log.format,
        duration_s: written.ending.duration_us as f64 / 1e6,
        connections,
        requests,
        trace_bytes: written.bytes,
        lacks: log.lacks,
        shortest_us: log.shortest_us,
        clock: log.clock,
        read: read?,
    };
    if options.json {
        println!("{}", summary.json()?);
    } else {
        println!("{}", summary.text());
    }
    Ok(())
}

fn read(
    options: &Options,
    prefix: &Prefix,
    tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<Read, Failure> {
    let mut lines = Lines::open(&options.log)?;
    let read = match options.format {
        Format::MysqlSlow => slow::read(&mut lines, tell),
        Format::MysqlGeneral => general::read(&mut lines, tell),
        Format::Postgres => postgres::stderr::read(&mut lines, prefix, tell),
        Format::PostgresCsv => postgres::csv::read(&mut lines, tell),
        Format::PostgresJson => postgres::json::read(&mut lines, tell),
    }?;
    Ok(Read {
        lines: lines.count,
        ..read
    })
}

/// Why there is nothing to make a trace of.
fn nothing(options: &Options, read: &Read) -> Failure {
    let log = options.log.display();
    let format = options.format.name();
    let message = match read.lines {
        0 => format!("{log} is empty"),
        lines if read.unread_lines == lines => {
            format!("none of the {lines} lines of {log} is one of --format {format}")
        }
        lines => format!("{log} has {lines} lines and no statement"),
    };
    let hint = match options.format {
        Format::Postgres if read.unread_lines == read.lines && read.lines > 0 => {
            "give the server's log_line_prefix with --prefix; csvlog and jsonlog have formats of their own"
        }
        Format::MysqlSlow => {
            "the server writes statements there with slow_query_log=ON and long_query_time=0"
        }
        Format::MysqlGeneral => "the server writes requests there with general_log=ON",
        _ => {
            "the server writes statements there with log_min_duration_statement=0, and in English with lc_messages=C"
        }
    };
    Failure::failed(message, hint)
}
