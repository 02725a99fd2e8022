//! The handshake: who the server is, who we are, and the proof.

use mysql_common::auth::plugins::{
    caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native,
};

use super::field::{Fields, ok, put_text, refusal};
use super::packet::Packets;
use crate::{Error, ServerUrl, tls::Tls};

/// A server that does not set it is a MariaDB, whose greeting goes on above bit 31.
const LONG_PASSWORD: u64 = 1;
const LONG_FLAG: u64 = 1 << 2;
const CONNECT_WITH_DB: u64 = 1 << 3;
const LOCAL_FILES: u64 = 1 << 7;
const PROTOCOL_41: u64 = 1 << 9;
const SSL: u64 = 1 << 11;
const TRANSACTIONS: u64 = 1 << 13;
const SECURE_CONNECTION: u64 = 1 << 15;
const MULTI_RESULTS: u64 = 1 << 17;
const PS_MULTI_RESULTS: u64 = 1 << 18;
const PLUGIN_AUTH: u64 = 1 << 19;
const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
const DEPRECATE_EOF: u64 = 1 << 24;
/// MySQL: `resultset_metadata` says whether column definitions come with results.
pub(super) const OPTIONAL_METADATA: u64 = 1 << 25;
/// MariaDB: one execution of a statement for many rows of parameters.
pub(super) const BULK: u64 = 1 << 34;
/// MariaDB: column definitions that have not changed since the statement was prepared are left out.
pub(super) const CACHE_METADATA: u64 = 1 << 36;

/// Without these the rest of this module cannot read what the server sends.
const NEEDED: u64 = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | DEPRECATE_EOF;
const WANTED: u64 = NEEDED
    | LONG_PASSWORD
    | LONG_FLAG
    | LOCAL_FILES
    | TRANSACTIONS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH_LENENC
    | BULK;
const METADATA: u64 = OPTIONAL_METADATA | CACHE_METADATA;

/// `utf8mb4_general_ci`, which every supported server has.
const COLLATION: u8 = 45;
const SCRAMBLE_BYTES: usize = 20;
/// What we say that we take.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// What is agreed on with the server.
pub(super) struct Agreement {
    pub(super) version: String,
    /// What the server offers.
    pub(super) offered: u64,
    /// What of that is used.
    pub(super) capabilities: u64,
    pub(super) status: u16,
}

struct Greeting {
    version: String,
    capabilities: u64,
    scramble: Vec<u8>,
    plugin: String,
}

/// Log in.
pub(super) fn login(packets: &mut Packets, url: &ServerUrl) -> Result<Agreement, Error> {
    let greeting = greeting(packets.read()?)?;
    if greeting.capabilities & NEEDED != NEEDED {
        return Err(Error::Unsupported(format!(
            "server {}: its protocol is too old",
            greeting.version
        )));
    }
    let mut capabilities = WANTED & greeting.capabilities;
    if !url.database.is_empty() {
        capabilities |= CONNECT_WITH_DB;
    }
    if !url.metadata {
        if greeting.capabilities & METADATA == 0 {
            return Err(Error::Unsupported(format!(
                "metadata=off on server {}: it needs MySQL 8.0, MariaDB 10.6 or newer",
                greeting.version
            )));
        }
        capabilities |= METADATA & greeting.capabilities;
    }
    if let Some(tls) = Tls::start(&url.tls, &url.host)? {
        if greeting.capabilities & SSL == 0 {
            return Err(Error::no_tls());
        }
        capabilities |= SSL;
        packets.reply(|out| put_capabilities(out, capabilities))?;
        packets.encrypt(tls)?;
    }
    let mut plugin = greeting.plugin;
    let mut scramble = greeting.scramble;
    // A plugin that we do not have is no failure yet: the server asks for the user's own one.
    let proof = proof(&plugin, &scramble, url, packets.is_private()).unwrap_or_default();
    packets.reply(|out| {
        put_capabilities(out, capabilities);
        out.extend_from_slice(url.user.as_bytes());
        out.push(0);
        put_text(out, &proof);
        if !url.database.is_empty() {
            out.extend_from_slice(url.database.as_bytes());
            out.push(0);
        }
        out.extend_from_slice(plugin.as_bytes());
        out.push(0);
    })?;
    loop {
        let payload = packets.read()?;
        match payload {
            [0x00, ..] => {
                return Ok(Agreement {
                    version: greeting.version,
                    offered: greeting.capabilities,
                    capabilities,
                    status: ok(payload)?.status,
                });
            }
            [0xFF, ..] => return Err(refusal(payload)),
            [0xFE, rest @ ..] => {
                let mut fields = Fields(rest);
                plugin = String::from_utf8_lossy(fields.zero_ended()).into_owned();
                scramble = fields.0.to_vec();
                scramble.truncate(SCRAMBLE_BYTES);
                let proof = self::proof(&plugin, &scramble, url, packets.is_private())?;
                packets.reply(|out| out.extend_from_slice(&proof))?;
            }
            [0x01, 0x03] => {}
            [0x01, 0x04] => full_proof(packets, &scramble, url)?,
            _ => return Err(Error::Protocol(format!("login answer of {plugin}"))),
        }
    }
}

