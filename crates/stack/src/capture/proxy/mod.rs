//! The pass-through proxy: one thread and epoll for all connections. Bytes are received into a batch, sent on from there at once, and
//! read by the observer later.

pub mod batch;
pub mod clock;
mod pair;
mod stop;
#[cfg(test)]
mod tests;
pub mod tls;
mod waiting;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use super::counts::Counts;
use batch::{Spool, What};
use clock::Clock;
use pair::{Pair, Turn, Turned};
pub use stop::Stop;
use tls::{Ends, Out, Relay};
use waiting::Waiting;
use wire::passive::Side;

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX);
/// A server whose backlog is full, and a process without a free descriptor, are asked again.
const AGAIN: Duration = Duration::from_millis(2);
/// So long a client waits for a server that takes no connection.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection of which nothing was heard for so long is not in the middle of anything that we can see.
const QUIET: Duration = Duration::from_millis(100);
/// A peer that has been silent so long is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Of the histogram of the added time: 60 s.
const LONGEST_NS: u64 = 60_000_000_000;

/// How it went.
pub struct Forwarded {
    /// From the system's word that bytes have come to their having been sent on; bytes that the receiver was not ready for are not in it.
    pub added_ns: Histogram<u64>,
    /// How long traffic waited for the observer.
    pub waited: Duration,
    /// Connections that came and went while the observer lagged behind.
    pub unseen: u64,
}

impl Forwarded {
    /// A quantile of the added time, microseconds.
    #[must_use]
    pub fn added_us(&self, quantile: f64) -> f64 {
        self.added_ns.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// These added times.
    #[cfg(test)]
    pub(super) fn of(added_ns: &[u64]) -> Self {
        let mut histogram = Histogram::new_with_max(LONGEST_NS, 3).expect("valid bounds");
        added_ns
            .iter()
            .for_each(|&ns| histogram.saturating_record(ns));
        Self {
            added_ns: histogram,
            waited: Duration::ZERO,
            unseen: 0,
        }
    }
}

enum Slot {
    Free,
    Waiting(Waiting),
    Open(Box<Pair>),
}

/// All connections.
pub struct Proxy {
    poll: Poll,
    listener: Option<Socket>,
    server: SockAddr,
    /// For the next client's connection to the server.
    spare: Option<Socket>,
    tls: Option<Arc<Ends>>,
    out: Out,
    spool: Spool,
    clock: Clock,
    counts: Arc<Counts>,
    stop: Arc<Stop>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    freed: Vec<usize>,
    turns: VecDeque<usize>,
    again: Vec<usize>,
    /// Until when a slot's connection, by its number, may wait for the server, the first to end first; others may have come or gone.
    waits: VecDeque<(Instant, usize, u32)>,
    patience: Duration,
    accept: bool,
    number: u32,
    drain: Duration,
    ends: Option<Instant>,
    added_ns: Histogram<u64>,
}

impl Proxy {
    /// Take clients of `listener` to `server` until `stop` says so, then end what is under way within `drain`. TLS ends here where `tls`
    /// says how.
    ///
    /// # Errors
    /// The system's, where it has no epoll for us.
    pub fn new(
        listener: Socket,
        server: SockAddr,
        tls: Option<Ends>,
        spool: Spool,
        clock: Clock,
        counts: Arc<Counts>,
        drain: Duration,
    ) -> io::Result<(Self, Arc<Stop>)> {
        let poll = Poll::new()?;
        let stop = Arc::new(Stop::new(poll.registry(), WAKER)?);
        let fd = listener.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        let proxy = Self {
            poll,
            listener: Some(listener),
            server,
            spare: None,
            tls: tls.map(Arc::new),
            out: Out::default(),
            spool,
            clock,
            counts,
            stop: Arc::clone(&stop),
            slots: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            turns: VecDeque::new(),
            again: Vec::new(),
            waits: VecDeque::new(),
            patience: CONNECT,
            accept: true,
            number: 0,
            drain,
            ends: None,
            added_ns: Histogram::new_with_max(LONGEST_NS, 2).expect("valid bounds"),
        };
        Ok((proxy, stop))
    }

