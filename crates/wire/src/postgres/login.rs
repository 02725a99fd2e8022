//! From a fresh socket to the first ReadyForQuery.

use std::io;

use postgres_protocol::authentication::{
    md5_hash,
    sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
};
use postgres_protocol::message::frontend;

use super::channel::Channel;
use super::message;
use crate::{Error, ServerUrl};

// The authentication requests, by the protocol's numbers.
const OK: u32 = 0;
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// What the server reports of itself and of the session.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) server_version: String,
    /// `standard_conforming_strings` is off.
    pub(super) backslash_escapes: bool,
}

impl Parameters {
    /// Take over what a ParameterStatus says.
    pub(super) fn set(&mut self, body: &[u8]) {
        let mut strings = message::strings(body);
        let (name, value) = (strings.next(), strings.next().unwrap_or_default());
        match name {
            Some(b"server_version") => self.server_version = version_number(value),
            Some(b"standard_conforming_strings") => self.backslash_escapes = value == b"off",
            _ => {}
        }
    }
}

/// Log in; what the server reports.
///
/// # Errors
/// [`Error::Server`] for a refused login, [`Error::Unsupported`] for another kind of authentication; [`Error::Io`];
/// [`Error::Protocol`].
pub(super) fn log_in(channel: &mut Channel, url: &ServerUrl) -> Result<Parameters, Error> {
    let mut parameters = vec![
        ("user", url.user.as_str()),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("application_name", "upshift-load"),
    ];
    if !url.database.is_empty() {
        parameters.push(("database", &url.database));
    }
    channel.put(|out| frontend::startup_message(parameters, out))?;
    channel.send()?;
    let mut scram = None;
    let mut reported = Parameters::default();
    loop {
        let received = channel.next()?;
        match received.tag {
            message::AUTHENTICATION => {
                let (request, rest) = message::authentication(received.body)?;
                let rest = rest.to_vec();
                answer(channel, url, &mut scram, request, &rest)?;
            }
            message::PARAMETER_STATUS => reported.set(received.body),
            message::KEY_DATA => {}
            message::READY => return Ok(reported),
            message::ERROR => return Err(message::error(received.body)),
            tag => return Err(message::unexpected(tag)),
        }
    }
}

fn answer(
    channel: &mut Channel,
    url: &ServerUrl,
    scram: &mut Option<ScramSha256>,
    request: u32,
    rest: &[u8],
) -> Result<(), Error> {
    match (request, scram.as_mut()) {
        (OK, None) => return Ok(()),
        (OK, Some(_)) => {
            return Err(Error::Protocol(
                "the server did not prove that it knows the password".to_owned(),
            ));
        }
        (CLEARTEXT, _) => {
            channel.put(|out| frontend::password_message(url.password.as_bytes(), out))?;
        }
        (MD5, _) => {
            let salt = *rest
                .first_chunk()
                .ok_or_else(|| Error::Protocol("no salt for md5".to_owned()))?;
            let hash = md5_hash(url.user.as_bytes(), url.password.as_bytes(), salt);
            channel.put(|out| frontend::password_message(hash.as_bytes(), out))?;
        }
        (SASL, _) if message::strings(rest).any(|name| name == SCRAM_SHA_256.as_bytes()) => {
            let binding = ChannelBinding::unsupported();
            let start = scram.insert(ScramSha256::new(url.password.as_bytes(), binding));
            channel
                .put(|out| frontend::sasl_initial_response(SCRAM_SHA_256, start.message(), out))?;
        }
        (SASL_CONTINUE, Some(scram)) => {
            scram.update(rest).map_err(not_scram)?;
            channel.put(|out| frontend::sasl_response(scram.message(), out))?;
        }
        (SASL_FINAL, Some(proven)) => {
            proven.finish(rest).map_err(not_scram)?;
            *scram = None;
            return Ok(());
        }
        _ => {
            return Err(Error::Unsupported(format!(
                "authentication request {request}: use scram-sha-256, md5, password or trust"
            )));
        }
    }
    channel.send()
}

fn not_scram(error: io::Error) -> Error {
    Error::Protocol(format!("SCRAM: {error}"))
}

/// `15.18` of `15.18 (Debian 15.18-0+deb12u1)`.
fn version_number(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split(' ').next().unwrap_or_default().to_owned()
}
