//! What is said at the end of a capture.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;
use trace::Ending;
use wire::{Family, ServerUrl};

use super::counts::{Counts, bytes};
use super::observer::Seen;
use super::packets::{Read, UNREAD_BLOCK};
use super::place::Place;
use super::proxy::Forwarded;
use crate::output::{counted, quoted};

/// As --json prints it.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub trace: PathBuf,
    /// `mysql` or `postgres`.
    pub family: &'static str,
    pub duration_s: f64,
    pub connections: u64,
    pub requests: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub trace_bytes: u64,
    /// Connections of which bytes are missing.
    pub gap_connections: u64,
    pub gap_bytes: u64,
    /// Connections that were not read to their end, by reason.
    pub unread_connections: BTreeMap<&'static str, u64>,
    /// Requests that were read and could not be written.
    pub lost_requests: u64,
    /// Why writing ended before the capture did.
    pub stopped: Option<String>,
    pub proxy: Option<Proxied>,
    pub packets: Option<Packets>,
    /// What to do with the trace.
    pub next: String,
}

/// What only a proxy knows.
#[derive(Debug, Serialize)]
pub struct Proxied {
    pub added_us_p50: f64,
    pub added_us_p99: f64,
    /// How long traffic waited for the trace.
    pub waited_s: f64,
    /// Clients whom the server could not be reached for.
    pub unreached: u64,
    /// Connections that came and went unseen (--lossy).
    pub unseen: u64,
    /// Connections whose TLS failed; null where TLS does not end in the proxy.
    pub tls_broken: Option<u64>,
    /// Why the first of them did.
    pub tls_why: Option<String>,
}

/// What only a file of packets has.
#[derive(Debug, Serialize)]
pub struct Packets {
    pub packets: u64,
    /// Segments of the server's port.
    pub segments: u64,
    /// Segments that brought nothing new: sent again, or captured twice.
    pub repeated: u64,
    /// Connections whose end was not seen, and that were not waited for.
    pub given_up: u64,
    /// Packets that could not be read, by reason.
    pub unread_packets: BTreeMap<&'static str, u64>,
    /// Packets of an interface that were dropped before they could be captured; null for a file, which does not say.
    pub dropped: Option<u64>,
    /// How the packets broke off; null for a whole file, and where the capture was ended.
    pub broken: Option<String>,
}

impl Summary {
    /// Of a capture that has ended; the server where somebody has named it.
    #[must_use]
    pub fn new(
        trace: &std::path::Path,
        family: Family,
        server: Option<&ServerUrl>,
        counts: &Counts,
        seen: Seen,
        written: Option<trace::Summary>,
        ending: &Ending,
    ) -> Self {
        let trace_bytes = match &written {
            Some(written) => written.bytes,
            None => std::fs::metadata(trace).map_or(0, |found| found.len()),
        };
        let ending = written.map_or_else(|| ending.clone(), |written| written.ending);
        Self {
            trace: trace.to_owned(),
            family: family_name(family),
            duration_s: ending.duration_us as f64 / 1e6,
            connections: counts.connections.load(Relaxed),
            requests: counts.requests.load(Relaxed),
            bytes_sent: counts.sent.load(Relaxed),
            bytes_received: counts.received.load(Relaxed),
            trace_bytes,
            gap_connections: seen.gap_connections,
            gap_bytes: seen.gap_bytes,
            unread_connections: seen.unread_connections,
            lost_requests: ending.lost,
            stopped: ending.stopped.or_else(|| counts.failure.get().cloned()),
            proxy: None,
            packets: None,
            next: next(trace, server),
        }
    }

    /// With what a proxy measured.
    #[must_use]
    pub fn proxied(mut self, forwarded: &Forwarded, counts: &Counts, ends_tls: bool) -> Self {
        self.proxy = Some(Proxied {
            added_us_p50: forwarded.added_us(0.5),
            added_us_p99: forwarded.added_us(0.99),
            waited_s: forwarded.waited.as_secs_f64(),
            unreached: counts.unreached.load(Relaxed),
            unseen: forwarded.unseen,
            tls_broken: ends_tls.then(|| counts.tls_broken.load(Relaxed)),
            tls_why: counts.tls_why.get().cloned(),
        });
        self
    }

