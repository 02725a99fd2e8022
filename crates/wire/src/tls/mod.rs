//! TLS between the protocol and the socket, without a socket: bytes in, bytes out.

mod client;
mod server;

use std::io::{ErrorKind, Read, Write};

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::Connection;

use crate::der::{Der, OBJECT};
use crate::{Error, TlsMode};
pub use client::TlsClient;
pub use server::TlsServer;

/// One side of an encrypted connection.
pub struct Tls {
    connection: Connection,
    /// The certificate shows that the server is the right one.
    pub(crate) is_checked: bool,
}

impl Tls {
    /// Begin a handshake with a server; none where the mode is off.
    ///
    /// # Errors
    /// Those of [`TlsClient::new`].
    pub(crate) fn start(mode: &TlsMode, host: &str) -> Result<Option<Self>, Error> {
        let client = TlsClient::new(mode, host)?;
        client.map(|client| client.start()).transpose()
    }

    fn over(connection: impl Into<Connection>, is_checked: bool) -> Self {
        Self {
            connection: connection.into(),
            is_checked,
        }
    }

    /// What names the server's end of this connection (`tls-server-end-point`, RFC 5929): its certificate's hash, by the function that
    /// the certificate is signed with. `None` where that function is none of those that are known here.
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        let certificate = self.connection.peer_certificates()?.first()?;
        let function = signature_hash(certificate)?;
        Some(digest(function, certificate).as_ref().to_vec())
    }

    /// Whether the handshake still needs something from the other side. Nothing can be sealed as long.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Encrypt, and add to `sealed` what is to be sent: that, and what the TLS protocol itself has to say.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn seal(&mut self, mut plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        while !plain.is_empty() {
            let taken = self.connection.writer().write(plain)?;
            plain = &plain[taken..];
            self.drain(sealed)?;
        }
        self.drain(sealed)
    }

    /// Nothing more will be sealed: add to `sealed` how the other side learns that.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn close(&mut self, sealed: &mut Vec<u8>) -> Result<(), Error> {
        self.connection.send_close_notify();
        self.drain(sealed)
    }

    fn drain(&mut self, sealed: &mut Vec<u8>) -> Result<(), Error> {
        while self.connection.wants_write() {
            self.connection.write_tls(sealed)?;
        }
        Ok(())
    }

    /// Decrypt what came from the other side, and hand each piece of plain text to `plain`. What the TLS protocol has to answer, a refusal
    /// too, is sealed next.
    ///
    /// # Errors
    /// [`Error::Tls`] for what is not TLS, was changed on the way, or comes with a certificate that is refused.
    pub fn open(&mut self, mut sealed: &[u8], mut plain: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut piece = [0; 4096];
        while !sealed.is_empty() {
            // After the other side's closure nothing is read any more (RFC 8446, 6.1): what follows it is no data.
            if self.connection.read_tls(&mut sealed)? == 0 {
                break;
            }
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
