//! A trace's record as a line of JSON: what `dump` prints, and `import` reads again. docs/reference/trace.md has the keys.

mod read;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trace::{Begin, Ending};
use wire::passive::{Compression, Kind, ServerError, Side, Verb, Why};

use crate::names::Name;

/// Times are nanoseconds since the trace's begin.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Begin {
        version: u32,
        #[serde(flatten)]
        begin: Begin,
    },
    Connected {
        connection: u32,
        at_ns: u64,
        joined_late: bool,
    },
    Session(Box<Session>),
    Exchange(Box<Exchange>),
    Gap {
        connection: u32,
        at_ns: u64,
        side: Name<Side>,
        bytes: u64,
    },
    Unread {
        connection: u32,
        at_ns: u64,
        why: Name<Why>,
    },
    Closed {
        connection: u32,
        at_ns: u64,
        bytes_sent: u64,
        bytes_received: u64,
        unread_bytes: u64,
        missing_bytes: u64,
    },
    Lost {
        exchanges: u64,
    },
    /// The last one; no ending where the trace was cut off.
    End {
        whole: bool,
        ending: Option<Ending>,
    },
}

/// Whether a trace has its end, and nothing was lost while it was written.
pub fn is_whole(ending: Option<&Ending>) -> bool {
    ending.is_some_and(Ending::is_whole)
}

/// What a login told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Session {
    connection: u32,
    server_version: String,
    client: Option<String>,
    client_version: Option<String>,
    database: Option<String>,
    character_set: Option<String>,
    attributes: Map<String, Value>,
    tls: bool,
    compression: Name<Compression>,
    joined_late: bool,
    login_round_trips: u64,
    packets_sent: u64,
    packets_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    began_ns: u64,
    ready_ns: u64,
    refused: Option<Refusal>,
}

/// A request with its answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Exchange {
    connection: u32,
    kind: Name<Kind>,
    verb: Option<Name<Verb>>,
    sql: Option<String>,
    /// The text's whole length.
    sql_bytes: Option<u64>,
    parameters: Option<Value>,
    backslash_escapes: bool,
    transaction: Option<u64>,
    request_ns: u64,
    request_end_ns: u64,
    first_byte_ns: Option<u64>,
    last_byte_ns: Option<u64>,
    round_trips: u32,
    packets_sent: u64,
    packets_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    definition_bytes: u64,
    rows: u64,
    affected: u64,
    warnings: u64,
    fetch_size: Option<u64>,
    cursor: bool,
    early_close: bool,
    statements_in_text: u32,
    error: Option<Refusal>,
    in_transaction_after: Option<bool>,
    autocommit_after: Option<bool>,
    no_index_used: bool,
    no_good_index_used: bool,
    /// 16 hexadecimal digits.
    answer: Option<String>,
    incomplete: bool,
    #[serde(flatten)]
    counted: Counted,
}

/// What the server counted, as far as it is known.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Counted {
    rows_examined: Option<u64>,
    lock_ns: Option<u64>,
    full_scan: Option<bool>,
    sort_rows: Option<u64>,
    temporary_tables: Option<u64>,
    temporary_disk_tables: Option<u64>,
}

impl From<wire::passive::Counted> for Counted {
    fn from(counted: wire::passive::Counted) -> Self {
        Self {
            rows_examined: counted.rows_examined,
            lock_ns: counted.lock_ns,
            full_scan: counted.full_scan,
            sort_rows: counted.sort_rows,
            temporary_tables: counted.temporary_tables,
            temporary_disk_tables: counted.temporary_disk_tables,
        }
    }
}

impl From<Counted> for wire::passive::Counted {
    fn from(counted: Counted) -> Self {
        Self {
            rows_examined: counted.rows_examined,
            lock_ns: counted.lock_ns,
            full_scan: counted.full_scan,
            sort_rows: counted.sort_rows,
            temporary_tables: counted.temporary_tables,
            temporary_disk_tables: counted.temporary_disk_tables,
        }
    }
}

/// What the server refused with.
#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    code: u16,
    sqlstate: String,
}

impl From<&ServerError> for Refusal {
    fn from(error: &ServerError) -> Self {
        Self {
            code: error.code,
            sqlstate: error.sqlstate.clone(),
        }
    }
}

impl From<Refusal> for ServerError {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: refusal.code,
            sqlstate: refusal.sqlstate,
        }
    }
}
