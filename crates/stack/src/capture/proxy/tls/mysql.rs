//! MySQL's login, with the proxy's part in it: the server's greeting offers TLS, and packets are numbered anew where only one side has a
//! request for TLS among them.

use wire::passive::Side;

use super::Broken;
use super::step::Step;

const HEADER_BYTES: usize = 4;
const PROTOCOL: u8 = 10;
const OK: u8 = 0x00;
const ERROR: u8 = 0xFF;
/// CLIENT_SSL, in the second byte of the capabilities.
pub const OFFERS_TLS: u8 = 0x08;
/// CLIENT_PROTOCOL_41, there too.
const PROTOCOL_41: u8 = 0x02;
/// A request for TLS is a login up to here: capabilities, longest packet, character set, filler.
const REQUEST_BYTES: usize = 32;
/// No greeting is longer.
const GREETING_BYTES_MAX: usize = 4096;

/// Where the lower two bytes of a greeting's capabilities are, from the begin of its payload; none for what is no greeting.
#[must_use]
pub fn capabilities_at(payload: &[u8]) -> Option<usize> {
    let version = payload.strip_prefix(&[PROTOCOL])?;
    let version_bytes = version.iter().position(|&byte| byte == 0)?;
    // The protocol's number, the version and its end, the connection's number, the scramble's first part, a filler.
    let at = 1 + version_bytes + 1 + 4 + 8 + 1;
    (payload.len() >= at + 2).then_some(at)
}

/// The packet that asks for TLS, for a client of these capabilities and what follows them in a login.
#[must_use]
pub fn tls_request(login: &[u8; REQUEST_BYTES]) -> Vec<u8> {
    let mut packet = vec![REQUEST_BYTES as u8, 0, 0, 1];
    packet.extend_from_slice(login);
    packet[HEADER_BYTES + 1] |= OFFERS_TLS;
    packet
}

/// How far it has come.
enum Stage {
    Greeting,
    /// The client's first packet.
    Answer,
    /// Proofs go to and fro.
    Proofs(Renumbered, Renumbered),
}

/// A login.
pub struct Login {
    dials: bool,
    stage: Stage,
    /// Of a packet that is not whole.
    kept: Vec<u8>,
}

impl Login {
    /// Towards a server that is asked for TLS where `dials`.
    pub fn new(dials: bool) -> Self {
        Self {
            dials,
            stage: Stage::Greeting,
            kept: Vec::new(),
        }
    }

    /// Bytes of a side.
    ///
    /// # Errors
    /// A server without TLS that is to be asked for it.
    pub fn said(&mut self, side: Side, bytes: &[u8]) -> Result<Vec<Step>, Broken> {
        match (&mut self.stage, side) {
            (Stage::Greeting, Side::Server) => {
                self.kept.extend_from_slice(bytes);
                self.greeting()
            }
            (Stage::Answer, Side::Client) => {
                self.kept.extend_from_slice(bytes);
                Ok(self.answer())
            }
            (Stage::Proofs(client, server), side) => Ok(match side {
                Side::Client => client.pass(side, bytes),
                Side::Server => {
                    let mut steps = server.pass(side, bytes);
                    if server.is_over {
                        steps.push(Step::Over);
                    }
                    steps
                }
            }),
            // Whatever it is, it is none of the proxy's.
            (_, side) => Ok(self.pass(side, bytes)),
        }
    }

    /// All goes on as it is: what was kept, and this.
    fn pass(&mut self, side: Side, bytes: &[u8]) -> Vec<Step> {
        let kept_side = match self.stage {
            Stage::Greeting => Side::Server,
            _ => Side::Client,
        };
        let mut steps = seen_and_sent(kept_side, std::mem::take(&mut self.kept));
        steps.extend(seen_and_sent(side, bytes.to_vec()));
        steps.push(Step::Over);
        steps
    }

