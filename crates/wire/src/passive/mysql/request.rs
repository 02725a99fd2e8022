//! Commands: what they are, and what they ask for.

use super::login::Agreed;
use super::parameters;
use super::statements::{Prepared, Statements};
use crate::mysql::field::Fields;
use crate::passive::{Exchange, Kind, Text, Why};
use crate::sql::verb;
use crate::{Dialect, Family};

/// Text of a statement that is kept, in bytes.
pub(in crate::passive) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Parameters of an execution that are kept, in bytes.
pub(in crate::passive) const PARAMETERS_BYTES_MAX: usize = 64 * 1024;
/// What is kept of other commands, in bytes.
const OTHER_BYTES: usize = 1024;

const QUIT: u8 = 0x01;
const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const FIELD_LIST: u8 = 0x04;
const STATISTICS: u8 = 0x09;
const PROCESS_INFO: u8 = 0x0A;
const PING: u8 = 0x0E;
const CHANGE_USER: u8 = 0x11;
const BINLOG_DUMP: u8 = 0x12;
const TABLE_DUMP: u8 = 0x13;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
const RESET: u8 = 0x1A;
const FETCH: u8 = 0x1C;
const BINLOG_DUMP_GTID: u8 = 0x1E;
const RESET_CONNECTION: u8 = 0x1F;
const CLONE: u8 = 0x20;
const GROUP_REPLICATION: u8 = 0x21;
const BULK_EXECUTE: u8 = 0xFA;

/// What an answer begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// OK, an error, a wish for a file, or a number of columns.
    Result,
    /// So many definitions.
    Definitions(u64, After),
    /// The EOF packet behind definitions.
    EndOfDefinitions(After),
    /// Rows to their end.
    Rows,
    /// The client's file.
    File,
    /// A login again.
    Login,
    /// The answer to a preparation.
    Prepared,
    /// One packet.
    One,
}

/// What follows definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Rows,
    /// Definitions of so many columns, behind those of parameters.
    Columns(u64),
    Nothing,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: u8,
    /// What is kept of its payload, from behind the command on.
    pub(super) payload: Vec<u8>,
    /// Its payload's length, in bytes.
    pub(super) length: u64,
    /// It shares a flight with the one before.
    pub(super) shares_flight: bool,
    /// The client has sent all of it.
    pub(super) is_whole: bool,
    /// It was answered before the client had sent all of it.
    pub(super) is_over: bool,
    /// [`Self::read`] was called.
    pub(super) is_read: bool,
    /// The number of its last packet.
    pub(super) sequence: u8,
    /// The prepared statement that it names.
    pub(super) statement: Option<u32>,
    /// It prepares a statement whose parameters are not kept.
    is_secret: bool,
    pub(super) exchange: Box<Exchange>,
}

impl Request {
    pub(super) fn new(at_ns: u64, shares_flight: bool) -> Self {
        Self {
            command: 0,
            payload: Vec::new(),
            length: 0,
            shares_flight,
            is_whole: false,
            is_over: false,
            is_read: false,
            sequence: 0,
            statement: None,
            is_secret: false,
            exchange: Box::new(Exchange::new(Kind::Other, at_ns)),
        }
    }

    /// Its first byte.
    pub(super) fn begin(&mut self, command: u8) {
        self.command = command;
        self.exchange.kind = match command {
            QUERY => Kind::Query,
            PREPARE => Kind::Prepare,
            EXECUTE => Kind::Execute,
            BULK_EXECUTE => Kind::BulkExecute,
            FETCH => Kind::Fetch,
            CLOSE => Kind::CloseStatement,
            RESET => Kind::ResetStatement,
            LONG_DATA => Kind::LongData,
            PING => Kind::Ping,
            RESET_CONNECTION => Kind::ResetConnection,
            CHANGE_USER => Kind::ChangeUser,
            INIT_DB => Kind::InitDb,
            STATISTICS => Kind::Statistics,
            QUIT => Kind::Quit,
            _ => Kind::Other,
        };
        if self.is_answered() && !self.shares_flight {
            self.exchange.round_trips = 1;
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.command, QUIT | LONG_DATA | CLOSE)
    }

    /// How much of the payload is kept, in bytes.
    pub(super) fn keeps(&self) -> usize {
        match self.command {
            QUERY | PREPARE => TEXT_BYTES_MAX,
            EXECUTE | BULK_EXECUTE => PARAMETERS_BYTES_MAX,
            CHANGE_USER => 0,
            _ => OTHER_BYTES,
        }
    }

    /// What the answer will begin with.
    pub(super) fn expects(&self) -> Result<Expect, Why> {
        Ok(match self.command {
            QUERY | EXECUTE | BULK_EXECUTE | PROCESS_INFO => Expect::Result,
            PREPARE => Expect::Prepared,
            FETCH | FIELD_LIST => Expect::Rows,
            CHANGE_USER => Expect::Login,
            BINLOG_DUMP | BINLOG_DUMP_GTID | TABLE_DUMP | CLONE | GROUP_REPLICATION => {
                return Err(Why::Replication);
            }
            _ => Expect::One,
        })
    }

