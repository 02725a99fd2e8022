//! What the handshake says of both sides. Names of users, passwords and proofs are read over.

use super::character_set::character_set;
use crate::mysql::field::Fields;
use crate::passive::{Compression, SessionFacts, Why};

const LONG_PASSWORD: u64 = 1;
const CONNECT_WITH_DB: u64 = 1 << 3;
const COMPRESS: u64 = 1 << 5;
const PROTOCOL_41: u64 = 1 << 9;
pub(super) const SSL: u64 = 1 << 11;
const SECURE_CONNECTION: u64 = 1 << 15;
const PLUGIN_AUTH: u64 = 1 << 19;
const CONNECT_ATTRIBUTES: u64 = 1 << 20;
const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
const DEPRECATE_EOF: u64 = 1 << 24;
const OPTIONAL_METADATA: u64 = 1 << 25;
const ZSTD: u64 = 1 << 26;
const QUERY_ATTRIBUTES: u64 = 1 << 27;
const CACHE_METADATA: u64 = 1 << 36;

/// A request for TLS is a login that ends before the user's name.
const SSL_REQUEST_BYTES: u64 = 32;
/// Attributes that are kept; a client may send 64 KiB of them.
const ATTRIBUTES_MAX: usize = 64;

/// What both sides agreed on, as far as it changes what packets look like; `None` where the login was not seen.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Agreed {
    /// Definitions are followed by an EOF packet.
    pub(super) old_eof: Option<bool>,
    /// A result's header says whether definitions follow.
    pub(super) announces_columns: Option<bool>,
    /// Statements have attributes.
    pub(super) query_attributes: Option<bool>,
}

/// The server's greeting; its capabilities.
pub(super) fn greeting(payload: &[u8], facts: &mut SessionFacts) -> Result<u64, Why> {
    let mut fields = Fields(payload);
    let mut read = || {
        let is_known = fields.u8()? == 10;
        let version = fields.zero_ended();
        fields.bytes(4 + 8 + 1)?;
        let low = fields.u16()?;
        fields.bytes(3)?;
        let high = fields.u16()?;
        fields.bytes(7)?;
        let more = fields.u32()?;
        Ok::<_, crate::Error>((is_known, version, low, high, more))
    };
    let Ok((true, version, low, high, more)) = read() else {
        return Err(Why::NotTheProtocol);
    };
    let version = String::from_utf8_lossy(version);
    // MariaDB puts this before its version for the sake of old replicas.
    version
        .strip_prefix("5.5.5-")
        .unwrap_or(&version)
        .clone_into(&mut facts.server_version);
    let mut capabilities = u64::from(low) | u64::from(high) << 16;
    if capabilities & LONG_PASSWORD == 0 {
        capabilities |= u64::from(more) << 32;
    }
    Ok(capabilities)
}

/// What the client answered.
pub(super) struct Response {
    pub(super) agreed: Agreed,
    /// It asks for TLS, and the login follows.
    pub(super) wants_tls: bool,
}

/// The client's answer to a server with these capabilities.
pub(super) fn response(
    payload: &[u8],
    length: u64,
    offered: u64,
    facts: &mut SessionFacts,
) -> Result<Response, Why> {
    let mut fields = Fields(payload);
    let mut head = || {
        let low = fields.u32()?;
        fields.bytes(4)?;
        let collation = fields.u8()?;
        fields.bytes(19)?;
        let high = fields.u32()?;
        Ok::<_, crate::Error>((u64::from(low) | u64::from(high) << 32, collation))
    };
    let Ok((asked, collation)) = head() else {
        return Err(Why::NotTheProtocol);
    };
    if asked & PROTOCOL_41 == 0 {
        return Err(Why::NotTheProtocol);
    }
    // MySQL's clients fill with zeros what MariaDB's use; both servers ignore what they have not offered.
    let both = asked & offered;
    facts.compression = match () {
        () if both & COMPRESS != 0 => Compression::Zlib,
        () if both & ZSTD != 0 && offered & LONG_PASSWORD != 0 => Compression::Zstd,
        () => Compression::None,
    };
    let agreed = Agreed {
        old_eof: Some(both & DEPRECATE_EOF == 0),
        announces_columns: Some(both & (OPTIONAL_METADATA | CACHE_METADATA) != 0),
        query_attributes: Some(both & QUERY_ATTRIBUTES != 0),
    };
    let wants_tls = asked & SSL != 0 && length == SSL_REQUEST_BYTES;
    if !wants_tls {
        facts.character_set = character_set(collation).map(ToOwned::to_owned);
        // What attributes there are is worth nothing more than that.
        let _ = rest(fields, both, facts);
    }
    Ok(Response { agreed, wants_tls })
}

fn rest(mut fields: Fields<'_>, both: u64, facts: &mut SessionFacts) -> Result<(), crate::Error> {
    fields.zero_ended();
    if both & PLUGIN_AUTH_LENENC != 0 {
        fields.text()?;
    } else if both & SECURE_CONNECTION != 0 {
        let length = fields.u8()?;
        fields.bytes(length.into())?;
    } else {
        fields.zero_ended();
    }
    if both & CONNECT_WITH_DB != 0 {
        let database = String::from_utf8_lossy(fields.zero_ended());
        facts.database = Some(database.into_owned()).filter(|name| !name.is_empty());
    }
    if both & PLUGIN_AUTH != 0 {
        fields.zero_ended();
    }
    if both & CONNECT_ATTRIBUTES == 0 {
        return Ok(());
    }
    let mut all = Fields(fields.text()?);
    while !all.0.is_empty() && facts.attributes.len() < ATTRIBUTES_MAX {
        let name = String::from_utf8_lossy(all.text()?).into_owned();
        let value = String::from_utf8_lossy(all.text()?).into_owned();
        match name.as_str() {
            "_client_name" => facts.client = Some(value.clone()),
            "_client_version" => facts.client_version = Some(value.clone()),
            _ => {}
        }
        if !names_a_user(&name) {
            facts.attributes.push((name, value));
        }
    }
    Ok(())
}

/// Whether a connection attribute says who logs in, as `os_user` does: a trace has none of these.
#[must_use]
pub fn names_a_user(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("user") || name.contains("pass")
}
