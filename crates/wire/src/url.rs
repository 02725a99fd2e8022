//! Where a server is: `mysql://user:password@host:port/database?socket=...&tls=...&tls-ca=...&metadata=...&binary-results=...`.

use std::path::PathBuf;

use crate::Error;

/// Which protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// MySQL and MariaDB.
    Mysql,
    /// PostgreSQL.
    Postgres,
}

/// Encryption of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsMode {
    /// None (the default).
    Off,
    /// Encrypted, whatever the server's certificate says: a load generator on its own network.
    Required,
    /// Encrypted, and the certificate names the URL's host and leads to one of this PEM file.
    Verify(PathBuf),
    /// Encrypted, and the certificate leads to one of this PEM file, whatever it names: MySQL's and MariaDB's own name no host.
    VerifyCa(PathBuf),
}

/// A server and how to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// From the scheme: `mysql`, `mariadb`; `postgres`, `postgresql`.
    pub family: Family,
    /// The login name.
    pub user: String,
    /// Empty for none.
    pub password: String,
    /// Used when there is no socket.
    pub host: String,
    /// 3306 or 5432 when not given.
    pub port: u16,
    /// The database to use.
    pub database: String,
    /// A unix socket's path (PostgreSQL: the socket file or its folder).
    pub socket: Option<PathBuf>,
    /// Encryption.
    pub tls: TlsMode,
    /// False (`metadata=off`): the server leaves column definitions out of results. MySQL 8.0 and newer out of all of them, at the
    /// price of one more round trip whenever executions follow a preparation or the other way round; it does not tell of a table
    /// changed since, so prepare again after one. MariaDB 10.6 and newer out of prepared statements' while they stay the same.
    /// PostgreSQL sends none with prepared statements and always some with text: refused there.
    pub metadata: bool,
    /// True (`binary-results=on`): PostgreSQL sends the results of prepared statements in binary format where the type allows: integers,
    /// numerics, booleans, dates and timestamps. MySQL's protocol leaves no choice: refused there.
    pub binary_results: bool,
}

impl ServerUrl {
    /// Parse a URL. User, password, database and socket may be percent-encoded.
    ///
    /// # Errors
    /// [`Error::Url`] with the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| Error::Url(format!("{text}: no scheme such as mysql://")))?;
        let family = match scheme {
            "mysql" | "mariadb" => Family::Mysql,
            "postgres" | "postgresql" => Family::Postgres,
            other => {
                return Err(Error::Url(format!(
                    "scheme {other}: not mysql, mariadb, postgres or postgresql"
                )));
            }
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = host_and_port(address, family)?;
        let mut url = Self {
            family,
            user: decode(user)?,
            password: decode(password)?,
            host,
            port,
            database: decode(database)?,
            socket: None,
            tls: TlsMode::Off,
            metadata: true,
            binary_results: false,
        };
        if url.user.is_empty() {
            family.superuser().clone_into(&mut url.user);
        }
        url.set(options)?;
        Ok(url)
    }

    fn set(&mut self, options: &str) -> Result<(), Error> {
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
                _ => {
                    return Err(Error::Url(format!(
                        "option {option}: not socket=PATH, tls=off|required|verify|verify-ca, tls-ca=FILE, metadata=on|off or binary-results=on|off"
                    )));
                }
            }
        }
        self.tls = match (tls, ca) {
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
        };
        Ok(())
    }
}

impl Family {
    fn port(self) -> u16 {
        match self {
            Self::Mysql => 3306,
            Self::Postgres => 5432,
        }
    }

    /// Who logs in where the URL names nobody.
    fn superuser(self) -> &'static str {
        match self {
            Self::Mysql => "root",
            Self::Postgres => "postgres",
        }
    }
}

/// An IPv6 address stands in brackets, which are not part of it.
fn host_and_port(address: &str, family: Family) -> Result<(String, u16), Error> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| Error::Url(format!("host {address}: no closing bracket")))?;
            (host, after.strip_prefix(':'))
        }
        None => match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    let port = match port {
        Some(digits) => digits
            .parse()
            .map_err(|_| Error::Url(format!("port {digits}: not a number up to 65535")))?,
        None => family.port(),
    };
    Ok((host.to_owned(), port))
}

/// Replace each %XX by its byte.
fn decode(text: &str) -> Result<String, Error> {
    let wrong = || Error::Url(format!("{text}: % without two hexadecimal digits of UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts() {
        let url = ServerUrl::parse(
            "mariadb://me:a%40b@db.local:3307/shop?socket=/tmp/x.sock&tls-ca=/tmp/ca.pem&tls=verify&metadata=off&binary-results=on",
        )
        .expect("valid");
        assert_eq!(url.family, Family::Mysql);
        assert_eq!((url.user.as_str(), url.password.as_str()), ("me", "a@b"));
        assert_eq!((url.host.as_str(), url.port), ("db.local", 3307));
        assert_eq!(url.database, "shop");
        assert_eq!(url.socket, Some(PathBuf::from("/tmp/x.sock")));
        assert_eq!(url.tls, TlsMode::Verify("/tmp/ca.pem".into()));
        assert!(!url.metadata && url.binary_results);
    }

    #[test]
    fn defaults() {
        let url = ServerUrl::parse("postgres://[::1]/bench").expect("valid");
        assert_eq!((url.host.as_str(), url.port), ("::1", 5432));
        assert_eq!(url.user, "postgres");
        assert_eq!(url.socket, None);
        let url = ServerUrl::parse("mysql://root@/bench").expect("valid");
        assert_eq!((url.host.as_str(), url.port), ("127.0.0.1", 3306));
        assert_eq!((url.tls, url.metadata), (TlsMode::Off, true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("localhost", "scheme"),
            ("oracle://x/y", "oracle"),
            ("mysql://x:y/z", "port y"),
            ("mysql://[::1/z", "bracket"),
            ("mysql://h/d%zz", "hexadecimal"),
            ("mysql://h/d?tls=maybe", "tls=maybe"),
            ("mysql://h/d?tls=verify", "tls-ca"),
            ("mysql://h/d?tls=verify-ca", "tls-ca"),
            ("mysql://h/d?tls-ca=x&tls=required", "tls=verify"),
        ] {
            let message = ServerUrl::parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
