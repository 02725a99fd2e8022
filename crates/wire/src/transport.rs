//! The socket: one write a request, as few reads as the answer allows, each system call counted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use socket2::{SockAddr, Socket as Stream, Type};

use crate::tls::Tls;
use crate::{Counters, Error, Family, ServerUrl, fibers};

/// How much the buffer holds before a long answer makes it grow, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;

/// Make a socket and connect it; in a fiber the others go on meanwhile.
fn connected(address: &SockAddr) -> io::Result<Stream> {
    let stream = Stream::new(address.domain(), Type::STREAM, None)?;
    match fibers::connect(stream.as_raw_fd(), address) {
        Some(connected) => connected?,
        None => stream.connect(address)?,
    }
    Ok(stream)
}

/// The first of a host's addresses that takes a connection. Looking the name up blocks the thread.
fn over_tcp(host: &str, port: u16) -> io::Result<Stream> {
    let mut refused = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match connected(&address.into()) {
            Ok(stream) => {
                stream.set_tcp_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The stream, and what it counts.
struct Socket {
    stream: Stream,
    /// A unix socket.
    local: bool,
    /// Something was sent that nothing has been waited for yet.
    unanswered: bool,
    counters: Counters,
}

impl Socket {
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(written) = fibers::send(self.stream.as_raw_fd(), bytes) {
            self.counters.syscalls += fibers::take_syscalls();
            return written;
        }
        self.counters.syscalls += 1;
        self.stream.write(bytes)
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(read) = fibers::receive(self.stream.as_raw_fd(), buffer) {
            self.counters.syscalls += fibers::take_syscalls();
            return read;
        }
        self.counters.syscalls += 1;
        self.stream.read(buffer)
    }

    /// Send all of it, in one system call unless the kernel takes less.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(written) => {
                    self.counters.bytes_sent += written as u64;
                    self.unanswered = true;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Wait for at least one byte.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.unanswered {
            self.counters.round_trips += 1;
            self.unanswered = false;
        }
        loop {
            match self.read_some(buffer) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(read) => {
                    self.counters.bytes_received += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Socket {
    /// The last words (a statement's close, a terminate) have no answer that would have sent them.
    fn drop(&mut self) {
        fibers::flush();
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
    /// Connect to the socket file, or to host and port where the URL names none. Nothing is encrypted yet.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn connect(url: &ServerUrl) -> Result<Self, Error> {
        Ok(match socket_file(url) {
            Some(path) => Self::over(connected(&SockAddr::unix(path)?)?, true),
            None => Self::over(over_tcp(&url.host, url.port)?, false),
        })
    }

    fn over(stream: Stream, local: bool) -> Self {
        Self {
            socket: Socket {
                stream,
                local,
                unanswered: false,
                counters: Counters::default(),
            },
            encryption: None,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// What crossed the socket, and the packets that the protocol on top has told of.
    pub(crate) fn counters(&self) -> Counters {
        self.socket.counters
    }

    /// Count a packet of the protocol on top.
    pub(crate) fn count_sent(&mut self) {
        self.socket.counters.packets_sent += 1;
    }

    /// Count a packet of the protocol on top.
    pub(crate) fn count_received(&mut self) {
        self.socket.counters.packets_received += 1;
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

    /// Whether nobody on a network can listen: a password may be sent as it is.
    pub(crate) fn is_private(&self) -> bool {
        self.encryption.is_some() || self.socket.local
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
        self.socket.write(out)
    }

    /// All that has arrived and is not consumed, waiting until it is `at_least` so many bytes.
    ///
    /// # Errors
    /// [`Error::Io`], also where the server closes the connection before; [`Error::Tls`].
    pub(crate) fn fill(&mut self, at_least: usize) -> Result<&[u8], Error> {
        while self.end - self.start < at_least {
            self.make_room(at_least);
            self.receive()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Forget the first bytes that [`Self::fill`] returned.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(
            self.start <= self.end,
            "more consumed than what has arrived"
        );
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
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

/// PostgreSQL's users name the folder; the server names the file in it after the port.
fn socket_file(url: &ServerUrl) -> Option<PathBuf> {
    let path = url.socket.as_ref()?;
    if url.family == Family::Postgres && path.is_dir() {
        return Some(path.join(format!(".s.PGSQL.{}", url.port)));
    }
    Some(path.clone())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_long_answer_grows_the_buffer_and_everything_is_counted() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let mut transport = Transport::over(OwnedFd::from(ours).into(), true);
        let answer: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        let sent = answer.clone();
        let server = std::thread::spawn(move || {
            let mut request = [0; 4];
            theirs.read_exact(&mut request).expect("request");
            theirs.write_all(&sent).expect("answer");
        });
        transport.send(b"ping").expect("send");
        assert!(transport.fill(10).expect("some").len() >= 10);
        transport.consume(10);
        assert_eq!(transport.fill(99_990).expect("all"), &answer[10..]);
        transport.consume(99_990);
        server.join().expect("server");
        assert_eq!(transport.counters().round_trips, 1);
        assert_eq!(transport.counters().bytes_sent, 4);
        assert_eq!(transport.counters().bytes_received, 100_000);
        assert!(matches!(transport.fill(1), Err(Error::Io(_))));
    }
}
