//! PostgreSQL's first messages, with the proxy's part in them: it consents to TLS by itself, and asks the server for it.

use wire::passive::Side;

use super::Broken;
use super::step::Step;

/// The message that asks for TLS.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
/// The message that asks for encryption by GSSAPI, which nobody here can read.
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];
/// How a TLS handshake begins.
const HANDSHAKE: u8 = 0x16;

enum Stage {
    /// The client's first message, or the next one behind a request.
    First,
    /// The server's byte about TLS.
    Consent,
}

/// A login.
pub struct Login {
    dials: bool,
    stage: Stage,
    is_encrypted: bool,
    /// Of the client.
    kept: Vec<u8>,
}

impl Login {
    /// Towards a server that is asked for TLS where `dials`.
    pub fn new(dials: bool) -> Self {
        Self {
            dials,
            stage: Stage::First,
            is_encrypted: false,
            kept: Vec::new(),
        }
    }

    /// Bytes of a side.
    ///
    /// # Errors
    /// A server without TLS that is to be asked for it.
    pub fn said(&mut self, side: Side, bytes: &[u8]) -> Result<Vec<Step>, Broken> {
        match (&self.stage, side) {
            (Stage::First, Side::Client) => {
                self.kept.extend_from_slice(bytes);
                Ok(self.first())
            }
            (Stage::Consent, Side::Client) => {
                self.kept.extend_from_slice(bytes);
                Ok(Vec::new())
            }
            (Stage::Consent, Side::Server) => match bytes {
                b"S" => Ok([vec![Step::Dial], self.pass()].concat()),
                // What stands behind the consent could be anybody's.
                [b'S', ..] => Err(Broken(
                    "TLS with the server: bytes before the handshake".to_owned(),
                )),
                _ => Err(Broken("TLS with the server: it offers none".to_owned())),
            },
            // A server that speaks first has something to say that is no login.
            (Stage::First, Side::Server) => {
                let mut steps = vec![
                    Step::Seen(side, bytes.to_vec()),
                    Step::Send(Side::Client, bytes.to_vec()),
                ];
                steps.extend(self.pass());
                Ok(steps)
            }
        }
    }

    /// What the client has said goes on, and so does all that follows.
    fn pass(&mut self) -> Vec<Step> {
        let kept = std::mem::take(&mut self.kept);
        if kept.is_empty() {
            return vec![Step::Over];
        }
        vec![
            Step::Seen(Side::Client, kept.clone()),
            Step::Send(Side::Server, kept),
            Step::Over,
        ]
    }

    fn first(&mut self) -> Vec<Step> {
        // A handshake without a request before it: nobody here can end it.
        if self.kept.first() == Some(&HANDSHAKE) {
            return self.pass();
        }
        let Some(head) = self.kept.first_chunk::<8>().copied() else {
            return Vec::new();
        };
        match head {
            TLS_REQUEST if !self.is_encrypted => {
                self.is_encrypted = true;
                let rest = self.kept.split_off(head.len());
                self.kept.clear();
                let mut steps = answered(&head, b'S');
                steps.push(Step::Accept(rest));
                steps
            }
            GSS_REQUEST => {
                self.kept.drain(..head.len());
                let mut steps = answered(&head, b'N');
                steps.extend(self.first());
                steps
            }
            _ if self.dials => {
                self.stage = Stage::Consent;
                vec![Step::Send(Side::Server, TLS_REQUEST.to_vec())]
            }
            _ => self.pass(),
        }
    }
}

/// The proxy's own answer to a request.
fn answered(request: &[u8], answer: u8) -> Vec<Step> {
    vec![
        Step::Seen(Side::Client, request.to_vec()),
        Step::Seen(Side::Server, vec![answer]),
        Step::Send(Side::Client, vec![answer]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTUP: &[u8] = b"\0\0\0\x11\0\x03\0\0user\0me\0\0";

    fn passed(bytes: &[u8]) -> Vec<Step> {
        vec![
            Step::Seen(Side::Client, bytes.to_vec()),
            Step::Send(Side::Server, bytes.to_vec()),
            Step::Over,
        ]
    }

    #[test]
    fn the_proxy_consents_by_itself() {
        let mut login = Login::new(false);
        let steps = login.said(Side::Client, &GSS_REQUEST).expect("a request");
        assert_eq!(steps, answered(&GSS_REQUEST, b'N'));
        assert_eq!(login.said(Side::Client, &TLS_REQUEST[..5]), Ok(Vec::new()));
        let rest = [&TLS_REQUEST[5..], b"\x16\x03"].concat();
        let steps = login.said(Side::Client, &rest).expect("a request");
        let mut expected = answered(&TLS_REQUEST, b'S');
        expected.push(Step::Accept(b"\x16\x03".to_vec()));
        assert_eq!(steps, expected);
        assert_eq!(login.said(Side::Client, STARTUP), Ok(passed(STARTUP)));
    }

    #[test]
    fn a_server_is_asked_before_it_hears_anything() {
        let mut login = Login::new(true);
        let steps = login.said(Side::Client, STARTUP).expect("a startup");
        assert_eq!(steps, [Step::Send(Side::Server, TLS_REQUEST.to_vec())]);
        assert_eq!(login.said(Side::Client, b"more"), Ok(Vec::new()));
        let steps = login.said(Side::Server, b"S").expect("a consent");
        assert_eq!(steps[0], Step::Dial);
        assert_eq!(steps[1..], passed(&[STARTUP, b"more"].concat()));
        for (answer, why) in [(&b"N"[..], "offers none"), (b"SE", "before the handshake")] {
            let mut login = Login::new(true);
            login.said(Side::Client, STARTUP).expect("a startup");
            let broken = login.said(Side::Server, answer).expect_err("no TLS");
            assert!(broken.0.contains(why), "{broken:?}");
        }
    }

    #[test]
    fn a_handshake_without_a_request_passes() {
        let hello = b"\x16\x03\x01\x02";
        assert_eq!(
            Login::new(true).said(Side::Client, hello),
            Ok(passed(hello))
        );
    }
}
