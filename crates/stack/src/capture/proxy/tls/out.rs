//! What is to be done with the sockets and the observer, once bytes have come.

use wire::passive::Side;

/// Used again and again.
#[derive(Default)]
pub struct Out {
    client: Vec<u8>,
    server: Vec<u8>,
    seen: Vec<u8>,
    pieces: Vec<(Side, usize)>,
}

impl Out {
    /// Nothing is to be done.
    pub fn clear(&mut self) {
        self.client.clear();
        self.server.clear();
        self.seen.clear();
        self.pieces.clear();
    }

    /// What goes to a side's socket.
    pub fn to(&mut self, side: Side) -> &mut Vec<u8> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    pub(super) fn see(&mut self, side: Side, bytes: &[u8]) {
        self.seen.extend_from_slice(bytes);
        self.pieces.push((side, bytes.len()));
    }

    /// What both sides said, in order and without encryption.
    pub fn seen(&self) -> impl Iterator<Item = (Side, &[u8])> {
        let mut rest = self.seen.as_slice();
        self.pieces.iter().map(move |&(side, len)| {
            let (piece, after) = rest.split_at(len);
            rest = after;
            (side, piece)
        })
    }
}
