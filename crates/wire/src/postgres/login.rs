//! From a fresh socket to the first ReadyForQuery.

use std::io;

use postgres_protocol::authentication::{
    md5_hash,
    sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256},
};
use postgres_protocol::message::frontend;

use super::channel::Channel;
use super::message;
use crate::{AuthMethod, Error, PasswordRules, ServerUrl};

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
/// [`Error::Server`] for a refused login, [`Error::Unsupported`] for a kind of authentication that is another or not allowed;
/// [`Error::Io`]; [`Error::Protocol`].
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
    let mut progress = Progress::Fresh;
    let mut reported = Parameters::default();
    loop {
        let received = channel.next()?;
        match received.tag {
            message::AUTHENTICATION => {
                let (request, rest) = message::authentication(received.body)?;
                let rest = rest.to_vec();
                progress = progress.answer(channel, url, request, &rest)?;
            }
            message::PARAMETER_STATUS => reported.set(received.body),
            message::KEY_DATA | message::NOTICE => {}
            message::READY if matches!(progress, Progress::LetIn) => return Ok(reported),
            message::ERROR => return Err(message::error(received.body)),
            tag => return Err(message::unexpected(tag)),
        }
    }
}

/// How far a login has come. No request is answered but the one that is due.
enum Progress {
    Fresh,
    /// The password or its hash is sent.
    Sent,
    Scram(ScramSha256),
    /// SCRAM's end: the server has shown that it knows the password.
    Proven,
    LetIn,
}

impl Progress {
    fn answer(
        self,
        channel: &mut Channel,
        url: &ServerUrl,
        request: u32,
        rest: &[u8],
    ) -> Result<Self, Error> {
        let (password, rules) = (url.password.as_bytes(), &url.passwords);
        let next = match (request, self) {
            (OK, Self::Fresh) => {
                check(AuthMethod::None, rules, channel)?;
                return Ok(Self::LetIn);
            }
            (OK, Self::Sent | Self::Proven) => return Ok(Self::LetIn),
            (OK, Self::Scram(_)) => {
                let why = "the server did not prove that it knows the password";
                return Err(Error::Protocol(why.to_owned()));
            }
            (CLEARTEXT, Self::Fresh) => {
                check(AuthMethod::Password, rules, channel)?;
                channel.put(|out| frontend::password_message(password, out))?;
                Self::Sent
            }
            (MD5, Self::Fresh) => {
                check(AuthMethod::Md5, rules, channel)?;
                let salt = *rest
                    .first_chunk()
                    .ok_or_else(|| Error::Protocol("no salt for md5".to_owned()))?;
                let hash = md5_hash(url.user.as_bytes(), password, salt);
                channel.put(|out| frontend::password_message(hash.as_bytes(), out))?;
                Self::Sent
            }
            (SASL, Self::Fresh) => {
                check(AuthMethod::ScramSha256, rules, channel)?;
                let (mechanism, binding) = scram(rest, channel)?;
                let scram = ScramSha256::new(password, binding);
                channel
                    .put(|out| frontend::sasl_initial_response(mechanism, scram.message(), out))?;
                Self::Scram(scram)
            }
            (SASL_CONTINUE, Self::Scram(mut scram)) => {
                scram.update(rest).map_err(not_scram)?;
                channel.put(|out| frontend::sasl_response(scram.message(), out))?;
                Self::Scram(scram)
            }
            (SASL_FINAL, Self::Scram(mut scram)) => {
                scram.finish(rest).map_err(not_scram)?;
                return Ok(Self::Proven);
            }
            (OK | CLEARTEXT | MD5 | SASL | SASL_CONTINUE | SASL_FINAL, _) => {
                let why = format!("authentication request {request} where another was due");
                return Err(Error::Protocol(why));
            }
            _ => return Err(unknown(request)),
        };
        channel.send()?;
        Ok(next)
    }
}

/// Refuse what the URL does not allow, and what would give the password away unless the URL names it.
fn check(asked: AuthMethod, rules: &PasswordRules, channel: &Channel) -> Result<(), Error> {
    let name = asked.name();
    match &rules.required {
        Some(allowed) if allowed.contains(&asked) => Ok(()),
        Some(_) => Err(Error::Unsupported(format!(
            "authentication by {name}: require_auth in the server's URL does not name it"
        ))),
        None if matches!(asked, AuthMethod::Password | AuthMethod::Md5)
            && !channel.is_private() =>
        {
            let asked = format!("authentication by {name}");
            Err(Error::not_private(&asked, &format!("require_auth={name}")))
        }
        None => Ok(()),
    }
}

/// Which of the offered mechanisms to take: bound to the TLS connection where both sides can, so that nobody sits in between.
fn scram(offered: &[u8], channel: &Channel) -> Result<(&'static str, ChannelBinding), Error> {
    let offers = |name: &str| message::strings(offered).any(|one| one == name.as_bytes());
    match channel.end_point() {
        Some(end_point) if offers(SCRAM_SHA_256_PLUS) => {
            let binding = ChannelBinding::tls_server_end_point(end_point);
            Ok((SCRAM_SHA_256_PLUS, binding))
        }
        // A server that can bind takes this as a sign that somebody has removed its offer.
        Some(_) if offers(SCRAM_SHA_256) => Ok((SCRAM_SHA_256, ChannelBinding::unrequested())),
        None if offers(SCRAM_SHA_256) => Ok((SCRAM_SHA_256, ChannelBinding::unsupported())),
        _ => Err(unknown(SASL)),
    }
}

fn unknown(request: u32) -> Error {
    Error::Unsupported(format!(
        "authentication request {request}: use scram-sha-256, md5, password or trust"
    ))
}

fn not_scram(error: io::Error) -> Error {
    Error::Protocol(format!("SCRAM: {error}"))
}

/// `15.18` of `15.18 (Debian 15.18-0+deb12u1)`.
fn version_number(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split(' ').next().unwrap_or_default().to_owned()
}
