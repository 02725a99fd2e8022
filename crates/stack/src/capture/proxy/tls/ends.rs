//! How both sides of the proxy are encrypted, as the command line says.

use std::path::{Path, PathBuf};

use wire::{Error, Family, ServerUrl, Tls, TlsClient, TlsMode, TlsServer};

use crate::failure::Failure;

const PAIR: &str = "--tls-certificate names a PEM file with the certificate and its chain, --tls-key one with its private key, without a passphrase. \
                    To make a pair for a test: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                    -out certificate.pem -keyout key.pem";

/// The proxy's certificate, and how it reaches the server.
#[derive(Debug)]
pub struct Ends {
    family: Family,
    server: TlsServer,
    client: Option<TlsClient>,
    certificate: PathBuf,
    /// The server is reached by TCP.
    is_remote: bool,
}

impl Ends {
    /// # Errors
    /// Files that cannot be used, or do not belong together; a CA file of the URL's that cannot be used.
    pub fn new(certificate: &Path, key: &Path, url: &ServerUrl) -> Result<Self, Failure> {
        let server = TlsServer::from_files(certificate, key)
            .map_err(|error| Failure::usage(error.to_string(), PAIR))?;
        let client = TlsClient::new(&url.tls, &url.host).map_err(|error| {
            Failure::usage(
                format!("--server: {error}"),
                "tls-ca= names a PEM file with the authority that the server's certificate leads to",
            )
        })?;
        Ok(Self {
            family: url.family,
            server,
            client,
            certificate: certificate.to_owned(),
            is_remote: url.socket_file().is_none(),
        })
    }

    /// Refuse a URL that asks for TLS where nobody ends it.
    ///
    /// # Errors
    /// Such a URL.
    pub fn are_not_asked_for(url: &ServerUrl) -> Result<(), Failure> {
        if url.tls == TlsMode::Off {
            return Ok(());
        }
        Err(Failure::usage(
            "--server asks for TLS, but the proxy forwards what clients send unchanged",
            "--tls-certificate and --tls-key end TLS in the proxy, which then encrypts its connection to the server, too; without tls= in --server, \
             the TLS of clients passes through unread",
        ))
    }

    /// What is said before the capture begins.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let towards = match self.dials() {
            true => "encrypted again",
            false => "not encrypted",
        };
        let mut words = vec![format!(
            "TLS ends here: clients that ask for TLS see the certificate in {}, not the server's. The connection to the server is {towards}. \
             Times include the encryption",
            self.certificate.display()
        )];
        let logins = match (self.family, self.dials()) {
            (Family::Mysql, false) if self.is_remote => {
                "a user's first login by caching_sha2_password fails: the server accepts the password only over TLS or its unix socket"
            }
            (Family::Mysql, _) => "the server does not see certificates of clients (REQUIRE X509)",
            (Family::Postgres, false) => {
                "the server does not offer SCRAM-SHA-256-PLUS: clients with channel_binding=require refuse"
            }
            (Family::Postgres, true) => {
                "a login by SCRAM-SHA-256-PLUS is bound to the server's certificate: give the proxy that certificate, or clients with TLS channel_binding=disable"
            }
        };
        words.push(format!("logins: {logins}"));
        if !self.dials() && self.is_remote {
            words.push(
                "WARNING: a client that trusts TLS may send its password as it is, and the proxy sends it to the server unencrypted: \
                 tls=required, verify-ca or verify in --server encrypts it"
                    .to_owned(),
            );
        }
        words
    }

    pub(super) fn family(&self) -> Family {
        self.family
    }

    /// Whether the connection to the server is encrypted.
    pub(super) fn dials(&self) -> bool {
        self.client.is_some()
    }

    /// How the connection to the server is encrypted, if it is.
    #[must_use]
    pub fn client(&self) -> Option<&TlsClient> {
        self.client.as_ref()
    }

    pub(super) fn accept(&self) -> Result<Tls, Error> {
        self.server.accept()
    }

    pub(super) fn dial(&self) -> Result<Tls, Error> {
        let none = || Error::Tls("the server is reached without it".to_owned());
        self.client.as_ref().ok_or_else(none)?.start()
    }
}
