//! One connection to one server: requests out, raw packets in.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::answer::{Answer, Kind};
use crate::packet::{broken, eof_status, is_mariadb, lenenc, offered, ok_status, relabel};
use crate::request::{Expect, Prepared, Slots};
use crate::silence::{Came, Waited};
use crate::step::What;
use crate::witness::Witness;

/// Capabilities of MySQL's protocol that a client may agree on.
pub mod capability {
    /// Affected rows are those found, not those changed.
    pub const FOUND_ROWS: u32 = 2;
    /// What every client since 4.1 has: long flags, the protocol of 4.1, transactions, 20 byte scrambles, plugins, several results.
    pub const USUAL: u32 = 1 | 4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000 | 0x2_0000 | 0x4_0000;
    /// Several statements in a request.
    pub const MULTI_STATEMENTS: u32 = 0x1_0000;
    /// News of the session's state in OK packets.
    pub const SESSION_TRACK: u32 = 0x80_0000;
    /// OK packets in place of EOF packets.
    pub const DEPRECATE_EOF: u32 = 0x100_0000;
    /// The session may leave out columns' definitions.
    pub const OPTIONAL_METADATA: u32 = 0x200_0000;
    /// Attributes of statements.
    pub const QUERY_ATTRIBUTES: u32 = 0x800_0000;
}
use capability::{DEPRECATE_EOF, OPTIONAL_METADATA};

const MORE_RESULTS: u16 = 0x08;
const CURSOR_EXISTS: u16 = 0x40;
/// An answer that takes longer is late.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });
/// How much longer it is waited for where there is a witness.
const LATE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 60 });
/// After what may be the last packet.
const SILENCE: Duration = Duration::from_millis(300);
/// Of an OK packet without a message.
const OK_BYTES: usize = 7;
const PART_BYTES: usize = 0xFF_FFFF;

/// One connection.
pub struct Peer {
    stream: UnixStream,
    input: Vec<u8>,
    at: usize,
    /// Packets to be sent, and the payload of one.
    out: Vec<u8>,
    payload: Vec<u8>,
    agreed: u32,
    slots: Slots,
    /// What answers the requests that were not answered yet.
    due: VecDeque<Expect>,
    patience: Duration,
    /// Is called when an answer is late.
    witness: Option<Rc<Witness>>,
    /// When the last requests were sent, and whether their answers came.
    sent: Instant,
    came: Came,
}

impl Peer {
    /// Log in as root without a password; what of `wanted` the server offers is agreed on.
    ///
    /// # Errors
    /// No server, or one that refuses.
    pub fn connect(socket: &Path, wanted: u32) -> Result<Self> {
        Self::impatient(socket, wanted, PATIENCE)
    }

