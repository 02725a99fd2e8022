//! The client's side: which servers it takes.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{
    CryptoProvider, ring as ring_provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use super::{Tls, broken};
use crate::{Error, TlsMode};

/// How connections to one server are encrypted.
#[derive(Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
    is_checked: bool,
}

impl TlsClient {
    /// As a URL says; none where the mode is off. No session is resumed, so that every connection costs the same.
    ///
    /// # Errors
    /// [`Error::Tls`] for a CA file that cannot be used, or a host that no certificate can name.
    pub fn new(mode: &TlsMode, host: &str) -> Result<Option<Self>, Error> {
        let provider = Arc::new(ring_provider::default_provider());
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
        Ok(Some(Self {
            config: Arc::new(config),
            host: name,
            is_checked: *mode != TlsMode::Required,
        }))
    }

    /// Begin a handshake.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn start(&self) -> Result<Tls, Error> {
        let (config, host) = (Arc::clone(&self.config), self.host.clone());
        let connection = ClientConnection::new(config, host).map_err(broken)?;
        Ok(Tls::over(connection, self.is_checked))
    }
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