    /// Read what it asks for. All that was asked before it has been answered.
    pub(super) fn read(
        &mut self,
        backslash_escapes: bool,
        agreed: Agreed,
        statements: &mut Statements,
    ) {
        let payload = std::mem::take(&mut self.payload);
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        let dialect = Dialect {
            family: Family::Mysql,
            backslash_escapes,
        };
        self.exchange.backslash_escapes = backslash_escapes;
        match self.command {
            QUERY => {
                let skipped = attributes(&payload, agreed.query_attributes);
                let length = self.length.saturating_sub(1 + skipped as u64);
                self.text(dialect, &payload[skipped..], length);
            }
            PREPARE => self.text(dialect, &payload, self.length.saturating_sub(1)),
            EXECUTE | BULK_EXECUTE | FETCH | CLOSE | RESET | LONG_DATA => {
                self.statement(&payload, agreed, statements);
            }
            QUIT => self.exchange.early_close = statements.clear(),
            INIT_DB => {
                let (text, _) = Text::of(dialect, &payload, self.length.saturating_sub(1));
                self.exchange.text = Some(text);
            }
            _ => {}
        }
    }

    fn text(&mut self, dialect: Dialect, kept: &[u8], length: u64) {
        self.exchange.verb = Some(verb(dialect, kept));
        let (text, is_secret) = Text::of(dialect, kept, length);
        self.exchange.text = Some(text);
        self.is_secret = is_secret;
    }

    fn statement(&mut self, payload: &[u8], agreed: Agreed, statements: &mut Statements) {
        let mut fields = Fields(payload);
        let Ok(id) = fields.u32() else {
            return;
        };
        self.statement = Some(id);
        if self.command == CLOSE {
            if let Some(prepared) = statements.remove(id) {
                self.names(&prepared);
                self.exchange.early_close = prepared.has_cursor;
            }
            return;
        }
        let prepared = statements.get(id);
        self.names(prepared);
        match self.command {
            LONG_DATA => {
                if let Ok(parameter) = fields.u16() {
                    prepared.add_long(parameter, self.length.saturating_sub(7));
                }
            }
            FETCH => self.exchange.fetch_size = fields.u32().ok().map(u64::from),
            _ => {
                self.exchange.early_close = std::mem::take(&mut prepared.has_cursor);
                self.exchange.parameters = match self.command {
                    EXECUTE => parameters::execute(fields.0, agreed.query_attributes, prepared),
                    BULK_EXECUTE => Some(parameters::bulk(fields.0, prepared)),
                    _ => None,
                };
                prepared.long.clear();
            }
        }
    }

    fn names(&mut self, prepared: &Prepared) {
        self.exchange.text.clone_from(&prepared.text);
        self.exchange.verb = prepared.verb;
    }

    /// The statement that this prepared.
    pub(super) fn prepared(&self, parameters: u16) -> Prepared {
        Prepared {
            text: self.exchange.text.clone(),
            verb: self.exchange.verb,
            is_secret: self.is_secret,
            parameters: Some(parameters),
            ..Prepared::default()
        }
    }
}

/// Length of what stands before a statement's text where it has attributes.
fn attributes(payload: &[u8], agreed: Option<bool>) -> usize {
    // A text that begins with a byte below 9 and another of 1 is no statement.
    let looks_so = matches!(payload, [0..=8, 1, ..]);
    if !agreed.unwrap_or(looks_so) {
        return 0;
    }
    skip_attributes(payload).unwrap_or(0)
}

fn skip_attributes(payload: &[u8]) -> Result<usize, crate::Error> {
    let mut fields = Fields(payload);
    let count = fields.length()?;
    fields.length()?;
    if count > 0 {
        parameters::skip(&mut fields, count)?;
    }
    Ok(payload.len() - fields.0.len())
}

/// Whether bytes are one or several whole commands, as far as can be told: where a stream can be joined.
pub(super) fn begins_commands(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [low, middle, high, sequence, after @ ..] = rest {
        let length = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        let Some((payload, next)) = after.split_at_checked(length) else {
            return false;
        };
        if *sequence != 0 || !is_command(payload) {
            return false;
        }
        rest = next;
    }
    rest.is_empty() && !bytes.is_empty()
}

fn is_command(payload: &[u8]) -> bool {
    let Some((command, rest)) = payload.split_first() else {
        return false;
    };
    match *command {
        QUIT | STATISTICS | PROCESS_INFO | PING | RESET_CONNECTION => rest.is_empty(),
        QUERY => {
            let text = &rest[attributes(rest, None)..];
            text.first().is_some_and(|byte| *byte >= b'\t')
        }
        PREPARE | INIT_DB => rest.first().is_some_and(|byte| *byte >= b'\t'),
        EXECUTE => rest.len() >= 9,
        BULK_EXECUTE | LONG_DATA => rest.len() >= 6,
        CLOSE | RESET => rest.len() == 4,
        FETCH => rest.len() == 8,
        _ => false,
    }
}
