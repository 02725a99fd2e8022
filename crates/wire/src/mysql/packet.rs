//! Packets: a three byte length, a sequence number, a payload.

use super::field::refusal;
use crate::tls::Tls;
use crate::transport::{Transport, trim};
use crate::{Counters, Error, Limits};

/// A payload of this length goes on in the next packet.
const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;
const HEADER_BYTES: usize = 4;
/// Nothing that a server says before it has let us in is longer.
const LOGIN_BYTES_MAX: usize = 64 * 1024;

/// A packet of the server's, whose number is the one that was due.
pub(super) struct Packet<'a> {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) payload: &'a [u8],
}

/// Payloads to and from the server.
pub(super) struct Packets {
    transport: Transport,
    sequence: u8,
    /// Bytes of the transport's buffer that the last payload read still lies in.
    lent: usize,
    out: Vec<u8>,
    long: Vec<u8>,
    /// The longest payload that is taken, in bytes.
    limit: usize,
}

impl Packets {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport,
            sequence: 0,
            lent: 0,
            out: Vec::with_capacity(1024),
            long: Vec::new(),
            limit: LOGIN_BYTES_MAX,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.transport.counters()
    }

    pub(super) fn is_private(&self) -> bool {
        self.transport.is_private()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.transport.tls().is_some()
    }

    /// The login is over: what the URL allows holds from here on.
    pub(super) fn logged_in(&mut self, limits: Limits) -> Result<(), Error> {
        self.limit = limits.packet_bytes;
        self.transport.logged_in(limits)
    }

    /// Encrypt what follows.
    pub(super) fn encrypt(&mut self, tls: Tls) -> Result<(), Error> {
        self.transport.consume(std::mem::take(&mut self.lent));
        self.transport.encrypt(tls)
    }

    /// Send a command: a payload that begins a new sequence, written by `fill`.
    pub(super) fn command(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.sequence = 0;
        self.reply(fill)
    }

    /// Send a payload that goes on with the sequence.
    pub(super) fn reply(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.write(fill)
            .map_err(|broken| self.farewell().unwrap_or(broken))
    }

    /// Why the server hung up, where it said so before: that can still be read when nothing can be written any more.
    fn farewell(&mut self) -> Option<Error> {
        match self.read() {
            Ok(payload @ [0xFF, ..]) => Some(refusal(payload)),
            Err(said @ Error::Server { .. }) => Some(said),
            _ => None,
        }
    }

    fn write(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.out.clear();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        fill(&mut self.out);
        let length = self.out.len() - HEADER_BYTES;
        if length < PAYLOAD_BYTES_MAX {
            let header = self.header(length);
            self.out[..HEADER_BYTES].copy_from_slice(&header);
            let sent = self.transport.send(&self.out);
            trim(&mut self.out);
            return sent;
        }
        let mut split = Vec::with_capacity(self.out.len() + 64);
        let mut at = HEADER_BYTES;
        loop {
            let part = (self.out.len() - at).min(PAYLOAD_BYTES_MAX);
            split.extend_from_slice(&self.header(part));
            split.extend_from_slice(&self.out[at..at + part]);
            at += part;
            if part < PAYLOAD_BYTES_MAX {
                trim(&mut self.out);
                return self.transport.send(&split);
            }
        }
    }

    fn header(&mut self, length: usize) -> [u8; HEADER_BYTES] {
        let [low, middle, high, ..] = length.to_le_bytes();
        let header = [low, middle, high, self.sequence];
        self.sequence = self.sequence.wrapping_add(1);
        self.transport.count_sent();
        header
    }

    /// The next payload from the server. An error that it sends without being asked, before it hangs up, is returned as that.
    pub(super) fn read(&mut self) -> Result<&[u8], Error> {
        self.transport.consume(std::mem::take(&mut self.lent));
        if !self.long.is_empty() {
            self.long.clear();
            trim(&mut self.long);
        }
        let length = self.length()?;
        if length < PAYLOAD_BYTES_MAX {
            let whole = HEADER_BYTES + length;
            self.transport.fill(whole)?;
            self.lent = whole;
            return Ok(&self.transport.arrived()[HEADER_BYTES..whole]);
        }
        let mut part = length;
        loop {
            let whole = HEADER_BYTES + part;
            self.long
                .extend_from_slice(&self.transport.fill(whole)?[HEADER_BYTES..whole]);
            self.transport.consume(whole);
            if part < PAYLOAD_BYTES_MAX {
                return Ok(&self.long);
            }
            part = self.length()?;
        }
    }

    /// The next payload, and the header of its last packet.
    pub(super) fn read_with_header(&mut self) -> Result<Packet<'_>, Error> {
        let number = self.sequence;
        let payload = self.read()?;
        let [low, middle, high, ..] = payload.len().to_le_bytes();
        Ok(Packet {
            header: [low, middle, high, number],
            payload,
        })
    }

    /// Skip so many packets where they have arrived and are these, byte by byte; whether they were.
    pub(super) fn skip(&mut self, known: &[u8], count: u16) -> bool {
        self.transport.consume(std::mem::take(&mut self.lent));
        let is_next = known.get(3) == Some(&self.sequence);
        if !is_next || !self.transport.arrived().starts_with(known) {
            return false;
        }
        self.transport.consume(known.len());
        self.sequence = self.sequence.wrapping_add(count as u8);
        self.transport.count_received(count.into());
        true
    }

    /// What a packet means whose number is not the next one.
    fn unasked(&mut self, sequence: u8, whole: usize) -> Error {
        if sequence == 0 && whole <= LOGIN_BYTES_MAX {
            match self.transport.fill(whole) {
                Ok([_, _, _, _, error @ ..]) if error.first() == Some(&0xFF) => {
                    return refusal(&error[..whole - HEADER_BYTES]);
                }
                Ok(_) => {}
                Err(broken) => return broken,
            }
        }
        Error::Protocol(format!("packet {sequence} where {} was due", self.sequence))
    }

    #[inline]
    fn length(&mut self) -> Result<usize, Error> {
        let arrived = self.transport.fill(HEADER_BYTES)?;
        let (&[low, middle, high, sequence], _) =
            arrived.split_first_chunk().expect("as many as asked for");
        let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
        if sequence != self.sequence {
            return Err(self.unasked(sequence, HEADER_BYTES + length));
        }
        if self.long.len() + length > self.limit {
            return Err(Error::too_long(self.limit));
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.transport.count_received(1);
        Ok(length)
    }
}