    /// As [`Self::connect`], of a client that waits so long for an answer.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn impatient(socket: &Path, wanted: u32, patience: Duration) -> Result<Self> {
        let mut peer = Self::over(UnixStream::connect(socket)?, patience)?;
        let mut greeting = Vec::new();
        peer.packet(&mut greeting)?;
        let offered = offered(&greeting[4..]).ok_or_else(|| broken("no greeting"))?;
        peer.agreed = wanted & offered;
        let mut login = peer.agreed.to_le_bytes().to_vec();
        login.extend_from_slice(&(64_u32 << 20).to_le_bytes());
        // utf8mb4_0900_ai_ci of MySQL; MariaDB reads utf8mb4_general_ci.
        login.push(if is_mariadb(&greeting) { 45 } else { 255 });
        login.extend_from_slice(&[0; 23]);
        login.extend_from_slice(b"root\0\0");
        login.extend_from_slice(if is_mariadb(&greeting) {
            b"mysql_native_password\0"
        } else {
            b"caching_sha2_password\0"
        });
        peer.write(1, &login)?;
        loop {
            let mut said = Vec::new();
            peer.packet(&mut said)?;
            match said.get(4) {
                Some(0x00) => return Ok(peer),
                Some(0xFE) => peer.write(said[3].wrapping_add(1), &[])?,
                Some(0x01) => {}
                _ => return Err(broken(&String::from_utf8_lossy(&said[4..]))),
            }
        }
    }

    fn over(stream: UnixStream, patience: Duration) -> Result<Self> {
        stream.set_read_timeout(Some(patience))?;
        Ok(Self {
            stream,
            input: Vec::with_capacity(1 << 16),
            at: 0,
            out: Vec::with_capacity(1 << 12),
            payload: Vec::with_capacity(1 << 12),
            agreed: 0,
            slots: Slots::default(),
            due: VecDeque::new(),
            patience,
            witness: None,
            sent: Instant::now(),
            came: Came::InTime,
        })
    }

    /// From now on an answer that is late is waited for longer, and this witness is called.
    #[must_use]
    pub fn watched(mut self, by: Option<Rc<Witness>>) -> Self {
        self.witness = by;
        self
    }

    /// How long the last answers took, and whether they came.
    #[must_use]
    pub fn waited(&self) -> Waited {
        Waited {
            came: self.came,
            seconds: self.sent.elapsed().as_secs_f64(),
        }
    }

    /// What was agreed on.
    #[must_use]
    pub fn agreed(&self) -> u32 {
        self.agreed
    }

    /// Send a request; [`Self::receive`] takes what it is answered.
    ///
    /// # Errors
    /// A lost connection.
    pub fn send(&mut self, what: &What) -> Result<()> {
        self.send_ahead([what], usize::MAX)
    }

    /// Send several requests before any is answered, in two writes of which the first has so many bytes. [`Self::receive`] takes all
    /// answers, [`Self::receive_next`] one.
    ///
    /// # Errors
    /// A lost connection.
    pub fn send_ahead<'a>(
        &mut self,
        requests: impl IntoIterator<Item = &'a What>,
        first_bytes: usize,
    ) -> Result<()> {
        (self.sent, self.came) = (Instant::now(), Came::InTime);
        self.due.clear();
        self.out.clear();
        for what in requests {
            self.payload.clear();
            let expect = self.slots.encode(what, self.agreed, &mut self.payload);
            self.due.push_back(expect);
            frame(0, &self.payload, &mut self.out);
        }
        let (first, second) = self.out.split_at(first_bytes.min(self.out.len()));
        self.stream.write_all(first)?;
        self.stream.write_all(second)
    }

    /// Read the whole answers to all that was sent.
    ///
    /// # Errors
    /// A lost connection, or a server that does not answer in [`PATIENCE`]; where it is watched, not while it is waited for longer.
    pub fn receive(&mut self, answer: &mut Answer) -> Result<()> {
        answer.clear();
        while let Some(expect) = self.due.pop_front() {
            self.whole(expect, answer)?;
        }
        Ok(())
    }

    /// Read the whole answer to the next request that has none yet.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_next(&mut self, answer: &mut Answer) -> Result<()> {
        answer.clear();
        let expect = self.due.pop_front().unwrap_or(Expect::Nothing);
        self.whole(expect, answer)
    }

    fn whole(&mut self, expect: Expect, answer: &mut Answer) -> Result<()> {
        match expect {
            Expect::Nothing => Ok(()),
            Expect::One => self.take(answer, Kind::End).map(|_| ()),
            Expect::Rows => self.rows(answer).map(|_| ()),
            Expect::Results => {
                while self.result(answer)? & MORE_RESULTS > 0 {}
                Ok(())
            }
            Expect::Prepared(slot) => self.prepared(answer, slot),
        }
    }

    /// One packet into the answer; ERR is recognised.
    fn take(&mut self, answer: &mut Answer, kind: Kind) -> Result<(usize, Kind)> {
        let begin = answer.bytes.len();
        self.packet(&mut answer.bytes)?;
        let payload = begin + 4;
        let kind = match answer.bytes.get(payload) {
            Some(0xFF) => {
                let code = answer.bytes.get(payload + 1..payload + 3);
                answer.error = code.map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
                Kind::Error
            }
            _ => kind,
        };
        answer.packets.push((answer.bytes.len(), kind));
        Ok((payload, kind))
    }

    /// One result; returns the status that ends it.
    fn result(&mut self, answer: &mut Answer) -> Result<u16> {
        let (begin, kind) = self.take(answer, Kind::Count)?;
        if kind == Kind::Error {
            return Ok(0);
        }
        match answer.bytes.get(begin) {
            Some(0x00) => {
                relabel(answer, Kind::End);
                return Ok(ok_status(answer, begin));
            }
            Some(0xFB) => {
                relabel(answer, Kind::File);
                let number = answer.bytes[begin - 1].wrapping_add(1);
                self.write(number, &[])?;
                let (begin, kind) = self.take(answer, Kind::End)?;
                return Ok(if kind == Kind::Error {
                    0
                } else {
                    ok_status(answer, begin)
                });
            }
            _ => {}
        }
        let mut position = begin;
        let columns = lenenc(&answer.bytes, &mut position);
        let follows =
            self.agreed & OPTIONAL_METADATA == 0 || answer.bytes.get(position) == Some(&1);
        for _ in 0..if follows { columns } else { 0 } {
            self.take(answer, Kind::Definition)?;
        }
        if self.agreed & DEPRECATE_EOF == 0 {
            let (begin, kind) = self.take(answer, Kind::End)?;
            if kind == Kind::Error {
                return Ok(0);
            }
            // An OK packet where rows should begin: MySQL 9.7.4 ends some results so.
            if answer.bytes.get(begin) == Some(&0x00) {
                return Ok(ok_status(answer, begin));
            }
            let status = eof_status(answer, begin);
            if status & CURSOR_EXISTS > 0 {
                return Ok(status);
            }
        }
        self.rows(answer)
    }

    /// Rows to their end; returns the status that ends them.
    fn rows(&mut self, answer: &mut Answer) -> Result<u16> {
        loop {
            let (begin, kind) = self.take(answer, Kind::Row)?;
            if kind == Kind::Error {
                return Ok(0);
            }
            let length = answer.bytes.len() - begin;
            let limit = if self.agreed & DEPRECATE_EOF > 0 {
                PART_BYTES
            } else {
                9
            };
            if answer.bytes.get(begin) == Some(&0xFE) && length < limit {
                relabel(answer, Kind::End);
                return Ok(if self.agreed & DEPRECATE_EOF > 0 {
                    ok_status(answer, begin)
                } else {
                    eof_status(answer, begin)
                });
            }
            let number = answer.bytes[begin - 1];
            if answer.bytes.get(begin) == Some(&0x00)
                && length == OK_BYTES
                && self.is_last(number)?
            {
                relabel(answer, Kind::End);
                return Ok(ok_status(answer, begin));
            }
            answer.rows += 1;
        }
    }

    /// Whether the packet with this number is the last of its answer. MySQL 9.7.4 ends some results without rows by an OK packet, which
    /// looks like a row; what ends rows comes with them, and has the next number.
    fn is_last(&mut self, number: u8) -> Result<bool> {
        self.stream.set_read_timeout(Some(SILENCE))?;
        let mut read = Ok(());
        while read.is_ok() && self.input.len() - self.at < 4 {
            read = self.read();
        }
        self.stream.set_read_timeout(Some(self.patience))?;
        match read {
            Err(error) if is_silence(&error) => Ok(true),
            other => other.map(|()| self.input[self.at + 3] != number.wrapping_add(1)),
        }
    }

    fn prepared(&mut self, answer: &mut Answer, slot: u32) -> Result<()> {
        let (begin, kind) = self.take(answer, Kind::Prepared)?;
        if kind == Kind::Error {
            return Ok(());
        }
        let head = &answer.bytes[begin..];
        if head.len() < 12 {
            return Err(broken("a short answer to COM_STMT_PREPARE"));
        }
        let id = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let columns = u16::from_le_bytes([head[5], head[6]]);
        let parameters = u16::from_le_bytes([head[7], head[8]]);
        answer.warnings = u16::from_le_bytes([head[10], head[11]]);
        let follows = self.agreed & OPTIONAL_METADATA == 0 || head.get(12) == Some(&1);
        for count in [parameters, columns] {
            if count == 0 {
                continue;
            }
            for _ in 0..if follows { count } else { 0 } {
                self.take(answer, Kind::Definition)?;
            }
            // This packet comes without definitions, too.
            if self.agreed & DEPRECATE_EOF == 0 {
                self.take(answer, Kind::End)?;
            }
        }
        let types = Vec::new();
        let parameters = usize::from(parameters);
        self.slots.0.insert(
            slot,
            Prepared {
                id,
                parameters,
                types,
            },
        );
        Ok(())
    }

    /// A packet, with its header, behind what is in `out`. One that is split stays split.
    fn packet(&mut self, out: &mut Vec<u8>) -> Result<()> {
        loop {
            while self.input.len() - self.at < 4 {
                self.fill()?;
            }
            let head = &self.input[self.at..self.at + 4];
            let length =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            while self.input.len() - self.at < 4 + length {
                self.fill()?;
            }
            out.extend_from_slice(&self.input[self.at..self.at + 4 + length]);
            self.at += 4 + length;
            if length < PART_BYTES {
                return Ok(());
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        let read = self.read();
        match &self.witness {
            Some(witness) if read.as_ref().is_err_and(is_silence) => {
                witness.call();
                self.wait_longer()
            }
            _ => read,
        }
    }

    fn wait_longer(&mut self) -> Result<()> {
        let left = (self.patience + LATE).saturating_sub(self.sent.elapsed());
        // A timeout of nothing would be none.
        let left = left.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        let read = self.read();
        self.stream.set_read_timeout(Some(self.patience))?;
        self.came = match &read {
            Err(error) if is_silence(error) => Came::Never,
            _ => Came::Late,
        };
        read
    }

    fn read(&mut self) -> Result<()> {
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        } else if self.at > 1 << 20 {
            self.input.drain(..self.at);
            self.at = 0;
        }
        let begin = self.input.len();
        self.input.resize(begin + (1 << 14), 0);
        let read = loop {
            match self.stream.read(&mut self.input[begin..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.input.truncate(begin + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn write(&mut self, number: u8, payload: &[u8]) -> Result<()> {
        let mut whole = Vec::with_capacity(payload.len() + 8);
        frame(number, payload, &mut whole);
        self.stream.write_all(&whole)
    }
}

/// Whether this says that nothing came in time.
#[must_use]
pub fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// A payload as packets, the first of which has this number.
fn frame(mut number: u8, payload: &[u8], out: &mut Vec<u8>) {
    let mut rest = payload;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PART_BYTES));
        out.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
        out.push(number);
        out.extend_from_slice(part);
        if part.len() < PART_BYTES {
            return;
        }
        (number, rest) = (number.wrapping_add(1), after);
    }
}

#[cfg(test)]
mod tests;