    fn greeting(&mut self) -> Result<Vec<Step>, Broken> {
        let Some((length, _)) = header(&self.kept) else {
            return Ok(Vec::new());
        };
        if length > GREETING_BYTES_MAX {
            return Ok(self.pass(Side::Server, &[]));
        }
        let Some(payload) = self.kept.get_mut(HEADER_BYTES..HEADER_BYTES + length) else {
            return Ok(Vec::new());
        };
        let Some(at) = capabilities_at(payload) else {
            // A refusal, most likely.
            return Ok(self.pass(Side::Server, &[]));
        };
        if self.dials && payload[at + 1] & OFFERS_TLS == 0 {
            return Err(Broken("TLS with the server: it offers none".to_owned()));
        }
        payload[at + 1] |= OFFERS_TLS;
        self.stage = Stage::Answer;
        Ok(seen_and_sent(Side::Server, std::mem::take(&mut self.kept)))
    }

    fn answer(&mut self) -> Vec<Step> {
        let Some((length, _)) = header(&self.kept) else {
            return Vec::new();
        };
        if length < REQUEST_BYTES {
            // An older protocol than any that has TLS.
            return self.pass(Side::Client, &[]);
        }
        let payload = &self.kept[HEADER_BYTES..];
        let Some(head) = payload.first_chunk::<REQUEST_BYTES>() else {
            return Vec::new();
        };
        let (flags, head) = (head[1], *head);
        if flags & PROTOCOL_41 == 0 {
            return self.pass(Side::Client, &[]);
        }
        let arrived = std::mem::take(&mut self.kept);
        if length == REQUEST_BYTES && flags & OFFERS_TLS != 0 {
            return self.encrypted(arrived);
        }
        if !self.dials {
            self.kept = arrived;
            return self.pass(Side::Client, &[]);
        }
        // The server gets a request that the client has not sent.
        let (mut client, server) = (Renumbered::client(1, Some(true)), Renumbered::server(-1));
        let mut steps = vec![Step::Send(Side::Server, tls_request(&head)), Step::Dial];
        steps.extend(client.pass(Side::Client, &arrived));
        self.stage = Stage::Proofs(client, server);
        steps
    }

    /// The client asks for TLS.
    fn encrypted(&mut self, mut request: Vec<u8>) -> Vec<Step> {
        let hello = request.split_off(HEADER_BYTES + REQUEST_BYTES);
        let mut steps = vec![Step::Seen(Side::Client, request.clone())];
        if self.dials {
            steps.extend([Step::Send(Side::Server, request), Step::Dial, Step::Over]);
        } else {
            // The server does not get the request.
            let (client, server) = (Renumbered::client(-1, Some(false)), Renumbered::server(1));
            self.stage = Stage::Proofs(client, server);
        }
        steps.push(Step::Accept(hello));
        steps
    }
}

/// A packet's length and number.
fn header(bytes: &[u8]) -> Option<(usize, u8)> {
    let [low, middle, high, number] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let length = u32::from_le_bytes([low, middle, high, 0]);
    Some((length as usize, number))
}

fn seen_and_sent(side: Side, bytes: Vec<u8>) -> Vec<Step> {
    if bytes.is_empty() {
        return Vec::new();
    }
    vec![
        Step::Seen(side, bytes.clone()),
        Step::Send(side.other(), bytes),
    ]
}

/// Packets of a side whose numbers change as they pass, whatever pieces they come in.
struct Renumbered {
    /// Added to each number.
    by: i8,
    /// The first packet is the client's login, whose wish for TLS becomes this.
    asks: Option<bool>,
    /// Bytes of the header at hand, and of the payload that it announces.
    header: usize,
    length: usize,
    /// Bytes of the payload at hand.
    at: usize,
    /// The packet at hand is the login's last one.
    is_last: bool,
    is_over: bool,
}

impl Renumbered {
    fn client(by: i8, asks: Option<bool>) -> Self {
        Self {
            by,
            asks,
            header: 0,
            length: 0,
            at: 0,
            is_last: false,
            is_over: false,
        }
    }

    fn server(by: i8) -> Self {
        Self::client(by, None)
    }

    /// The observer sees what the client knows.
    fn pass(&mut self, side: Side, bytes: &[u8]) -> Vec<Step> {
        let mut changed = bytes.to_vec();
        for byte in &mut changed {
            self.byte(side, byte);
        }
        let seen = match side {
            Side::Client => bytes.to_vec(),
            Side::Server => changed.clone(),
        };
        vec![Step::Seen(side, seen), Step::Send(side.other(), changed)]
    }

