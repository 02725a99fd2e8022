//! The server's side: the certificate that it shows.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring as ring_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{InconsistentKeys, ServerConfig, ServerConnection};

use super::{Tls, broken};
use crate::Error;

/// How connections of clients are encrypted.
#[derive(Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// With the certificate (and what leads from it to its authority) and the private key of these PEM files.
    ///
    /// # Errors
    /// [`Error::Tls`] for files that cannot be used or do not belong together.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unusable(certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(unusable(
                certificate,
                "certificate",
                &pem::Error::NoItemsFound,
            ));
        }
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| unusable(key, "private key", &error))?;
        let config =
            ServerConfig::builder_with_provider(Arc::new(ring_provider::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(broken)?
                .with_no_client_auth()
                .with_single_cert(chain, private);
        let config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Error::Tls(format!(
                "{} is not the key of the certificate in {}",
                key.display(),
                certificate.display()
            )),
            error => wrong(certificate, &error),
        })?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// A client's handshake begins.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn accept(&self) -> Result<Tls, Error> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(broken)?;
        Ok(Tls::over(connection, false))
    }
}

fn unusable(path: &Path, what: &str, error: &pem::Error) -> Error {
    match error {
        pem::Error::NoItemsFound => wrong(path, &format!("no {what} in PEM format")),
        error => wrong(path, error),
    }
}

fn wrong(path: &Path, why: &dyn Display) -> Error {
    Error::Tls(format!("{}: {why}", path.display()))
}
