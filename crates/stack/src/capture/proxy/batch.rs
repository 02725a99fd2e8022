//! Bytes on their way to the observer: received into a batch, sent on from there, read there later.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wire::passive::Side;

/// Bytes of a batch.
const BATCH_BYTES: usize = 1024 * 1024;
/// Batches, those that wait to be read among them: what the observer may lag behind.
const BATCHES: usize = 16;
/// The most that one receive takes.
pub const RECEIVE_BYTES: usize = 64 * 1024;
/// So long a batch may wait for more: waking the observer for every message would cost more than forwarding it.
const OLDEST: Duration = Duration::from_millis(10);
/// Connections that open and close without a byte fill no batch, but a list.
const PIECES: usize = 32 * 1024;

/// What happened on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A client came.
    Open,
    /// Bytes of a side, at this place of the batch.
    Bytes(Side, usize, usize),
    /// So many bytes of a side passed unseen.
    Gap(Side, u64),
    /// Both sides have ended.
    End,
}

/// What happened, where and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The connection's number, from 1.
    pub connection: u32,
    /// Since the capture began.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// Pieces in the order in which they passed.
pub struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    pieces: Vec<Piece>,
}

impl Batch {
    fn new() -> Self {
        Self {
            bytes: vec![0; BATCH_BYTES].into(),
            used: 0,
            pieces: Vec::new(),
        }
    }

    /// All of them.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Bytes of a piece.
    #[must_use]
    pub fn bytes(&self, start: usize, len: usize) -> &[u8] {
        &self.bytes[start..start + len]
    }
}

/// Bytes of a connection that the observer did not see, and when the last of them passed.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    sent: u64,
    received: u64,
    at_ns: u64,
}

impl Lost {
    fn add(&mut self, side: Side, bytes: u64, at_ns: u64) {
        self.at_ns = at_ns;
        match side {
            Side::Client => self.sent += bytes,
            Side::Server => self.received += bytes,
        }
    }

    fn gaps(self, connection: u32) -> impl Iterator<Item = Piece> {
        let gaps = [(Side::Client, self.sent), (Side::Server, self.received)];
        let gaps = gaps.into_iter().filter(|(_, bytes)| *bytes > 0);
        gaps.map(move |(side, bytes)| Piece {
            connection,
            at_ns: self.at_ns,
            what: What::Gap(side, bytes),
        })
    }
}

/// The forwarding side of the way to the observer.
pub struct Spool {
    current: Batch,
    began: Option<Instant>,
    spare: Receiver<Batch>,
    full: Sender<Batch>,
    lossy: bool,
    unseen: u64,
    waited: Duration,
}

/// The observer's side: batches to read, and the way back for those that were read.
pub struct Batches {
    /// What is to be read.
    pub full: Receiver<Batch>,
    spare: Sender<Batch>,
}

impl Batches {
    /// Hand a batch back that was read.
    pub fn done(&self, mut batch: Batch) {
        batch.used = 0;
        batch.pieces.clear();
        // Nobody forwards any more where nobody takes it.
        let _ = self.spare.send(batch);
    }
}

/// Both sides of the way. When the observer lags behind, traffic waits for it, or, where `lossy`, goes on unseen and is counted.
#[must_use]
pub fn spool(lossy: bool) -> (Spool, Batches) {
    let (give_back, spare) = channel();
    let (full, take) = channel();
    for _ in 1..BATCHES {
        give_back.send(Batch::new()).expect("its receiver is here");
    }
    let spool = Spool {
        current: Batch::new(),
        began: None,
        spare,
        full,
        lossy,
        unseen: 0,
        waited: Duration::ZERO,
    };
    let batches = Batches {
        full: take,
        spare: give_back,
    };
    (spool, batches)
}

impl Spool {
    /// Where to receive.
    pub fn room(&mut self) -> &mut [u8] {
        if BATCH_BYTES - self.current.used < RECEIVE_BYTES {
            self.hand_over();
        }
        &mut self.current.bytes[self.current.used..self.current.used + RECEIVE_BYTES]
    }

    /// The first `len` bytes of [`Spool::room`] as they were last received.
    #[must_use]
    pub fn received(&self, len: usize) -> &[u8] {
        &self.current.bytes[self.current.used..self.current.used + len]
    }

    /// Keep what was received.
    pub fn keep(&mut self, connection: u32, at_ns: u64, side: Side, len: usize) {
        let start = self.current.used;
        self.current.used += len;
        self.note(connection, at_ns, What::Bytes(side, start, len));
    }

