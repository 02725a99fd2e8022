//! Who a client of a unix socket is. Servers know such a client by its user (`unix_socket`, `auth_socket`, `peer`), and through a proxy
//! they would know the proxy's instead: each client connects as itself, or not at all.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use socket2::Socket;

use crate::failure::Failure;

use super::place::Place;

/// A user and group by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Who this program acts as.
    #[must_use]
    pub fn own() -> Self {
        // SAFETY: both calls take no arguments and cannot fail.
        unsafe {
            Self {
                uid: libc::geteuid(),
                gid: libc::getegid(),
            }
        }
    }

    /// Somebody else, for tests.
    #[cfg(test)]
    pub const NOBODY: Self = Self {
        uid: 65534,
        gid: 65534,
    };

    /// Whether it may act as anybody.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// The user of a number.
    #[must_use]
    pub fn is(self, uid: u32) -> bool {
        self.uid == uid
    }

    /// Who connected to a unix socket of ours; none for another kind of socket.
    #[must_use]
    pub fn of_client(socket: &Socket) -> Option<Self> {
        let mut found = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the option's value is a ucred, and there is room for one.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        // A TCP socket has user -1.
        (done == 0 && found.uid != u32::MAX).then_some(Self {
            uid: found.uid,
            gid: found.gid,
        })
    }

    /// Do something with this user's rights. Only the calling thread changes.
    ///
    /// # Errors
    /// The system's refusal; nothing was done then.
    pub fn acting<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let own = Self::own();
        if own == self {
            return work();
        }
        become_user(self.uid, self.gid, Order::GroupFirst)?;
        let done = work();
        // The saved user is still ours: this cannot be refused.
        become_user(own.uid, own.gid, Order::UserFirst)?;
        done
    }
}

enum Order {
    GroupFirst,
    UserFirst,
}

/// Change the effective user and group of this thread: the C library's own calls change all threads.
fn become_user(uid: u32, gid: u32, order: Order) -> io::Result<()> {
    let keep = -1_i64;
    let group = || {
        // SAFETY: the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_setresgid, keep, i64::from(gid), keep) }
    };
    let user = || {
        // SAFETY: the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_setresuid, keep, i64::from(uid), keep) }
    };
    let done = match order {
        Order::GroupFirst => group() == 0 && user() == 0,
        Order::UserFirst => user() == 0 && group() == 0,
    };
    if done {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Refuse to let others reach a server's unix socket as us.
///
/// # Errors
/// The listener takes clients whom the server would know as this program's user.
pub fn check(listen: &Place, server: &Place, others: bool, share: bool) -> Result<(), Failure> {
    if share || !matches!(server, Place::File(_)) {
        return Ok(());
    }
    let hint = "--share-identity allows it: use it if no account of the server logs in by its system user (unix_socket, auth_socket, peer, trust)";
    match listen {
        Place::Port(..) => Err(Failure::usage(
            format!(
                "{listen}: the server is on a unix socket, and would see everybody who reaches this port as {}",
                name()
            ),
            hint,
        )),
        Place::File(_) if others && !User::own().is_root() => Err(Failure::usage(
            format!("the server would see other users' clients as {}", name()),
            format!("run it as root: then each client keeps its own user; {hint}"),
        )),
        Place::File(_) => Ok(()),
    }
}

/// What is said where a client and MySQL's server would not agree on how a password travels. Over TLS and a unix socket both take it as
/// it is, otherwise they encrypt it; through a proxy the two connections may differ. It is so with the first login of a user by
/// caching_sha2_password, MySQL's default.
#[must_use]
pub fn first_logins(listen: &Place, server: &Place, dials: bool) -> Option<&'static str> {
    match (listen, server) {
        (Place::File(_), Place::Port(..)) if !dials => Some(
            "WARNING: a client of a unix socket may send its password as it is (the first login of a user by caching_sha2_password), and the \
             proxy sends it to the server unencrypted, where that login fails: use --listen HOST:PORT",
        ),
        (Place::Port(..), Place::Port(..)) if dials => Some(
            "logins: a user's first login by caching_sha2_password fails without TLS between the client and the proxy",
        ),
        (Place::Port(..), Place::File(_)) => Some(
            "logins: a user's first login by caching_sha2_password fails, unless its client speaks TLS with the proxy: the server does not \
             offer its public key on a unix socket",
        ),
        _ => None,
    }
}

fn name() -> String {
    format!("user {}", User::own().uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_a_unix_socket_is_known_and_one_of_a_port_is_not() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("pair");
        assert_eq!(
            User::of_client(&std::os::fd::OwnedFd::from(ours).into()),
            Some(User::own())
        );
        let tcp = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("socket");
        assert_eq!(User::of_client(&tcp), None);
    }

    #[test]
    fn this_thread_acts_as_another_user_and_is_itself_again() {
        let own = User::own();
        let acted = User::NOBODY.acting(|| Ok(User::own()));
        if own.is_root() {
            assert_eq!(acted.expect("root may"), User::NOBODY);
        } else {
            assert!(acted.is_err());
        }
        assert_eq!(User::own(), own);
    }

    #[test]
    fn passwords_that_would_not_arrive_are_said() {
        let file = Place::File("/s".into());
        let port = Place::Port("db".to_owned(), 3306);
        let said = |listen, server, dials| first_logins(listen, server, dials).unwrap_or_default();
        assert!(said(&file, &port, false).starts_with("WARNING: "));
        assert!(said(&port, &file, false).contains("fails"));
        assert!(said(&port, &port, true).contains("fails"));
        // Both sides have the same.
        for (listen, server, dials) in [
            (&file, &file, false),
            (&port, &port, false),
            (&file, &port, true),
        ] {
            assert_eq!(said(listen, server, dials), "");
        }
    }

    #[test]
    fn nobody_becomes_us_on_a_servers_socket() {
        let file = Place::File("/s".into());
        let port = Place::Port("127.0.0.1".to_owned(), 1);
        assert!(check(&port, &port, true, false).is_ok());
        assert!(check(&file, &port, true, false).is_ok());
        assert!(check(&port, &file, true, false).is_err());
        assert!(check(&port, &file, true, true).is_ok());
        assert!(check(&file, &file, false, false).is_ok());
        assert_eq!(
            check(&file, &file, true, false).is_ok(),
            User::own().is_root()
        );
    }
}
