//! Compressed packets of one side, unpacked piece by piece, so that none has to be held. What comes out is a stream of ordinary packets.

use flate2::{Decompress, FlushDecompress};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::passive::{Compression, Why};

/// Length of what follows, number, length of that when it is unpacked: 0 for what was not worth it.
const HEADER_BYTES: usize = 7;
const PIECE_BYTES: usize = 16 * 1024;
/// No packet unpacks to more than 16 MiB: a decoder never needs to remember more.
const WINDOW_LOG_MAX: u32 = 24;
/// Every zlib stream of these servers and clients begins with it, no zstd frame does.
const ZLIB: u8 = 0x78;
/// A request that a stream is joined at unpacks to no more, in bytes.
const JOINED_BYTES_MAX: usize = 1024 * 1024;

/// Of both sides.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) client: Unpacker,
    pub(super) server: Unpacker,
}

/// Takes the compressed packets of one side apart.
pub(super) struct Unpacker {
    head: [u8; HEADER_BYTES],
    have: usize,
    /// Bytes of the packet at hand that have not come.
    left: usize,
    /// Bytes that it still unpacks to; none for one that is as it is.
    due: Option<usize>,
    method: Method,
    piece: Box<[u8]>,
}

enum Method {
    /// Nothing compressed has come yet.
    Unknown,
    Zlib(Box<Decompress>),
    Zstd(Box<Decoder<'static>>),
}

impl Default for Unpacker {
    fn default() -> Self {
        Self {
            head: [0; HEADER_BYTES],
            have: 0,
            left: 0,
            due: None,
            method: Method::Unknown,
            piece: vec![0; PIECE_BYTES].into(),
        }
    }
}

impl Unpacker {
    /// The next plain bytes, of which there is at least one. The input's bytes are taken off it. `None` when more are needed.
    ///
    /// # Errors
    /// What cannot be unpacked, or not to the length that was announced.
    pub(super) fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, Why> {
        loop {
            match self.due {
                None if self.left > 0 => {
                    let (plain, rest) = input.split_at(self.left.min(input.len()));
                    *input = rest;
                    self.left -= plain.len();
                    return Ok((!plain.is_empty()).then_some(plain));
                }
                Some(due) if due > 0 || self.left > 0 => {
                    let unpacked = self.unpack(input)?;
                    if unpacked > 0 {
                        return Ok(Some(&self.piece[..unpacked]));
                    }
                    if self.left > 0 && input.is_empty() {
                        return Ok(None);
                    }
                }
                _ => {
                    if !self.header(input) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Whether the header is whole.
    fn header(&mut self, input: &mut &[u8]) -> bool {
        while self.have < HEADER_BYTES {
            let Some((byte, rest)) = input.split_first() else {
                return false;
            };
            self.head[self.have] = *byte;
            self.have += 1;
            *input = rest;
        }
        self.have = 0;
        let [l0, l1, l2, _, u0, u1, u2] = self.head;
        self.left = u32::from_le_bytes([l0, l1, l2, 0]) as usize;
        let unpacked = u32::from_le_bytes([u0, u1, u2, 0]) as usize;
        self.due = (unpacked > 0).then_some(unpacked);
        match &mut self.method {
            Method::Zlib(zlib) => zlib.reset(true),
            // It begins again by itself behind a frame's end.
            Method::Zstd(_) | Method::Unknown => {}
        }
        true
    }

    /// How many bytes of the piece are filled.
    fn unpack(&mut self, input: &mut &[u8]) -> Result<usize, Why> {
        let packed = &input[..self.left.min(input.len())];
        if let (Method::Unknown, Some(&first)) = (&self.method, packed.first()) {
            self.method = Method::of(first)?;
        }
        let (taken, filled) = match &mut self.method {
            Method::Unknown => (0, 0),
            Method::Zlib(zlib) => {
                let before = (zlib.total_in(), zlib.total_out());
                zlib.decompress(packed, &mut self.piece, FlushDecompress::None)
                    .map_err(|_| Why::NotTheProtocol)?;
                let taken = zlib.total_in() - before.0;
                (taken as usize, (zlib.total_out() - before.1) as usize)
            }
            Method::Zstd(zstd) => {
                let mut from = InBuffer::around(packed);
                let mut to = OutBuffer::around(&mut *self.piece);
                zstd.run(&mut from, &mut to)
                    .map_err(|_| Why::NotTheProtocol)?;
                (from.pos(), to.pos())
            }
        };
        *input = &input[taken..];
        self.left -= taken;
        let due = self.due.unwrap_or_default();
        let due = due.checked_sub(filled).ok_or(Why::NotTheProtocol)?;
        self.due = Some(due);
        // All has come, and it was less than announced; or it goes on behind its end.
        let is_stuck = taken == 0 && filled == 0 && (self.left == 0 || !packed.is_empty());
        if is_stuck {
            return Err(Why::NotTheProtocol);
        }
        Ok(filled)
    }
}

impl Method {
    fn of(first: u8) -> Result<Self, Why> {
        if first == ZLIB {
            return Ok(Self::Zlib(Box::new(Decompress::new(true))));
        }
        let mut zstd = Decoder::new().map_err(|_| Why::NotTheProtocol)?;
        zstd.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .map_err(|_| Why::NotTheProtocol)?;
        Ok(Self::Zstd(Box::new(zstd)))
    }
}

/// What bytes unpack to that are one or several whole compressed packets, the first of a new request: where a stream can be joined. With
/// them what they are compressed by, as far as that shows.
pub(super) fn joined(bytes: &[u8]) -> Option<(Vec<u8>, Compression)> {
    let (mut rest, mut method) = (bytes, Compression::Zlib);
    while let Some((head, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        let (packed, next) = after.split_at_checked(length)?;
        let is_packed = head[4..] != [0; 3];
        if is_packed && packed.first() != Some(&ZLIB) {
            method = Compression::Zstd;
        }
        rest = next;
    }
    if !rest.is_empty() || bytes.get(3) != Some(&0) {
        return None;
    }
    let (mut unpacker, mut input, mut plain) = (Unpacker::default(), bytes, Vec::new());
    while let Some(piece) = unpacker.next(&mut input).ok()? {
        plain.extend_from_slice(piece);
        if plain.len() > JOINED_BYTES_MAX {
            return None;
        }
    }
    Some((plain, method))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packet(unpacked: usize, payload: &[u8]) -> Vec<u8> {
        let (length, unpacked) = (payload.len().to_le_bytes(), unpacked.to_le_bytes());
        let head = [&length[..3], &[0], &unpacked[..3]].concat();
        [head, payload.to_vec()].concat()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(plain).expect("compresses");
        packet(plain.len(), &encoder.finish().expect("compresses"))
    }

    fn zstd(plain: &[u8]) -> Vec<u8> {
        let packed = ::zstd::bulk::compress(plain, 3).expect("compresses");
        packet(plain.len(), &packed)
    }

    fn unpacked(bytes: &[u8], step: usize) -> Result<Vec<u8>, Why> {
        let (mut unpacker, mut plain) = (Unpacker::default(), Vec::new());
        for piece in bytes.chunks(step) {
            let mut input = piece;
            while let Some(piece) = unpacker.next(&mut input)? {
                plain.extend_from_slice(piece);
            }
            assert!(input.is_empty());
        }
        Ok(plain)
    }

    /// Packets of all lengths around a piece's, some that were not worth compressing.
    #[test]
    fn all_that_was_packed_comes_out() {
        let noise =
            |length: usize| -> Vec<u8> { (0..length).map(|at| (at * at / 7) as u8).collect() };
        for pack in [zlib, zstd] {
            let (mut plain, mut bytes) = (Vec::new(), Vec::new());
            for length in [
                1,
                100,
                PIECE_BYTES - 1,
                PIECE_BYTES,
                PIECE_BYTES + 1,
                200_000,
            ] {
                let noise = noise(length);
                bytes.extend(pack(&noise));
                bytes.extend(packet(0, b"as it is"));
                plain.extend([noise, b"as it is".to_vec()].concat());
            }
            bytes.extend(packet(0, b""));
            bytes.extend(pack(&vec![0; 1 << 20]));
            plain.extend(vec![0; 1 << 20]);
            for step in [1, 6, 1000, 1 << 20] {
                assert!(unpacked(&bytes, step) == Ok(plain.clone()), "{step}");
            }
        }
    }

    #[test]
    fn what_is_not_packed_as_announced_is_refused() {
        for pack in [zlib, zstd] {
            let good = pack(&[5; 1000]);
            let mut short = good.clone();
            short[4..6].copy_from_slice(&900_u16.to_le_bytes());
            let mut long = [good.clone(), good.clone()].concat();
            long[4..6].copy_from_slice(&1100_u16.to_le_bytes());
            let mut wrong = good.clone();
            wrong[8..].fill(0x55);
            for bytes in [short, long, wrong] {
                assert_eq!(unpacked(&bytes, 1 << 20), Err(Why::NotTheProtocol));
                assert_eq!(unpacked(&bytes, 3), Err(Why::NotTheProtocol));
            }
        }
        let nothing = packet(10, &[0x78; 0]);
        assert_eq!(
            unpacked(&[nothing, vec![0; 8]].concat(), 5),
            Err(Why::NotTheProtocol)
        );
    }

    #[test]
    fn a_stream_is_joined_at_whole_packets() {
        let request = b"\x09\0\0\0\x03SELECT 1";
        let (plain, packed) = (packet(0, request), zlib(request));
        assert_eq!(joined(&plain), Some((request.to_vec(), Compression::Zlib)));
        assert_eq!(joined(&packed), Some((request.to_vec(), Compression::Zlib)));
        assert_eq!(
            joined(&zstd(request)),
            Some((request.to_vec(), Compression::Zstd))
        );
        assert_eq!(joined(&packed[..packed.len() - 1]), None);
        assert_eq!(joined(&[&packed[..], &[0]].concat()), None);
        let mut later = packed.clone();
        later[3] = 1;
        assert_eq!(joined(&later), None);
        assert_eq!(joined(&zlib(&vec![0; 2 << 20])), None);
    }
}
