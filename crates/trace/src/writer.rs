//! Writes a trace: records into blocks here, blocks into the file on a thread of its own.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::passive::{Exchange, Observed, Parameters, Side, Totals};

use crate::bytes::{put_number, put_signed};
use crate::encode::{
    CLOSED, CONNECTED, EXCHANGE, GAP, LOST, SESSION, UNREAD, put_exchange, put_session, put_side,
    put_totals, put_why,
};
use crate::file::{Job, Storage, Worker};
use crate::format::BLOCK_BYTES_MAX;
use crate::texts::Texts;
use crate::{Begin, Ending, TraceError};

/// A block is closed when its records have reached this, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;
/// And when its first record is so old: what a kill loses at most.
pub(crate) const BLOCK_AGE: Duration = Duration::from_secs(1);
/// Blocks that may wait for the disk; then whole ones are left out.
const WAITING_MAX: usize = 64;

/// A trace that is being written. Its methods take any thread and, unless [`TraceWriter::waits`], never wait for the disk: where that is
/// too slow, whole blocks are left out and counted.
pub struct TraceWriter {
    path: PathBuf,
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<(Ending, u64)>>>,
}

/// What the thread that writes and those that observe have in common.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) failure: Mutex<Option<String>>,
}

struct State {
    /// `None` once the trace is finished.
    jobs: Option<SyncSender<Job>>,
    began_ns: u64,
    masks: bool,
    waits: bool,
    texts: Texts,
    connections: u32,
    records: Vec<u8>,
    /// When the first of the records came.
    since: Instant,
    /// The time that the next record's is relative to.
    base_ns: u64,
    /// Exchanges of the block at hand.
    exchanges: u64,
    /// Exchanges of blocks that were left out: all, those that no record tells yet, and those that a record of the block at hand tells.
    lost: u64,
    untold: u64,
    told: u64,
}

/// What a finished trace holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What it says of itself at its end.
    pub ending: Ending,
    /// Its length in bytes.
    pub bytes: u64,
}

impl TraceWriter {
    /// Create the file with mode 0600; one that is there is refused. `began_ns` is the trace's begin on the clock of all later times.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn create(path: &Path, begin: &Begin, began_ns: u64) -> Result<Self, TraceError> {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AlreadyExists => "name another file, or remove this one first",
                _ => "name a file in a folder that is there and has room",
            };
            TraceError::new(format!("cannot write {}: {error}", path.display()), hint)
        })?;
        Self::over(Box::new(file), path, begin, began_ns)
    }

    pub(crate) fn over(
        storage: Box<dyn Storage>,
        path: &Path,
        begin: &Begin,
        began_ns: u64,
    ) -> Result<Self, TraceError> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                jobs: Some(jobs),
                began_ns,
                masks: begin.masked,
                waits: false,
                texts: Texts::new(begin.family(), begin.masked),
                connections: 0,
                records: Vec::with_capacity(2 * BLOCK_BYTES),
                since: Instant::now(),
                base_ns: 0,
                exchanges: 0,
                lost: 0,
                untold: 0,
                told: 0,
            }),
            failure: Mutex::new(None),
        });
        let worker = Worker::begin(storage, begin, Arc::clone(&shared))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || worker.run(&waiting))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            shared,
            worker: Mutex::new(Some(thread)),
        })
    }

    /// Wait for the disk from now on, and leave nothing out: for who has time, such as one that reads a file.
    pub fn waits(&self) {
        self.shared.state().waits = true;
    }

    /// A connection began, or was seen for the first time (`joined_late`); its number, from 1.
    pub fn connected(&self, at_ns: u64, joined_late: bool) -> u32 {
        let mut state = self.shared.state();
        state.connections += 1;
        let connection = state.connections;
        state.connected(connection, at_ns, joined_late);
        connection
    }

    /// The same of a connection that has its number already: for who copies another trace.
    pub fn connected_as(&self, connection: u32, at_ns: u64, joined_late: bool) {
        let mut state = self.shared.state();
        state.connected(connection, at_ns, joined_late);
    }

    /// So many exchanges were observed here by another writer, which could not write them. What the trace says at its end is for who
    /// finishes it.
    pub fn lost(&self, exchanges: u64) {
        let mut state = self.shared.state();
        state.open_block();
        state.tell_lost(exchanges);
        state.settle();
    }

    /// What a connection's stream told.
    pub fn observed(&self, connection: u32, observed: &Observed) {
        let mut state = self.shared.state();
        match observed {
            Observed::Exchange(exchange) => state.exchange(connection, exchange),
            Observed::Session(facts) => {
                let mut facts = facts.clone();
                facts.began_ns = facts.began_ns.saturating_sub(state.began_ns);
                facts.ready_ns = facts.ready_ns.saturating_sub(state.began_ns);
                state.record(SESSION, connection);
                put_session(&mut state.records, &facts);
            }
            Observed::Broken { why, at_ns } => {
                state.record(UNREAD, connection);
                state.time(*at_ns);
                put_why(&mut state.records, *why);
            }
        }
        state.settle();
    }

    /// Bytes are missing; tell the stream, too.
    pub fn gap(&self, connection: u32, side: Side, bytes: u64, at_ns: u64) {
        let mut state = self.shared.state();
        state.record(GAP, connection);
        state.time(at_ns);
        put_side(&mut state.records, side);
        put_number(&mut state.records, bytes);
        state.settle();
    }

    /// A connection ended.
    pub fn closed(&self, connection: u32, at_ns: u64, totals: Totals) {
        let mut state = self.shared.state();
        state.record(CLOSED, connection);
        state.time(at_ns);
        put_totals(&mut state.records, &totals);
        state.settle();
    }

    /// Why nothing is written any more, such as a full disk. The traffic should go on.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure().clone()
    }

    /// Write what is still here and the ending. What is observed later is left out.
    ///
    /// # Errors
    /// The first failure of any write; the file has what was written before, and says so where it had room for that.
    pub fn finish(&self, ending: Ending) -> Result<Summary, TraceError> {
        let jobs = {
            let mut state = self.shared.state();
            state.close_block();
            let lost = state.lost;
            state.jobs.take().map(|jobs| (jobs, lost))
        };
        let thread = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((jobs, lost)) = jobs {
            // It takes everything before: waiting for that is what finishing is.
            let lost = ending.lost + lost;
            let _ = jobs.send(Job::End(Ending { lost, ..ending }));
        }
        let ended = thread.and_then(|thread| thread.join().ok());
        let (ending, bytes) =
            ended.ok_or_else(|| cannot_write(&self.path, "it was finished before"))?;
        match self.failure() {
            None => Ok(Summary { ending, bytes }),
            Some(why) => Err(TraceError::new(
                format!("the trace ended early, {}: {why}", self.path.display()),
                "what it holds can be read; make room and capture again for all of it",
            )),
        }
    }
}

