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

    /// Whether the same transaction can be tried again: a deadlock, a lock wait timeout or a serialization failure.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Server { code, sqlstate, .. } => {
                matches!(code, 1205 | 1213)
                    || matches!(sqlstate.as_str(), "40001" | "40P01" | "55P03")
            }
            _ => false,
        }
    }

    /// Whether the connection is gone: reconnect before the next statement.
    #[must_use]
    pub fn is_disconnect(&self) -> bool {
        match self {
            Self::Io(_) | Self::Protocol(_) | Self::Tls(_) => true,
            Self::Server { code, sqlstate, .. } => {
                matches!(code, 1053 | 1927 | 3169 | 4031)
                    || sqlstate.starts_with("08")
                    || sqlstate.starts_with("57P")
            }
            _ => false,
        }
    }
}
