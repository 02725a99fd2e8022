//! Reads a trace, a block at a time.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::passive::Text;

use crate::bytes::{Bytes, Malformed};
use crate::encode::{
    CLOSED, CONNECTED, EXCHANGE, FORGET, GAP, LOST, SESSION, TEXT, UNREAD, exchange, session, side,
    totals, why,
};
use crate::format::{
    BEGIN, BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, END, LOAD_FROM, MAGIC, RECORDS, VERSION, checksum,
};
use crate::{Begin, Ending, Record, TraceError};

/// A trace that is being read.
pub struct TraceReader {
    path: PathBuf,
    file: BufReader<File>,
    begin: Begin,
    ending: Option<Ending>,
    texts: Vec<Text>,
    /// Records of the block at hand, from here on unread.
    block: Vec<u8>,
    at: usize,
    base_ns: u64,
    is_over: bool,
}

impl TraceReader {
    /// Open a trace.
    ///
    /// # Errors
    /// The system's; a file that is no trace, or of another version.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        let mut file = BufReader::new(file);
        let mut head = [0; MAGIC.len() + 4];
        let read = file.read_exact(&mut head);
        let no_trace = || {
            TraceError::new(
                format!("{} is not a trace", path.display()),
                "name a file that `upshift stack capture` has written",
            )
        };
        let (magic, version) = head.split_at(MAGIC.len());
        if read.is_err() || magic != MAGIC {
            return Err(no_trace());
        }
        let version = u32::from_le_bytes(version.try_into().unwrap_or_default());
        if version != VERSION {
            let (wrote, hint) = match version {
                LOAD_FROM.. => (
                    "which `upshift load ... run --record` writes",
                    "replay it with `upshift load replay`; capture with `upshift stack capture` what is to be examined",
                ),
                _ if version < VERSION => (
                    "of an older release",
                    "capture again with `upshift stack capture`",
                ),
                _ => ("of a newer release", "read it with that release"),
            };
            return Err(TraceError::new(
                format!(
                    "{} is a trace of version {version}, {wrote}; this reads version {VERSION}",
                    path.display()
                ),
                hint,
            ));
        }
        let (kind, payload) = read_block(&mut file)
            .map_err(|error| cannot_read(path, &error))?
            .ok_or_else(no_trace)?;
        let begin = serde_json::from_slice(&payload)
            .ok()
            .filter(|_| kind == BEGIN)
            .ok_or_else(no_trace)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            begin,
            ending: None,
            texts: Vec::new(),
            block: Vec::new(),
            at: 0,
            base_ns: 0,
            is_over: false,
        })
    }

    /// What it says at its begin.
    #[must_use]
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// What it says at its end; `None` before [`Self::next`] has come there, and for a trace that was cut off or damaged.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The next record; `None` at the end of what is whole.
    ///
    /// # Errors
    /// The system's; a block whose checksum is right and whose content no capture writes.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            while self.at < self.block.len() {
                let read = self.record().map_err(|error| {
                    TraceError::new(
                        format!("{}: {error}", self.path.display()),
                        "the file was changed, or another program wrote it: capture again",
                    )
                })?;
                if let Some(record) = read {
                    return Ok(Some(record));
                }
            }
            if self.is_over {
                return Ok(None);
            }
            let block =
                read_block(&mut self.file).map_err(|error| cannot_read(&self.path, &error))?;
            match block {
                Some((RECORDS, payload)) => {
                    self.block = payload;
                    self.at = 0;
                    self.base_ns = 0;
                }
                Some((END, payload)) => {
                    self.ending = serde_json::from_slice(&payload).ok();
                    self.is_over = true;
                }
                _ => self.is_over = true,
            }
        }
    }

    /// The next record of the block; `None` for one that only the reader needs.
    fn record(&mut self) -> Result<Option<Record>, Malformed> {
        let mut bytes = Bytes(&self.block[self.at..]);
        let tag = bytes.byte()?;
        let mut found = None;
        match tag {
            TEXT => {
                let length = bytes.number()?;
                let bytes = Arc::from(bytes.bytes()?);
                self.texts.push(Text { bytes, length });
            }
            FORGET => self.texts.clear(),
            LOST => {
                let exchanges = bytes.number()?;
                found = Some(Record::Lost { exchanges });
            }
            _ => found = Some(of_connection(tag, &mut bytes, self.base_ns, &self.texts)?),
        }
        if let Some(at_ns) = found.as_ref().and_then(Record::time_ns) {
            self.base_ns = at_ns;
        }
        self.at = self.block.len() - bytes.0.len();
        Ok(found)
    }
}

/// A record that begins with the number of a connection.
fn of_connection(
    tag: u8,
    bytes: &mut Bytes<'_>,
    base_ns: u64,
    texts: &[Text],
) -> Result<Record, Malformed> {
    let connection = bytes.small()?;
    let time = |bytes: &mut Bytes<'_>| Ok(base_ns.wrapping_add(bytes.signed()? as u64));
    Ok(match tag {
        CONNECTED => Record::Connected {
            connection,
            at_ns: time(bytes)?,
            joined_late: bytes.flag()?,
        },
        SESSION => Record::Session {
            connection,
            facts: Box::new(session(bytes)?),
        },
        EXCHANGE => {
            let (mut exchange, text) = exchange(bytes, base_ns)?;
            if let Some(number) = text {
                let place = usize::try_from(number).map_err(|_| Malformed)?;
                exchange.text = Some(texts.get(place).ok_or(Malformed)?.clone());
            }
            Record::Exchange {
                connection,
                exchange: Box::new(exchange),
            }
        }
        GAP => Record::Gap {
            connection,
            at_ns: time(bytes)?,
            side: side(bytes)?,
            bytes: bytes.number()?,
        },
        UNREAD => Record::Unread {
            connection,
            at_ns: time(bytes)?,
            why: why(bytes)?,
        },
        CLOSED => Record::Closed {
            connection,
            at_ns: time(bytes)?,
            totals: totals(bytes)?,
        },
        _ => return Err(Malformed),
    })
}

/// The next block's kind and payload; `None` where the file ends or is damaged.
fn read_block(file: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; BLOCK_HEAD_BYTES];
    if !read_all(file, &mut head)? {
        return Ok(None);
    }
    let number = |at: usize| {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        u32::from_le_bytes(bytes) as usize
    };
    let (stored_bytes, length) = (number(1), number(5));
    if stored_bytes > BLOCK_BYTES_MAX || length > BLOCK_BYTES_MAX {
        return Ok(None);
    }
    let mut stored = vec![0; stored_bytes];
    if !read_all(file, &mut stored)? {
        return Ok(None);
    }
    let (summed, sum) = head.split_at(BLOCK_HEAD_BYTES - 8);
    if checksum(summed, &stored).to_le_bytes() != *sum {
        return Ok(None);
    }
    let payload = zstd::bulk::decompress(&stored, length);
    Ok(payload
        .ok()
        .filter(|payload| payload.len() == length)
        .map(|payload| (head[0], payload)))
}

/// Whether there was as much.
fn read_all(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> TraceError {
    TraceError::new(
        format!("cannot read {}: {error}", path.display()),
        "name a trace that `upshift stack capture` has written",
    )
}
