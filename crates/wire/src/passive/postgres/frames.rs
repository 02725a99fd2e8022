//! Messages of one side, told piece by piece, so that none has to be held.

/// Neither side takes a longer message. What says a longer one was joined in the middle of another.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// A step through a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Its head is whole.
    Begin,
    /// The next bytes of its body, at least one.
    Data(&'a [u8]),
    /// It is whole.
    End,
}

/// What is known of the message at hand.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Message {
    /// Its kind; 0 for the client's first one, which has none.
    pub(super) tag: u8,
    /// Bytes so far, with its head.
    pub(super) bytes: u64,
    /// Bytes that its body will have.
    pub(super) length: u32,
    /// When its first byte came.
    pub(super) began_ns: u64,
}

/// Takes the messages of one side apart.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; 5],
    have: usize,
    /// The head is whole; so many bytes of the body are missing.
    body: Option<u32>,
    /// The next message begins with its length.
    pub(super) is_untagged: bool,
    pub(super) message: Message,
}

/// A length that no message has: it counts less than itself, or more than [`BODY_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongLength;

impl Frames {
    /// Of a side whose first message has no tag.
    pub(super) fn untagged() -> Self {
        Self {
            is_untagged: true,
            ..Self::default()
        }
    }

    /// The next step, which takes its bytes off the input; `None` when more are needed.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        at_ns: u64,
    ) -> Result<Option<Piece<'a>>, WrongLength> {
        let Some(left) = self.body else {
            return self.begin(input, at_ns);
        };
        if left == 0 {
            self.body = None;
            return Ok(Some(Piece::End));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let (data, rest) = input.split_at(input.len().min(left as usize));
        *input = rest;
        self.body = Some(left - data.len() as u32);
        self.message.bytes += data.len() as u64;
        Ok(Some(Piece::Data(data)))
    }

    fn begin<'a>(
        &mut self,
        input: &mut &'a [u8],
        at_ns: u64,
    ) -> Result<Option<Piece<'a>>, WrongLength> {
        if self.have == 0 && self.is_untagged {
            self.head[0] = 0;
            self.have = 1;
            self.message.began_ns = at_ns;
        }
        while self.have < self.head.len() {
            let Some((byte, rest)) = input.split_first() else {
                return Ok(None);
            };
            if self.have == usize::from(self.is_untagged) {
                self.message.began_ns = at_ns;
            }
            self.head[self.have] = *byte;
            self.have += 1;
            *input = rest;
        }
        self.have = 0;
        let [tag, length @ ..] = self.head;
        let body = u32::from_be_bytes(length).checked_sub(4);
        let body = body.filter(|body| *body <= BODY_BYTES_MAX);
        let body = body.ok_or(WrongLength)?;
        self.body = Some(body);
        self.message.length = body;
        self.message.tag = tag;
        self.message.bytes = if self.is_untagged { 4 } else { 5 };
        Ok(Some(Piece::Begin))
    }

    /// The next byte, which is no message.
    pub(super) fn lone(&mut self, input: &mut &[u8]) -> Option<u8> {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        Some(*byte)
    }
}
