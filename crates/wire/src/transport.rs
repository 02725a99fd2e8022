//! A stream of bytes to a server, encrypted or not, with a buffer for what arrives.

use crate::socket::Socket;
use crate::tls::Tls;
use crate::{Counters, Error, Limits, ServerUrl};

/// How much the buffer holds before a long answer makes it grow, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// What a buffer keeps for the next long answer or request, in bytes.
const KEPT_BYTES: usize = 512 * 1024;

/// Give back what an unusually long answer or request has made a buffer hold.
pub(crate) fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES {
        buffer.truncate(KEPT_BYTES);
        buffer.shrink_to(KEPT_BYTES);
    }
}

/// What lies between the buffer and the socket of an encrypted connection.
struct Encryption {
    tls: Tls,
    /// Encrypted bytes on their way out, and in.
    out: Vec<u8>,
    arrived: Vec<u8>,
}

/// A blocking byte stream to a server with a buffer for what arrives.
pub(crate) struct Transport {
    socket: Socket,
    /// Present once the connection is encrypted.
    encryption: Option<Encryption>,
    buffer: Vec<u8>,
    /// What lies between `start` and `end` has arrived and is not consumed.
    start: usize,
    end: usize,
}

impl Transport {
    /// Connect as the URL says. Nothing is encrypted yet.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn connect(url: &ServerUrl) -> Result<Self, Error> {
        Socket::connect(url).map(Self::over)
    }

    fn over(socket: Socket) -> Self {
        Self {
            socket,
            encryption: None,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// The login is over: answers may take as long as statements do.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn logged_in(&mut self, limits: Limits) -> Result<(), Error> {
        self.socket.logged_in(limits.read)
    }

    /// What crossed the socket, and the packets that the protocol on top has told of.
    pub(crate) fn counters(&self) -> Counters {
        self.socket.counters
    }

    /// Count a packet of the protocol on top.
    pub(crate) fn count_sent(&mut self) {
        self.socket.counters.packets_sent += 1;
    }

    /// Count packets of the protocol on top.
    pub(crate) fn count_received(&mut self, packets: u64) {
        self.socket.counters.packets_received += packets;
    }

    /// What has arrived and is not consumed.
    #[inline]
    pub(crate) fn arrived(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Encrypt everything from here on.
    ///
    /// # Errors
    /// [`Error::Tls`]; [`Error::Io`]; [`Error::Protocol`] where something unencrypted came after the server's consent, which somebody
    /// else could have put there.
    pub(crate) fn encrypt(&mut self, tls: Tls) -> Result<(), Error> {
        if self.start != self.end {
            let why = "unencrypted bytes after the consent to TLS";
            return Err(Error::Protocol(why.to_owned()));
        }
        self.encryption = Some(Encryption {
            tls,
            out: Vec::new(),
            arrived: vec![0; BUFFER_BYTES],
        });
        // The handshake's first words.
        self.send(&[])?;
        while matches!(&self.encryption, Some(encryption) if encryption.tls.is_handshaking()) {
            self.receive()?;
        }
        Ok(())
    }

    /// Whether what is sent reaches the right server and nobody else: a unix socket, or TLS with a certificate that was checked.
    pub(crate) fn is_private(&self) -> bool {
        self.socket.is_local || self.tls().is_some_and(|tls| tls.is_checked)
    }

    /// The encryption, where there is one.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.encryption.as_ref().map(|encryption| &encryption.tls)
    }

    /// Send all of it, in one system call unless the kernel takes less.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(Encryption { tls, out, .. }) = &mut self.encryption else {
            return self.socket.write(bytes);
        };
        out.clear();
        tls.seal(bytes, out)?;
        let sent = self.socket.write(out);
        trim(out);
        sent
    }

    /// All that has arrived and is not consumed, waiting until it is `at_least` so many bytes.
    ///
    /// # Errors
    /// [`Error::Io`], also where the server closes the connection before; [`Error::Tls`].
    #[inline]
    pub(crate) fn fill(&mut self, at_least: usize) -> Result<&[u8], Error> {
        if self.end - self.start < at_least {
            self.wait_for(at_least)?;
        }
        Ok(self.arrived())
    }

    fn wait_for(&mut self, at_least: usize) -> Result<(), Error> {
        while self.end - self.start < at_least {
            self.make_room(at_least);
            self.receive()?;
        }
        Ok(())
    }

    /// Forget the first bytes that [`Self::fill`] returned.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(
            self.start <= self.end,
            "more consumed than what has arrived"
        );
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            trim(&mut self.buffer);
        }
    }

    /// Have room for at least one more byte. A packet's length is the server's word: the buffer grows with what has arrived.
    fn make_room(&mut self, at_least: usize) {
        if self.start + at_least > self.buffer.len() || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
    }

    /// Wait for more, and put what of it is the protocol's behind what has arrived.
    fn receive(&mut self) -> Result<(), Error> {
        let Some(Encryption { tls, out, arrived }) = &mut self.encryption else {
            self.end += self.socket.read(&mut self.buffer[self.end..])?;
            return Ok(());
        };
        let read = self.socket.read(arrived)?;
        let opened = tls.open(&arrived[..read], |plain| {
            let after = self.end + plain.len();
            if after > self.buffer.len() {
                self.buffer.resize(after.next_power_of_two(), 0);
            }
            self.buffer[self.end..after].copy_from_slice(plain);
            self.end = after;
        });
        // TLS itself may have to answer: with the handshake's next words, or with why it ends here.
        out.clear();
        let answered = tls.seal(&[], out).and_then(|()| self.socket.write(out));
        opened.and(answered)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_long_answer_grows_the_buffer_and_everything_is_counted() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let mut transport = Transport::over(Socket::over(OwnedFd::from(ours).into(), true));
        let answer: Vec<u8> = (0..1_000_000u32).map(|number| number as u8).collect();
        let sent = answer.clone();
        let server = std::thread::spawn(move || {
            let mut request = [0; 4];
            theirs.read_exact(&mut request).expect("request");
            theirs.write_all(&sent).expect("answer");
        });
        transport.send(b"ping").expect("send");
        assert!(transport.fill(10).expect("some").len() >= 10);
        transport.consume(10);
        assert_eq!(transport.fill(999_990).expect("all"), &answer[10..]);
        transport.consume(999_990);
        assert!(transport.buffer.capacity() <= KEPT_BYTES);
        server.join().expect("server");
        assert_eq!(transport.counters().round_trips, 1);
        assert_eq!(transport.counters().bytes_sent, 4);
        assert_eq!(transport.counters().bytes_received, 1_000_000);
        assert!(matches!(transport.fill(1), Err(Error::Io(_))));
    }
}
