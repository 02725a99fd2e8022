//! Packets of one side: messages that are told piece by piece, so that none has to be held.

/// A payload of this length goes on in the next packet.
const PAYLOAD_BYTES_MAX: u32 = 0xFF_FFFF;
const HEADER_BYTES: usize = 4;

/// A step through a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Its first header is whole.
    Begin,
    /// The next bytes of its payload, at least one.
    Data(&'a [u8]),
    /// It is whole.
    End,
}

/// What is known of the message at hand.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Message {
    /// The number of its last packet.
    pub(super) sequence: u8,
    /// Bytes of its payload so far.
    pub(super) length: u64,
    /// Packets so far.
    pub(super) packets: u64,
    /// When its first byte came.
    pub(super) began_ns: u64,
    /// Its first packet is full: it goes on in another one.
    pub(super) is_long: bool,
}

impl Message {
    /// With headers.
    pub(super) fn bytes(&self) -> u64 {
        self.length + self.packets * HEADER_BYTES as u64
    }
}

/// Takes the packets of one side apart.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEADER_BYTES],
    have: usize,
    /// The header is whole; so many bytes of the payload are missing.
    payload: Option<u32>,
    /// The packet at hand, and the one before it, go on in the next one.
    goes_on: bool,
    pub(super) message: Message,
}

impl Frames {
    /// The next step, which takes its bytes off the input; `None` when more are needed.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8], at_ns: u64) -> Option<Piece<'a>> {
        loop {
            let Some(left) = self.payload else {
                let is_first = self.header(input, at_ns)?;
                if is_first {
                    return Some(Piece::Begin);
                }
                continue;
            };
            if left > 0 {
                if input.is_empty() {
                    return None;
                }
                let (data, rest) = input.split_at(input.len().min(left as usize));
                *input = rest;
                self.payload = Some(left - data.len() as u32);
                self.message.length += data.len() as u64;
                return Some(Piece::Data(data));
            }
            self.payload = None;
            if !self.goes_on {
                return Some(Piece::End);
            }
        }
    }

    /// Read a header that comes in pieces.
    fn gather(&mut self, input: &mut &[u8]) -> Option<()> {
        while self.have < HEADER_BYTES {
            let (byte, rest) = input.split_first()?;
            self.head[self.have] = *byte;
            self.have += 1;
            *input = rest;
        }
        Some(())
    }

    /// Read the next header; whether it begins a message.
    fn header(&mut self, input: &mut &[u8], at_ns: u64) -> Option<bool> {
        let is_first = !self.goes_on;
        if input.is_empty() {
            return None;
        }
        if is_first && self.have == 0 {
            self.message = Message {
                began_ns: at_ns,
                ..Message::default()
            };
        }
        match input.split_first_chunk() {
            // Nearly always.
            Some((head, rest)) if self.have == 0 => {
                self.head = *head;
                *input = rest;
            }
            _ => self.gather(input)?,
        }
        self.have = 0;
        let [low, middle, high, sequence] = self.head;
        let length = u32::from_le_bytes([low, middle, high, 0]);
        self.goes_on = length == PAYLOAD_BYTES_MAX;
        self.payload = Some(length);
        self.message.sequence = sequence;
        self.message.packets += 1;
        self.message.is_long |= is_first && self.goes_on;
        Some(is_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8], step: usize) -> (Vec<u64>, Vec<u8>) {
        let (mut frames, mut lengths, mut data) = (Frames::default(), Vec::new(), Vec::new());
        for (at, chunk) in bytes.chunks(step).enumerate() {
            let mut input = chunk;
            while let Some(piece) = frames.next(&mut input, at as u64) {
                match piece {
                    Piece::Begin => {}
                    Piece::Data(part) => data.extend_from_slice(part),
                    Piece::End => lengths.push(frames.message.bytes()),
                }
            }
        }
        (lengths, data)
    }

    #[test]
    fn a_long_message_comes_in_parts_and_an_empty_packet_ends_it() {
        let mut bytes = vec![1, 0, 0, 0, 7, 0, 0, 0, 1];
        bytes.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0]);
        bytes.resize(bytes.len() + 0xFF_FFFF, 9);
        bytes.extend_from_slice(&[0, 0, 0, 1, 2, 0, 0, 0, 5, 6]);
        for step in [1000, 1 << 20] {
            let (lengths, data) = walk(&bytes, step);
            assert_eq!(lengths, [5, 4, 0xFF_FFFF + 8, 6]);
            assert_eq!(data.len(), 1 + 0xFF_FFFF + 2);
        }
        assert_eq!(walk(&bytes[..9], 1).0, [5, 4]);
    }
}
