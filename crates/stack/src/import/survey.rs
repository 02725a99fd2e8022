//! A first reading: what the log has, so that the trace says at its begin what it lacks.

use trace::{Lack, Log};
use wire::passive::Kind;

use super::event::{Event, Read, Request};
use super::options::Format;

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MILLISECOND_NS;
/// Of this many requests one may have no time, such as the last ones of the log.
const UNTIMED: u64 = 20;

/// Why a log may have no statement of those that are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The server wrote one request of so many, long ones or short ones.
    AllButOneOf(u64),
    /// There is none.
    Short,
    /// Those that are there may be there for another reason than their time.
    Unproven,
}

impl Missing {
    /// As far as a trace says of its log.
    pub(super) fn of(log: &Log) -> Option<Self> {
        let shortest_us = log.shortest_us?;
        let is_said = log.lacks.contains(&Lack::ShortStatements);
        (is_said && shortest_us >= MILLISECOND_NS / 1000).then_some(Self::Short)
    }
}

/// What all events say together.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The earliest time.
    pub(super) began_ns: Option<u64>,
    pub(super) requests: u64,
    pub(super) version: Option<String>,
    timed: u64,
    shortest_ns: Option<u64>,
    /// Of those that only their time has brought into the log.
    shortest_by_time_ns: Option<u64>,
    one_of: Option<u64>,
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
            Event::Opened | Event::Started { .. } => {}
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
            let least = |known: Option<u64>| known.map_or(lasted_ns, |known| known.min(lasted_ns));
            self.shortest_ns = Some(least(self.shortest_ns));
            if request.by_time {
                self.shortest_by_time_ns = Some(least(self.shortest_by_time_ns));
            }
        }
        self.one_of = self.one_of.max(request.one_of);
        self.fine_clock |= !request.when.shown_ns().is_multiple_of(SECOND_NS);
        self.with_rows += u64::from(request.rows.is_some());
        self.with_affected += u64::from(request.affected.is_some());
        self.with_bytes += u64::from(request.bytes.is_some());
        self.prepares += u64::from(request.kind == Kind::Prepare);
        self.errors += u64::from(request.error.is_some());
    }

    fn without_times(&self) -> bool {
        let untimed = self.requests - self.timed;
        untimed * UNTIMED > self.requests
    }

    /// Why short statements may be missing; none where they are there, or nothing has a time.
    pub(super) fn missing(&self) -> Option<Missing> {
        if self.without_times() {
            return None;
        }
        let is_short = |lasted_ns: u64| lasted_ns < MILLISECOND_NS;
        match (self.one_of, self.shortest_ns?, self.shortest_by_time_ns) {
            (Some(one_of), ..) if one_of > 1 => Some(Missing::AllButOneOf(one_of)),
            (_, shortest_ns, _) if !is_short(shortest_ns) => Some(Missing::Short),
            (_, _, by_time_ns) if by_time_ns.is_some_and(is_short) => None,
            _ => Some(Missing::Unproven),
        }
    }

    /// What the trace says of its log.
    pub(super) fn log(&self, format: Format, read: &Read) -> Log {
        let without_times = self.without_times();
        let short = self.missing().is_some();
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