/// What both the request for TLS and the login begin with.
fn put_capabilities(out: &mut Vec<u8>, capabilities: u64) {
    let bytes = capabilities.to_le_bytes();
    out.extend_from_slice(&bytes[..4]);
    out.extend_from_slice(&PACKET_BYTES_MAX.to_le_bytes());
    out.push(COLLATION);
    out.extend_from_slice(&[0; 19]);
    out.extend_from_slice(&bytes[4..]);
}

fn greeting(payload: &[u8]) -> Result<Greeting, Error> {
    let mut fields = Fields(payload);
    match fields.u8()? {
        10 => {}
        0xFF => return Err(refusal(payload)),
        other => return Err(Error::Protocol(format!("handshake version {other}"))),
    }
    let version = String::from_utf8_lossy(fields.zero_ended()).into_owned();
    fields.u32()?;
    let mut scramble = fields.bytes(8)?.to_vec();
    fields.u8()?;
    let mut capabilities = u64::from(fields.u16()?);
    fields.bytes(3)?;
    capabilities |= u64::from(fields.u16()?) << 16;
    let scramble_bytes = usize::from(fields.u8()?);
    fields.bytes(6)?;
    let extended = u64::from(fields.u32()?);
    if capabilities & LONG_PASSWORD == 0 {
        capabilities |= extended << 32;
    }
    let rest = scramble_bytes.saturating_sub(8).max(13);
    scramble.extend_from_slice(fields.bytes(rest)?);
    scramble.truncate(SCRAMBLE_BYTES);
    // MariaDB puts this before its version for the sake of old replicas.
    let version = version.strip_prefix("5.5.5-").unwrap_or(&version);
    Ok(Greeting {
        version: version.to_owned(),
        capabilities,
        scramble,
        plugin: String::from_utf8_lossy(fields.zero_ended()).into_owned(),
    })
}

/// What shows that we know the password; empty for an empty one.
fn proof(plugin: &str, scramble: &[u8], url: &ServerUrl, private: bool) -> Result<Vec<u8>, Error> {
    let password = url.password.as_bytes();
    let short = || Error::Protocol(format!("scramble of {} bytes", scramble.len()));
    match plugin {
        "mysql_native_password" => {
            let nonce = scramble.get(..SCRAMBLE_BYTES).ok_or_else(short)?;
            Ok(scramble_native(nonce, password)
                .map(|proof| proof.to_vec())
                .unwrap_or_default())
        }
        "caching_sha2_password" => {
            let nonce = scramble.try_into().map_err(|_| short())?;
            Ok(scramble_sha256(nonce, password)
                .map(|proof| proof.to_vec())
                .unwrap_or_default())
        }
        "mysql_clear_password" if private => Ok(zero_ended(password)),
        // MariaDB's: the kernel has told the server who we are.
        "unix_socket" | "auth_socket" => Ok(Vec::new()),
        other => Err(Error::Unsupported(format!("login by {other}"))),
    }
}

/// The server does not have the password's hash in its cache: it needs the password, encrypted where others could read it.
fn full_proof(packets: &mut Packets, scramble: &[u8], url: &ServerUrl) -> Result<(), Error> {
    let mut password = zero_ended(url.password.as_bytes());
    if packets.is_private() {
        return packets.reply(|out| out.extend_from_slice(&password));
    }
    packets.reply(|out| out.push(2))?;
    let payload = packets.read()?;
    let [1, key @ ..] = payload else {
        return Err(refusal(payload));
    };
    for (byte, mask) in password.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= mask;
    }
    let encrypted = mysql_common::crypto::encrypt(&password, key)
        .map_err(|error| Error::Protocol(format!("the server's public key: {error}")))?;
    packets.reply(|out| out.extend_from_slice(&encrypted))
}

fn zero_ended(password: &[u8]) -> Vec<u8> {
    let mut text = password.to_vec();
    text.push(0);
    text
}
