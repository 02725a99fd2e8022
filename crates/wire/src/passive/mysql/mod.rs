//! MySQL's and MariaDB's protocol, read from outside: requests in a queue, answers to the first of them.

mod answer;
mod character_set;
mod frames;
mod login;
mod packed;
mod parameters;
mod request;
mod statements;

use std::collections::VecDeque;

use xxhash_rust::xxh3::Xxh3;

use super::transactions::Transactions;
use super::{Exchange, Kind, Observed, SessionFacts, Side, Why};
pub use character_set::character_set;
use frames::{Frames, Message, Piece};
use login::Agreed;
pub use login::names_a_user;
use packed::Packed;
use request::{Expect, Request, begins_commands};
pub(super) use request::{PARAMETERS_BYTES_MAX, TEXT_BYTES_MAX};
use statements::Statements;

/// What is kept of the client's answer to the greeting, which may have 64 KiB of attributes.
const LOGIN_BYTES: usize = 80 * 1024;
/// What is kept of other packets than rows: all that is read of them stands before.
const ANSWER_BYTES: usize = 512;
/// More requests than these are never under way.
const QUEUE_MAX: usize = 1 << 16;
/// What requests under way may hold together before a new one keeps nothing, in bytes.
const QUEUE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server speaks first.
    Greeting,
    Login,
    Commands,
    /// Packets begin nobody knows where: a request that looks like one begins them anew.
    Lost,
}

/// One connection.
pub(super) struct Mysql {
    phase: Phase,
    client: Frames,
    server: Frames,
    /// Both have agreed on compression, and the login is over.
    is_packed: bool,
    packed: Option<Box<Packed>>,
    agreed: Agreed,
    offered: u64,
    facts: SessionFacts,
    /// The facts were told.
    is_told: bool,
    decrypts: bool,
    /// Packets of this stream were lost before: what does not fit may be our own mistake.
    was_lost: bool,
    /// What is kept of the client's login, or of the server's packet.
    kept: Vec<u8>,
    queue: VecDeque<Request>,
    /// What they hold of their payloads, in bytes.
    held: usize,
    expect: Expect,
    /// The first request's answer has begun.
    is_answering: bool,
    /// The client is asked for more: what it sends next is one more flight.
    is_asked: bool,
    /// What the client sends now goes on with the first request: its file, its proof.
    goes_on: bool,
    /// The number of the server's next packet.
    due: u8,
    /// The server's packet at hand is a row.
    is_row: bool,
    rows: Xxh3,
    statements: Statements,
    transactions: Transactions,
    backslash_escapes: bool,
    /// Bytes that belong to nothing.
    pub(super) unread: u64,
}

type Out<'a> = &'a mut dyn FnMut(Observed);

impl Mysql {
    pub(super) fn new(joined_late: bool) -> Self {
        Self {
            phase: if joined_late {
                Phase::Lost
            } else {
                Phase::Greeting
            },
            client: Frames::default(),
            server: Frames::default(),
            is_packed: false,
            packed: None,
            agreed: Agreed::default(),
            offered: 0,
            facts: SessionFacts {
                joined_late,
                began_ns: u64::MAX,
                ..SessionFacts::default()
            },
            is_told: false,
            decrypts: false,
            was_lost: joined_late,
            kept: Vec::new(),
            queue: VecDeque::new(),
            held: 0,
            expect: Expect::One,
            is_answering: false,
            is_asked: false,
            goes_on: false,
            due: 0,
            is_row: false,
            rows: Xxh3::new(),
            statements: Statements::default(),
            transactions: Transactions::new(true),
            backslash_escapes: true,
            unread: 0,
        }
    }

    pub(super) fn decrypts(&mut self) {
        self.decrypts = true;
    }