    /// Keep bytes that were received elsewhere.
    pub fn put(&mut self, connection: u32, at_ns: u64, side: Side, bytes: &[u8]) {
        for piece in bytes.chunks(RECEIVE_BYTES) {
            self.room()[..piece.len()].copy_from_slice(piece);
            self.keep(connection, at_ns, side, piece.len());
        }
    }

    /// Keep what else happened.
    pub fn note(&mut self, connection: u32, at_ns: u64, what: What) {
        self.current.pieces.push(Piece {
            connection,
            at_ns,
            what,
        });
        self.began.get_or_insert_with(Instant::now);
        if self.current.pieces.len() >= PIECES {
            self.hand_over();
        }
    }

    /// How long what waits here may still wait.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let began = self.began?;
        Some((began + OLDEST).saturating_duration_since(now))
    }

    /// Hand over what has waited long enough.
    pub fn turn(&mut self, now: Instant) {
        if self.due(now).is_some_and(|left| left.is_zero()) {
            self.hand_over();
        }
    }

    /// How long traffic has waited for the observer.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Connections that came and went while the observer lagged behind.
    #[must_use]
    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    /// The last batch goes.
    pub fn finish(mut self) {
        self.lossy = false;
        self.hand_over();
    }

    fn hand_over(&mut self) {
        self.began = None;
        let next = match self.spare.try_recv() {
            Ok(batch) => Some(batch),
            Err(_) if self.lossy => None,
            Err(_) => {
                let began = Instant::now();
                let batch = self.spare.recv().ok();
                self.waited += began.elapsed();
                batch
            }
        };
        match next {
            // An observer that has gone said why.
            Some(next) => drop(self.full.send(std::mem::replace(&mut self.current, next))),
            None => self.lose(),
        }
    }

    /// Count the bytes of the current batch as lost, and begin it again with the gaps, before anything that passes later. What stays,
    /// too, is that a connection came or ended, unless it did both unseen: so that the list is no longer than a few pieces for each
    /// connection.
    fn lose(&mut self) {
        let pieces = std::mem::take(&mut self.current.pieces);
        self.current.used = 0;
        let opened: HashSet<u32> = pieces
            .iter()
            .filter_map(|piece| (piece.what == What::Open).then_some(piece.connection))
            .collect();
        let passed: HashSet<u32> = pieces
            .iter()
            .filter(|piece| piece.what == What::End && opened.contains(&piece.connection))
            .map(|piece| piece.connection)
            .collect();
        self.unseen += passed.len() as u64;
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        let mut lost: BTreeMap<u32, Lost> = BTreeMap::new();
        let is_seen = |piece: &Piece| !passed.contains(&piece.connection);
        for piece in pieces.into_iter().filter(is_seen) {
            let (side, bytes) = match piece.what {
                What::Open => {
                    begins.push(piece);
                    continue;
                }
                What::End => {
                    ends.push(piece);
                    continue;
                }
                What::Bytes(side, _, len) => (side, len as u64),
                What::Gap(side, bytes) => (side, bytes),
            };
            let lost = lost.entry(piece.connection).or_default();
            lost.add(side, bytes, piece.at_ns);
        }
        let kept = &mut self.current.pieces;
        kept.append(&mut begins);
        kept.extend(
            lost.into_iter()
                .flat_map(|(connection, lost)| lost.gaps(connection)),
        );
        kept.append(&mut ends);
        // The next attempt is not left to the next bytes.
        self.began = (!kept.is_empty()).then(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receive some bytes and keep them.
    fn pass(spool: &mut Spool, connection: u32, bytes: &[u8]) {
        spool.room()[..bytes.len()].copy_from_slice(bytes);
        assert_eq!(spool.received(bytes.len()), bytes);
        spool.keep(connection, 7, Side::Client, bytes.len());
    }

    #[test]
    fn what_was_received_is_what_the_observer_reads() {
        let (mut spool, batches) = spool(false);
        spool.note(1, 5, What::Open);
        pass(&mut spool, 1, b"select");
        pass(&mut spool, 1, b" 1");
        spool.note(1, 9, What::End);
        spool.finish();
        let batch = batches.full.recv().expect("a batch");
        let mut read = Vec::new();
        for piece in batch.pieces() {
            if let What::Bytes(Side::Client, start, len) = piece.what {
                read.extend_from_slice(batch.bytes(start, len));
            }
        }
        assert_eq!(read, b"select 1");
        assert_eq!(batch.pieces()[0].what, What::Open);
        assert_eq!(batch.pieces()[3].what, What::End);
        assert!(batches.full.recv().is_err());
    }

    #[test]
    fn what_was_received_elsewhere_is_read_whatever_its_length() {
        let (mut spool, batches) = spool(false);
        let bytes: Vec<u8> = (0..3 * RECEIVE_BYTES + 7).map(|at| at as u8).collect();
        spool.put(1, 5, Side::Server, &bytes);
        spool.finish();
        let batch = batches.full.recv().expect("a batch");
        let pieces = batch.pieces().iter().map(|piece| match piece.what {
            What::Bytes(Side::Server, start, len) => batch.bytes(start, len),
            _ => panic!("{piece:?}"),
        });
        assert_eq!(pieces.collect::<Vec<_>>().concat(), bytes);
    }

    #[test]
    fn an_observer_that_lags_behind_is_waited_for() {
        let (mut spool, batches) = spool(false);
        let bytes = vec![3; RECEIVE_BYTES];
        let reader = std::thread::spawn(move || {
            let mut read = 0;
            while let Ok(batch) = batches.full.recv() {
                std::thread::sleep(Duration::from_millis(1));
                read += batch.used;
                batches.done(batch);
            }
            read
        });
        let pieces = 3 * BATCHES * BATCH_BYTES / RECEIVE_BYTES;
        for _ in 0..pieces {
            pass(&mut spool, 1, &bytes);
        }
        spool.finish();
        assert_eq!(reader.join().expect("reader"), pieces * RECEIVE_BYTES);
    }

    #[test]
    fn what_follows_a_loss_is_read_behind_the_gap() {
        let (mut spool, batches) = spool(true);
        let bytes = vec![3; RECEIVE_BYTES];
        let in_batch = BATCH_BYTES / RECEIVE_BYTES;
        // All batches are full: the next bytes find none, and the one at hand is lost.
        spool.note(1, 0, What::Open);
        for _ in 0..BATCHES * in_batch {
            pass(&mut spool, 1, &bytes);
        }
        pass(&mut spool, 1, b"later");
        let mut told = Vec::new();
        for _ in 0..BATCHES - 1 {
            let batch = batches.full.recv().expect("a batch");
            told.extend(batch.pieces().iter().map(|piece| piece.what));
            batches.done(batch);
        }
        spool.finish();
        while let Ok(batch) = batches.full.recv() {
            told.extend(batch.pieces().iter().map(|piece| piece.what));
        }
        let gap = told.iter().position(|what| matches!(what, What::Gap(..)));
        let later = told
            .iter()
            .position(|what| matches!(what, What::Bytes(_, _, 5)));
        assert!(gap.expect("told") < later.expect("read"), "{told:?}");
    }

    #[test]
    fn or_what_it_missed_is_counted() {
        let (mut spool, batches) = spool(true);
        let bytes = vec![3; RECEIVE_BYTES];
        let pieces = 3 * BATCHES * BATCH_BYTES / RECEIVE_BYTES;
        spool.note(1, 0, What::Open);
        for _ in 0..pieces {
            pass(&mut spool, 1, &bytes);
        }
        // Came and went while nobody looked.
        spool.note(2, 8, What::Open);
        pass(&mut spool, 2, &bytes);
        spool.note(2, 9, What::End);
        spool.note(1, 9, What::End);
        for _ in 0..BATCH_BYTES / RECEIVE_BYTES {
            pass(&mut spool, 3, &bytes);
        }
        let reader = std::thread::spawn(move || {
            let (mut seen, mut missing, mut ended) = (0, 0, false);
            while let Ok(batch) = batches.full.recv() {
                for piece in batch.pieces().iter().filter(|piece| piece.connection == 1) {
                    assert!(!ended, "nothing follows the end");
                    match piece.what {
                        What::Bytes(_, _, len) => seen += len as u64,
                        What::Gap(_, bytes) => missing += bytes,
                        What::End => ended = true,
                        What::Open => {}
                    }
                }
                assert!(batch.pieces().iter().all(|piece| piece.connection != 2));
                batches.done(batch);
            }
            assert!(ended && missing > 0);
            seen + missing
        });
        spool.finish();
        let all = (pieces * RECEIVE_BYTES) as u64;
        assert_eq!(reader.join().expect("reader"), all);
    }
}