    /// Forward until the end.
    ///
    /// # Errors
    /// The system's, where epoll itself fails.
    pub fn run(mut self) -> io::Result<Forwarded> {
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let woke = Instant::now();
            for event in &events {
                match event.token() {
                    LISTENER => self.accept = true,
                    WAKER => {}
                    Token(token) => self.note(token, event),
                }
            }
            // Before those that are tried again: none of them may mean a slot that is free by then.
            self.end_overdue(woke);
            if self.accept {
                self.accept_all(woke);
            }
            for slot in std::mem::take(&mut self.again) {
                self.connect(slot);
            }
            debug_assert!(self.turns.len() <= self.slots.len(), "one each");
            for _ in 0..self.turns.len() {
                let slot = self.turns.pop_front().expect("counted");
                self.turn(slot, woke);
            }
            self.spool.turn(woke);
            self.free.append(&mut self.freed);
            if self.stop.is_asked() && self.drained(woke) {
                break;
            }
        }
        let forwarded = Forwarded {
            added_ns: self.added_ns,
            waited: self.spool.waited(),
            unseen: self.spool.unseen(),
        };
        self.spool.finish();
        Ok(forwarded)
    }

    /// How long to wait for the system's next word.
    fn timeout(&self) -> Option<Duration> {
        if !self.turns.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let waits_again = !self.again.is_empty() || self.accept;
        let waiting = self.waits.front();
        [
            self.spool.due(now),
            waits_again.then_some(AGAIN),
            waiting.map(|(until, ..)| until.saturating_duration_since(now)),
            self.ends.map(|_| QUIET / 10),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn note(&mut self, token: usize, event: &mio::event::Event) {
        let (slot, side) = (token / 2, side_of(token));
        match &mut self.slots[slot] {
            Slot::Free => {}
            Slot::Waiting(waiting) => match side {
                Side::Server => self.again.push(slot),
                Side::Client if waiting.is_left() => self.give_up(slot),
                Side::Client => {}
            },
            Slot::Open(pair) => {
                let end = pair.end_mut(side);
                end.readable |= event.is_readable() || event.is_error();
                end.hung_up |= event.is_read_closed() || event.is_error();
                if !std::mem::replace(&mut pair.has_turn, true) {
                    self.turns.push_back(slot);
                }
            }
        }
    }

    fn accept_all(&mut self, now: Instant) {
        self.accept = false;
        loop {
            let Some(listener) = &self.listener else {
                return;
            };
            // First the server's socket: a client who was accepted could no longer wait for a free descriptor.
            let spare = self.spare.take().map_or_else(|| to(&self.server), Ok);
            let Ok(server) = spare else {
                self.accept = true;
                return;
            };
            let error = match listener.accept() {
                Ok((client, _)) => {
                    self.take(client, server, now);
                    continue;
                }
                Err(error) => error,
            };
            self.spare = Some(server);
            match error.kind() {
                ErrorKind::WouldBlock => return,
                ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                // No descriptor is free, most likely.
                _ => {
                    self.accept = true;
                    return;
                }
            }
        }
    }

    /// A client has come.
    fn take(&mut self, client: Socket, server: Socket, now: Instant) {
        if prepare(&client).is_err() {
            return;
        }
        self.number += 1;
        self.counts.connections.fetch_add(1, Relaxed);
        let at_ns = self.clock.at_ns(now);
        self.spool.note(self.number, at_ns, What::Open);
        let waiting = Slot::Waiting(Waiting::new(self.number, client, server));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = waiting;
                slot
            }
            None => {
                self.slots.push(waiting);
                self.slots.len() - 1
            }
        };
        self.connect(slot);
        if let Slot::Waiting(waiting) = &self.slots[slot] {
            // A client that cannot be watched goes when its time is over.
            let _ = waiting.watch_client(slot, self.poll.registry());
            let until = now + self.patience;
            self.waits.push_back((until, slot, waiting.number));
        }
    }

    /// Go on connecting to the server, where the slot still waits for it.
    fn connect(&mut self, slot: usize) {
        let Slot::Waiting(waiting) = &mut self.slots[slot] else {
            return;
        };
        match waiting.connect(slot, &self.server, self.poll.registry()) {
            Ok(true) => self.open(slot),
            // The system tells.
            Ok(false) if waiting.is_told() => {}
            Ok(false) => self.again.push(slot),
            Err(_) => self.give_up(slot),
        }
    }

    /// End those that have waited for the server as long as they may.
    fn end_overdue(&mut self, now: Instant) {
        while let Some(&(until, slot, number)) = self.waits.front() {
            let slot_is = &self.slots[slot];
            let waits = matches!(slot_is, Slot::Waiting(waiting) if waiting.number == number);
            if waits && now < until {
                return;
            }
            self.waits.pop_front();
            if waits {
                self.give_up(slot);
            }
        }
    }

