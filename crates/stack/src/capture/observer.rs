//! Reads what passed and writes the trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use trace::{Ending, TraceError, TraceWriter};
use wire::Family;
use wire::passive::{Observed, Side, Stream};

use super::counts::Counts;
use super::taker::Taker;
use crate::names::Named;

/// One connection.
struct Watched {
    stream: Stream,
    /// Its number in the trace.
    number: u32,
    gaps: bool,
}

/// All connections of a capture.
pub struct Observer {
    family: Family,
    writer: TraceWriter,
    watched: HashMap<u32, Watched>,
    counts: Arc<Counts>,
    seen: Seen,
    decrypts: bool,
}

/// What a capture could not read, and what it did.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Seen {
    /// Connections with bytes missing.
    pub gap_connections: u64,
    /// Bytes missing.
    pub gap_bytes: u64,
    /// Connections that were not read any more from some point on, by reason.
    pub unread_connections: BTreeMap<&'static str, u64>,
}

impl Observer {
    /// Everything goes into this trace.
    #[must_use]
    pub fn new(family: Family, writer: TraceWriter, counts: Arc<Counts>) -> Self {
        Self {
            family,
            writer,
            watched: HashMap::new(),
            counts,
            seen: Seen::default(),
            decrypts: false,
        }
    }

    /// What comes behind a request for TLS has been decrypted.
    pub fn decrypts(&mut self) {
        self.decrypts = true;
    }

    /// Why nothing is written any more.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.writer.failure()
    }

    /// The trace is whole.
    ///
    /// # Errors
    /// The first failure of a write.
    pub fn finish(self, ending: Ending) -> (Seen, Result<trace::Summary, TraceError>) {
        (self.seen, self.writer.finish(ending))
    }

    /// Let a connection's stream tell what it makes of something.
    fn tell(
        &mut self,
        connection: u32,
        happened: impl FnOnce(&mut Watched, &mut dyn FnMut(Observed)),
    ) {
        let Some(watched) = self.watched.get_mut(&connection) else {
            return;
        };
        let (writer, counts, seen) = (&self.writer, &self.counts, &mut self.seen);
        let number = watched.number;
        happened(watched, &mut |observed| {
            match &observed {
                Observed::Exchange(_) => {
                    counts.requests.fetch_add(1, Relaxed);
                }
                Observed::Broken { why, .. } => {
                    *seen.unread_connections.entry(why.name()).or_default() += 1;
                    counts.unread.fetch_add(1, Relaxed);
                }
                Observed::Session(_) => {}
            }
            writer.observed(number, &observed);
        });
    }
}

impl Taker for Observer {
    fn open(&mut self, connection: u32, at_ns: u64, joined_late: bool) {
        let mut stream = if joined_late {
            Stream::joined_late(self.family)
        } else {
            Stream::new(self.family)
        };
        if self.decrypts {
            stream.decrypts();
        }
        let number = self.writer.connected(at_ns, joined_late);
        let watched = Watched {
            stream,
            number,
            gaps: false,
        };
        self.watched.insert(connection, watched);
    }

    fn bytes(&mut self, connection: u32, side: Side, bytes: &[u8], at_ns: u64) {
        self.counts
            .bytes(side)
            .fetch_add(bytes.len() as u64, Relaxed);
        self.tell(connection, |watched, out| {
            watched.stream.bytes(side, bytes, at_ns, out);
        });
    }

    fn gap(&mut self, connection: u32, side: Side, missing: u64, at_ns: u64) {
        if let Some(watched) = self.watched.get_mut(&connection) {
            self.writer.gap(watched.number, side, missing, at_ns);
            self.seen.gap_bytes += missing;
            self.seen.gap_connections += u64::from(!watched.gaps);
            watched.gaps = true;
            self.counts.gap_bytes.fetch_add(missing, Relaxed);
        }
        self.tell(connection, |watched, out| {
            watched.stream.gap(side, missing, at_ns, out);
        });
    }

    fn end(&mut self, connection: u32, at_ns: u64, closed: bool) {
        self.tell(connection, |watched, out| watched.stream.end(at_ns, out));
        if let (Some(watched), true) = (self.watched.remove(&connection), closed) {
            let totals = watched.stream.totals();
            self.writer.closed(watched.number, at_ns, totals);
        }
    }
}
