//! Writes a trace: all connections into one file, a block at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::trace::bytes::put_number;

use super::format::{BLOCK_BYTES, BlockKind, Ending, MAGIC, Meta, VERSION, block};
use super::tape::Tape;
use crate::failure::Failure;
use crate::workload::TransactionKind;

/// How a recorded transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Committed,
    /// Because the workload wanted so.
    RolledBack,
    /// By the server, at its last request.
    Refused,
}

impl Ended {
    pub(super) const ALL: [Self; 3] = [Self::Committed, Self::RolledBack, Self::Refused];
}

/// A trace that is being written. Transactions stand in it in the order in which they ended.
pub struct TraceWriter {
    path: PathBuf,
    /// Ends the run when the trace cannot be written.
    stop: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// Bytes of whole blocks.
    written: u64,
    /// Transactions of the block at hand.
    payload: Vec<u8>,
    ending: Ending,
    failure: Option<io::Error>,
}

impl TraceWriter {
    /// Create the file. `stop` is set when writing fails: the run should end then.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn create(path: &Path, meta: &Meta, stop: Arc<AtomicBool>) -> anyhow::Result<Arc<Self>> {
        let failed = |error: &io::Error| {
            Failure::new(
                format!("cannot write {}: {error}", path.display()),
                "name a file in a folder that is there and has room",
            )
        };
        // It holds the values of statements, as a capture does.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path).map_err(|error| failed(&error))?;
        let mut state = State {
            file,
            written: 0,
            payload: Vec::with_capacity(2 * BLOCK_BYTES),
            ending: Ending::default(),
            failure: None,
        };
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&block(BlockKind::Meta, &serde_json::to_vec(meta)?));
        state.put(&head);
        if let Some(error) = &state.failure {
            return Err(failed(error).into());
        }
        Ok(Arc::new(Self {
            path: path.to_owned(),
            stop,
            state: Mutex::new(state),
        }))
    }

    /// How many transactions it holds: those that have ended so far.
    pub(super) fn written(&self) -> u64 {
        self.with(|state| state.ending.transactions)
    }

    /// Add a transaction of connection `number` that began so many microseconds after any fixed moment, and whose last attempt began
    /// when the trace held so many transactions.
    pub(super) fn add(
        &self,
        number: u32,
        kind: TransactionKind,
        began_us: u64,
        written_before: u64,
        ended: Ended,
        tape: &Tape,
    ) {
        self.with(|state| {
            let payload = &mut state.payload;
            put_number(payload, u64::from(number));
            put_number(payload, u64::from(kind.0));
            put_number(payload, began_us);
            put_number(payload, state.ending.transactions - written_before);
            payload.push(ended as u8);
            put_number(payload, tape.events);
            put_number(payload, tape.bytes.len() as u64);
            payload.extend_from_slice(&tape.bytes);
            state.ending.transactions += 1;
            state.ending.statements += tape.events;
            if state.payload.len() >= BLOCK_BYTES {
                state.close_block();
            }
        });
    }

    /// Count a transaction that nobody knows the end of.
    pub(super) fn lost(&self) {
        self.with(|state| state.ending.lost += 1);
    }

    /// Write what is still here and the ending. Call it when no connection runs any more.
    ///
    /// # Errors
    /// The first error of any write; the file has the blocks before it, whole.
    pub fn finish(&self) -> Result<Ending, Failure> {
        self.with(|state| {
            state.close_block();
            let ending = block(BlockKind::End, &state.ending.to_bytes());
            state.put(&ending);
            match &state.failure {
                None => Ok(state.ending),
                Some(error) => Err(Failure::new(
                    format!(
                        "the recording ended early, {}: {error}",
                        self.path.display()
                    ),
                    "what it holds can be replayed with --allow-truncated; make room and record again for all of it",
                )),
            }
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        if state.failure.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl State {
    fn close_block(&mut self) {
        if !self.payload.is_empty() {
            let bytes = block(BlockKind::Transactions, &self.payload);
            self.payload.clear();
            self.put(&bytes);
        }
    }

    /// Write; after a failure nothing more, and no half block stays.
    fn put(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match self.file.write_all(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(error) => {
                let _ = self.file.set_len(self.written);
                self.failure = Some(error);
            }
        }
    }
}
