//! A password encrypted with the server's RSA key, as caching_sha2_password wants it over plain TCP.

use mysql_common::crypto::{self, der::PubKeyFileType, der::pem_to_der};

use crate::Error;
use crate::der::{BIT_STRING, Der, INTEGER};

/// Lengths of a modulus: 1024 bits, which MySQL does not go below, up to 16,384.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 128..=2048;
/// OAEP's padding takes two SHA-1 hashes and two bytes.
const PADDING_BYTES: usize = 2 * 20 + 2;

/// Encrypt what is at most some hundred bytes long with a key in PEM format.
///
/// # Errors
/// [`Error::Protocol`] for anything but an RSA key.
pub(super) fn encrypt(secret: &[u8], pem: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = |why: &str| Error::Protocol(format!("the server's public key: {why}"));
    let (der, form) = pem_to_der(pem).map_err(|error| wrong(&error.to_string()))?;
    // mysql_common panics at keys that are none.
    let modulus = modulus(&der, form).ok_or_else(|| wrong("no RSA key"))?;
    if !MODULUS_BYTES.contains(&modulus.len()) {
        return Err(wrong(&format!("{} bits", 8 * modulus.len())));
    }
    if secret.len() + PADDING_BYTES >= modulus.len() {
        return Err(wrong("too short for the password"));
    }
    crypto::encrypt(secret, pem).map_err(|error| wrong(&error.to_string()))
}

/// The modulus of a key, which has an exponent too.
fn modulus(der: &[u8], form: PubKeyFileType) -> Option<&[u8]> {
    let mut key = Der(der);
    if form == PubKeyFileType::Pkcs8 {
        let mut around = key.inside()?;
        around.inside()?;
        key = match around.next(BIT_STRING)? {
            // How many bits of the last byte do not count.
            [0, key @ ..] => Der(key),
            _ => return None,
        };
    }
    let mut numbers = key.inside()?;
    let modulus = numbers.next(INTEGER)?;
    let exponent = numbers.next(INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    ((1..=4).contains(&exponent.len())).then_some(&modulus[zeros..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = include_str!("../../tests/common/public_key.pem");

    #[test]
    fn a_password_fits_or_is_refused() {
        assert_eq!(encrypt(&[7; 213], KEY.as_bytes()).expect("fits").len(), 256);
        assert!(encrypt(&[7; 214], KEY.as_bytes()).is_err());
        assert!(encrypt(b"s", b"-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_damaged_key_never_panics(
            damages in proptest::collection::vec((26..418usize, "[A-Za-z0-9+/]"), 1..6),
        ) {
            let mut pem = KEY.to_owned();
            for (at, letter) in damages {
                if pem.as_bytes()[at] != b'\n' {
                    pem.replace_range(at..=at, &letter);
                }
            }
            let _ = encrypt(b"sesame", pem.as_bytes());
        }
    }
}
