//! A server's log made into a trace. What the log has not, the trace has not, and says so.
//!
//! A reader of a format tells [`event::Event`]s. The log is read twice: [`survey`] finds what it has, and [`sessions`] writes. Lines that
//! `dump` printed are no log: [`json_lines`] copies them.

mod event;
mod general;
mod json_lines;
mod lines;
mod options;
mod postgres;
mod sessions;
mod slow;
mod summary;
mod survey;
mod when;

use std::fs;

use trace::{Begin, Capture, Ending, TraceWriter};

use crate::failure::Failure;
use crate::output;
use event::{Event, Read};
use lines::Lines;
use postgres::prefix::Prefix;
use sessions::Sessions;
use summary::Summary;
use survey::Survey;

pub use options::{Format, Options};

/// PostgreSQL's default.
const PREFIX: &str = "%m [%p] ";

/// Where a reader tells events.
type Tell<'a> = dyn FnMut(Event) -> Result<(), Failure> + 'a;
type Reader = fn(&mut Lines, &Prefix, &mut Tell<'_>) -> Result<Read, Failure>;

/// Make the trace, and say what is in it.
///
/// # Errors
/// A file that cannot be read or has nothing of its format, a prefix that cannot be used, a trace that cannot be written.
pub fn run(options: &Options) -> Result<(), Failure> {
    if options.prefix.is_some() && options.format != Format::Postgres {
        return Err(Failure::usage(
            format!(
                "--prefix is for --format postgres alone, not for {}",
                options.format.name()
            ),
            "remove it: the lines of other formats begin without log_line_prefix",
        ));
    }
    let summary = match log(options.format) {
        Some((family, reader)) => of_log(options, family, reader)?,
        None => json_lines::run(options)?,
    };
    output::result(&match options.json {
        true => summary.json()?,
        false => summary.text(),
    })
}

/// The family of the server that writes such a log, and what reads it; none of what is no log.
fn log(format: Format) -> Option<(&'static str, Reader)> {
    let reader: Reader = match format {
        Format::MysqlSlow => |lines, _, tell| slow::read(lines, tell),
        Format::MysqlGeneral => |lines, _, tell| general::read(lines, tell),
        Format::Postgres => postgres::stderr::read,
        Format::PostgresCsv => |lines, _, tell| postgres::csv::read(lines, tell),
        Format::PostgresJson => |lines, _, tell| postgres::json::read(lines, tell),
        Format::JsonLines => return None,
    };
    let family = match format {
        Format::MysqlSlow | Format::MysqlGeneral => "mysql",
        _ => "postgres",
    };
    Some((family, reader))
}

fn of_log<'a>(options: &'a Options, family: &str, reader: Reader) -> Result<Summary<'a>, Failure> {
    let prefix = Prefix::parse(options.prefix.as_deref().unwrap_or(PREFIX))?;
    can_be_read_twice(options)?;
    let mut survey = Survey::default();
    let read = read(options, &prefix, reader, &mut |event| {
        survey.take(&event);
        Ok(())
    })?;
    let Some(began_ns) = survey.began_ns.filter(|_| survey.requests > 0) else {
        return Err(nothing(options, &read));
    };
    let log = survey.log(options.format, &read);
    let missing = survey.missing();
    let begin = Begin {
        family: family.to_owned(),
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
    let read = self::read(options, &prefix, reader, &mut |event| {
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
    let read = read.and_then(|read| match requests < survey.requests {
        true => Err(changed(options)),
        false => Ok(read),
    });
    // One of which a part is refused would stand in the way of the next attempt.
    let read = read.inspect_err(|_| {
        let _ = fs::remove_file(&options.trace);
    })?;
    Ok(Summary {
        trace: &options.trace,
        format: log.format,
        duration_s: written.ending.duration_us as f64 / 1e6,
        connections,
        requests,
        trace_bytes: written.bytes,
        lacks: log.lacks,
        shortest_us: log.shortest_us,
        missing,
        clock: log.clock,
        read,
    })
}

fn read(
    options: &Options,
    prefix: &Prefix,
    reader: Reader,
    tell: &mut Tell<'_>,
) -> Result<Read, Failure> {
    let mut lines = Lines::open(&options.log)?;
    let read = reader(&mut lines, prefix, tell)?;
    Ok(Read {
        lines: lines.count,
        ..read
    })
}

/// # Errors
/// A pipe, such as a shell's `<(zcat slow.log.gz)`: the second reading would find nothing.
fn can_be_read_twice(options: &Options) -> Result<(), Failure> {
    // What is not there, and a folder, are for who opens it.
    let is_other =
        fs::metadata(&options.log).is_ok_and(|found| !found.is_file() && !found.is_dir());
    match is_other {
        true => Err(Failure::failed(
            format!(
                "{} is not a regular file, and import reads a log twice",
                options.log.display()
            ),
            "write the log to a file first, and import that file",
        )),
        false => Ok(()),
    }
}

/// Why the two readings do not agree.
fn changed(options: &Options) -> Failure {
    Failure::failed(
        format!(
            "{} has lost entries while import read it: it was truncated or replaced",
            options.log.display()
        ),
        "copy the log first, and import the copy",
    )
}

/// Why there is nothing to make a trace of.
fn nothing(options: &Options, read: &Read) -> Failure {
    let log = options.log.display();
    let format = options.format.name();
    let message = match read.lines {
        0 => format!("{log} is empty"),
        lines if read.unread_lines == lines => {
            format!("none of the {lines} lines of {log} has the format {format}")
        }
        lines => format!("{log} has {lines} lines and no statement"),
    };
    let hint = match options.format {
        Format::Postgres if read.unread_lines == read.lines && read.lines > 0 => {
            "give the server's log_line_prefix with --prefix; csvlog is --format postgres-csv, jsonlog is --format postgres-json"
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
