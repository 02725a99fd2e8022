//! PostgreSQL's first messages, with the proxy's part in them: it consents to TLS by itself, and asks the server for it.

use wire::passive::Side;

use super::step::Step;
use super::{Broken, held};

/// The message that asks for TLS.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
/// The message that asks for encryption by GSSAPI, which nobody here can read.
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];
/// How a TLS handshake begins.
const HANDSHAKE: u8 = 0x16;
/// A login that is bound to TLS; clients without TLS refuse a server that offers it.
const BOUND: &[u8] = b"SCRAM-SHA-256-PLUS\0";
/// AuthenticationSASL, behind a message's length.
const SASL: [u8; 4] = [0, 0, 0, 10];
/// Nothing that stands before the offer is longer, in bytes.
const OFFER_BYTES_MAX: usize = 64 * 1024;

enum Stage {
    /// The client's first message, or the next one behind a request.
    First,
    /// The server's byte about TLS.
    Consent,
    /// The server's first messages, towards a client without TLS.
    Offer(Vec<u8>),
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
        match (&mut self.stage, side) {
            (Stage::First, Side::Client) => {
                self.kept.extend_from_slice(bytes);
                Ok(self.first())
            }
            (Stage::Consent, Side::Client) => {
                held(&self.kept, bytes)
                    .map_err(|why| Broken(format!("TLS with the server: {why}")))?;
                self.kept.extend_from_slice(bytes);
                Ok(Vec::new())
            }
            (Stage::Consent, Side::Server) => match bytes {
                b"S" => Ok(self.consented()),
                // What stands behind the consent could be anybody's.
                [b'S', ..] => Err(Broken(
                    "TLS with the server: bytes before the handshake".to_owned(),
                )),
                _ => Err(Broken("TLS with the server: it offers none".to_owned())),
            },
            (Stage::Offer(_), Side::Client) => Ok(sent(side, bytes.to_vec())),
            (Stage::Offer(offer), Side::Server) => {
                offer.extend_from_slice(bytes);
                Ok(self.offered())
            }
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

    /// Whether what the client has said waits for the server's consent.
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Consent)
    }

    /// What the client has said goes on, and so does all that follows.
    fn pass(&mut self) -> Vec<Step> {
        let mut steps = sent(Side::Client, std::mem::take(&mut self.kept));
        steps.push(Step::Over);
        steps
    }

    /// The handshake with the server begins, and what the client has said waits for it.
    fn consented(&mut self) -> Vec<Step> {
        let mut steps = vec![Step::Dial];
        if self.is_encrypted {
            steps.extend(self.pass());
        } else {
            steps.extend(sent(Side::Client, std::mem::take(&mut self.kept)));
            self.stage = Stage::Offer(Vec::new());
        }
        steps
    }

    /// The server's messages up to its question for a proof, without what only a client with TLS could answer.
    fn offered(&mut self) -> Vec<Step> {
        let Stage::Offer(offer) = &mut self.stage else {
            return Vec::new();
        };
        let mut at = 0;
        while let Some(&[tag, l0, l1, l2, l3]) = offer[at..].first_chunk::<5>() {
            let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
            let end = at + 1 + length;
            match tag {
                _ if end > OFFER_BYTES_MAX => break,
                b'R' | b'v' | b'N' if offer.len() < end => return Vec::new(),
                // The version that it speaks, a notice.
                b'v' | b'N' => at = end,
                b'R' => {
                    unbind(offer, at, end);
                    break;
                }
                _ => break,
            }
        }
        if offer.len() < at + 5 {
            return Vec::new();
        }
        let mut steps = sent(Side::Server, std::mem::take(offer));
        steps.push(Step::Over);
        steps
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

/// Take what is bound to TLS out of the message at this place.
fn unbind(messages: &mut Vec<u8>, at: usize, end: usize) {
    let methods = at + 1 + 4 + SASL.len();
    if messages.get(at + 5..methods) != Some(&SASL[..]) || methods > end {
        return;
    }
    let found = messages[methods..end]
        .windows(BOUND.len())
        .position(|window| window == BOUND);
    if let Some(place) = found {
        messages.drain(methods + place..methods + place + BOUND.len());
        let length = (end - at - 1 - BOUND.len()) as u32;
        messages[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
    }
}

/// Bytes of a side, as they are.
fn sent(side: Side, bytes: Vec<u8>) -> Vec<Step> {
    if bytes.is_empty() {
        return Vec::new();
    }
    vec![
        Step::Seen(side, bytes.clone()),
        Step::Send(side.other(), bytes),
    ]
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
        assert_eq!(steps[1..], passed(&[STARTUP, b"more"].concat())[..2]);
        let mut login = Login::new(true);
        login.said(Side::Client, STARTUP).expect("a startup");
        let endless = vec![0; 4096];
        let broken = (0..300).find_map(|_| login.said(Side::Client, &endless).err());
        assert!(
            broken
                .expect("no client has so much to say")
                .0
                .contains("more than")
        );
        for (answer, why) in [(&b"N"[..], "offers none"), (b"SE", "before the handshake")] {
            let mut login = Login::new(true);
            login.said(Side::Client, STARTUP).expect("a startup");
            let broken = login.said(Side::Server, answer).expect_err("no TLS");
            assert!(broken.0.contains(why), "{broken:?}");
        }
    }

    /// What a client without TLS gets of these messages, in two parts.
    fn offered(says: &[u8], cut: usize) -> Vec<u8> {
        let mut login = Login::new(true);
        login.said(Side::Client, STARTUP).expect("a startup");
        login.said(Side::Server, b"S").expect("a consent");
        let (first, second) = says.split_at(cut);
        let mut steps = login.said(Side::Server, first).expect("an offer");
        if steps.last() == Some(&Step::Over) {
            steps.extend(sent(Side::Server, second.to_vec()));
        } else {
            assert_eq!(steps, []);
            steps = login.said(Side::Server, second).expect("an offer");
            assert_eq!(steps.last(), Some(&Step::Over), "{cut}");
        }
        let sent = steps.into_iter().filter_map(|step| match step {
            Step::Send(Side::Client, bytes) => Some(bytes),
            _ => None,
        });
        sent.collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_client_without_tls_is_not_asked_to_bind_its_login_to_it() {
        let sasl = |methods: &[u8]| {
            let length = (4 + 4 + methods.len()) as u32;
            [b"R", &length.to_be_bytes()[..], &SASL, methods].concat()
        };
        let version = b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0";
        let says = [
            &version[..],
            &sasl(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
        ]
        .concat();
        let heard = [&version[..], &sasl(b"SCRAM-SHA-256\0\0")].concat();
        for cut in 0..says.len() {
            assert_eq!(offered(&says, cut), heard, "{cut}");
        }
        let others: [&[u8]; 3] = [
            b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
            b"E\0\0\0\x09SFATAL\0",
            b"R\0\0\0\x0c\0\0\0\x05salt",
        ];
        for other in others {
            assert_eq!(offered(other, 3), other);
        }
        // A client with TLS can bind: the offer passes.
        let mut login = Login::new(true);
        login.said(Side::Client, &TLS_REQUEST).expect("a request");
        login.said(Side::Client, STARTUP).expect("a startup");
        let steps = login.said(Side::Server, b"S").expect("a consent");
        assert_eq!(steps.last(), Some(&Step::Over));
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
