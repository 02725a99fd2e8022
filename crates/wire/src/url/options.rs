//! What stands behind the question mark of a server URL.

use std::path::PathBuf;
use std::time::Duration;

use super::{Family, ServerUrl, TlsMode, decode};
use crate::Error;

/// Each option and its values, for the message about one that is none of them.
const KNOWN: [(&str, &str); 12] = [
    ("socket", "PATH"),
    ("tls", "off|required|verify|verify-ca"),
    ("tls-ca", "FILE"),
    ("metadata", "on|off"),
    ("binary-results", "on|off"),
    ("get_server_public_key", "0|1"),
    ("server_public_key_path", "FILE"),
    ("enable_cleartext_plugin", "0|1"),
    ("require_auth", "none,password,md5,scram-sha-256"),
    ("connect_timeout", "SECONDS"),
    ("read_timeout", "SECONDS"),
    ("max_allowed_packet", "BYTES from 1024 to 1073741824"),
];

/// What is wrong with an option. Only the name of one that there is can be shown: anything else may be a part of a password.
fn wrong(name: &str) -> Error {
    Error::Url(match KNOWN.iter().find(|(known, _)| *known == name) {
        Some((name, values)) => format!("the value of option {name} is not {values}"),
        None => {
            let names = KNOWN.map(|(name, _)| name).join(", ");
            format!("unknown option; the options are {names}")
        }
    })
}

/// What may be done with the password. A channel is private where it is a unix socket, or TLS with a certificate that was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PasswordRules {
    /// `get_server_public_key=1`: on a channel that is not private, encrypt the password with the key that whoever answers sends; over
    /// TLS with a certificate that is not checked, send it as it is.
    pub trusts_any_server: bool,
    /// `server_public_key_path=FILE`: encrypt the password with this key over plain TCP.
    pub server_public_key: Option<PathBuf>,
    /// `enable_cleartext_plugin=1`: send the password as it is where the server asks for that and the channel is private.
    pub cleartext_plugin: bool,
    /// `require_auth=`: the only ways that PostgreSQL may ask for. Without it, all on a private channel, elsewhere those that do not
    /// give the password away.
    pub required: Option<Vec<AuthMethod>>,
}

/// A way to prove a login to PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// The server asks for nothing.
    None,
    /// The password as it is.
    Password,
    /// An MD5 hash that can be turned back into weak passwords.
    Md5,
    /// SCRAM-SHA-256, with channel binding or without.
    ScramSha256,
}

impl AuthMethod {
    /// As libpq's `require_auth` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Password => "password",
            Self::Md5 => "md5",
            Self::ScramSha256 => "scram-sha-256",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::None, Self::Password, Self::Md5, Self::ScramSha256]
            .into_iter()
            .find(|method| method.name() == name)
    }
}

/// How long to wait and how much to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `connect_timeout=SECONDS`: for finding the host, connecting and the login, all together. `None` (0): as long as the system waits.
    pub connect: Option<Duration>,
    /// `read_timeout=SECONDS`: for each further part of an answer. `None` (0, the default): for ever.
    pub read: Option<Duration>,
    /// `max_allowed_packet=BYTES`: the longest packet or message of the server that is taken.
    pub packet_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            read: None,
            packet_bytes: 64 << 20,
        }
    }
}

impl ServerUrl {
    pub(super) fn set(&mut self, options: &str) -> Result<(), Error> {
        let (mut tls, mut ca) = ("off", None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value) {
                ("socket", path) if !path.is_empty() => self.socket = Some(decode(path)?.into()),
                ("tls", "off" | "required" | "verify" | "verify-ca") => tls = value,
                ("tls-ca", path) if !path.is_empty() => ca = Some(PathBuf::from(decode(path)?)),
                ("metadata", "on") => self.metadata = true,
                ("metadata", "off") => self.metadata = false,
                ("binary-results", "on") => self.binary_results = true,
                ("binary-results", "off") => self.binary_results = false,
                _ if self.set_passwords(name, value)? || self.limits.set(name, value) => {}
                _ => return Err(wrong(name)),
            }
        }
        self.tls = tls_mode(tls, ca)?;
        Ok(())
    }

    fn set_passwords(&mut self, name: &str, value: &str) -> Result<bool, Error> {
        let rules = &mut self.passwords;
        let family = match (name, value) {
            ("get_server_public_key", "0" | "1") => {
                rules.trusts_any_server = value == "1";
                Family::Mysql
            }
            ("server_public_key_path", path) if !path.is_empty() => {
                rules.server_public_key = Some(decode(path)?.into());
                Family::Mysql
            }
            ("enable_cleartext_plugin", "0" | "1") => {
                rules.cleartext_plugin = value == "1";
                Family::Mysql
            }
            ("require_auth", methods) => {
                rules.required = methods.split(',').map(AuthMethod::of).collect();
                if rules.required.is_none() {
                    return Ok(false);
                }
                Family::Postgres
            }
            _ => return Ok(false),
        };
        if family == self.family {
            return Ok(true);
        }
        Err(Error::Url(format!(
            "option {name}: {} only",
            family.server_name()
        )))
    }
}

impl Limits {
    /// Whether there is such an option with such a value.
    fn set(&mut self, name: &str, value: &str) -> bool {
        let Ok(number) = value.parse::<u32>() else {
            return false;
        };
        let time = (number > 0).then(|| Duration::from_secs(number.into()));
        match name {
            "connect_timeout" => self.connect = time,
            "read_timeout" => self.read = time,
            "max_allowed_packet" if (1024..=1 << 30).contains(&number) => {
                self.packet_bytes = number as usize;
            }
            _ => return false,
        }
        true
    }
}

fn tls_mode(tls: &str, ca: Option<PathBuf>) -> Result<TlsMode, Error> {
    Ok(match (tls, ca) {
        ("verify", Some(ca)) => TlsMode::Verify(ca),
        ("verify-ca", Some(ca)) => TlsMode::VerifyCa(ca),
        ("verify" | "verify-ca", None) => {
            return Err(Error::Url(format!("tls={tls} needs tls-ca=FILE")));
        }
        (_, Some(_)) => {
            let why = "tls-ca=FILE needs tls=verify or tls=verify-ca";
            return Err(Error::Url(why.to_owned()));
        }
        ("required", None) => TlsMode::Required,
        (_, None) => TlsMode::Off,
    })
}
