//! PostgreSQL's protocol, read from outside: exchanges in a queue, and the answers that are due to them in another.

mod answer;
mod fields;
mod frames;
mod group;
mod login;
mod names;
mod request;

use std::collections::VecDeque;

use xxhash_rust::xxh3::Xxh3;

use super::transactions::Transactions;
use super::{Observed, ServerError, SessionFacts, Side, Why};
use frames::Frames;
use group::{Due, Group};
use names::Names;

/// What is kept of a startup message, and of a message before the server lets the client in.
const LOGIN_BYTES: usize = 16 * 1024;
/// More exchanges than these are never under way.
const GROUPS_MAX: usize = 1 << 16;
/// What they may hold together before a new one keeps nothing, in bytes.
const HELD_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client speaks first.
    Startup,
    /// One byte says whether the server encrypts.
    Consent,
    Login,
    Commands,
    /// Nothing is expected any more.
    Over,
    /// Messages begin nobody knows where: a request that looks like one begins them anew.
    Lost,
}

/// One connection.
pub(super) struct Postgres {
    phase: Phase,
    client: Frames,
    server: Frames,
    facts: SessionFacts,
    /// The facts were told.
    is_told: bool,
    decrypts: bool,
    /// Bytes of this stream were lost before: what does not fit may be our own mistake.
    was_lost: bool,
    /// What is kept of the message at hand: of a login's or the server's, and of the client's.
    kept: Vec<u8>,
    sent: Vec<u8>,
    groups: VecDeque<Group>,
    /// The number of the first of them.
    first: u64,
    due: VecDeque<Due>,
    held: usize,
    /// The server reads over what comes before the next Sync, because of this.
    skips: Option<ServerError>,
    /// The client is asked for more: what it sends next is one more flight.
    is_asked: bool,
    /// The client's rows of COPY belong to the first group.
    is_copying: bool,
    /// It has sent the last of them.
    copy_ended: bool,
    rows: Xxh3,
    names: Names,
    /// The client has sent messages of the extended protocol since its last Sync.
    is_extended: bool,
    transactions: Transactions,
    backslash_escapes: bool,
    /// Bytes that belong to nothing.
    pub(super) unread: u64,
}

type Out<'a> = &'a mut dyn FnMut(Observed);

impl Postgres {
    pub(super) fn new(joined_late: bool) -> Self {
        Self {
            phase: if joined_late {
                Phase::Lost
            } else {
                Phase::Startup
            },
            client: if joined_late {
                Frames::default()
            } else {
                Frames::untagged()
            },
            server: Frames::default(),
            facts: SessionFacts {
                joined_late,
                began_ns: u64::MAX,
                ..SessionFacts::default()
            },
            is_told: false,
            decrypts: false,
            was_lost: joined_late,
            kept: Vec::new(),
            sent: Vec::new(),
            groups: VecDeque::new(),
            first: 0,
            due: VecDeque::new(),
            held: 0,
            skips: None,
            is_asked: false,
            is_copying: false,
            copy_ended: false,
            rows: Xxh3::new(),
            names: Names::default(),
            is_extended: false,
            transactions: Transactions::new(false),
            backslash_escapes: false,
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
        let is_first = self.facts.began_ns == u64::MAX;
        self.facts.began_ns = self.facts.began_ns.min(at_ns);
        if self.phase == Phase::Lost {
            if side == Side::Server || !request::begins_requests(bytes) {
                self.unread += bytes.len() as u64;
                return Ok(());
            }
            self.find(at_ns, out);
        }
        // A client that begins with TLS at once.
        if is_first && side == Side::Client && bytes[0] == 0x16 {
            self.unread += bytes.len() as u64;
            self.facts.tls = true;
            self.tell(at_ns, out);
            return Err(Why::Encrypted);
        }
        let mut input = bytes;
        loop {
            let before = input.len();
            let step = self.step(side, &mut input, at_ns, out);
            let why = match step {
                Ok(true) => continue,
                Ok(false) => return Ok(()),
                Err(why) => why,
            };
            if why == Why::NotTheProtocol && self.was_lost {
                self.lose(at_ns, out);
                self.unread += before as u64;
                return Ok(());
            }
            self.unread += input.len() as u64;
            self.flush(false, at_ns, out);
            return Err(why);
        }
    }

    /// One step; whether there was one.
    fn step(
        &mut self,
        side: Side,
        input: &mut &[u8],
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<bool, Why> {
        if self.phase == Phase::Over {
            self.unread += input.len() as u64;
            return Ok(false);
        }
        if side == Side::Server && self.phase == Phase::Consent {
            return match self.server.lone(input) {
                // An old server refuses what it does not know in a message.
                Some(byte) => self.consent(byte, at_ns, out).map(|()| true),
                None => Ok(false),
            };
        }
        let frames = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let next = frames.next(input, at_ns);
        let Some(piece) = next.map_err(|_| Why::NotTheProtocol)? else {
            return Ok(false);
        };
        let message = frames.message;
        match (side, self.phase) {
            (Side::Client, Phase::Commands) => self.request_step(piece, message, at_ns, out)?,
            (Side::Client, _) => self.login_step(piece, message, at_ns, out)?,
            (Side::Server, Phase::Startup) => return Err(Why::NotTheProtocol),
            (Side::Server, _) => self.server_step(piece, message, at_ns, out)?,
        }
        Ok(true)
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
        // What is missing may have given a name to another statement.
        self.names = Names::default();
        self.phase = Phase::Lost;
        self.was_lost = true;
    }

    /// A request begins here, after bytes that were lost.
    fn find(&mut self, at_ns: u64, out: Out<'_>) {
        self.client = Frames::default();
        self.server = Frames::default();
        self.phase = Phase::Commands;
        // What a Sync without anything before it ends is not known.
        self.is_extended = true;
        self.tell(at_ns, out);
    }

    /// Tell what is known of the session, once.
    fn tell(&mut self, at_ns: u64, out: Out<'_>) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.facts.ready_ns = at_ns;
            out(Observed::Session(Box::new(std::mem::take(&mut self.facts))));
        }
    }

    /// Tell exchanges without their whole answer as they stand.
    fn flush(&mut self, has_ended: bool, at_ns: u64, out: Out<'_>) {
        self.due.clear();
        self.rows.reset();
        self.skips = None;
        self.is_copying = false;
        while let Some(mut group) = self.groups.pop_front() {
            self.first += 1;
            let exchange = &mut group.exchange;
            // What the server refused before it hung up has its whole answer.
            let is_over = has_ended && exchange.error.is_some();
            exchange.incomplete = group.due > 0 && !is_over;
            exchange.request_end_ns = exchange.request_end_ns.min(at_ns);
            self.transactions.place(exchange, None);
            out(Observed::Exchange(group.exchange));
        }
        self.held = 0;
        self.transactions.forget();
    }

    fn group(&mut self, number: u64) -> Option<&mut Group> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.groups.get_mut(place)
    }

    /// Tell the exchanges at the front that wait for nothing more.
    fn settle(&mut self, out: Out<'_>) {
        while self.groups.front().is_some_and(Group::is_done) {
            let Some(mut group) = self.groups.pop_front() else {
                return;
            };
            self.first += 1;
            self.held -= group.held;
            let after = self.transaction_after(&group);
            self.transactions.place(&mut group.exchange, after);
            out(Observed::Exchange(group.exchange));
        }
    }
}

/// Keep of what follows as much as there is room for.
fn keep(kept: &mut Vec<u8>, data: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len());
    kept.extend_from_slice(&data[..data.len().min(room)]);
}
