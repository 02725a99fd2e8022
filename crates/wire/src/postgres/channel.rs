//! Messages out in one write, messages in one after the other, both counted.

use std::io;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::message;
use crate::{Counters, Error, Limits, ServerUrl, tls::Tls, transport::Transport};

/// Nothing that a server says before it has let us in is longer.
const LOGIN_BYTES_MAX: usize = 64 * 1024;
/// What is kept for the next requests, in bytes.
const OUT_BYTES: usize = 8 * 1024;
const OUT_BYTES_KEPT_MAX: usize = 512 * 1024;

/// A message of the server, borrowed from the receive buffer.
pub(super) struct Message<'a> {
    pub(super) tag: u8,
    pub(super) body: &'a [u8],
}

/// A transport that speaks in messages.
pub(super) struct Channel {
    transport: Transport,
    out: BytesMut,
    /// Length of the message that [`Self::next`] returned last, which nobody borrows any more when it is called again, in bytes.
    returned_bytes: usize,
    /// The longest message that is taken, in bytes.
    pub(super) limit: usize,
}

impl Channel {
    /// # Errors
    /// [`Error::Io`]; [`Error::Unsupported`].
    pub(super) fn connect(url: &ServerUrl) -> Result<Self, Error> {
        Ok(Self {
            transport: Transport::connect(url)?,
            out: BytesMut::with_capacity(OUT_BYTES),
            returned_bytes: 0,
            limit: LOGIN_BYTES_MAX,
        })
    }

    pub(super) fn counters(&self) -> Counters {
        self.transport.counters()
    }

    /// Whether what is sent reaches the right server and nobody else.
    pub(super) fn is_private(&self) -> bool {
        self.transport.is_private()
    }

    /// What names the server's end of an encrypted connection.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        self.transport.tls()?.end_point()
    }

    /// The login is over: what the URL allows holds from here on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn logged_in(&mut self, limits: Limits) -> Result<(), Error> {
        self.limit = limits.packet_bytes;
        self.transport.logged_in(limits)
    }

    /// Ask for TLS, and encrypt what follows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the server has no TLS; [`Error::Tls`]; [`Error::Io`]; [`Error::Protocol`].
    pub(super) fn encrypt(&mut self, tls: Tls) -> Result<(), Error> {
        self.put(|out| {
            frontend::ssl_request(out);
            Ok(())
        })?;
        self.send()?;
        // One byte that is no message.
        let answer = self.transport.fill(1)?[0];
        self.transport.consume(1);
        match answer {
            b'S' => self.transport.encrypt(tls),
            b'N' => Err(Error::no_tls()),
            other => Err(message::unexpected(other)),
        }
    }

    /// Add one message to those that [`Self::send`] sends.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what no message can hold; then none of those added since the last sending is sent.
    pub(super) fn put(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Error> {
        if let Err(error) = encode(&mut self.out) {
            self.out.clear();
            return Err(Error::Unsupported(error.to_string()));
        }
        self.transport.count_sent();
        Ok(())
    }

    /// # Errors
    /// [`Error::Io`]; [`Error::Server`] where the server said why it hung up.
    pub(super) fn send(&mut self) -> Result<(), Error> {
        let sent = self.transport.send(&self.out);
        if self.out.capacity() > OUT_BYTES_KEPT_MAX {
            self.out = BytesMut::with_capacity(OUT_BYTES);
        }
        self.out.clear();
        sent.map_err(|broken| self.farewell().unwrap_or(broken))
    }

    /// Why the server hung up, where it said so before: that can still be read when nothing can be written any more.
    fn farewell(&mut self) -> Option<Error> {
        while let Ok(received) = self.next() {
            match received.tag {
                message::ERROR => return Some(message::error(received.body)),
                message::NOTICE => {}
                _ => break,
            }
        }
        None
    }

    /// The next message, waiting for it. Notifications are skipped.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Protocol`].
    pub(super) fn next(&mut self) -> Result<Message<'_>, Error> {
        loop {
            let (tag, message_bytes) = self.receive()?;
            if tag != message::NOTIFICATION {
                let body = &self.transport.fill(message_bytes)?[5..message_bytes];
                return Ok(Message { tag, body });
            }
        }
    }

    /// Wait until one whole message is in the buffer; its tag and its length with the tag.
    fn receive(&mut self) -> Result<(u8, usize), Error> {
        self.transport
            .consume(std::mem::take(&mut self.returned_bytes));
        let header = self.transport.fill(5)?;
        let tag = header[0];
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length < 4 {
            return Err(Error::Protocol(format!("a message of {length} bytes")));
        }
        if length > self.limit {
            return Err(Error::too_long(self.limit));
        }
        self.transport.fill(1 + length)?;
        self.transport.count_received(1);
        self.returned_bytes = 1 + length;
        Ok((tag, 1 + length))
    }
}
