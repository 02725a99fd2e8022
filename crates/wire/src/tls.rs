//! TLS between the protocol and the socket, without a socket: bytes in, bytes out.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::{Error, TlsMode};

/// One side of an encrypted connection: the client's.
pub(crate) struct Tls(ClientConnection);

impl Tls {
    /// Begin a handshake; none where the mode is off. No session is resumed, so that every connection costs the same.
    ///
    /// # Errors
    /// [`Error::Tls`] for a CA file that cannot be used, or a host that no certificate can name.
    pub(crate) fn start(mode: &TlsMode, host: &str) -> Result<Option<Self>, Error> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match mode {
            TlsMode::Off => return Ok(None),
            TlsMode::Required => Arc::new(Lenient {
                authority: None,
                provider: Arc::clone(&provider),
            }),
            TlsMode::Verify(ca) => authority(ca, &provider)?,
            TlsMode::VerifyCa(ca) => Arc::new(Lenient {
                authority: Some(authority(ca, &provider)?),
                provider: Arc::clone(&provider),
            }),
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Error::Tls(format!("host {host}: {error}")))?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(broken)?;
        Ok(Some(Self(connection)))
    }

    /// Whether the handshake still needs something from the server.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Encrypt, and add to `sealed` what is to be sent: that, and what the TLS protocol itself has to say.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn seal(&mut self, mut plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        while !plain.is_empty() {
            let taken = self.0.writer().write(plain)?;
            plain = &plain[taken..];
            self.drain(sealed)?;
        }
        self.drain(sealed)
    }

    fn drain(&mut self, sealed: &mut Vec<u8>) -> Result<(), Error> {
        while self.0.wants_write() {
            self.0.write_tls(sealed)?;
        }
        Ok(())
    }

    /// Decrypt what came from the server, and hand each piece of plain text to `plain`.
    ///
    /// # Errors
    /// [`Error::Tls`] for what is not TLS, was changed on the way, or comes with a certificate that is refused.
    pub(crate) fn open(
        &mut self,
        mut sealed: &[u8],
        mut plain: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut piece = [0; 4096];
        while !sealed.is_empty() {
            self.0.read_tls(&mut sealed)?;
            self.0.process_new_packets().map_err(broken)?;
            loop {
                match self.0.reader().read(&mut piece) {
                    Ok(0) => break,
                    Ok(length) => plain(&piece[..length]),
                    // Nothing more in whole records.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn broken(error: rustls::Error) -> Error {
    Error::Tls(error.to_string())
}

/// Takes certificates that name the host and lead to one of the file.
fn authority(
    ca: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(roots(ca)?.into(), Arc::clone(provider))
        .build()
        .map_err(|error| Error::Tls(format!("{}: {error}", ca.display())))
}

fn roots(ca: &Path) -> Result<RootCertStore, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Tls(format!("{}: {error}", ca.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate in PEM format"));
    }
    Ok(roots)
}

/// Takes certificates that rustls by itself would refuse, but proves that the server has the certificate's key.
#[derive(Debug)]
struct Lenient {
    /// Where the certificate has to lead, whatever host it names; none: any certificate will do.
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last, when all else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
