//! The handshake: who the server is, who we are, and the proof.

use mysql_common::auth::plugins::{
    caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native,
};

use super::field::{Fields, end, put_text, refusal};
use super::packet::Packets;
use super::public_key;
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
/// A text may hold several statements.
const MULTI_STATEMENTS: u64 = 1 << 16;
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
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH_LENENC
    | BULK;
const METADATA: u64 = OPTIONAL_METADATA | CACHE_METADATA;

/// `utf8mb4_general_ci`, which every supported server has.
const COLLATION: u8 = 45;
const SHA2: &str = "caching_sha2_password";
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
            "server {}: it lacks {}; MySQL 5.7.5, MariaDB 10.2 and newer have it, a proxy may leave it out",
            greeting.version,
            lacking(greeting.capabilities)
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
    let proof = proof(&plugin, &scramble, url, packets).unwrap_or_default();
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
                    status: end(payload)?.status,
                });
            }
            [0xFF, ..] => return Err(refusal(payload)),
            [0xFE, rest @ ..] => {
                let mut fields = Fields(rest);
                plugin = String::from_utf8_lossy(fields.zero_ended()).into_owned();
                scramble = fields.0.to_vec();
                scramble.truncate(SCRAMBLE_BYTES);
                let proof = self::proof(&plugin, &scramble, url, packets)?;
                packets.reply(|out| out.extend_from_slice(&proof))?;
            }
            [0x01, 0x03] if plugin == SHA2 => {}
            [0x01, 0x04] if plugin == SHA2 => full_proof(packets, &scramble, url)?,
            _ => return Err(Error::Protocol(format!("login answer of {plugin}"))),
        }
    }
}

/// The first of the capabilities that the server lacks.
fn lacking(offered: u64) -> &'static str {
    [
        (PROTOCOL_41, "protocol 4.1"),
        (SECURE_CONNECTION, "CLIENT_SECURE_CONNECTION"),
        (PLUGIN_AUTH, "CLIENT_PLUGIN_AUTH"),
    ]
    .into_iter()
    .find(|(capability, _)| offered & capability == 0)
    .map_or("CLIENT_DEPRECATE_EOF", |(_, name)| name)
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
fn proof(
    plugin: &str,
    scramble: &[u8],
    url: &ServerUrl,
    packets: &Packets,
) -> Result<Vec<u8>, Error> {
    let password = url.password.as_bytes();
    let short = || Error::Protocol(format!("scramble of {} bytes", scramble.len()));
    match plugin {
        "mysql_native_password" => {
            let nonce = scramble.get(..SCRAMBLE_BYTES).ok_or_else(short)?;
            Ok(scramble_native(nonce, password)
                .map(|proof| proof.to_vec())
                .unwrap_or_default())
        }
        SHA2 => {
            let nonce = scramble.try_into().map_err(|_| short())?;
            Ok(scramble_sha256(nonce, password)
                .map(|proof| proof.to_vec())
                .unwrap_or_default())
        }
        "mysql_clear_password" if !url.passwords.cleartext_plugin => {
            let why = "login by mysql_clear_password: enable_cleartext_plugin=1 allows it on a private connection";
            Err(Error::Unsupported(why.to_owned()))
        }
        "mysql_clear_password" if !packets.is_private() => Err(Error::not_private(
            "login by mysql_clear_password",
            "nothing else",
        )),
        "mysql_clear_password" => Ok(zero_ended(password)),
        // MariaDB's: the kernel has told the server who we are.
        "unix_socket" | "auth_socket" => Ok(Vec::new()),
        other => Err(Error::Unsupported(format!("login by {other}"))),
    }
}

/// The server does not have the password's hash in its cache: it needs the password, which over plain TCP it decrypts with its RSA key.
fn full_proof(packets: &mut Packets, scramble: &[u8], url: &ServerUrl) -> Result<(), Error> {
    let mut password = zero_ended(url.password.as_bytes());
    let rules = &url.passwords;
    let is_allowed = packets.is_private() || rules.trusts_any_server;
    if is_allowed && (packets.is_private() || packets.is_encrypted()) {
        return packets.reply(|out| out.extend_from_slice(&password));
    }
    let key = match &rules.server_public_key {
        Some(path) if !packets.is_encrypted() => std::fs::read(path).map_err(|error| {
            Error::Url(format!(
                "server_public_key_path {}: {error}",
                path.display()
            ))
        })?,
        _ if is_allowed => asked_key(packets)?,
        _ => {
            let allow = "get_server_public_key=1 or, without TLS, server_public_key_path=FILE";
            return Err(Error::not_private("login by caching_sha2_password", allow));
        }
    };
    for (byte, mask) in password.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= mask;
    }
    let encrypted = public_key::encrypt(&password, &key)?;
    packets.reply(|out| out.extend_from_slice(&encrypted))
}

/// The RSA key of whoever answers.
fn asked_key(packets: &mut Packets) -> Result<Vec<u8>, Error> {
    packets.reply(|out| out.push(2))?;
    match packets.read()? {
        [1, key @ ..] => Ok(key.to_vec()),
        payload @ [0xFF, ..] => Err(refusal(payload)),
        _ => Err(Error::Protocol(
            "no public key where one was due".to_owned(),
        )),
    }
}

fn zero_ended(password: &[u8]) -> Vec<u8> {
    let mut text = password.to_vec();
    text.push(0);
    text
}