    /// A client that waits for the server sees an end.
    fn give_up(&mut self, slot: usize) {
        if let Slot::Waiting(waiting) = &self.slots[slot] {
            let number = waiting.number;
            self.counts.unreached.fetch_add(1, Relaxed);
            self.end(slot, number);
        }
    }

    fn open(&mut self, slot: usize) {
        let Slot::Waiting(waiting) = std::mem::replace(&mut self.slots[slot], Slot::Free) else {
            unreachable!("only who waits is opened");
        };
        let Waiting {
            number,
            client,
            server,
            ..
        } = waiting;
        let registry = self.poll.registry();
        for (socket, side) in [(&client, Side::Client), (&server, Side::Server)] {
            let (fd, token) = (socket.as_raw_fd(), token_of(slot, side));
            let mut source = SourceFd(&fd);
            // Known already where it had to be waited for.
            let known = registry.reregister(&mut source, token, Interest::READABLE);
            if known.is_err()
                && registry
                    .register(&mut source, token, Interest::READABLE)
                    .is_err()
            {
                self.end(slot, number);
                return;
            }
        }
        self.counts.open.fetch_add(1, Relaxed);
        let relay = self.tls.as_ref().map(Relay::new);
        let mut pair = Pair::new(number, client, server, relay);
        pair.has_turn = true;
        self.slots[slot] = Slot::Open(Box::new(pair));
        self.turns.push_back(slot);
    }

    fn turn(&mut self, slot: usize, woke: Instant) {
        let Slot::Open(pair) = &mut self.slots[slot] else {
            return;
        };
        let (counts, added_ns) = (&self.counts, &mut self.added_ns);
        let mut turned = Turned {
            spool: &mut self.spool,
            clock: self.clock,
            woke,
            forwarded: &mut |added| match added {
                Some(ns) => added_ns.saturating_record(ns),
                None => {
                    counts.held.fetch_add(1, Relaxed);
                }
            },
            broken: &mut |why| {
                counts.tls_broken.fetch_add(1, Relaxed);
                let _ = counts.tls_why.set(why.0);
            },
            out: &mut self.out,
        };
        let left = pair.turn(&mut turned);
        pair.has_turn = left == Turn::More;
        for side in [Side::Client, Side::Server] {
            let end = pair.end_mut(side);
            if let Some(interest) = end.changed_interest() {
                let fd = end.socket.as_raw_fd();
                let token = token_of(slot, side);
                // What cannot be waited for any more shows itself at the next turn.
                let _ = self
                    .poll
                    .registry()
                    .reregister(&mut SourceFd(&fd), token, interest);
            }
        }
        match left {
            Turn::Idle => {}
            Turn::More => self.turns.push_back(slot),
            Turn::Closed => self.close(slot),
        }
    }

    /// Both sockets go.
    fn close(&mut self, slot: usize) {
        if let Slot::Open(mut pair) = std::mem::replace(&mut self.slots[slot], Slot::Free) {
            pair.farewell();
            self.counts.open.fetch_sub(1, Relaxed);
            self.end(slot, pair.number);
        }
    }

    /// The connection has ended. Its slot is free from the next word of the system on: those that came with this one may mean it.
    fn end(&mut self, slot: usize, number: u32) {
        let at_ns = self.clock.at_ns(Instant::now());
        self.spool.note(number, at_ns, What::End);
        self.slots[slot] = Slot::Free;
        self.freed.push(slot);
    }

    /// Let everything end that is not in the middle of something; whether all has.
    fn drained(&mut self, now: Instant) -> bool {
        let ends = *self.ends.get_or_insert(now + self.drain);
        self.listener = None;
        let over = now >= ends || self.stop.is_pressed();
        for slot in 0..self.slots.len() {
            match &self.slots[slot] {
                Slot::Free => {}
                Slot::Waiting(waiting) => {
                    let number = waiting.number;
                    self.end(slot, number);
                }
                Slot::Open(pair) => {
                    let quiet = now.saturating_duration_since(pair.last.1) >= QUIET;
                    if over || quiet && !pair.is_busy() {
                        self.close(slot);
                    }
                }
            }
        }
        self.slots.iter().all(|slot| matches!(slot, Slot::Free))
    }
}

/// A socket for a connection to an address.
fn to(address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    prepare(&socket)?;
    Ok(socket)
}

fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if socket.local_addr()?.domain() != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE_INTERVAL);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

fn token_of(slot: usize, side: Side) -> Token {
    Token(2 * slot + usize::from(side == Side::Server))
}

fn side_of(token: usize) -> Side {
    if token.is_multiple_of(2) {
        Side::Client
    } else {
        Side::Server
    }
}
