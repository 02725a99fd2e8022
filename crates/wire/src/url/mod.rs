//! Where a server is: `mysql://user:password@host:port/database?socket=...&tls=...`.

mod options;

use std::fmt;
use std::path::PathBuf;

use crate::Error;
pub use options::{AuthMethod, Limits, PasswordRules};

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
    /// Encrypted; the certificate chain is verified against this PEM file, and so is the host name.
    Verify(PathBuf),
    /// Encrypted; the certificate chain is verified against this PEM file, the host name is not: MySQL and MariaDB make certificates without one.
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
    pub password: Password,
    /// What may be done with it.
    pub passwords: PasswordRules,
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
    /// How long to wait and how much to take.
    pub limits: Limits,
}

/// A password, which no message shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// What it is.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl ServerUrl {
    /// Parse a URL. User, password, database and files may be percent-encoded; an `@`, `/` or `?` of a password must be.
    ///
    /// # Errors
    /// [`Error::Url`] with the part that is wrong. Nothing of what could belong to a password is in it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| Error::Url("it has no scheme such as mysql://".to_owned()))?;
        let family = match scheme {
            "mysql" | "mariadb" => Family::Mysql,
            "postgres" | "postgresql" => Family::Postgres,
            _ => {
                let why = "its scheme is not mysql, mariadb, postgres or postgresql";
                return Err(Error::Url(why.to_owned()));
            }
        };
        let (authority, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        // Else what is taken for the host is a part of the password, and what follows is the rest of it.
        if after.contains('@') {
            let why = "it has an @ after the host: in a password, write @ / ? as %40 %2F %3F";
            return Err(Error::Url(why.to_owned()));
        }
        let (path, options) = after.split_once('?').unwrap_or((after, ""));
        let database = path.strip_prefix('/').unwrap_or_default();
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = host_and_port(address, family)?;
        let mut url = Self {
            family,
            user: decode(user)?,
            password: Password(decode(password)?),
            passwords: PasswordRules::default(),
            host,
            port,
            database: decode(database)?,
            socket: None,
            tls: TlsMode::Off,
            metadata: true,
            binary_results: false,
            limits: Limits::default(),
        };
        if url.user.is_empty() {
            family.superuser().clone_into(&mut url.user);
        }
        url.set(options)?;
        Ok(url)
    }

    /// The socket file, where the URL names one. PostgreSQL's users name the folder; the server names the file in it after the port.
    #[must_use]
    pub fn socket_file(&self) -> Option<PathBuf> {
        let path = self.socket.as_ref()?;
        if self.family == Family::Postgres && path.is_dir() {
            return Some(path.join(format!(".s.PGSQL.{}", self.port)));
        }
        Some(path.clone())
    }
}

impl TlsMode {
    /// As the URL has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Required => "required",
            Self::Verify(_) => "verify",
            Self::VerifyCa(_) => "verify-ca",
        }
    }
}

impl Family {
    fn port(self) -> u16 {
        match self {
            Self::Mysql => 3306,
            Self::Postgres => 5432,
        }
    }

    /// What messages call its servers.
    fn server_name(self) -> &'static str {
        match self {
            Self::Mysql => "MySQL and MariaDB",
            Self::Postgres => "PostgreSQL",
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
                .ok_or_else(|| Error::Url("host: no closing bracket".to_owned()))?;
            match after.strip_prefix(':') {
                None if !after.is_empty() => {
                    let why = "host: a bracket with neither a colon nor the database after it";
                    return Err(Error::Url(why.to_owned()));
                }
                port => (host, port),
            }
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
            .map_err(|_| Error::Url("port: not a number up to 65535".to_owned()))?,
        None => family.port(),
    };
    Ok((host.to_owned(), port))
}

/// Replace each %XX by its byte.
fn decode(text: &str) -> Result<String, Error> {
    let wrong = || Error::Url("% without two hexadecimal digits of UTF-8".to_owned());
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_parts() {
        let url = ServerUrl::parse(
            "mariadb://me:a%40b@db.local:3307/shop?socket=/tmp/x.sock&tls-ca=/tmp/ca.pem&tls=verify&metadata=off&binary-results=on",
        )
        .expect("valid");
        assert_eq!(url.family, Family::Mysql);
        assert_eq!(
            (url.user.as_str(), url.password.as_bytes()),
            ("me", &b"a@b"[..])
        );
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
            ("oracle://x/y", "scheme"),
            ("mysql://x:y/z", "port"),
            ("mysql://[::1/z", "bracket"),
            ("mysql://[::1]3307/z", "neither a colon"),
            ("mysql://h/d%zz", "hexadecimal"),
            (
                "mysql://h/d?tls=maybe",
                "the value of option tls is not off|",
            ),
            ("mysql://h/d?tsl=off", "the options are socket, tls,"),
            ("mysql://h/d?tls=verify", "tls-ca"),
            ("mysql://h/d?tls=verify-ca", "tls-ca"),
            ("mysql://h/d?tls-ca=x&tls=required", "tls=verify"),
            ("mysql://h/d?require_auth=none", "PostgreSQL only"),
            (
                "postgres://h/d?get_server_public_key=1",
                "MySQL and MariaDB only",
            ),
            (
                "postgres://h/d?require_auth=kerberos",
                "option require_auth",
            ),
            (
                "mysql://h/d?max_allowed_packet=2g",
                "the value of option max_allowed_packet is not BYTES",
            ),
        ] {
            let message = ServerUrl::parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn what_a_login_may_do_and_how_long_it_may_take() {
        let url = ServerUrl::parse(
            "mysql://h/d?get_server_public_key=1&server_public_key_path=/k%20y&enable_cleartext_plugin=1&connect_timeout=3&read_timeout=0&max_allowed_packet=4096",
        )
        .expect("valid");
        assert!(url.passwords.trusts_any_server && url.passwords.cleartext_plugin);
        assert_eq!(url.passwords.server_public_key, Some("/k y".into()));
        assert_eq!(url.limits.connect, Some(Duration::from_secs(3)));
        assert_eq!((url.limits.read, url.limits.packet_bytes), (None, 4096));
        let url = ServerUrl::parse("postgres://h/d?require_auth=md5,none").expect("valid");
        let methods = [AuthMethod::Md5, AuthMethod::None];
        assert_eq!(url.passwords.required.as_deref(), Some(&methods[..]));
    }

    #[test]
    fn no_message_shows_a_password() {
        for text in [
            "me:sesame@host/db",
            "sesame://me@host/db",
            "me:ses://ame@host/db",
            "mysql://me:%zzsesame@host/db",
            "mysql://me:sesame",
            "mysql://me:sesame/more@host/db",
            "mysql://me:a/sesame@host/db",
            "mysql://me:a?sesame@host/db",
            "mysql://me:a@sesame/b@host/db",
            "mysql://me:a@[sesame/db",
            "mysql://me:a@h:sesame/db",
            "postgres://h/d?user=me&password=sesame",
            "postgres://h/d?sslpassword=sesame",
            "postgres://h/d?sesame",
            "postgres://h/d?require_auth=sesame",
            "mysql://me:a?b&sesame=c",
            "mysql://h/d?tls=sesame",
        ] {
            let message = ServerUrl::parse(text).expect_err(text).to_string();
            assert!(!message.contains("sesame"), "{message}");
            assert!(!message.contains("ame@"), "{message}");
        }
        let url = ServerUrl::parse("mysql://me:sesame@host/db").expect("valid");
        assert!(!format!("{url:?}").contains("sesame"));
    }
}
