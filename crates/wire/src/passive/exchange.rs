//! A request with its complete answer.

use std::fmt;
use std::sync::Arc;

use super::mysql::{PARAMETERS_BYTES_MAX, TEXT_BYTES_MAX};
use crate::Dialect;
pub use crate::sql::Verb;
use crate::sql::{has_secret, mask_secret, verb};

/// One request with its complete answer. What docs/reference/trace.md says of each field holds here.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Which request.
    pub kind: Kind,
    /// What its statement does; `None` where no statement belongs to it, or an unknown one.
    pub verb: Option<Verb>,
    /// The statement as sent; of an execute the prepared one.
    pub text: Option<Text>,
    /// An execute's.
    pub parameters: Option<Parameters>,
    /// Number of the transaction on its connection, from 0; `None` outside of any.
    pub transaction: Option<u64>,
    /// First byte of the request, in nanoseconds.
    pub request_ns: u64,
    /// Last byte of the request, in nanoseconds.
    pub request_end_ns: u64,
    /// First and last byte of the answer, in nanoseconds; `None` where there was none.
    pub answer_ns: Option<(u64, u64)>,
    /// Flights: times that the client sent something and then had to wait.
    pub round_trips: u32,
    /// Packets or messages of the client.
    pub packets_sent: u64,
    /// Packets or messages of the server.
    pub packets_received: u64,
    /// Bytes of the client on the connection.
    pub bytes_sent: u64,
    /// Bytes of the server on the connection.
    pub bytes_received: u64,
    /// Bytes of column and parameter definitions in the answer, with their headers.
    pub definition_bytes: u64,
    /// Rows of the answer.
    pub rows: u64,
    /// Rows changed.
    pub affected: u64,
    /// MySQL's warnings, PostgreSQL's notices.
    pub warnings: u64,
    /// Rows asked for: of a fetch, or of a PostgreSQL Execute with a limit.
    pub fetch_size: Option<u64>,
    /// The execute opened a cursor, or left its portal suspended.
    pub cursor: bool,
    /// The request ended a cursor or portal before its last row was fetched.
    pub early_close: bool,
    /// Results of the answer: statements of a text that had several.
    pub results: u32,
    /// The server's refusal.
    pub error: Option<ServerError>,
    /// Whether a transaction is open afterwards, where the server said so.
    pub in_transaction_after: Option<bool>,
    /// Whether autocommit is on afterwards, where the server said so; PostgreSQL's is always.
    pub autocommit_after: Option<bool>,
    /// MySQL: a statement of it used no index.
    pub no_index_used: bool,
    /// MySQL: a statement of it used no good index.
    pub no_good_index_used: bool,
    /// Hash of the rows' bytes; `None` without rows.
    pub answer: Option<u64>,
    /// How the session reads a backslash in a quoted text.
    pub backslash_escapes: bool,
    /// The connection ended, or bytes were lost, before the answer was whole.
    pub incomplete: bool,
    /// What the server counted: nothing that crosses the wire, but the server's log may have it.
    pub counted: Option<Box<Counted>>,
}

/// What a server counted for one request; each as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Rows that were read, of tables and temporary tables.
    pub rows_examined: Option<u64>,
    /// Waits for locks, in nanoseconds.
    pub lock_ns: Option<u64>,
    /// Most of the rows, or a table of a join, were read one after the other, without an index.
    pub full_scan: Option<bool>,
    /// Rows that were sorted.
    pub sort_rows: Option<u64>,
    /// Temporary tables.
    pub temporary_tables: Option<u64>,
    /// Temporary tables on disk.
    pub temporary_disk_tables: Option<u64>,
}