    /// With what was read of packets.
    #[must_use]
    pub fn of_packets(mut self, read: Read, dropped: Option<u64>, broken: Option<String>) -> Self {
        self.packets = Some(Packets {
            packets: read.packets,
            segments: read.segments,
            repeated: read.repeated,
            given_up: read.given_up,
            unread_packets: read.unread_packets,
            dropped,
            broken,
        });
        self
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}, {}, {} sent, {} received in {:.1} s; {} in {}",
            counted(self.connections, "connection"),
            counted(self.requests, "request"),
            bytes(self.bytes_sent),
            bytes(self.bytes_received),
            self.duration_s,
            bytes(self.trace_bytes),
            self.trace.display(),
        );
        let mut say = |line: String| {
            // A String takes everything.
            let _ = write!(text, "\n{line}");
        };
        if let Some(why) = &self.stopped {
            say(format!("the trace ends early: {why}"));
        }
        if self.gap_connections > 0 {
            let connections = counted(self.gap_connections, "connection");
            say(format!(
                "gaps: {} of {connections} are missing",
                bytes(self.gap_bytes)
            ));
        }
        for (why, connections) in &self.unread_connections {
            say(format!(
                "not read: {} ({})",
                counted(*connections, "connection"),
                why.replace('_', " ")
            ));
        }
        if self.lost_requests > 0 {
            say(format!(
                "{} could not be written in time",
                counted(self.lost_requests, "request")
            ));
        }
        if let Some(proxy) = &self.proxy {
            say(format!(
                "the proxy added {:.1} us (median), {:.1} us (p99) to each message",
                proxy.added_us_p50, proxy.added_us_p99
            ));
            if proxy.waited_s >= 0.001 {
                say(format!(
                    "traffic waited {:.3} s for the trace (--lossy never waits)",
                    proxy.waited_s
                ));
            }
            if proxy.unreached > 0 {
                say(format!(
                    "the server could not be reached for {}",
                    counted(proxy.unreached, "client")
                ));
            }
            if proxy.unseen > 0 {
                let unseen = counted(proxy.unseen, "connection");
                say(format!("nothing was read of {unseen} (--lossy)"));
            }
            if let (Some(broken @ 1..), Some(why)) = (proxy.tls_broken, &proxy.tls_why) {
                say(format!(
                    "TLS failed on {}; the first: {why}",
                    counted(broken, "connection")
                ));
            }
        }
        if let Some(packets) = &self.packets {
            for (why, count) in &packets.unread_packets {
                say(format!(
                    "{} could not be read: {}",
                    counted(*count, "packet"),
                    why_unread(why)
                ));
            }
            if packets.given_up > 0 {
                say(format!(
                    "given up: {}, silent for long and without an end",
                    counted(packets.given_up, "connection")
                ));
            }
            if let Some(dropped @ 1..) = packets.dropped {
                say(format!(
                    "{} dropped before they could be captured: what they held is among the gaps",
                    counted(dropped, "packet")
                ));
            }
            if let Some(broken) = &packets.broken {
                say(format!("not all packets were read: {broken}"));
            }
        }
        say(format!("next: {}", self.next));
        text
    }
}

/// What a reason of `unread_packets` means.
#[must_use]
pub fn why_unread(why: &str) -> &str {
    match why {
        UNREAD_BLOCK => {
            "simple packet blocks, which have no time, and obsolete packet blocks of pcapng are not read"
        }
        "fragment" => "IP fragments are not reassembled",
        "cut" => "cut off within the headers (tcpdump -s 0 keeps packets whole)",
        _ => "the link type is unknown",
    }
}

/// As a trace says it.
#[must_use]
pub fn family_name(family: Family) -> &'static str {
    match family {
        Family::Mysql => "mysql",
        Family::Postgres => "postgres",
    }
}

/// What examines the trace. Packets do not say under which name their server is reached from here.
fn next(trace: &std::path::Path, server: Option<&ServerUrl>) -> String {
    let trace = quoted(&trace.display().to_string());
    let server = server.map(|url| format!(" --server {}", quoted(&without_login(url))));
    format!(
        "upshift stack examine {trace}{}",
        server.unwrap_or_default()
    )
}

/// Where the server is, without who logs in.
fn without_login(url: &ServerUrl) -> String {
    let scheme = family_name(url.family);
    match Place::of(url) {
        Place::File(path) => format!("{scheme}://?socket={}", path.display()),
        port @ Place::Port(..) => format!("{scheme}://{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_said_and_no_password_is() {
        let url = ServerUrl::parse("mysql://me:sesame@db:3307/shop").expect("valid");
        let counts = Counts::default();
        counts.connections.store(2, Relaxed);
        counts.unreached.store(4, Relaxed);
        counts
            .failure
            .set("No space left on device".to_owned())
            .expect("none yet");
        let seen = Seen {
            gap_connections: 1,
            gap_bytes: 2048,
            unread_connections: [("encrypted", 3)].into(),
        };
        let ending = Ending {
            duration_us: 1_500_000,
            lost: 5,
            ..Ending::default()
        };
        let trace = std::path::Path::new("/no/app.trace");
        let summary = Summary::new(trace, url.family, Some(&url), &counts, seen, None, &ending);
        let read = Read {
            unread_packets: [("cut", 7), (UNREAD_BLOCK, 8)].into(),
            given_up: 9,
            ..Read::default()
        };
        let summary = summary.of_packets(
            read,
            Some(11),
            Some("the data ends within a packet".to_owned()),
        );
        let forwarded = Forwarded::of(&[2000, 2000, 2000, 90_000]);
        counts.tls_broken.store(2, Relaxed);
        let why = "TLS with a client: received fatal alert: UnknownCa";
        counts.tls_why.set(why.to_owned()).expect("none yet");
        let summary = summary.proxied(&forwarded, &counts, true);
        let text = summary.text();
        for line in [
            "2 connections, 0 requests, 0 B sent, 0 B received in 1.5 s; 0 B in /no/app.trace",
            "the trace ends early: No space left on device",
            "gaps: 2.0 KiB of 1 connection are missing",
            "not read: 3 connections (encrypted)",
            "5 requests could not be written in time",
            "the proxy added 2.0 us (median), 90.0 us (p99) to each message",
            "the server could not be reached for 4 clients",
            "TLS failed on 2 connections; the first: TLS with a client: received fatal alert: UnknownCa",
            "7 packets could not be read: cut off within the headers (tcpdump -s 0 keeps packets whole)",
            "8 packets could not be read: simple packet blocks, which have no time, and obsolete packet blocks of pcapng are not read",
            "given up: 9 connections, silent for long and without an end",
            "11 packets dropped before they could be captured: what they held is among the gaps",
            "not all packets were read: the data ends within a packet",
            "next: upshift stack examine /no/app.trace --server mysql://db:3307",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("sesame"));
    }
}
