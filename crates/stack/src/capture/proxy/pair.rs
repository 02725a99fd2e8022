//! A client's connection and the server's that belongs to it: what comes from one goes to the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use mio::Interest;
use socket2::Socket;

use super::batch::{RECEIVE_BYTES, Spool};
use super::clock::Clock;
use wire::passive::Side;

/// One of the two sockets.
pub struct End {
    pub socket: Socket,
    /// It may have bytes for us.
    pub readable: bool,
    /// The peer has gone: what is there has to be read up to its end.
    pub hung_up: bool,
    /// No byte will come any more.
    ended: bool,
    /// No byte can go there any more.
    closed: bool,
    /// What the kernel has not taken yet; nothing is received for this end until it has.
    pending: Vec<u8>,
    taken: usize,
    /// The system tells when it can take more.
    watched: bool,
}

impl End {
    fn new(socket: Socket) -> Self {
        Self {
            socket,
            readable: true,
            hung_up: false,
            ended: false,
            closed: false,
            pending: Vec::new(),
            taken: 0,
            watched: false,
        }
    }

    /// What the system should tell from now on, where that is something else than before. Always to be told of room would wake us
    /// whenever a peer reads.
    pub fn changed_interest(&mut self) -> Option<Interest> {
        if self.watched == self.is_blocked() {
            return None;
        }
        self.watched = !self.watched;
        Some(if self.watched {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        })
    }

    /// Whether it waits for its peer to take bytes.
    pub fn is_blocked(&self) -> bool {
        self.taken < self.pending.len()
    }

    /// Send as much as the kernel takes. What it does not take is kept.
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let mut sent = 0;
        while sent < bytes.len() {
            match (&self.socket).write(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.pending.clear();
                    self.taken = 0;
                    self.pending.extend_from_slice(&bytes[sent..]);
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Send what was kept.
    fn flush(&mut self) -> io::Result<()> {
        while self.is_blocked() {
            match (&self.socket).write(&self.pending[self.taken..]) {
                Ok(more) => self.taken += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // The memory goes back: a connection that was slow once may sit idle for days.
        self.pending = Vec::new();
        self.taken = 0;
        Ok(())
    }
}

/// What is left to do for a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing until a socket says so.
    Idle,
    /// More has come than one turn takes.
    More,
    /// Both sides have ended.
    Closed,
}

/// What every turn needs.
pub struct Turned<'a> {
    pub spool: &'a mut Spool,
    pub clock: Clock,
    /// When the system said what has come.
    pub woke: Instant,
    /// Takes how many nanoseconds bytes took that were forwarded; none where the receiver was not ready for all of them.
    pub forwarded: &'a mut dyn FnMut(Option<u64>),
}

/// Both ends.
pub struct Pair {
    pub number: u32,
    pub client: End,
    pub server: End,
    /// The side that spoke last, and when.
    pub last: (Side, Instant),
}

impl Pair {
    /// Nothing has passed yet.
    pub fn new(number: u32, client: Socket, server: Socket) -> Self {
        Self {
            number,
            client: End::new(client),
            server: End::new(server),
            last: (Side::Server, Instant::now()),
        }
    }

    /// An end.
    pub fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// From the side that speaks to the other.
    fn from(&mut self, side: Side) -> (&mut End, &mut End) {
        match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }

    /// Forward what has come, at most one receive of each side: a connection that streams lets the others go on.
    pub fn turn(&mut self, turned: &mut Turned) -> Turn {
        let mut more = false;
        for side in [Side::Client, Side::Server] {
            more |= self.forward(side, turned);
        }
        if more {
            return Turn::More;
        }
        let blocked = self.client.is_blocked() || self.server.is_blocked();
        if self.client.ended && self.server.ended && !blocked {
            return Turn::Closed;
        }
        Turn::Idle
    }

    /// Whether there may be more of this side.
    fn forward(&mut self, side: Side, turned: &mut Turned) -> bool {
        let number = self.number;
        let (source, target) = self.from(side);
        if target.is_blocked() && target.flush().is_err() {
            break_off(source, target);
        }
        if source.ended || target.is_blocked() {
            finish(source, target);
            return false;
        }
        if !source.readable {
            return false;
        }
        let received = (&source.socket).read(turned.spool.room());
        let len = match received {
            Ok(0) => {
                source.ended = true;
                finish(source, target);
                return false;
            }
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                source.readable = false;
                return false;
            }
            // Reset, or gone in another way: the other side sees an end, as it would have without us.
            Err(_) => {
                source.ended = true;
                finish(source, target);
                return false;
            }
        };
        // A stream's socket that gave less than was asked for is empty (epoll(7)); an end that has come with the bytes is not told
        // again.
        source.readable = len == RECEIVE_BYTES || source.hung_up;
        let began = Instant::now();
        let sent = target.send(turned.spool.received(len));
        let now = Instant::now();
        let added = matches!(sent, Ok(true)).then(|| nanos(now - turned.woke));
        if sent.is_err() {
            break_off(source, target);
        }
        let more = source.readable && !source.ended && !target.is_blocked();
        (turned.forwarded)(added);
        turned
            .spool
            .keep(number, turned.clock.at_ns(began), side, len);
        self.last = (side, now);
        more
    }

    /// Whether a request may be on its way: the client spoke last, or what was said has not arrived.
    pub fn is_busy(&self) -> bool {
        self.last.0 == Side::Client || self.client.is_blocked() || self.server.is_blocked()
    }
}

/// The source has ended: say so to the target, once it has all that came before.
fn finish(source: &End, target: &mut End) {
    if source.ended && !target.is_blocked() && !target.closed {
        target.closed = true;
        // It may have gone already.
        let _ = target.socket.shutdown(Shutdown::Write);
    }
}

/// The target takes no more: the source's bytes have nowhere to go, and it gets to know.
fn break_off(source: &mut End, target: &mut End) {
    target.closed = true;
    target.pending = Vec::new();
    target.taken = 0;
    // What the target has said before it went still has to be read: only this direction ends.
    target.readable = true;
    source.ended = true;
    let _ = source.socket.shutdown(Shutdown::Read);
}

fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