impl Counted {
    /// None where nothing is known.
    #[must_use]
    pub fn known(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Exchange {
    /// A request that began then, and nothing else is known.
    #[must_use]
    pub fn new(kind: Kind, request_ns: u64) -> Self {
        Self {
            kind,
            verb: None,
            text: None,
            parameters: None,
            transaction: None,
            request_ns,
            request_end_ns: request_ns,
            answer_ns: None,
            round_trips: 0,
            packets_sent: 0,
            packets_received: 0,
            bytes_sent: 0,
            bytes_received: 0,
            definition_bytes: 0,
            rows: 0,
            affected: 0,
            warnings: 0,
            fetch_size: None,
            cursor: false,
            early_close: false,
            results: 0,
            error: None,
            in_transaction_after: None,
            autocommit_after: None,
            no_index_used: false,
            no_good_index_used: false,
            answer: None,
            backslash_escapes: true,
            incomplete: false,
            counted: None,
        }
    }

    /// Give it a statement as a file has it, with its parameters, in a session that reads it in that way. Text and parameters are left out where they may have a secret, as
    /// those of a stream are.
    pub fn state(
        &mut self,
        dialect: Dialect,
        sent: &[u8],
        parameters: Option<Parameters>,
        most: Kept,
    ) {
        let kept = &sent[..sent.len().min(most.text_bytes)];
        let (text, is_secret) = Text::of(dialect, kept, sent.len() as u64);
        self.backslash_escapes = dialect.backslash_escapes;
        self.verb = Some(verb(dialect, kept));
        self.text = Some(text);
        self.parameters = parameters.map(|mut parameters| {
            parameters.bound(most.parameters_bytes);
            if is_secret {
                let all = parameters.rows.iter_mut().flatten();
                all.for_each(Parameter::hide);
            }
            parameters
        });
    }
}

/// How much of a statement is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// Of its text.
    pub text_bytes: usize,
    /// Of its parameters, each of which counts 8 bytes where it is neither text nor binary.
    pub parameters_bytes: usize,
}

impl Kept {
    /// As much as of a stream.
    pub const BOUNDED: Self = Self {
        text_bytes: TEXT_BYTES_MAX,
        parameters_bytes: PARAMETERS_BYTES_MAX,
    };
    /// All of what was bounded before: masked, a text is longer, and numbers may have been sent in fewer bytes.
    pub const WHOLE: Self = Self {
        text_bytes: usize::MAX,
        parameters_bytes: usize::MAX,
    };
}

/// Which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    missing_docs,
    reason = "the names say it; docs/reference/trace.md describes them"
)]
pub enum Kind {
    Query,
    Prepare,
    Execute,
    BulkExecute,
    Fetch,
    CloseStatement,
    ResetStatement,
    LongData,
    Ping,
    ResetConnection,
    ChangeUser,
    InitDb,
    Statistics,
    Quit,
    Copy,
    Other,
}

/// A statement's text.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// As sent, in the session's character set, up to a bound; literals of a statement with a secret are `?`.
    pub bytes: Arc<[u8]>,
    /// How long it was, in bytes.
    pub length: u64,
}

impl Text {
    /// A text of which so much was kept; its literals are left out where it may have a secret, and then this is true.
    pub(crate) fn of(dialect: Dialect, kept: &[u8], length: u64) -> (Self, bool) {
        let is_secret = has_secret(kept);
        let bytes = match is_secret {
            true => mask_secret(dialect, kept).into(),
            false => kept.into(),
        };
        (Self { bytes, length }, is_secret)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.bytes))
    }
}

/// The parameters of an execute.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    /// One row; of a bulk execute several.
    pub rows: Vec<Vec<Parameter>>,
    /// More were sent than are kept.
    pub cut: bool,
}

impl Parameters {
    /// Bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(Parameter::bytes).sum()
    }

    /// Leave out what is more than is kept.
    fn bound(&mut self, most: usize) {
        let mut bytes = 0;
        for row in &mut self.rows {
            let whole = row.len();
            let bounded = row.iter().take_while(|each| {
                bytes += each.bytes();
                bytes <= most
            });
            let kept = bounded.count();
            row.truncate(kept);
            self.cut |= kept < whole;
        }
    }
}

/// A parameter as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// MySQL: the type's number, 0x8000 added where it is unsigned. PostgreSQL: pg_type's oid, 0 where it was not said.
    pub kind: u32,
    /// What was sent.
    pub value: ParameterValue,
}

impl Parameter {
    /// Leave of it the type and length alone.
    pub fn hide(&mut self) {
        let bytes = match &self.value {
            ParameterValue::Int(_) | ParameterValue::UInt(_) | ParameterValue::Double(_) => 8,
            ParameterValue::Float(_) => 4,
            ParameterValue::Text(bytes) | ParameterValue::Binary(bytes) => bytes.len() as u64,
            _ => return,
        };
        self.value = ParameterValue::Masked(bytes);
    }
}

impl Parameter {
    fn bytes(&self) -> usize {
        match &self.value {
            ParameterValue::Text(bytes) | ParameterValue::Binary(bytes) => bytes.len(),
            _ => 8,
        }
    }
}

impl ParameterValue {
    /// Bytes that are text where they can be.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.as_bytes().to_vec()),
            Err(_) => Self::Binary(bytes.to_vec()),
        }
    }
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// SQL NULL.
    Null,
    /// MariaDB's bulk execution: the column's default.
    Default,
    /// MariaDB's bulk execution: the column is left as it is.
    Ignore,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A FLOAT.
    Float(f32),
    /// A DOUBLE.
    Double(f64),
    /// Text, decimals, points in time as the server's text.
    Text(Vec<u8>),
    /// Binary data, or PostgreSQL's binary format of a type that is not read here.
    Binary(Vec<u8>),
    /// Sent before as long data: its length in bytes.
    Long(u64),
    /// Not kept: its length in bytes.
    Masked(u64),
    /// Not read: its type, where it begins, or where it ends was not seen.
    Unknown,
}

/// The server's refusal. Its words are not kept: they repeat values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL's error number; 0 on PostgreSQL.
    pub code: u16,
    /// Five characters.
    pub sqlstate: String,
}
