//! A client whose server has not taken the connection yet.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use socket2::{Domain, SockAddr, Socket};

use super::token_of;
use crate::capture::identity::User;
use wire::passive::Side;

/// A client, and the connection to the server as far as it has come.
pub struct Waiting {
    /// The connection's.
    pub number: u32,
    pub client: Socket,
    /// Its connection is under way, or has to be asked for again.
    pub server: Socket,
    user: Option<User>,
    is_asked: bool,
}

impl Waiting {
    /// The server was not asked yet; this socket is for that.
    pub fn new(number: u32, client: Socket, server: Socket) -> Self {
        Self {
            number,
            user: User::of_client(&client),
            client,
            server,
            is_asked: false,
        }
    }

    /// Whether the system tells when the connection is there.
    pub fn is_told(&self) -> bool {
        self.is_asked
    }

    /// Go on connecting; whether the connection is there.
    ///
    /// # Errors
    /// The server's refusal, or the system's.
    pub fn connect(
        &mut self,
        slot: usize,
        address: &SockAddr,
        registry: &Registry,
    ) -> io::Result<bool> {
        let server = &self.server;
        if self.is_asked {
            return match server.take_error()? {
                Some(error) => Err(error),
                None => Ok(server.peer_addr().is_ok()),
            };
        }
        let is_local = address.domain() == Domain::UNIX;
        let connected = match &self.user {
            Some(user) if is_local && User::own().is_root() => {
                user.acting(|| server.connect(address))
            }
            _ => server.connect(address),
        };
        match connected {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_local => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                watch(server, slot, Side::Server, Interest::WRITABLE, registry)?;
                self.is_asked = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Let the system tell what the client does meanwhile.
    ///
    /// # Errors
    /// The system's.
    pub fn watch_client(&self, slot: usize, registry: &Registry) -> io::Result<()> {
        let client = &self.client;
        watch(client, slot, Side::Client, Interest::READABLE, registry)
    }

    /// Whether the client has gone and left nothing that the server should have: who cancels a statement on PostgreSQL may say so
    /// and go at once.
    pub fn is_left(&self) -> bool {
        match self.client.peek(&mut [MaybeUninit::uninit()]) {
            Ok(said) => said == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

fn watch(
    socket: &Socket,
    slot: usize,
    side: Side,
    interest: Interest,
    registry: &Registry,
) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    registry.register(&mut SourceFd(&fd), token_of(slot, side), interest)
}
