//! TLS between the protocol and the socket, without a socket: bytes in, bytes out.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
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

use crate::der::{Der, OBJECT};
use crate::{Error, TlsMode};

/// One side of an encrypted connection: the client's.
pub(crate) struct Tls {
    connection: ClientConnection,
    /// The certificate shows that the server is the right one.
    pub(crate) is_checked: bool,
}

impl Tls {
    /// Begin a handshake; none where the mode is off. No session is resumed, so that every connection costs the same.
    ///
    /// # Errors
    /// [`Error::Tls`] for a CA file that cannot be used, or a host that no certificate can name.
    pub(crate) fn start(mode: &TlsMode, host: &str) -> Result<Option<Self>, Error> {
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
        let connection = ClientConnection::new(Arc::new(config), name).map_err(broken)?;
        Ok(Some(Self {
            connection,
            is_checked: *mode != TlsMode::Required,
        }))
    }

    /// What names the server's end of this connection (`tls-server-end-point`, RFC 5929): its certificate's hash, by the function that
    /// the certificate is signed with. `None` where that function is none of those that are known here.
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        let certificate = self.connection.peer_certificates()?.first()?;
        let function = signature_hash(certificate)?;
        Some(digest(function, certificate).as_ref().to_vec())
    }

    /// Whether the handshake still needs something from the server.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Encrypt, and add to `sealed` what is to be sent: that, and what the TLS protocol itself has to say.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn seal(&mut self, mut plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        while !plain.is_empty() {
            let taken = self.connection.writer().write(plain)?;
            plain = &plain[taken..];
            self.drain(sealed)?;
        }
        self.drain(sealed)
    }

    fn drain(&mut self, sealed: &mut Vec<u8>) -> Result<(), Error> {
        while self.connection.wants_write() {
            self.connection.write_tls(sealed)?;
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
            self.connection.read_tls(&mut sealed)?;
            self.connection.process_new_packets().map_err(broken)?;
            loop {
                match self.connection.reader().read(&mut piece) {
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

/// The hash function of a certificate's signature; SHA-256 in place of MD5 and SHA-1.
fn signature_hash(certificate: &[u8]) -> Option<&'static Algorithm> {
    const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1];
    const ECDSA: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4];
    let mut parts = Der(certificate).inside()?;
    parts.inside()?;
    let name = parts.inside()?.next(OBJECT)?;
    match (name.strip_prefix(RSA), name.strip_prefix(ECDSA)) {
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(&SHA256),
        (Some([12]), _) | (_, Some([3, 3])) => Some(&SHA384),
        (Some([13]), _) | (_, Some([3, 4])) => Some(&SHA512),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::SEQUENCE;

    /// The outside of a certificate that is signed by the algorithm of this name.
    fn certificate(name: &[u8]) -> Vec<u8> {
        let object = [&[OBJECT, name.len() as u8][..], name].concat();
        let algorithm = [&[SEQUENCE, object.len() as u8][..], &object].concat();
        let parts = [&[SEQUENCE, 0][..], &algorithm].concat();
        [&[SEQUENCE, parts.len() as u8][..], &parts].concat()
    }

    #[test]
    fn an_end_point_is_hashed_as_its_certificate_is_signed() {
        let rsa = |last| [&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1][..], &[last]].concat();
        let ecdsa = |last| [&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3][..], &[last]].concat();
        for (name, bits) in [
            (rsa(5), 256),
            (rsa(11), 256),
            (rsa(12), 384),
            (rsa(13), 512),
            (ecdsa(2), 256),
            (ecdsa(3), 384),
            (ecdsa(4), 512),
        ] {
            let function = signature_hash(&certificate(&name)).expect("known");
            assert_eq!(8 * function.output_len(), bits);
        }
        // Ed25519 hashes by itself.
        assert!(signature_hash(&certificate(&[0x2B, 0x65, 0x70])).is_none());
        assert!(signature_hash(b"no certificate").is_none());
    }
}