    fn byte(&mut self, side: Side, byte: &mut u8) {
        if self.is_over {
            return;
        }
        if self.header < HEADER_BYTES {
            self.header_byte(side, byte);
        } else {
            match (side, self.at) {
                // A plugin's own words begin with neither.
                (Side::Server, 0) => self.is_last = matches!(*byte, OK | ERROR),
                (Side::Client, 1) => match self.asks.take() {
                    Some(true) => *byte |= OFFERS_TLS,
                    Some(false) => *byte &= !OFFERS_TLS,
                    None => {}
                },
                _ => {}
            }
            self.at += 1;
        }
        if self.header == HEADER_BYTES && self.at == self.length {
            self.header = 0;
            self.is_over |= self.is_last;
        }
    }

    fn header_byte(&mut self, side: Side, byte: &mut u8) {
        if self.header == 0 {
            (self.length, self.at) = (0, 0);
        }
        if self.header < HEADER_BYTES - 1 {
            self.length |= usize::from(*byte) << (8 * self.header);
        } else if side == Side::Client && *byte == 0 {
            // A command, which follows a login.
            self.is_over = true;
        } else {
            *byte = byte.wrapping_add_signed(self.by);
        }
        self.header += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLS_ASKED: u8 = OFFERS_TLS | PROTOCOL_41;

    fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![payload.len() as u8, 0, 0, number];
        packet.extend_from_slice(payload);
        packet
    }

    fn greeting(flags: u8) -> Vec<u8> {
        let mut payload = b"\x0a8.0.1\0".to_vec();
        payload.extend_from_slice(&[0; 4 + 8 + 1]);
        payload.extend_from_slice(&[0xFF, flags]);
        payload.extend_from_slice(&[7; 40]);
        packet(0, &payload)
    }

    /// A client's capabilities, and what follows them up to a user's name.
    fn head(flags: u8) -> Vec<u8> {
        let mut head = vec![0x85, flags];
        head.resize(REQUEST_BYTES, 1);
        head
    }