    pub(super) fn bytes(
        &mut self,
        side: Side,
        bytes: &[u8],
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        self.facts.began_ns = self.facts.began_ns.min(at_ns);
        if self.phase == Phase::Lost && !(side == Side::Client && self.join(bytes, at_ns, out)) {
            self.unread += bytes.len() as u64;
            return Ok(());
        }
        let mut input = bytes;
        loop {
            let before = input.len();
            let step = match self.is_packed {
                false => self.step(side, &mut input, at_ns, out),
                true => self.unpack(side, &mut input, at_ns, out),
            };
            match step {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Why::NotTheProtocol) if self.was_lost => {
                    self.lose(at_ns, out);
                    self.unread += before as u64;
                    return Ok(());
                }
                Err(why) => {
                    self.unread += input.len() as u64;
                    self.flush(false, at_ns, out);
                    return Err(why);
                }
            }
        }
    }

    /// One step through a message; whether there was one.
    fn step(
        &mut self,
        side: Side,
        input: &mut &[u8],
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<bool, Why> {
        let frames = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let Some(piece) = frames.next(input, at_ns) else {
            return Ok(false);
        };
        let message = frames.message;
        match side {
            Side::Client => self.client_step(piece, message, at_ns, out)?,
            Side::Server => self.server_step(piece, message, at_ns, out)?,
        }
        Ok(true)
    }

    /// All that can be unpacked.
    fn unpack(
        &mut self,
        side: Side,
        input: &mut &[u8],
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<bool, Why> {
        let mut packed = self.packed.take().unwrap_or_default();
        let read = self.unpack_by(&mut packed, side, input, at_ns, out);
        self.packed = Some(packed);
        read.map(|()| false)
    }

    fn unpack_by(
        &mut self,
        packed: &mut Packed,
        side: Side,
        input: &mut &[u8],
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        let unpacker = match side {
            Side::Client => &mut packed.client,
            Side::Server => &mut packed.server,
        };
        while let Some(plain) = unpacker.next(input)? {
            let mut plain = plain;
            while self.step(side, &mut plain, at_ns, out)? {}
        }
        Ok(())
    }

    /// Bytes are missing.
    pub(super) fn gap(&mut self, at_ns: u64, out: Out<'_>) {
        self.facts.began_ns = self.facts.began_ns.min(at_ns);
        self.lose(at_ns, out);
    }

    /// The connection has ended.
    pub(super) fn end(&mut self, at_ns: u64, out: Out<'_>) {
        self.flush(true, at_ns, out);
        if self.facts.began_ns < u64::MAX {
            self.tell(at_ns, out);
        }
    }

    fn lose(&mut self, at_ns: u64, out: Out<'_>) {
        self.flush(false, at_ns, out);
        self.phase = Phase::Lost;
        self.was_lost = true;
    }

    /// Whether a request begins here, after packets that were lost.
    fn join(&mut self, bytes: &[u8], at_ns: u64, out: Out<'_>) -> bool {
        if !self.is_packed && begins_commands(bytes) {
            self.find(at_ns, out);
            return true;
        }
        // Without its login nobody knows whether a connection is compressed.
        let may_be_packed = self.is_packed || !self.is_told;
        match may_be_packed.then(|| packed::joined(bytes)).flatten() {
            Some((plain, compression)) if begins_commands(&plain) => {
                if !self.is_packed {
                    self.is_packed = true;
                    self.facts.compression = compression;
                }
                self.find(at_ns, out);
                true
            }
            _ => false,
        }
    }

    fn find(&mut self, at_ns: u64, out: Out<'_>) {
        self.client = Frames::default();
        self.server = Frames::default();
        self.packed = None;
        self.phase = Phase::Commands;
        self.tell(at_ns, out);
    }

    /// Tell what is known of the session, once.
    fn tell(&mut self, at_ns: u64, out: Out<'_>) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.facts.ready_ns = at_ns;
            out(Observed::Session(Box::new(std::mem::take(&mut self.facts))));
        }
    }

    /// Tell requests without their whole answer as they stand.
    fn flush(&mut self, has_ended: bool, at_ns: u64, out: Out<'_>) {
        self.is_answering = false;
        while let Some(mut request) = self.queue.pop_front() {
            if request.command == 0 && request.length == 0 {
                continue;
            }
            self.held -= request.payload.len();
            request.read(self.backslash_escapes, self.agreed, &mut self.statements);
            // A server may refuse a request before it has all of it. Where bytes were lost, the rest of the request was.
            request.exchange.incomplete = !request.is_over || !(request.is_whole || has_ended);
            request.exchange.request_end_ns = request.exchange.request_end_ns.min(at_ns);
            out(Observed::Exchange(request.exchange));
        }
        self.transactions.forget();
    }

    fn client_step(
        &mut self,
        piece: Piece<'_>,
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        match (self.phase, piece) {
            (Phase::Greeting | Phase::Lost, _) => Err(Why::NotTheProtocol),
            (Phase::Login, Piece::Begin) => {
                self.kept.clear();
                self.is_asked = true;
                Ok(())
            }
            (Phase::Login, Piece::Data(data)) => {
                // The first answer to the greeting is read, proofs are not.
                if self.agreed.old_eof.is_none() {
                    keep(&mut self.kept, data, LOGIN_BYTES);
                }
                Ok(())
            }
            (Phase::Login, Piece::End) => self.login_sent(message, at_ns, out),
            (Phase::Commands, Piece::Begin) => self.request_begins(message),
            (Phase::Commands, Piece::Data(data)) => {
                self.request_data(data);
                Ok(())
            }
            (Phase::Commands, Piece::End) => {
                self.request_ends(message, at_ns, out);
                Ok(())
            }
        }
    }

    fn login_sent(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        self.facts.packets_sent += message.packets;
        self.facts.bytes_sent += message.bytes();
        if self.agreed.old_eof.is_some() {
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        let response = login::response(&kept, message.length, self.offered, &mut self.facts)?;
        if !response.wants_tls {
            self.agreed = response.agreed;
            return Ok(());
        }
        self.facts.tls = true;
        if self.decrypts {
            return Ok(());
        }
        self.tell(at_ns, out);
        Err(Why::Encrypted)
    }

    fn request_begins(&mut self, message: Message) -> Result<(), Why> {
        self.goes_on = match self.expect {
            _ if !self.is_answering => false,
            Expect::File => true,
            Expect::Login => message.sequence != 0,
            _ => false,
        };
        if self.goes_on {
            if let Some(request) = self.queue.front_mut() {
                request.exchange.round_trips += u32::from(std::mem::take(&mut self.is_asked));
            }
            return Ok(());
        }
        if message.sequence != 0 {
            return Err(Why::NotTheProtocol);
        }
        if self.queue.len() >= QUEUE_MAX {
            return Err(Why::TooMuch);
        }
        // The answer to the one before has not begun.
        let waits = self.queue.iter().rposition(Request::is_answered);
        let shares = waits.is_some_and(|at| at > 0 || !self.is_answering);
        self.queue.push_back(Request::new(message.began_ns, shares));
        Ok(())
    }

    fn request_data(&mut self, data: &[u8]) {
        if self.goes_on {
            return;
        }
        let Some(request) = self.queue.back_mut() else {
            return;
        };
        let mut data = data;
        if request.length == 0 {
            request.begin(data[0]);
            request.length = 1;
            data = &data[1..];
        }
        // Once a part was left out, so is what follows: a hole would end a literal elsewhere.
        let is_next = request.payload.len() as u64 + 1 == request.length;
        request.length += data.len() as u64;
        if is_next && self.held < QUEUE_BYTES_MAX && !request.is_read {
            let most = request.keeps();
            self.held += keep(&mut request.payload, data, most);
        }
    }

    fn request_ends(&mut self, message: Message, at_ns: u64, out: Out<'_>) {
        let request = match self.goes_on {
            true => self.queue.front_mut(),
            false => self.queue.back_mut(),
        };
        let Some(request) = request else {
            return;
        };
        request.exchange.packets_sent += message.packets;
        request.exchange.bytes_sent += message.bytes();
        request.exchange.request_end_ns = at_ns;
        if self.goes_on {
            self.due = message.sequence.wrapping_add(1);
            if self.expect == Expect::File && message.length == 0 {
                self.expect = Expect::Result;
            }
            return;
        }
        request.sequence = message.sequence;
        request.is_whole = true;
        self.settle(out);
    }

    /// Tell the requests at the front that wait for nothing more.
    fn settle(&mut self, out: Out<'_>) {
        while !self.is_answering {
            match self.queue.front() {
                Some(request)
                    if request.is_whole && (request.is_over || !request.is_answered()) => {}
                _ => return,
            }
            let Some(mut request) = self.queue.pop_front() else {
                return;
            };
            if !request.is_over {
                self.held -= request.payload.len();
                request.read(self.backslash_escapes, self.agreed, &mut self.statements);
            }
            self.transactions.place(&mut request.exchange, None);
            out(Observed::Exchange(request.exchange));
        }
    }
}

/// Keep of what follows as much as there is room for; how many bytes.
fn keep(kept: &mut Vec<u8>, data: &[u8], most: usize) -> usize {
    let fits = data.len().min(most.saturating_sub(kept.len()));
    kept.extend_from_slice(&data[..fits]);
    fits
}
