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

/// Log in; the server's version.
///
/// # Errors
/// [`Error::Server`] for a refused login, [`Error::Unsupported`] for another kind of authentication; [`Error::Io`];
/// [`Error::Protocol`].
pub(super) fn log_in(channel: &mut Channel, url: &ServerUrl) -> Result<String, Error> {
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
    let mut version = String::new();
    loop {
        let received = channel.next()?;
        match received.tag {
            message::AUTHENTICATION => {
                let (request, rest) = message::authentication(received.body)?;
                let rest = rest.to_vec();
                answer(channel, url, &mut scram, request, &rest)?;
            }
            message::PARAMETER_STATUS => {
                let mut strings = message::strings(received.body);
                if strings.next() == Some(b"server_version") {
                    version = version_number(strings.next().unwrap_or_default());
                }
            }
            message::KEY_DATA => {}
            message::READY => return Ok(version),
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
