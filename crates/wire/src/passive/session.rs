//! What is known of a connection as a whole.

use super::ServerError;

/// What a login tells. Its user's name, password and proofs are never kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionFacts {
    /// As the server said it; empty where that was not seen.
    pub server_version: String,
    /// The driver: MySQL's connection attribute `_client_name`, PostgreSQL's `application_name`.
    pub client: Option<String>,
    /// MySQL's connection attribute `_client_version`.
    pub client_version: Option<String>,
    /// The database that the client asks for. `PostgreSQL` takes the user's name where it asks for none: a trace has no such name.
    pub database: Option<String>,
    /// In which the client sends texts: of MySQL the set of the collation that its login names, `PostgreSQL`'s `client_encoding`.
    pub character_set: Option<String>,
    /// Connection attributes, or PostgreSQL's parameters at startup, without those that name a user.
    pub attributes: Vec<(String, String)>,
    /// Whether the client asked for TLS and the server agreed.
    pub tls: bool,
    /// Agreed on for what follows the login.
    pub compression: Compression,
    /// The connection was there before.
    pub joined_late: bool,
    /// Flights of the login.
    pub login_round_trips: u64,
    /// Packets or messages of the login.
    pub packets_sent: u64,
    /// Packets or messages of the login.
    pub packets_received: u64,
    /// Bytes of the login.
    pub bytes_sent: u64,
    /// Bytes of the login.
    pub bytes_received: u64,
    /// The first byte that was seen, in nanoseconds.
    pub began_ns: u64,
    /// The end of the login, in nanoseconds.
    pub ready_ns: u64,
    /// The server's refusal of the login.
    pub refused: Option<ServerError>,
}

/// Compression of the protocol itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// MySQL's compressed packets, zlib.
    Zlib,
    /// MySQL's compressed packets, zstd.
    Zstd,
}

/// Why a stream is not read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// TLS or GSSAPI encryption that nobody here ends.
    Encrypted,
    /// MySQL's compressed packets, in traces of captures that could not read them.
    Compressed,
    /// A replication stream, a clone of the data, or another command after which the protocol is another one.
    Replication,
    /// Bytes that are not the protocol's, or not at this point.
    NotTheProtocol,
    /// More requests under way than are kept.
    TooMuch,
}

/// What passed on a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of the client.
    pub bytes_sent: u64,
    /// Bytes of the server.
    pub bytes_received: u64,
    /// Bytes of both that belong to no exchange and no login, because they were unread.
    pub unread: u64,
    /// Bytes that a capture lost.
    pub missing: u64,
}
