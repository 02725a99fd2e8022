//! The socket: made with a time limit, one write a request, as few reads as the answer allows, each system call counted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use socket2::{SockAddr, Socket as Stream, TcpKeepalive, Type};

use crate::{Counters, Error, ServerUrl, fibers};

/// A peer that has been silent so long is asked whether it is still there; Linux gives up after nine questions without an answer.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The stream, and what it counts.
pub(crate) struct Socket {
    stream: Stream,
    /// A unix socket.
    pub(crate) is_local: bool,
    /// How long each read or write may wait.
    limit: Option<Duration>,
    /// When the login has to be over, and how long it may take.
    login: Option<(Instant, Duration)>,
    /// Something was sent that nothing has been waited for yet.
    unanswered: bool,
    pub(crate) counters: Counters,
}

impl Socket {
    /// Connect to the socket file, or to host and port where the URL names none.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn connect(url: &ServerUrl) -> Result<Self, Error> {
        let limit = url.limits.connect;
        let began = Instant::now();
        let (stream, is_local) = match url.socket_file() {
            Some(path) => (connected(&SockAddr::unix(path)?, limit)?, true),
            None => (over_tcp(&url.host, url.port, limit)?, false),
        };
        let mut socket = Self::over(stream, is_local);
        socket.login = limit.map(|limit| (began + limit, limit));
        Ok(socket)
    }

    pub(crate) fn over(stream: Stream, is_local: bool) -> Self {
        Self {
            stream,
            is_local,
            limit: None,
            login: None,
            unanswered: false,
            counters: Counters::default(),
        }
    }

    /// The login is over: how long each read or write may wait from now on.
    pub(crate) fn logged_in(&mut self, limit: Option<Duration>) -> Result<(), Error> {
        self.login = None;
        Ok(self.set_limit(limit)?)
    }

    fn set_limit(&mut self, limit: Option<Duration>) -> io::Result<()> {
        if self.limit != limit {
            self.stream.set_read_timeout(limit)?;
            self.stream.set_write_timeout(limit)?;
            self.limit = limit;
        }
        Ok(())
    }

    /// Before the login is over, wait no longer than what is left for all of it: however often the server says a little.
    fn renew_limit(&mut self) -> io::Result<()> {
        let Some((until, _)) = self.login else {
            return Ok(());
        };
        match until.checked_duration_since(Instant::now()) {
            Some(rest) if !rest.is_zero() => self.set_limit(Some(rest)),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// What the user has limited.
    fn said(&self, error: io::Error) -> io::Error {
        timed_out(error, self.login.map(|(_, limit)| limit).or(self.limit))
    }

    /// Send all of it, in one system call unless the kernel takes less.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(written) => {
                    self.counters.bytes_sent += written as u64;
                    self.unanswered = true;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.said(error).into()),
            }
        }
        Ok(())
    }

    /// Wait for at least one byte.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
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
                Err(error) => return Err(self.said(error).into()),
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.renew_limit()?;
        if let Some(sent) = fibers::send(self.stream.as_raw_fd(), bytes, self.limit) {
            self.counters.syscalls += sent.syscalls;
            return sent.result;
        }
        self.counters.syscalls += 1;
        self.stream.write(bytes)
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.renew_limit()?;
        if let Some(received) = fibers::receive(self.stream.as_raw_fd(), buffer, self.limit) {
            self.counters.syscalls += received.syscalls;
            return received.result;
        }
        self.counters.syscalls += 1;
        self.stream.read(buffer)
    }
}

impl Drop for Socket {
    /// The last words (a statement's close, a terminate) have no answer that would have sent them.
    fn drop(&mut self) {
        fibers::flush();
    }
}

/// Make a socket and connect it; in a fiber the others go on meanwhile.
fn connected(address: &SockAddr, limit: Option<Duration>) -> io::Result<Stream> {
    let stream = Stream::new(address.domain(), Type::STREAM, None)?;
    // Connecting counts as writing.
    stream.set_write_timeout(limit)?;
    fibers::connect(stream.as_raw_fd(), address, limit)
        .unwrap_or_else(|| stream.connect(address))
        .map_err(|error| timed_out(error, limit))?;
    Ok(stream)
}

/// The first of a host's addresses that takes a connection, all of them within the limit.
fn over_tcp(host: &str, port: u16, limit: Option<Duration>) -> io::Result<Stream> {
    let began = Instant::now();
    let mut refused = io::Error::other("the host has no address");
    for address in addresses(host, port, limit)? {
        // A limit of no time at all would be none.
        let rest = limit.map(|limit| {
            limit
                .saturating_sub(began.elapsed())
                .max(Duration::from_millis(1))
        });
        match connected(&address.into(), rest) {
            Ok(stream) => {
                stream.set_tcp_nodelay(true)?;
                let keepalive = TcpKeepalive::new()
                    .with_time(KEEPALIVE)
                    .with_interval(KEEPALIVE_INTERVAL);
                stream.set_tcp_keepalive(&keepalive)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Look a host up. The system's resolver has a thread of its own: a fiber's stack is too small for it, and it knows no limit. The
/// calling thread waits for it.
fn addresses(host: &str, port: u16, limit: Option<Duration>) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (tell, told) = mpsc::channel();
    let host = host.to_owned();
    std::thread::Builder::new().spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        // Nobody listens any more where it came too late.
        let _ = tell.send(found.map(Iterator::collect));
    })?;
    let found = match limit {
        Some(limit) => told.recv_timeout(limit).ok(),
        None => told.recv().ok(),
    };
    found.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
}

/// The system says "again" or "in progress" when a limit is over.
fn timed_out(error: io::Error, limit: Option<Duration>) -> io::Error {
    let is_over = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        || error.raw_os_error() == Some(libc::EINPROGRESS);
    match limit {
        Some(limit) if is_over => {
            let words = format!("no answer within {limit:?}");
            io::Error::new(ErrorKind::TimedOut, words)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_silent_server_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("bound").port();
        let url = move |options: &str| {
            let text = format!("mysql://root@localhost:{port}/?{options}");
            ServerUrl::parse(&text).expect("valid")
        };
        let attempt = move || {
            let lost = crate::connect(&url("connect_timeout=1"))
                .err()
                .expect("silent");
            assert!(
                lost.is_disconnect() && lost.to_string().contains("within 1s"),
                "{lost}"
            );
        };
        attempt();
        let body: fibers::Body<()> = Box::new(attempt);
        fibers::run_fibers(vec![body]).expect("fibers");
        drop(silent);
    }

    #[test]
    fn a_server_that_never_comes_to_the_end_of_the_login_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            // Each of these notices comes well within the limit; the client goes away, or all of them were not enough.
            let notices = std::iter::repeat_n(b"N\0\0\0\x05\0", 100);
            let said = notices.take_while(|&notice| {
                std::thread::sleep(Duration::from_millis(50));
                stream.write_all(notice).is_ok()
            });
            said.count()
        });
        let url = format!("postgres://me@127.0.0.1:{port}/?connect_timeout=1");
        let lost = crate::connect(&ServerUrl::parse(&url).expect("valid"));
        let lost = lost.err().expect("no login").to_string();
        assert!(lost.contains("within 1s"), "{lost}");
        assert!(server.join().expect("server") < 100);
    }

    #[test]
    fn a_host_that_does_not_exist_is_an_error() {
        let found = addresses("no-such-host.invalid", 1, Some(Duration::from_secs(20)));
        assert!(found.is_err());
        assert_eq!(addresses("::1", 7, None).expect("literal").len(), 1);
    }
}
