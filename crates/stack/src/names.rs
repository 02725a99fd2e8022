//! Names of what is exchanged, in tables and lines.

use wire::passive::{Compression, Kind, Side, Verb};

/// A request's.
#[must_use]
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Query => "query",
        Kind::Prepare => "prepare",
        Kind::Execute => "execute",
        Kind::BulkExecute => "bulk_execute",
        Kind::Fetch => "fetch",
        Kind::CloseStatement => "close_statement",
        Kind::ResetStatement => "reset_statement",
        Kind::LongData => "long_data",
        Kind::Ping => "ping",
        Kind::ResetConnection => "reset_connection",
        Kind::ChangeUser => "change_user",
        Kind::InitDb => "init_db",
        Kind::Statistics => "statistics",
        Kind::Quit => "quit",
        Kind::Copy => "copy",
        Kind::Other => "other",
    }
}

/// A statement's.
#[must_use]
pub fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Select => "select",
        Verb::Insert => "insert",
        Verb::Update => "update",
        Verb::Delete => "delete",
        Verb::Replace => "replace",
        Verb::Call => "call",
        Verb::Set => "set",
        Verb::Begin => "begin",
        Verb::Commit => "commit",
        Verb::Rollback => "rollback",
        Verb::Savepoint => "savepoint",
        Verb::Show => "show",
        Verb::Explain => "explain",
        Verb::Ddl => "ddl",
        Verb::Load => "load",
        Verb::Use => "use",
        Verb::Other => "other",
    }
}

/// A side's.
#[must_use]
pub fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// A compression's.
#[must_use]
pub fn compression(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Zlib => "zlib",
        Compression::Zstd => "zstd",
    }
}
