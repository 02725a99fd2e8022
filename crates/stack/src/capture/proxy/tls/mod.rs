//! TLS that ends in the proxy: what both sides say is read, and encrypted again for each side that wants that. The two handshakes need
//! the proxy's words in the login; behind the login all passes as it is.

mod ends;
mod mysql;
mod out;
mod postgres;
mod step;
#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use wire::passive::Side;
use wire::{Error, Family, Tls};

pub use ends::Ends;
pub use mysql::{OFFERS_TLS, capabilities_at, tls_request};
pub use out::Out;
pub use postgres::TLS_REQUEST;
use step::Step;

/// What waits for a handshake is a login: nobody has to wait with more, in bytes.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

/// What lies between a client and a server.
pub struct Relay {
    ends: Arc<Ends>,
    login: Login,
    client: Leg,
    server: Leg,
}

/// The part of a connection that the proxy speaks in, too.
enum Login {
    Mysql(mysql::Login),
    Postgres(postgres::Login),
    Over,
}

/// One side of a relay.
#[derive(Default)]
struct Leg {
    tls: Option<Tls>,
    /// For this side, from before its handshake was over.
    held: Vec<u8>,
}

impl Relay {
    /// Of a connection that begins.
    pub fn new(ends: &Arc<Ends>) -> Self {
        let dials = ends.dials();
        Self {
            ends: Arc::clone(ends),
            login: match ends.family() {
                Family::Mysql => Login::Mysql(mysql::Login::new(dials)),
                Family::Postgres => Login::Postgres(postgres::Login::new(dials)),
            },
            client: Leg::default(),
            server: Leg::default(),
        }
    }

    /// Bytes of a side have come. What is in `out` afterwards is to be sent, also where the connection cannot go on.
    ///
    /// # Errors
    /// A handshake that failed, or bytes that were changed on the way.
    pub fn take(&mut self, side: Side, arrived: &[u8], out: &mut Out) -> Result<(), Broken> {
        let mut plain = Vec::new();
        let leg = self.leg(side);
        let opened = leg.open(arrived, &mut plain, out.to(side));
        let released = leg.release(out.to(side));
        let said = self.said(side, &plain, out);
        let opened = opened.and(released).map_err(|error| broken(side, &error));
        opened.and(said)
    }

    /// Whether something for this side waits for a handshake with it.
    pub fn holds(&self, to: Side) -> bool {
        match (to, &self.login) {
            (Side::Server, Login::Postgres(login)) if login.waits() => true,
            (Side::Server, _) => !self.server.held.is_empty(),
            (Side::Client, _) => !self.client.held.is_empty(),
        }
    }

    /// Nothing more goes to a side.
    pub fn close(&mut self, side: Side, out: &mut Vec<u8>) {
        if let Some(tls) = &mut self.leg(side).tls {
            // Nothing that could be done about it is left.
            let _ = tls.close(out);
        }
    }

    fn leg(&mut self, side: Side) -> &mut Leg {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn said(&mut self, side: Side, plain: &[u8], out: &mut Out) -> Result<(), Broken> {
        if plain.is_empty() {
            return Ok(());
        }
        let steps = match &mut self.login {
            Login::Mysql(login) => login.said(side, plain)?,
            Login::Postgres(login) => login.said(side, plain)?,
            Login::Over => {
                out.see(side, plain);
                return self.send(side.other(), plain, out);
            }
        };
        steps.into_iter().try_for_each(|step| self.go(step, out))
    }

    fn go(&mut self, step: Step, out: &mut Out) -> Result<(), Broken> {
        match step {
            Step::Seen(side, bytes) => out.see(side, &bytes),
            Step::Send(side, bytes) => self.send(side, &bytes, out)?,
            Step::Accept(arrived) => {
                let accepted = self.ends.accept();
                self.client.tls = Some(accepted.map_err(|error| broken(Side::Client, &error))?);
                return self.take(Side::Client, &arrived, out);
            }
            Step::Dial => {
                let dialed = self.ends.dial();
                let mut tls = dialed.map_err(|error| broken(Side::Server, &error))?;
                let hello = tls.seal(&[], out.to(Side::Server));
                hello.map_err(|error| broken(Side::Server, &error))?;
                self.server.tls = Some(tls);
            }
            Step::Over => self.login = Login::Over,
        }
        Ok(())
    }

    fn send(&mut self, to: Side, plain: &[u8], out: &mut Out) -> Result<(), Broken> {
        let sent = self.leg(to).send(plain, out.to(to));
        sent.map_err(|error| broken(to, &error))
    }
}

impl Leg {
    fn open(
        &mut self,
        arrived: &[u8],
        plain: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else {
            plain.extend_from_slice(arrived);
            return Ok(());
        };
        let opened = tls.open(arrived, |piece| plain.extend_from_slice(piece));
        // Its next words of the handshake, or why it ends here.
        opened.and(tls.seal(&[], answer))
    }

    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.tls {
            None => out.extend_from_slice(plain),
            Some(tls) if tls.is_handshaking() => {
                held(&self.held, plain).map_err(Error::Tls)?;
                self.held.extend_from_slice(plain);
            }
            Some(tls) => tls.seal(plain, out)?,
        }
        Ok(())
    }

    /// The handshake may be over: then what has waited for it goes.
    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.tls {
            Some(tls) if !tls.is_handshaking() && !self.held.is_empty() => {
                tls.seal(&std::mem::take(&mut self.held), out)
            }
            _ => Ok(()),
        }
    }
}

/// Whether more may be held behind what is held.
fn held(held: &[u8], more: &[u8]) -> Result<(), String> {
    match held.len() + more.len() {
        0..=HELD_BYTES_MAX => Ok(()),
        _ => Err(format!(
            "more than {HELD_BYTES_MAX} bytes before the handshake was over"
        )),
    }
}

fn broken(side: Side, error: &Error) -> Broken {
    let whose = match side {
        Side::Client => "with a client",
        Side::Server => "with the server",
    };
    let words = error.to_string();
    Broken(format!(
        "TLS {whose}: {}",
        words.trim_start_matches("TLS: ")
    ))
}