    fn sent(steps: &[Step], to: Side) -> Vec<u8> {
        let bytes = steps.iter().filter_map(|step| match step {
            Step::Send(side, bytes) if *side == to => Some(bytes.as_slice()),
            _ => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    fn seen(steps: &[Step]) -> Vec<u8> {
        let bytes = steps.iter().filter_map(|step| match step {
            Step::Seen(_, bytes) => Some(bytes.as_slice()),
            _ => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    /// Bytes of a side, one at a time.
    fn say(login: &mut Login, side: Side, bytes: &[u8]) -> Vec<Step> {
        let said = bytes.chunks(1).map(|byte| login.said(side, byte));
        said.flat_map(|steps| steps.expect("a login")).collect()
    }

    #[test]
    fn a_server_without_tls_gets_a_login_without_a_request() {
        let mut login = Login::new(false);
        let steps = say(&mut login, Side::Server, &greeting(PROTOCOL_41));
        assert_eq!(sent(&steps, Side::Client), greeting(TLS_ASKED));
        assert_eq!(seen(&steps), greeting(TLS_ASKED));
        let request = packet(1, &head(TLS_ASKED));
        let steps = say(&mut login, Side::Client, &request);
        assert_eq!(
            steps,
            [Step::Seen(Side::Client, request), Step::Accept(Vec::new())]
        );
        let asks = [head(TLS_ASKED), b"me\0".to_vec()].concat();
        let steps = say(&mut login, Side::Client, &packet(2, &asks));
        let asked = [head(PROTOCOL_41), b"me\0".to_vec()].concat();
        assert_eq!(sent(&steps, Side::Server), packet(1, &asked));
        assert_eq!(seen(&steps), packet(2, &asks));
        // Another plugin, its proof, and the end.
        let steps = say(&mut login, Side::Server, &packet(2, b"\xFEsha\0"));
        assert_eq!(sent(&steps, Side::Client), packet(3, b"\xFEsha\0"));
        let steps = say(&mut login, Side::Client, &packet(4, b"proof"));
        assert_eq!(sent(&steps, Side::Server), packet(3, b"proof"));
        let end = [packet(4, b"\0\0\0\x02\0"), packet(9, b"passes")].concat();
        let steps = login.said(Side::Server, &end).expect("the end");
        let ended = [packet(5, b"\0\0\0\x02\0"), packet(9, b"passes")].concat();
        assert_eq!(sent(&steps, Side::Client), ended);
        assert_eq!(seen(&steps), ended);
        assert_eq!(steps.last(), Some(&Step::Over));
    }

    #[test]
    fn a_client_without_tls_reaches_a_server_that_is_asked_for_it() {
        let mut login = Login::new(true);
        say(&mut login, Side::Server, &greeting(TLS_ASKED));
        let plain = packet(1, &[head(PROTOCOL_41), b"me\0".to_vec()].concat());
        let steps = login.said(Side::Client, &plain).expect("a login");
        let request = packet(1, &head(TLS_ASKED));
        assert_eq!(steps[..2], [Step::Send(Side::Server, request), Step::Dial]);
        let asked = packet(2, &[head(TLS_ASKED), b"me\0".to_vec()].concat());
        assert_eq!(sent(&steps[2..], Side::Server), asked);
        assert_eq!(seen(&steps), plain);
        let steps = say(&mut login, Side::Server, &packet(3, b"\xFF\x15\x04no"));
        assert_eq!(sent(&steps, Side::Client), packet(2, b"\xFF\x15\x04no"));
        assert_eq!(steps.last(), Some(&Step::Over));
    }

    #[test]
    fn both_sides_with_or_without_tls_pass_as_they_are() {
        let mut login = Login::new(true);
        say(&mut login, Side::Server, &greeting(TLS_ASKED));
        let request = packet(1, &head(TLS_ASKED));
        let both = [request.clone(), b"hello".to_vec()].concat();
        let steps = login.said(Side::Client, &both).expect("a request");
        let expected = [
            Step::Seen(Side::Client, request.clone()),
            Step::Send(Side::Server, request),
            Step::Dial,
            Step::Over,
            Step::Accept(b"hello".to_vec()),
        ];
        assert_eq!(steps, expected);
        let mut login = Login::new(false);
        say(&mut login, Side::Server, &greeting(TLS_ASKED));
        let plain = packet(1, &[head(PROTOCOL_41), b"me\0".to_vec()].concat());
        let steps = login.said(Side::Client, &plain).expect("a login");
        assert_eq!(steps, passed(Side::Client, &plain));
    }

    fn passed(side: Side, bytes: &[u8]) -> [Step; 3] {
        let [seen, sent] = seen_and_sent(side, bytes.to_vec()).try_into().expect("two");
        [seen, sent, Step::Over]
    }

    #[test]
    fn what_is_no_login_passes() {
        let refused = packet(0, b"\xFF\x10\x04Too many connections");
        let steps = Login::new(true).said(Side::Server, &refused).expect("it");
        assert_eq!(steps, passed(Side::Server, &refused));
        let endless = [0xFF, 0xFF, 0xFF, 0, 1, 2];
        let steps = Login::new(false).said(Side::Server, &endless).expect("it");
        assert_eq!(steps, passed(Side::Server, &endless));
        let steps = Login::new(false).said(Side::Client, b"GET /").expect("it");
        assert_eq!(steps, passed(Side::Client, b"GET /"));
        let mut login = Login::new(false);
        say(&mut login, Side::Server, &greeting(TLS_ASKED));
        let old = packet(1, b"\x05\0\0\0\0me\0");
        assert_eq!(
            login.said(Side::Client, &old).expect("it"),
            passed(Side::Client, &old)
        );
    }

    #[test]
    fn a_server_that_offers_no_tls_is_not_asked() {
        let broken = Login::new(true).said(Side::Server, &greeting(PROTOCOL_41));
        assert!(broken.expect_err("none").0.contains("offers none"));
    }
}
