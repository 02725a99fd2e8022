//! Who a client of a unix socket is. Servers know such a client by its user (`unix_socket`, `auth_socket`, `peer`), and through a proxy
//! they would know the proxy's instead: each client connects as itself, or not at all.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use socket2::Socket;

use crate::failure::Failure;

use super::place::Place;

/// The real and the saved user or group stay.
const KEEP: i64 = -1;

/// A user and its groups by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
    /// Beside its group. A server's socket may be open to one of them alone.
    groups: Vec<u32>,
}

impl User {
    /// Who this program acts as.
    #[must_use]
    pub fn own() -> Self {
        // SAFETY: both calls take no arguments and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self {
            uid,
            gid,
            groups: own_groups(),
        }
    }

    /// Somebody else, for tests.
    #[cfg(test)]
    pub const NOBODY: Self = Self {
        uid: 65534,
        gid: 65534,
        groups: Vec::new(),
    };

    /// Whether it may act as anybody.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// The user of a number.
    #[must_use]
    pub fn is(&self, uid: u32) -> bool {
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
        (done == 0 && found.uid != u32::MAX).then(|| Self {
            uid: found.uid,
            gid: found.gid,
            groups: groups_of_client(socket),
        })
    }

    /// Do something with this user's rights. Only the calling thread changes.
    ///
    /// # Errors
    /// The system's refusal; nothing was done then.
    pub fn acting<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let own = Self::own();
        if (own.uid, own.gid) == (self.uid, self.gid) {
            return work();
        }
        let become_it = || {
            set_groups(&self.groups)?;
            set_group(self.gid)?;
            set_user(self.uid)
        };
        let done = become_it().and_then(|()| work());
        // The saved user is still ours, and has the right to the rest: none of this can be refused to who may act as others.
        let back = set_user(own.uid)
            .and_then(|()| set_group(own.gid))
            .and_then(|()| set_groups(&own.groups));
        done.and_then(|done| back.map(|()| done))
    }
}

/// This thread's groups beside its own.
fn own_groups() -> Vec<u32> {
    let ask = |room: i32, groups: *mut u32| {
        // SAFETY: there is room for as many groups as the call is told; told of none, it counts them.
        usize::try_from(unsafe { libc::getgroups(room, groups) }).unwrap_or_default()
    };
    let count = ask(0, std::ptr::null_mut());
    let mut groups = vec![0; count];
    let known = ask(count as i32, groups.as_mut_ptr());
    groups.truncate(known);
    groups
}

/// The same of who connected; none where the system does not say.
fn groups_of_client(socket: &Socket) -> Vec<u32> {
    let ask = |groups: *mut u32, len: &mut libc::socklen_t| {
        // SAFETY: the option's value is an array of groups, and there is room for as many bytes as the call is told.
        unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.cast(),
                len,
            )
        }
    };
    // Told of no room, it says how much it takes.
    let mut len = 0;
    ask(std::ptr::null_mut(), &mut len);
    let mut groups = vec![0; len as usize / size_of::<u32>()];
    match ask(groups.as_mut_ptr(), &mut len) {
        0 => groups,
        _ => Vec::new(),
    }
}

// The C library's own calls change all threads.

fn set_user(uid: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    done(unsafe { libc::syscall(libc::SYS_setresuid, KEEP, i64::from(uid), KEEP) })
}

fn set_group(gid: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    done(unsafe { libc::syscall(libc::SYS_setresgid, KEEP, i64::from(gid), KEEP) })
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the call reads as many numbers as it is told.
    done(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })
}

fn done(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
        let somebody = User {
            groups: vec![7, 4321],
            ..User::NOBODY
        };
        for other in [User::NOBODY, somebody] {
            let acted = other.acting(|| Ok(User::own()));
            if own.is_root() {
                assert_eq!(acted.expect("root may"), other);
            } else {
                assert!(acted.is_err());
            }
            assert_eq!(User::own(), own);
        }
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
