//! What is said when a log was made into a trace.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;
use trace::Lack;

use super::event::Read;
use super::survey::Missing;
use crate::failure::Failure;
use crate::output::{counted, quoted};

/// As --json prints it.
pub(super) struct Summary<'a> {
    pub(super) trace: &'a Path,
    pub(super) format: String,
    pub(super) duration_s: f64,
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) trace_bytes: u64,
    pub(super) lacks: Vec<Lack>,
    pub(super) shortest_us: Option<u64>,
    /// Why short statements may be missing, as far as it is known.
    pub(super) missing: Option<Missing>,
    pub(super) clock: Option<String>,
    pub(super) read: Read,
}

impl Summary<'_> {
    /// # Errors
    /// None that happens.
    pub(super) fn json(&self) -> Result<String, Failure> {
        let value = json!({
            "trace": self.trace, "format": self.format, "duration_s": self.duration_s,
            "connections": self.connections, "requests": self.requests, "trace_bytes": self.trace_bytes,
            "lines": self.read.lines, "unread_lines": self.read.unread_lines, "cut_entries": self.read.cut,
            "unnamed_times": self.read.unnamed, "clock": self.clock, "shortest_us": self.shortest_us,
            "lacks": self.lacks, "next": self.next(),
        });
        serde_json::to_string_pretty(&value).map_err(|error| Failure::failed(error.to_string(), ""))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}, {} in {:.1} s; {} bytes in {}",
            counted(self.connections, "connection"),
            counted(self.requests, "request"),
            self.duration_s,
            self.trace_bytes,
            self.trace.display()
        );
        let mut say = |line: String| {
            // A String takes everything.
            let _ = write!(text, "\n{line}");
        };
        if self.read.unread_lines > 0 {
            say(format!(
                "not read: {} of {} lines, which belong to no entry",
                self.read.unread_lines, self.read.lines
            ));
        }
        if self.read.cut > 0 {
            say(format!(
                "entries left out: {}, truncated or without their time",
                self.read.cut
            ));
        }
        if self.read.unnamed > 0 {
            say(format!(
                "times left out: {}, whose statements the log does not name",
                self.read.unnamed
            ));
        }
        if let Some(clock) = &self.clock {
            say(format!(
                "times are taken unchanged: the log does not say how far its clock ({clock}) is from UTC"
            ));
        }
        if let Some(missing) = self.missing {
            say(match missing {
                Missing::AllButOneOf(all) => format!(
                    "the server wrote one statement of {all} (log_slow_rate_limit): the others are missing"
                ),
                Missing::Short => format!(
                    "the log has no statement below {:.1} ms: shorter ones may be missing",
                    self.shortest_us.unwrap_or_default() as f64 / 1000.0
                ),
                Missing::Unproven => "the statements below 1 ms may be in the log only because they used no index: other short ones may be missing".to_owned(),
            });
        }
        let lacks: Vec<&str> = self.lacks.iter().map(|lack| words(*lack)).collect();
        if !lacks.is_empty() {
            say(format!("the log lacks {}", lacks.join(", ")));
        }
        say(format!("next: {}", self.next()));
        text
    }

    fn next(&self) -> String {
        let trace = quoted(&self.trace.display().to_string());
        match self.lacks.contains(&Lack::AnswerTimes) {
            true => format!("upshift stack plans {trace} --server URL"),
            false => format!("upshift stack examine {trace}"),
        }
    }
}

fn words(lack: Lack) -> &'static str {
    match lack {
        Lack::AnswerTimes => "how long statements took",
        Lack::ShortStatements => "short statements",
        Lack::Gaps => "times between statements",
        Lack::RoundTrips => "round trips",
        Lack::Packets => "packets",
        Lack::Bytes => "bytes",
        Lack::Answers => "what answers say of themselves",
        Lack::Rows => "rows",
        Lack::Affected => "changed rows",
        Lack::Fetches => "cursors",
        Lack::Prepares => "what was prepared",
        Lack::Protocol => "how statements were sent",
        Lack::Logins => "logins",
        Lack::Errors => "errors",
    }
}
