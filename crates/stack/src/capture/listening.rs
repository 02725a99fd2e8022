//! Where clients are taken: a place of our own, or the server's.

use std::fs;
use std::path::PathBuf;

use socket2::{SockAddr, Socket};
use wire::ServerUrl;

use super::identity::{self, User};
use super::options::Options;
use super::place::{Place, inode};
use super::probe::{Wanted, probe};
use super::proxy::tls::Ends;
use super::take::{self, Taken};
use crate::failure::Failure;

/// A socket that all of the machine's users may connect to, as servers make theirs.
const EVERYBODY: u32 = 0o777;
const ONLY_US: u32 = 0o700;

/// How the place is left.
enum Leave {
    GiveBack(Taken),
    Remove(PathBuf, u64),
    Nothing,
}

/// A place where clients come in.
pub struct Listening {
    /// What to say about it before the capture begins.
    pub words: Vec<String>,
    /// As a user knows it.
    pub place: Place,
    /// Where the server is now.
    pub server: SockAddr,
    leave: Leave,
}

impl Listening {
    /// Look at the server, then open the place.
    ///
    /// # Errors
    /// A server that is not there or speaks another protocol, a place that cannot be had, clients who would become somebody else.
    pub fn open(
        options: &Options,
        url: &ServerUrl,
        ends: Option<&Ends>,
    ) -> Result<(Self, Socket), Failure> {
        let server = Wanted {
            place: Place::of(url),
            family: url.family,
            tls: ends.and_then(Ends::client),
        };
        match &options.listen {
            Some(listen) => Self::beside(listen, &server, options.share_identity),
            None => Self::instead(&server, options.share_identity),
        }
    }

    fn beside(listen: &Place, server: &Wanted, share: bool) -> Result<(Self, Socket), Failure> {
        let others = share || User::own().is_root();
        identity::check(listen, &server.place, others, share)?;
        let address = probe(server)?;
        let listener = listen.listen(if others { EVERYBODY } else { ONLY_US })?;
        let leave = match listen {
            Place::File(path) => {
                inode(path).map_or(Leave::Nothing, |inode| Leave::Remove(path.clone(), inode))
            }
            Place::Port(..) => Leave::Nothing,
        };
        // The system chooses where the port is 0.
        let place = match (
            listen,
            listener.local_addr().ok().and_then(|at| at.as_socket()),
        ) {
            (Place::Port(host, 0), Some(bound)) => Place::Port(host.clone(), bound.port()),
            _ => listen.clone(),
        };
        let listening = Self {
            words: Vec::new(),
            place,
            server: address,
            leave,
        };
        Ok((listening, listener))
    }

    fn instead(server: &Wanted, share: bool) -> Result<(Self, Socket), Failure> {
        let place = &server.place;
        let Place::File(path) = place else {
            return Err(Failure::usage(
                "--take-socket replaces a socket, and --server names none",
                "name the server's socket (mysql://?socket=PATH), or use --listen",
            ));
        };
        let (found, word) = take::check(path)?;
        identity::check(place, place, true, share)?;
        probe(server)?;
        let aside = Place::File(take::aside(path)).addresses()?.remove(0);
        let (listener, taken) = take::take(path, &found)?;
        let listening = Self {
            words: word.into_iter().collect(),
            place: place.clone(),
            server: aside,
            leave: Leave::GiveBack(taken),
        };
        Ok((listening, listener))
    }

    /// No more clients come in here; those that come now reach the server itself where its place was taken.
    ///
    /// # Errors
    /// A place that could not be given back.
    pub fn leave(self) -> Result<Option<String>, Failure> {
        match self.leave {
            Leave::GiveBack(taken) => taken.give_back(),
            Leave::Remove(path, ours) => {
                if inode(&path) == Some(ours) {
                    // What is left is replaced by the next capture.
                    let _ = fs::remove_file(path);
                }
                Ok(None)
            }
            Leave::Nothing => Ok(None),
        }
    }
}
