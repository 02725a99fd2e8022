//! Packets: a three byte length, a sequence number, a payload.

use super::field::refusal;
use crate::tls::Tls;
use crate::transport::Transport;
use crate::{Counters, Error};

/// A payload of this length goes on in the next packet.
const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;
const HEADER_BYTES: usize = 4;

/// Payloads to and from the server.
pub(super) struct Packets {
    transport: Transport,
    sequence: u8,
    /// Bytes of the transport's buffer that the last payload read still lies in.
    lent: usize,
    out: Vec<u8>,
    long: Vec<u8>,
}

impl Packets {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport,
            sequence: 0,
            lent: 0,
            out: Vec::with_capacity(1024),
            long: Vec::new(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.transport.counters()
    }

    pub(super) fn is_private(&self) -> bool {
        self.transport.is_private()
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
            return self.transport.send(&self.out);
        }
        let mut split = Vec::with_capacity(self.out.len() + 64);
        let mut at = HEADER_BYTES;
        loop {
            let part = (self.out.len() - at).min(PAYLOAD_BYTES_MAX);
            split.extend_from_slice(&self.header(part));
            split.extend_from_slice(&self.out[at..at + part]);
            at += part;
            if part < PAYLOAD_BYTES_MAX {
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
        let length = self.length()?;
        if length < PAYLOAD_BYTES_MAX {
            let whole = HEADER_BYTES + length;
            self.transport.fill(whole)?;
            self.lent = whole;
            return Ok(&self.transport.fill(whole)?[HEADER_BYTES..whole]);
        }
        self.long.clear();
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

    /// What a packet means whose number is not the next one.
    fn unasked(&mut self, sequence: u8, whole: usize) -> Error {
        if sequence == 0 {
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

    fn length(&mut self) -> Result<usize, Error> {
        let bytes = self.transport.fill(HEADER_BYTES)?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize;
        let sequence = bytes[3];
        if sequence != self.sequence {
            return Err(self.unasked(sequence, HEADER_BYTES + length));
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.transport.count_received();
        Ok(length)
    }
}
