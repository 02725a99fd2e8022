//! Everything before the first ReadyForQuery. Users, passwords and proofs are read over.

use super::fields::{Fields, sqlstate, startup};
use super::frames::{Message, Piece};
use super::{LOGIN_BYTES, Out, Phase, Postgres, keep};
use crate::passive::mysql::names_a_user;
use crate::passive::{Exchange, Kind, Observed, ServerError, Why};
use crate::postgres::message;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// Nothing in a login is longer, in bytes.
pub(super) const LENGTH_MAX: u32 = 1 << 20;
/// The major version, in the high half.
const VERSION: u32 = 3;

impl Postgres {
    pub(super) fn login_step(
        &mut self,
        piece: Piece<'_>,
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        match piece {
            Piece::Begin => {
                self.kept.clear();
                // Whatever speaks another protocol says a length that no login has.
                match message.length < LENGTH_MAX {
                    true => Ok(()),
                    false => Err(Why::NotTheProtocol),
                }
            }
            Piece::Data(data) => {
                if self.phase == Phase::Startup {
                    keep(&mut self.kept, data, LOGIN_BYTES);
                }
                Ok(())
            }
            Piece::End => {
                self.facts.packets_sent += 1;
                self.facts.bytes_sent += message.bytes;
                self.is_asked = true;
                match self.phase {
                    Phase::Startup => self.startup(message, at_ns, out),
                    _ => Ok(()),
                }
            }
        }
    }

    fn startup(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        let kept = std::mem::take(&mut self.kept);
        let mut fields = Fields(&kept);
        match fields.u32() {
            Some(SSL | GSS) => self.phase = Phase::Consent,
            Some(CANCEL) => {
                let mut exchange = Exchange::new(Kind::Other, message.began_ns);
                exchange.request_end_ns = at_ns;
                exchange.packets_sent = 1;
                exchange.bytes_sent = message.bytes;
                out(Observed::Exchange(Box::new(exchange)));
                self.facts.packets_sent -= 1;
                self.facts.bytes_sent -= message.bytes;
                self.phase = Phase::Over;
            }
            Some(version) if version >> 16 == VERSION => {
                for (name, value) in startup(fields) {
                    match name.as_str() {
                        "application_name" => self.facts.client = Some(value.clone()),
                        "database" => self.facts.database = Some(value.clone()),
                        "client_encoding" => self.facts.character_set = Some(value.clone()),
                        _ => {}
                    }
                    if !names_a_user(&name) {
                        self.facts.attributes.push((name, value));
                    }
                }
                self.client.is_untagged = false;
                self.phase = Phase::Login;
            }
            _ => return Err(Why::NotTheProtocol),
        }
        Ok(())
    }

    /// The server's byte about encryption.
    pub(super) fn consent(&mut self, byte: u8, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        self.facts.packets_received += 1;
        self.facts.bytes_received += 1;
        self.facts.login_round_trips += u64::from(std::mem::take(&mut self.is_asked));
        self.phase = Phase::Startup;
        match byte {
            b'N' => Ok(()),
            b'S' => {
                self.facts.tls = true;
                if self.decrypts {
                    return Ok(());
                }
                self.tell(at_ns, out);
                Err(Why::Encrypted)
            }
            b'G' => {
                self.tell(at_ns, out);
                Err(Why::Encrypted)
            }
            _ => Err(Why::NotTheProtocol),
        }
    }

    pub(super) fn login_answer(
        &mut self,
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        self.facts.packets_received += 1;
        self.facts.bytes_received += message.bytes;
        self.facts.login_round_trips += u64::from(std::mem::take(&mut self.is_asked));
        match message.tag {
            message::PARAMETER_STATUS => self.status_of_parameter(),
            message::ERROR => {
                self.facts.refused = Some(ServerError {
                    code: 0,
                    sqlstate: sqlstate(&self.kept),
                });
                self.tell(at_ns, out);
                self.phase = Phase::Over;
            }
            message::READY => {
                self.tell(at_ns, out);
                self.phase = Phase::Commands;
            }
            message::AUTHENTICATION | message::KEY_DATA | message::NOTICE | b'v' => {}
            _ => return Err(Why::NotTheProtocol),
        }
        Ok(())
    }

    /// A setting of the session that the server tells.
    pub(super) fn status_of_parameter(&mut self) {
        let mut fields = Fields(&self.kept);
        let (Some(name), Some(value)) = (fields.text(), fields.text()) else {
            return;
        };
        match name {
            b"server_version" if !self.is_told => {
                self.facts.server_version = String::from_utf8_lossy(value).into_owned();
            }
            // What the server makes of what the client asked for, or has for itself.
            b"client_encoding" if !self.is_told => {
                self.facts.character_set = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"standard_conforming_strings" => self.backslash_escapes = value == b"off",
            _ => {}
        }
    }
}
