//! Names of what is exchanged, in tables and lines.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use wire::passive::{Compression, Kind, Side, Verb, Why};

/// What has a name.
pub trait Named: Copy + PartialEq + 'static {
    /// Every one with its name.
    const ALL: &'static [(Self, &'static str)];

    /// Its name.
    #[must_use]
    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(each, _)| *each == self);
        found.expect("every one is listed").1
    }

    /// What has this name; none where nothing has it.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, each)| *each == name);
        found.map(|(one, _)| *one)
    }
}

/// Written and read by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<T>(pub T);

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        let named = T::named(&name).map(Self);
        named.ok_or_else(|| de::Error::custom(format!("nothing is named {name:?}")))
    }
}

impl Named for Kind {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Query, "query"),
        (Self::Prepare, "prepare"),
        (Self::Execute, "execute"),
        (Self::BulkExecute, "bulk_execute"),
        (Self::Fetch, "fetch"),
        (Self::CloseStatement, "close_statement"),
        (Self::ResetStatement, "reset_statement"),
        (Self::LongData, "long_data"),
        (Self::Ping, "ping"),
        (Self::ResetConnection, "reset_connection"),
        (Self::ChangeUser, "change_user"),
        (Self::InitDb, "init_db"),
        (Self::Statistics, "statistics"),
        (Self::Quit, "quit"),
        (Self::Copy, "copy"),
        (Self::Other, "other"),
    ];
}

impl Named for Verb {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Select, "select"),
        (Self::Insert, "insert"),
        (Self::Update, "update"),
        (Self::Delete, "delete"),
        (Self::Replace, "replace"),
        (Self::Call, "call"),
        (Self::Set, "set"),
        (Self::Begin, "begin"),
        (Self::Commit, "commit"),
        (Self::Rollback, "rollback"),
        (Self::Savepoint, "savepoint"),
        (Self::Show, "show"),
        (Self::Explain, "explain"),
        (Self::Ddl, "ddl"),
        (Self::Load, "load"),
        (Self::Use, "use"),
        (Self::Other, "other"),
    ];
}

impl Named for Side {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Client, "client"), (Self::Server, "server")];
}

impl Named for Compression {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::None, "none"),
        (Self::Zlib, "zlib"),
        (Self::Zstd, "zstd"),
    ];
}

impl Named for Why {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Encrypted, "encrypted"),
        (Self::Compressed, "compressed"),
        (Self::Replication, "replication"),
        (Self::NotTheProtocol, "not_the_protocol"),
        (Self::TooMuch, "too_much"),
    ];
}
