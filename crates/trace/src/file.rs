//! The thread that writes blocks into the file, and what it does when that is full.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use zstd::bulk::Compressor;

use crate::format::{BEGIN, END, MAGIC, RECORDS, VERSION, block};
use crate::writer::Shared;
use crate::{Begin, Ending};

/// A level that costs less than what it compresses.
const LEVEL: i32 = 1;
/// How often blocks are looked at for their age.
const LOOK: Duration = Duration::from_millis(200);
/// The last blocks of which one after the other makes room for the ending.
const PLACES: usize = 16;

/// Where a trace is written to.
pub(crate) trait Storage: Send {
    /// Write at the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Make it so long.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Storage for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(|_| ())
    }
}

/// What the thread is given to do.
pub(crate) enum Job {
    Block { records: Vec<u8>, exchanges: u64 },
    End(Ending),
}

pub(crate) struct Worker {
    storage: Box<dyn Storage>,
    shared: Arc<Shared>,
    compressor: Compressor<'static>,
    /// Bytes of whole blocks.
    written: u64,
    exchanges: u64,
    lost: u64,
    /// Where the last blocks begin, and how many exchanges are in each.
    places: Vec<(u64, u64)>,
}

impl Worker {
    /// Write what a trace begins with.
    pub(crate) fn begin(
        storage: Box<dyn Storage>,
        begin: &Begin,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let mut worker = Self {
            storage,
            shared,
            compressor: Compressor::new(LEVEL)?,
            written: 0,
            exchanges: 0,
            lost: 0,
            places: Vec::new(),
        };
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&worker.block(BEGIN, &serde_json::to_vec(begin)?)?);
        worker.storage.append(&head)?;
        worker.written = head.len() as u64;
        Ok(worker)
    }

    /// Write until the end; what that says, and the file's length.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) -> (Ending, u64) {
        let mut looked = Instant::now();
        loop {
            match jobs.recv_timeout(LOOK) {
                Ok(Job::Block { records, exchanges }) => self.records(&records, exchanges),
                Ok(Job::End(ending)) => return self.end(ending),
                Err(RecvTimeoutError::Timeout) => {}
                // Whoever observed is gone without an ending.
                Err(RecvTimeoutError::Disconnected) => return (Ending::default(), self.written),
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.shared.close_old_block();
            }
        }
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
        let stored = self.compressor.compress(payload)?;
        Ok(block(kind, payload.len(), &stored))
    }

    fn records(&mut self, records: &[u8], exchanges: u64) {
        if self.shared.failure().is_some() {
            self.lost += exchanges;
            return;
        }
        let wrote = self
            .block(RECORDS, records)
            .and_then(|bytes| self.storage.append(&bytes).map(|()| bytes.len()));
        match wrote {
            Ok(length) => {
                if self.places.len() == PLACES {
                    self.places.remove(0);
                }
                self.places.push((self.written, exchanges));
                self.written += length as u64;
                self.exchanges += exchanges;
            }
            Err(error) => {
                self.lost += exchanges;
                *self.shared.failure() = Some(error.to_string());
                // No half block stays; the ending goes there as soon as it has room, in case that nobody comes to finish.
                let _ = self.storage.cut(self.written);
                self.write_ending(&Ending::default());
            }
        }
    }

    fn end(mut self, ending: Ending) -> (Ending, u64) {
        let failed = self.shared.failure().is_some();
        if failed {
            // Over the one that was written when it failed.
            let _ = self.storage.cut(self.written);
        }
        self.write_ending(&ending)
    }

    /// Write the ending, in the place of the last blocks where there is no other; what it says, and the file's length.
    fn write_ending(&mut self, ending: &Ending) -> (Ending, u64) {
        loop {
            let failure = self.shared.failure().clone();
            let ending = Ending {
                exchanges: self.exchanges,
                lost: ending.lost + self.lost,
                stopped: failure.or_else(|| ending.stopped.clone()),
                ..ending.clone()
            };
            let wrote = serde_json::to_vec(&ending)
                .map_err(io::Error::from)
                .and_then(|json| self.block(END, &json))
                .and_then(|bytes| self.storage.append(&bytes).map(|()| bytes.len()));
            let error = match wrote {
                Ok(length) => return (ending, self.written + length as u64),
                Err(error) => error,
            };
            self.shared.failure().get_or_insert(error.to_string());
            let _ = self.storage.cut(self.written);
            let Some((place, exchanges)) = self.places.pop() else {
                return (ending, self.written);
            };
            let _ = self.storage.cut(place);
            self.written = place;
            self.exchanges -= exchanges;
            self.lost += exchanges;
        }
    }
}
