//! Reads a trace, and refuses what is none.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::trace::bytes::{Bytes, Malformed};
use xxhash_rust::xxh3::Xxh3;

use super::format::{
    BLOCK_HEAD_BYTES, BlockKind, Ending, HEAD_BYTES, MAGIC, Meta, OLDEST, VERSION, checksum,
};
use super::tape::{Event, Step};
use super::writer::Ended;
use crate::failure::Failure;
use crate::workload::TransactionKind;

/// A trace that was read once from end to end: every block has the right checksum.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    /// What was recorded.
    pub meta: Meta,
    /// How much of it there is.
    pub ending: Ending,
    /// Whether the ending is in the file; otherwise `ending` says what is whole.
    pub whole: bool,
    /// Tells traces apart: a hash of all blocks' checksums.
    pub id: u64,
    /// When its first transaction began and its last, on the recording's clock; none where it has none.
    began_us: Option<(u64, u64)>,
    /// Transactions that ran beside another one: one of the two began before the other had ended.
    pub overlapped: u64,
    /// Which they are: a bit each.
    beside: Vec<u64>,
}

/// One transaction of a trace, whose requests are still to be decoded.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// Its own number, counted from 1.
    pub number: u64,
    /// Which transactions had ended when it began: so many, the first ones of the trace.
    pub after: u64,
    /// The number of its first request, counted from 1 over the whole trace.
    pub ordinal: u64,
    /// The connection that ran it.
    pub connection: u32,
    /// Its kind.
    pub kind: TransactionKind,
    /// When it began, counted from any fixed moment.
    began_us: u64,
    /// When the first of the trace began.
    first_us: u64,
    /// Whether the server refused it.
    pub refused: bool,
    /// How many requests it has.
    pub events: u64,
    statements: usize,
    bytes: Bytes<'a>,
}

impl Recorded<'_> {
    /// How long after the first transaction of the trace it began.
    #[must_use]
    pub fn since_first(&self) -> Duration {
        Duration::from_micros(self.began_us.saturating_sub(self.first_us))
    }

    /// Its requests, with the pauses between them.
    ///
    /// # Errors
    /// Bytes that no recording writes.
    pub fn steps(&self) -> Result<Vec<Step>, Malformed> {
        let mut bytes = self.bytes;
        (0..self.events)
            .map(|_| Step::read(&mut bytes, self.statements))
            .collect()
    }

    /// Its requests.
    ///
    /// # Errors
    /// As [`Self::steps`].
    pub fn events(&self) -> Result<Vec<Event>, Malformed> {
        let steps = self.steps()?.into_iter();
        Ok(steps.map(|step| step.event).collect())
    }
}

impl Trace {
    /// Read the whole file and check it.
    ///
    /// # Errors
    /// A file that cannot be read, is no trace, has another version, or (unless `allow_truncated`) is cut short.
    pub fn open(path: &Path, allow_truncated: bool) -> anyhow::Result<Self> {
        let mut blocks = Blocks::open(path)?;
        let Some(Block {
            kind: BlockKind::Meta,
            payload,
            ..
        }) = blocks.next()?
        else {
            return Err(damaged(path, "its description is incomplete").into());
        };
        let meta: Meta = serde_json::from_slice(payload)
            .map_err(|error| damaged(path, &format!("its description: {error}")))?;
        let mut trace = Self {
            path: path.to_owned(),
            meta,
            ending: Ending::default(),
            whole: false,
            id: 0,
            began_us: None,
            overlapped: 0,
            beside: Vec::new(),
        };
        let mut id = Xxh3::new();
        let mut cut = "its ending is missing".to_owned();
        loop {
            match blocks.next() {
                Ok(Some(block)) => {
                    id.update(&block.checksum.to_le_bytes());
                    if block.kind == BlockKind::End {
                        let ending = Ending::from_bytes(block.payload);
                        trace.end(ending.map_err(|error| damaged(path, &error.to_string()))?)?;
                        break;
                    }
                    let counted = trace.count(block.payload);
                    counted.map_err(|error| damaged(path, &error.to_string()))?;
                }
                Ok(None) => break,
                Err(error) => {
                    cut = error.message;
                    break;
                }
            }
        }
        trace.id = id.digest();
        if !trace.whole && !allow_truncated {
            return Err(trace.cut_short(&cut).into());
        }
        Ok(trace)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// [`Trace::id`] in hexadecimal.
    #[must_use]
    pub fn id_text(&self) -> String {
        format!("{:016x}", self.id)
    }

    /// Transactions that began in each second of the recording, on average; none where all began at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let (first_us, last_us) = self.began_us?;
        let span_s = Duration::from_micros(last_us - first_us).as_secs_f64();
        (span_s > 0.0).then(|| self.ending.transactions as f64 / span_s)
    }

