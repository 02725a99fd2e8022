//! A first reading: what the log has, so that the trace says at its begin what it lacks.

use trace::{Lack, Log};
use wire::passive::Kind;

use super::event::{Event, Read, Request};
use super::options::Format;

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MILLISECOND_NS;
/// Of this many requests one may have no time, such as the last ones of the log.
const UNTIMED: u64 = 20;

/// What all events say together.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The earliest time.
    pub(super) began_ns: Option<u64>,
    pub(super) requests: u64,
    pub(super) version: Option<String>,
    timed: u64,
    shortest_ns: Option<u64>,
    /// A time that is no whole second.
    fine_clock: bool,
    with_rows: u64,
    with_affected: u64,
    with_bytes: u64,
    prepares: u64,
    logins: u64,
    errors: u64,
}

impl Survey {
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Version(version) => {
                self.version.get_or_insert_with(|| version.clone());
            }
            Event::Began { at_ns, .. } => {
                self.logins += 1;
                self.saw(*at_ns);
            }
            Event::Request { request, .. } => self.request(request),
            Event::Named { .. } | Event::Ended { .. } => {}
        }
    }

    fn saw(&mut self, at_ns: u64) {
        self.began_ns = Some(self.began_ns.map_or(at_ns, |before| before.min(at_ns)));
    }

    fn request(&mut self, request: &Request) {
        let (began_ns, ended_ns) = request.when.placed_ns(0);
        self.saw(began_ns);
        self.requests += 1;
        self.timed += u64::from(ended_ns.is_some());
        if let Some(lasted_ns) = request.when.lasted_ns() {
            let shortest = self.shortest_ns.unwrap_or(u64::MAX);
            self.shortest_ns = Some(shortest.min(lasted_ns));
        }
        self.fine_clock |= !request.when.shown_ns().is_multiple_of(SECOND_NS);
        self.with_rows += u64::from(request.rows.is_some());
        self.with_affected += u64::from(request.affected.is_some());
        self.with_bytes += u64::from(request.bytes.is_some());
        self.prepares += u64::from(request.kind == Kind::Prepare);
        self.errors += u64::from(request.error.is_some());
    }

    /// What the trace says of its log.
    pub(super) fn log(&self, format: Format, read: &Read) -> Log {
        let untimed = self.requests - self.timed;
        let without_times = untimed * UNTIMED > self.requests;
        let short = !without_times
            && self
                .shortest_ns
                .is_some_and(|shortest| shortest >= MILLISECOND_NS);
        let all = |with: u64| with == self.requests;
        // No log tells of what crossed the wire, but for the bytes in log_slow_extra's.
        let mut lacks = vec![
            Lack::RoundTrips,
            Lack::Packets,
            Lack::Answers,
            Lack::Fetches,
        ];
        let mut lack = |lack: Lack, is_missing: bool| {
            if is_missing {
                lacks.push(lack);
            }
        };
        lack(Lack::AnswerTimes, without_times);
        lack(Lack::ShortStatements, short);
        lack(Lack::Gaps, without_times || short || !self.fine_clock);
        lack(Lack::Bytes, !all(self.with_bytes));
        lack(Lack::Rows, !all(self.with_rows));
        lack(Lack::Affected, !all(self.with_affected));
        lack(Lack::Logins, self.logins == 0);
        let (prepares, protocol, errors) = match format {
            // An entry of an execution has its statement with its values in, as one of a text has.
            Format::MysqlSlow => (false, false, self.with_bytes > 0),
            Format::MysqlGeneral => (true, true, false),
            // A log of all statements names an execution; what was prepared stands beside its time alone.
            _ => (self.prepares > 0 && !short, true, true),
        };
        lack(Lack::Prepares, !prepares);
        lack(Lack::Protocol, !protocol);
        lack(Lack::Errors, !errors);
        lacks.sort_unstable();
        Log {
            format: format.name().to_owned(),
            clock: read.clock.clone(),
            shortest_us: self.shortest_ns.map(|shortest| shortest / 1000),
            lacks,
        }
    }
}
