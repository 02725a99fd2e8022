//! A client's connection and the server's that belongs to it: what comes from one goes to the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use mio::Interest;
use socket2::Socket;

use super::batch::{RECEIVE_BYTES, Spool};
use super::clock::Clock;
use super::tls::{Broken, Out, Relay};
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

    /// Send behind what was kept.
    fn send_after(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if !self.is_blocked() {
            return self.send(bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(false)
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
    /// Takes why a connection's TLS broke.
    pub broken: &'a mut dyn FnMut(Broken),
    /// For what a relay says.
    pub out: &'a mut Out,
}

/// Both ends.
pub struct Pair {
    pub number: u32,
    pub client: End,
    pub server: End,
    /// The side that spoke last, and when.
    pub last: (Side, Instant),
    /// It waits for its turn: once, however often the system has told of it.
    pub has_turn: bool,
    /// Where TLS ends here.
    relay: Option<Box<Relay>>,
}

impl Pair {
    /// Nothing has passed yet.
    pub fn new(number: u32, client: Socket, server: Socket, relay: Option<Relay>) -> Self {
        Self {
            number,
            client: End::new(client),
            server: End::new(server),
            last: (Side::Server, Instant::now()),
            has_turn: false,
            relay: relay.map(Box::new),
        }
    }

    /// An end.
    pub fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// From the side that speaks to the other, and what lies between them.
    fn from(&mut self, side: Side) -> (&mut End, &mut End, Option<&mut Relay>) {
        let relay = self.relay.as_deref_mut();
        match side {
            Side::Client => (&mut self.client, &mut self.server, relay),
            Side::Server => (&mut self.server, &mut self.client, relay),
        }
    }

    /// Forward what has come, at most one receive of each side: a connection that streams lets the others go on.
    pub fn turn(&mut self, turned: &mut Turned) -> Turn {
        let mut more = false;
        for side in [Side::Client, Side::Server] {
            more |= self.forward(side, turned);
        }
        // Only now: what waited for a handshake with one side may have been released by the other's turn.
        for side in [Side::Client, Side::Server] {
            self.finish(side);
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
        let (source, target, mut relay) = self.from(side);
        if target.is_blocked() && target.flush().is_err() {
            break_off(source, target);
        }
        if source.ended || target.is_blocked() || !source.readable {
            return false;
        }
        let received = (&source.socket).read(turned.spool.room());
        let len = match received {
            Ok(0) => {
                source.ended = true;
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
                return false;
            }
        };
        // A stream's socket that gave less than was asked for is empty (epoll(7)); an end that has come with the bytes is not told
        // again.
        source.readable = len == RECEIVE_BYTES || source.hung_up;
        let began = Instant::now();
        let sent = match &mut relay {
            None => target.send(turned.spool.received(len)),
            Some(relay) => relayed(source, target, relay, side, len, turned),
        };
        let now = Instant::now();
        let added = matches!(sent, Ok(true)).then(|| nanos(now - turned.woke));
        if sent.is_err() {
            break_off(source, target);
        }
        let more = source.readable && !source.ended && !target.is_blocked();
        (turned.forwarded)(added);
        let at_ns = turned.clock.at_ns(began);
        if relay.is_none() {
            turned.spool.keep(number, at_ns, side, len);
            self.last = (side, now);
            return more;
        }
        for (side, piece) in turned.out.seen() {
            turned.spool.put(number, at_ns, side, piece);
            self.last = (side, now);
        }
        more
    }

    /// This side has ended: say so to the other one, once that has all that came before.
    fn finish(&mut self, side: Side) {
        let (source, target, relay) = self.from(side);
        // A client that never ends its handshake would keep what the server said last, and the connection, for ever.
        let holds = side == Side::Client
            && relay
                .as_ref()
                .is_some_and(|relay| relay.holds(Side::Server));
        if !source.ended || target.closed || target.is_blocked() || holds {
            return;
        }
        if let Ok(false) = say_farewell(target, relay, side) {
            return;
        }
        target.closed = true;
        // It may have gone already.
        let _ = target.socket.shutdown(Shutdown::Write);
    }

    /// The connection is about to be closed: whoever reads encrypted bytes learns that these were the last ones.
    pub fn farewell(&mut self) {
        for side in [Side::Client, Side::Server] {
            let (_, target, relay) = self.from(side);
            if !target.closed {
                // Whoever takes no more has to do without it.
                let _ = say_farewell(target, relay, side);
            }
        }
    }

    /// Whether a request may be on its way: the client spoke last, or what was said has not arrived.
    pub fn is_busy(&self) -> bool {
        self.last.0 == Side::Client || self.client.is_blocked() || self.server.is_blocked()
    }
}

/// What was received of a side goes through the relay; whether all that this made for the other side is sent.
fn relayed(
    source: &mut End,
    target: &mut End,
    relay: &mut Relay,
    side: Side,
    len: usize,
    turned: &mut Turned,
) -> io::Result<bool> {
    let out = &mut *turned.out;
    out.clear();
    let taken = relay.take(side, turned.spool.received(len), out);
    // The TLS protocol's own answers. A source that does not take them shows that by its end.
    let _ = source.send_after(out.to(side));
    let sent = target.send(out.to(side.other()));
    if let Err(broken) = taken {
        (turned.broken)(broken);
        (source.ended, target.ended) = (true, true);
    }
    sent
}

/// The last words of TLS, once; whether they are sent.
fn say_farewell(target: &mut End, relay: Option<&mut Relay>, side: Side) -> io::Result<bool> {
    let mut words = Vec::new();
    if let Some(relay) = relay {
        relay.close(side.other(), &mut words);
    }
    target.send_after(&words)
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