    /// Read it again from its first transaction on.
    ///
    /// # Errors
    /// A file that has changed since it was opened.
    pub fn reader(&self) -> anyhow::Result<Reader> {
        let mut blocks = Blocks::open(&self.path)?;
        blocks.next()?;
        Ok(Reader {
            // Nothing is left of the description.
            at: blocks.payload.len(),
            blocks,
            head: self.head(),
            number: 1,
            ordinal: 1,
            transactions: self.ending.transactions,
        })
    }

    /// What every transaction of it is read with.
    fn head(&self) -> Head {
        Head {
            kinds: self.meta.transactions.len(),
            statements: self.meta.statements.len(),
            first_us: self.began_us.map_or(0, |(first_us, _)| first_us),
        }
    }

    fn count(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut bytes = Bytes(payload);
        while !bytes.0.is_empty() {
            self.ending.transactions += 1;
            let number = self.ending.transactions;
            let recorded = self.head().next(&mut bytes, number, 1)?;
            self.ending.statements += recorded.events;
            let began_us = recorded.began_us;
            let (first_us, last_us) = self.began_us.unwrap_or((began_us, began_us));
            self.began_us = Some((first_us.min(began_us), last_us.max(began_us)));
            let after = recorded.after;
            if after + 1 < number {
                self.ran_side_by_side(after + 1, number);
            }
        }
        Ok(())
    }

    /// The last of these transactions began before any other of them had ended.
    fn ran_side_by_side(&mut self, first: u64, last: u64) {
        self.beside.resize(last as usize / 64 + 1, 0);
        for number in first..=last {
            let (word, bit) = (number as usize / 64, 1 << (number % 64));
            self.overlapped += u64::from(self.beside[word] & bit == 0);
            self.beside[word] |= bit;
        }
    }

    /// Whether a transaction ran beside another one: nobody knows in which order the server did.
    #[must_use]
    pub fn is_overlapped(&self, number: u64) -> bool {
        let word = self.beside.get(number as usize / 64);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// How long it took, from its first transaction to where one more would have begun.
    #[must_use]
    pub fn lap(&self) -> Duration {
        let (first_us, last_us) = self.began_us.unwrap_or_default();
        let span = Duration::from_micros(last_us - first_us);
        let gaps = u32::try_from(self.ending.transactions.saturating_sub(1)).unwrap_or(u32::MAX);
        span + span.checked_div(gaps).unwrap_or_default()
    }

    fn end(&mut self, ending: Ending) -> Result<(), Failure> {
        let counted = (self.ending.transactions, self.ending.statements);
        if counted != (ending.transactions, ending.statements) {
            return Err(damaged(&self.path, "blocks are missing in the middle"));
        }
        self.ending = ending;
        self.whole = true;
        Ok(())
    }

    fn cut_short(&self, why: &str) -> Failure {
        Failure::new(
            format!(
                "{} is truncated: {why}; {} transactions with {} statements are complete",
                self.path.display(),
                self.ending.transactions,
                self.ending.statements
            ),
            "--allow-truncated replays the complete part",
        )
    }
}

fn damaged(path: &Path, why: &str) -> Failure {
    Failure::new(
        format!("{} is not a complete trace: {why}", path.display()),
        "record it again: upshift load ... run --record FILE",
    )
}

/// What the transactions of a trace have in common.
#[derive(Debug, Clone, Copy)]
struct Head {
    kinds: usize,
    statements: usize,
    /// When the first of them began.
    first_us: u64,
}

impl Head {
    fn next<'a>(
        &self,
        bytes: &mut Bytes<'a>,
        number: u64,
        ordinal: u64,
    ) -> Result<Recorded<'a>, Malformed> {
        let connection = bytes.small()?;
        let kind: u16 = bytes.small()?;
        if usize::from(kind) >= self.kinds {
            return Err(Malformed);
        }
        let began_us = bytes.number()?;
        let overlapping = bytes.number()?;
        let ended = *Ended::ALL
            .get(usize::from(bytes.byte()?))
            .ok_or(Malformed)?;
        let events = bytes.number()?;
        let length = bytes.small()?;
        Ok(Recorded {
            number,
            after: (number - 1).checked_sub(overlapping).ok_or(Malformed)?,
            ordinal,
            connection,
            kind: TransactionKind(kind),
            began_us,
            first_us: self.first_us,
            refused: ended == Ended::Refused,
            events,
            statements: self.statements,
            bytes: Bytes(bytes.take(length)?),
        })
    }
}

