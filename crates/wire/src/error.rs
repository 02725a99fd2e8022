//! What can go wrong between a client and a server.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's own refusal of a statement or of a login. The connection stays usable after a refused statement.
    #[error("server error {code} ({sqlstate}): {message}")]
    Server {
        /// MySQL's error number; 0 on PostgreSQL.
        code: u16,
        /// Five characters, on both servers.
        sqlstate: String,
        /// The server's words.
        message: String,
    },
    /// The connection broke or could not be made. It is of no further use.
    #[error("connection lost: {0}")]
    Io(#[from] std::io::Error),
    /// The server sent what this crate does not understand. The connection is of no further use.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The server or this crate cannot do what was asked, before anything was sent.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The encrypted connection could not be made, or broke. It is of no further use.
    #[error("TLS: {0}")]
    Tls(String),
    /// A server URL that cannot be used.
    #[error("server URL: {0}")]
    Url(String),
}

impl Error {
    /// The server has no TLS and the URL asks for it.
    pub(crate) fn no_tls() -> Self {
        Self::Unsupported(
            "TLS on this server or its socket file: give the server a certificate, use its TCP port, or tls=off".to_owned(),
        )
    }

    /// A packet or message of the server is longer than `max_allowed_packet`, or than anything before the login.
    pub(crate) fn too_long(limit: usize) -> Self {
        Self::Protocol(format!(
            "the server sent more than {limit} bytes in one message; max_allowed_packet=BYTES in its URL allows longer ones after the login"
        ))
    }

    /// A password that would have to be given away.
    pub(crate) fn not_private(asked: &str, allow: &str) -> Self {
        Self::Unsupported(format!(
            "{asked} on a connection that others could read or answer: use the socket file or tls=verify-ca with tls-ca=FILE, or allow it by {allow}"
        ))
    }

    /// Whether the same transaction can be tried again: a deadlock, a lock wait timeout or a serialization failure
    /// (MariaDB's 1020 since 11.6: the row changed after the snapshot).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Server { code, sqlstate, .. } => {
                matches!(code, 1020 | 1205 | 1213)
                    || matches!(sqlstate.as_str(), "40001" | "40P01" | "55P03")
            }
            _ => false,
        }
    }

    /// Whether the connection is gone, or the server is about to come or go: reconnect before the next statement.
    #[must_use]
    pub fn is_disconnect(&self) -> bool {
        match self {
            Self::Io(_) | Self::Protocol(_) | Self::Tls(_) => true,
            // PostgreSQL's class 08 is also what a statement is refused with, its 57014 a cancelled one.
            Self::Server {
                code: 0, sqlstate, ..
            } => matches!(
                sqlstate.as_str(),
                "08000"
                    | "08003"
                    | "08006"
                    | "57P01"
                    | "57P02"
                    | "57P03"
                    | "57P04"
                    | "57P05"
                    | "25P03"
                    | "25P04"
            ),
            Self::Server { code, .. } => MYSQL_DISCONNECTS.contains(code),
            _ => false,
        }
    }
}

/// MySQL's and MariaDB's errors after which the server has closed the connection: shutdown (1053), aborted connections (1152, 1184),
/// a packet that is too large (1153), packets that could not be read or written (1156-1161), a killed connection (MariaDB 1927, MySQL 3169), what a proxy says of
/// a lost server (2006, 2013), an idle connection (4031). Other errors of SQLSTATE 08S01, an unknown command (1047) among them, leave
/// it usable.
const MYSQL_DISCONNECTS: [u16; 15] = [
    1053, 1152, 1153, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 3169, 4031,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_a_connection_is_a_disconnect() {
        let server = |code, sqlstate: &str| Error::Server {
            code,
            sqlstate: sqlstate.to_owned(),
            message: String::new(),
        };
        for (code, sqlstate) in [
            (1053, "08S01"),
            (4031, "HY000"),
            (1927, "70100"),
            (0, "57P01"),
            (0, "57P03"),
        ] {
            assert!(server(code, sqlstate).is_disconnect(), "{code} {sqlstate}");
        }
        for (code, sqlstate) in [
            (1047, "08S01"),
            (1040, "08004"),
            (1064, "42000"),
            (0, "08P01"),
            (0, "57014"),
        ] {
            assert!(!server(code, sqlstate).is_disconnect(), "{code} {sqlstate}");
        }
        assert!(Error::Io(std::io::ErrorKind::BrokenPipe.into()).is_disconnect());
    }
}
