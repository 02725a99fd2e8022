//! What the kernel takes to hand over a request and an answer, after other code ran: a server's own code pushes the kernel's out
//! of the caches.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::calls::{Functions, Layout};
use crate::chase::LINE_BYTES;
use crate::region::Pages;
use crate::stopwatch::percentile;

/// Code that runs before each exchange: none, and up to several times a second-level cache.
pub const CODE_BYTES: [usize; 5] = [0, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Exchanges of a repetition however short it is.
const LEAST: usize = 16;
/// About what a point select and its row take on the wire.
const REQUEST: [u8; 24] = [1; 24];
const ANSWER: [u8; 300] = [2; 300];

/// What an exchange takes.
#[derive(Debug, Serialize)]
pub struct Exchanges {
    /// Code that ran before each, every line of it once.
    pub code_bytes: usize,
    /// Time in the kernel to receive a request that waits in a socket and to send an answer, the median of each repetition.
    pub exchange_ns: Vec<f64>,
}

/// A socket with a client at its other end, and the code that runs between two requests.
pub struct Server {
    socket: UnixStream,
    client: UnixStream,
    code: Option<Functions>,
}

impl Server {
    /// With so much code of its own.
    ///
    /// # Errors
    /// The kernel gives no sockets, or no memory for code; another processor than x86-64.
    pub fn new(code_bytes: usize) -> io::Result<Self> {
        let functions = (code_bytes / LINE_BYTES) as u32;
        let code = match functions {
            0 => None,
            _ => Some(Functions::each_once(
                functions,
                Layout::Packed,
                Pages::Small,
            )?),
        };
        let (socket, client) = UnixStream::pair()?;
        Ok(Self {
            socket,
            client,
            code,
        })
    }

    /// Nanoseconds of an exchange: the median, because other programs have their turn in some.
    ///
    /// # Errors
    /// The sockets'.
    pub fn exchange_ns(&mut self, length: Duration) -> io::Result<f64> {
        let (started, mut taken_ns) = (Instant::now(), Vec::new());
        let (mut request, mut answer) = (REQUEST, ANSWER);
        while taken_ns.len() < LEAST || started.elapsed() < length {
            // The request waits before the code runs: what the client needs of the kernel is no part of it.
            self.client.write_all(&REQUEST)?;
            if let Some(code) = &self.code {
                code.run();
            }
            let at = Instant::now();
            self.socket.read_exact(&mut request)?;
            self.socket.write_all(&ANSWER)?;
            taken_ns.push(at.elapsed().as_nanos() as f64);
            self.client.read_exact(&mut answer)?;
        }
        taken_ns.sort_by(f64::total_cmp);
        Ok(percentile(&taken_ns, 50.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_takes_time_with_code_and_without() {
        for code_bytes in [0, 1 << 16] {
            let mut server = Server::new(code_bytes).expect("sockets and memory");
            assert!(server.exchange_ns(Duration::ZERO).expect("an exchange") > 0.0);
        }
    }

    #[test]
    fn a_client_that_is_gone_ends_it() {
        let mut server = Server::new(0).expect("sockets");
        server
            .client
            .shutdown(std::net::Shutdown::Both)
            .expect("shut down");
        assert!(server.exchange_ns(Duration::ZERO).is_err());
    }
}