fn cannot_write(path: &Path, why: &str) -> TraceError {
    TraceError::new(
        format!("cannot write {}: {why}", path.display()),
        "name a file in a folder that is there and has room",
    )
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hand on a block whose first record is old. The thread that writes does this: it waits neither for itself nor for one that waits
    /// for it.
    pub(crate) fn close_old_block(&self) {
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        if !state.records.is_empty() && state.since.elapsed() >= BLOCK_AGE {
            // Where there is no room, it stays for the next time.
            state.hand_on(false);
        }
    }
}

impl State {
    /// Begin a block where none is open.
    fn open_block(&mut self) {
        if self.records.is_empty() {
            self.since = Instant::now();
            self.base_ns = 0;
            self.told = 0;
            if self.untold > 0 {
                let untold = std::mem::take(&mut self.untold);
                self.tell_lost(untold);
            }
        }
    }

    /// Say that so many exchanges are missing here.
    fn tell_lost(&mut self, exchanges: u64) {
        self.records.push(LOST);
        put_number(&mut self.records, exchanges);
        self.told += exchanges;
    }

    /// Begin a record.
    fn record(&mut self, tag: u8, connection: u32) {
        self.open_block();
        self.records.push(tag);
        put_number(&mut self.records, connection.into());
    }

    fn connected(&mut self, connection: u32, at_ns: u64, joined_late: bool) {
        self.record(CONNECTED, connection);
        self.time(at_ns);
        self.records.push(u8::from(joined_late));
        self.settle();
    }

    /// A time, relative to that of the record before.
    fn time(&mut self, at_ns: u64) {
        let now_ns = at_ns.saturating_sub(self.began_ns);
        put_signed(&mut self.records, now_ns.wrapping_sub(self.base_ns) as i64);
        self.base_ns = now_ns;
    }

    fn exchange(&mut self, connection: u32, observed: &Exchange) {
        let began_ns = self.began_ns;
        let since = |at_ns: u64| at_ns.saturating_sub(began_ns);
        let mut exchange = observed.clone();
        exchange.request_ns = since(exchange.request_ns);
        exchange.request_end_ns = since(exchange.request_end_ns);
        exchange.answer_ns = exchange
            .answer_ns
            .map(|(first, last)| (since(first), since(last)));
        if self.masks {
            let parameters = exchange.parameters.iter_mut();
            let all = parameters.flat_map(|parameters| parameters.rows.iter_mut().flatten());
            all.for_each(wire::passive::Parameter::hide);
        }
        // The text may be the first of the block.
        self.open_block();
        let text = self.texts.number(&mut self.records, &exchange);
        let before = self.records.len();
        self.record(EXCHANGE, connection);
        put_exchange(&mut self.records, &exchange, text, self.base_ns);
        // A reader takes a longer block for damage.
        if self.records.len() > BLOCK_BYTES_MAX {
            self.records.truncate(before);
            exchange.parameters = exchange.parameters.map(|_| Parameters {
                rows: Vec::new(),
                cut: true,
            });
            self.record(EXCHANGE, connection);
            put_exchange(&mut self.records, &exchange, text, self.base_ns);
        }
        self.base_ns = exchange.request_ns;
        self.exchanges += 1;
    }

    /// Close the block once it is long enough; nothing is kept of a trace that is finished.
    fn settle(&mut self) {
        if self.jobs.is_none() {
            self.records.clear();
        } else if self.records.len() >= BLOCK_BYTES {
            self.close_block();
        }
    }

    /// Hand the block on, or leave it out where there is no room for it.
    fn close_block(&mut self) {
        if !self.records.is_empty() && !self.hand_on(self.waits) {
            self.records.clear();
            let exchanges = std::mem::take(&mut self.exchanges);
            self.lost += exchanges;
            self.untold += exchanges + self.told;
            self.texts.forget();
        }
    }

    /// Hand the block on; false, and it is still here, where there is no room for it.
    fn hand_on(&mut self, wait: bool) -> bool {
        let Some(jobs) = &self.jobs else {
            return false;
        };
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(2 * BLOCK_BYTES));
        let exchanges = std::mem::take(&mut self.exchanges);
        let job = Job::Block { records, exchanges };
        let sent = if wait {
            jobs.send(job).map_err(|refused| refused.0)
        } else {
            jobs.try_send(job).map_err(|refused| match refused {
                TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
            })
        };
        let Err(Job::Block { records, exchanges }) = sent else {
            return true;
        };
        (self.records, self.exchanges) = (records, exchanges);
        false
    }
}
