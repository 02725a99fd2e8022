//! Whether connections to the server can be encrypted as its URL says: one handshake.

use std::io::{self, Read, Write};

use socket2::Socket;
use wire::{Error, Family, TlsClient};

use super::Wanted;
use crate::capture::proxy::tls::{OFFERS_TLS, capabilities_at, tls_request};
use crate::failure::Failure;

/// Of a client that knows protocol 4.1 and TLS: capabilities, longest packet, character set, filler.
const LOGIN: [u8; 32] = {
    let mut login = [0; 32];
    (login[0], login[1], login[2]) = (0x01, 0x8A, 0x08);
    (login[7], login[8]) = (0x40, 45);
    login
};

/// Go over to TLS on this connection, of which the server has said this so far.
///
/// # Errors
/// A server that offers none, or whose certificate is refused.
pub fn try_it(
    socket: &Socket,
    wanted: &Wanted,
    tls: &TlsClient,
    said: &[u8],
) -> Result<(), Failure> {
    let place = &wanted.place;
    let offers = match wanted.family {
        Family::Mysql => request(socket, said),
        Family::Postgres => Ok(said == b"S"),
    };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(
            format!("no TLS with the server at {place}: {error}"),
            "tls=required in --server accepts any certificate; tls=verify-ca and tls=verify accept one that leads to the authority in tls-ca=FILE",
        )
    };
    if !offers.map_err(|error| failed(&error))? {
        return Err(Failure::failed(
            format!("the server at {place} offers no TLS"),
            "remove tls= from --server, or give the server a certificate",
        ));
    }
    handshake(socket, tls).map_err(|error| {
        let words = error.to_string();
        failed(&words.trim_start_matches("TLS: "))
    })
}

/// Read the rest of MySQL's greeting, and ask for TLS where it offers that.
fn request(mut socket: &Socket, said: &[u8]) -> io::Result<bool> {
    let Some((&[low, high, ..], begun)) = said.split_first_chunk::<4>() else {
        return Ok(false);
    };
    let mut payload = begun.to_vec();
    let rest = usize::from(u16::from_le_bytes([low, high])).saturating_sub(payload.len());
    payload.resize(payload.len() + rest, 0);
    socket.read_exact(&mut payload[begun.len()..])?;
    let offers = capabilities_at(&payload).is_some_and(|at| payload[at + 1] & OFFERS_TLS != 0);
    if offers {
        socket.write_all(&tls_request(&LOGIN))?;
    }
    Ok(offers)
}

fn handshake(mut socket: &Socket, tls: &TlsClient) -> Result<(), Error> {
    let mut tls = tls.start()?;
    let (mut sealed, mut arrived) = (Vec::new(), [0; 4096]);
    loop {
        tls.seal(&[], &mut sealed)?;
        socket.write_all(&sealed)?;
        sealed.clear();
        if !tls.is_handshaking() {
            return Ok(());
        }
        let read = socket.read(&mut arrived)?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        tls.open(&arrived[..read], |_| {})?;
    }
}