/// The transactions of a trace, in the recorded order.
#[derive(Debug)]
pub struct Reader {
    blocks: Blocks,
    head: Head,
    /// How much of the block at hand was read.
    at: usize,
    /// The next transaction's number, and its first request's.
    number: u64,
    ordinal: u64,
    /// How many transactions there are.
    transactions: u64,
}

impl Reader {
    /// The next transaction; none at the end.
    ///
    /// # Errors
    /// A file that has changed since it was opened.
    pub fn next_transaction(&mut self) -> anyhow::Result<Option<Recorded<'_>>> {
        if self.number > self.transactions {
            return Ok(None);
        }
        if self.at == self.blocks.payload.len() {
            self.at = 0;
            if self.blocks.next()?.is_none() {
                return Err(damaged(&self.blocks.path, "it has changed while it was read").into());
            }
        }
        let mut bytes = Bytes(&self.blocks.payload[self.at..]);
        let recorded = self.head.next(&mut bytes, self.number, self.ordinal)?;
        self.at = self.blocks.payload.len() - bytes.0.len();
        self.ordinal += recorded.events;
        self.number += 1;
        Ok(Some(recorded))
    }
}

/// A block in the reader's buffer.
struct Block<'a> {
    kind: BlockKind,
    checksum: u64,
    payload: &'a [u8],
}

/// The blocks of a file, one after the other.
#[derive(Debug)]
struct Blocks {
    path: PathBuf,
    file: BufReader<File>,
    payload: Vec<u8>,
}

impl Blocks {
    /// Open a file that begins as a trace of this version.
    fn open(path: &Path) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            Failure::new(
                format!("cannot read {}: {error}", path.display()),
                "name a file that `upshift load ... run --record` or `upshift load import` wrote",
            )
        };
        let mut file = BufReader::new(File::open(path).map_err(cannot)?);
        let mut head = Vec::new();
        (&mut file)
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(cannot)?;
        let Some((magic, version)) = head.split_first_chunk::<{ MAGIC.len() }>() else {
            return Err(no_trace(path));
        };
        let Ok(version) = version.try_into().map(u32::from_le_bytes) else {
            return Err(no_trace(path));
        };
        if magic != MAGIC {
            return Err(no_trace(path));
        }
        if !(OLDEST..=VERSION).contains(&version) {
            let hint = match version {
                ::trace::VERSION => {
                    "`upshift stack capture` wrote it: `upshift load import` makes a trace of it that can be replayed"
                }
                0..::trace::LOAD_FROM => {
                    "`upshift stack capture` of another release wrote it: capture again"
                }
                _ => {
                    "record it again with this upshift-load, or replay it with the one that recorded it"
                }
            };
            return Err(Failure::new(
                format!(
                    "{} is a trace of version {version}, and this upshift-load reads versions {OLDEST} to {VERSION}",
                    path.display()
                ),
                hint,
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            payload: Vec::new(),
        })
    }

    /// The next whole block; none at the file's end.
    fn next(&mut self) -> Result<Option<Block<'_>>, Failure> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        let read = self.fill(&mut head)?;
        if read == 0 {
            return Ok(None);
        }
        let [kind, l0, l1, l2, l3, checksum_bytes @ ..] = head;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        let expected = u64::from_le_bytes(checksum_bytes);
        let known = BlockKind::from_byte(kind);
        self.payload.clear();
        if let (Some(known), BLOCK_HEAD_BYTES) = (known, read) {
            let taken = (&mut self.file).take(length).read_to_end(&mut self.payload);
            taken.map_err(|error| damaged(&self.path, &error.to_string()))?;
            if self.payload.len() as u64 == length && checksum(kind, &self.payload) == expected {
                return Ok(Some(Block {
                    kind: known,
                    checksum: expected,
                    payload: &self.payload,
                }));
            }
        }
        Err(damaged(
            &self.path,
            "a block is incomplete or has a wrong checksum",
        ))
    }

    /// Read up to `head`'s length; less only at the end of the file.
    fn fill(&mut self, head: &mut [u8]) -> Result<usize, Failure> {
        let mut read = 0;
        while read < head.len() {
            match self.file.read(&mut head[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) => return Err(damaged(&self.path, &error.to_string())),
            }
        }
        Ok(read)
    }
}

fn no_trace(path: &Path) -> Failure {
    Failure::new(
        format!("{} is not a trace of upshift-load", path.display()),
        "name a file that `upshift load ... run --record` or `upshift load import` wrote",
    )
}
