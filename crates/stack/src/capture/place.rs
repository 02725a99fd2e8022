//! Where a server or the proxy is: a socket file, or a host and port.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use socket2::{Domain, SockAddr, Socket, Type};
use wire::ServerUrl;

use crate::failure::Failure;

/// Clients that may wait to be accepted, as far as the system's `net.core.somaxconn` allows.
const BACKLOG: i32 = 4096;
/// Bytes of a socket file's path, the zero behind it not counted.
const SOCKET_PATH_BYTES: usize = 107;

/// One of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A unix socket.
    File(PathBuf),
    /// A TCP port, on this host or address.
    Port(String, u16),
}

impl FromStr for Place {
    type Err = String;

    /// What has a `/` is a path; `HOST:PORT` is none.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::File(text.into()));
        }
        let parts = text
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        match parts {
            Some((host, port)) if !host.is_empty() => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                Ok(Self::Port(host.to_owned(), port))
            }
            _ => Err(
                "neither HOST:PORT nor a socket's path, which contains a / (./app.sock)".to_owned(),
            ),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Port(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::Port(host, port) => write!(formatter, "{host}:{port}"),
        }
    }
}

impl Place {
    /// Where a URL leads.
    #[must_use]
    pub fn of(url: &ServerUrl) -> Self {
        match url.socket_file() {
            Some(path) => Self::File(path),
            None => Self::Port(url.host.clone(), url.port),
        }
    }

    /// Its addresses.
    ///
    /// # Errors
    /// A path that is too long for a socket; a host without an address.
    pub fn addresses(&self) -> Result<Vec<SockAddr>, Failure> {
        match self {
            Self::File(path) => {
                let long = path.as_os_str().len() > SOCKET_PATH_BYTES;
                let address = SockAddr::unix(path).ok().filter(|_| !long);
                let address = address.ok_or_else(|| {
                    Failure::usage(
                        format!(
                            "{self} is too long: a socket's path has at most {SOCKET_PATH_BYTES} bytes"
                        ),
                        "use a shorter path, such as one in /tmp",
                    )
                })?;
                Ok(vec![address])
            }
            Self::Port(host, port) => {
                let found: io::Result<Vec<SocketAddr>> = (host.as_str(), *port)
                    .to_socket_addrs()
                    .map(Iterator::collect);
                match found {
                    Ok(found) if !found.is_empty() => {
                        Ok(found.into_iter().map(SockAddr::from).collect())
                    }
                    _ => Err(Failure::failed(
                        format!("{host} has no address"),
                        "check the host in --server or --listen",
                    )),
                }
            }
        }
    }

    /// Listen there. A socket file that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// An address that is in use, or that this user may not have.
    pub fn listen(&self, mode: u32) -> Result<Socket, Failure> {
        let address = to_listen_on(self.addresses()?);
        if let Self::File(path) = self {
            clear(path)?;
        }
        let bound = Socket::new(address.domain(), Type::STREAM, None).and_then(|socket| {
            if address.domain() != Domain::UNIX {
                socket.set_reuse_address(true)?;
            }
            socket.bind(&address)?;
            if let Self::File(path) = self {
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            }
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        bound.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "another program listens there: choose another address",
                io::ErrorKind::PermissionDenied => {
                    "choose a folder that you may write in, or a port above 1023"
                }
                io::ErrorKind::NotFound => "create the folder first",
                io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
                _ => "",
            };
            Failure::failed(format!("cannot listen on {self}: {error}"), hint)
        })
    }
}

/// Of a name's addresses, the first of IPv4: clients that resolve `localhost` to `::1` first try the other one, too, and
/// those that are told `127.0.0.1` have no other.
fn to_listen_on(mut addresses: Vec<SockAddr>) -> SockAddr {
    addresses.sort_by_key(|each| each.domain() == Domain::IPV6);
    addresses.remove(0)
}

/// What tells a file from another that has its name later.
#[must_use]
pub fn inode(path: &Path) -> Option<u64> {
    Some(fs::symlink_metadata(path).ok()?.ino())
}

/// Whether somebody listens on a socket file.
#[must_use]
pub fn is_alive(path: &Path) -> bool {
    let connected = SockAddr::unix(path).and_then(|address| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // A full backlog is that of a living server.
        socket.set_nonblocking(true)?;
        socket.connect(&address)
    });
    match connected {
        Ok(()) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        ),
    }
}

/// Remove a socket file that nobody listens on.
fn clear(path: &Path) -> Result<(), Failure> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(Failure::usage(
            format!("{} exists and is not a socket", path.display()),
            "choose another path for --listen",
        ));
    }
    if is_alive(path) {
        return Err(Failure::usage(
            format!("another program listens on {}", path.display()),
            "choose another path for --listen; --take-socket replaces the server's own socket",
        ));
    }
    fs::remove_file(path).map_err(|error| {
        Failure::failed(
            format!(
                "{} is left over, and cannot be removed: {error}",
                path.display()
            ),
            "remove it, or choose another path for --listen",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_slash_and_a_port_does_not() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("./a:1"), Ok(Place::File("./a:1".into())));
        let port = |host: &str| Ok(Place::Port(host.to_owned(), 3307));
        assert_eq!(place("0.0.0.0:3307"), port("0.0.0.0"));
        assert_eq!(place("[::1]:3307"), port("::1"));
        assert_eq!(
            place("[::1]:3307").expect("a port").to_string(),
            "[::1]:3307"
        );
        for wrong in ["app.sock", "localhost:x", ":3307", "host:70000"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let place = Place::File(format!("/tmp/{}", "x".repeat(120)).into());
        let failure = place.listen(0o600).expect_err("too long");
        assert!(failure.message.contains("at most 107 bytes"));
    }

    #[test]
    fn of_a_names_addresses_that_of_ipv4_is_listened_on() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let listened_on = |texts: &[&str]| {
            let addresses = texts.iter().map(|each| address(each).into()).collect();
            to_listen_on(addresses).as_socket()
        };
        let (six, four) = ("[::1]:3307", "127.0.0.1:3307");
        assert_eq!(listened_on(&[six, four]), Some(address(four)));
        assert_eq!(
            listened_on(&["10.0.0.1:3307", six, four]),
            Some(address("10.0.0.1:3307"))
        );
        assert_eq!(listened_on(&[six]), Some(address(six)));
    }

    #[test]
    fn what_is_left_over_is_replaced_and_what_lives_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let place = Place::File(path.clone());
        let first = place.listen(0o600).expect("a free path");
        assert!(is_alive(&path));
        let refused = place.listen(0o600).expect_err("somebody listens");
        assert!(refused.hint.contains("--take-socket"));
        drop(first);
        assert!(!is_alive(&path));
        let second = place.listen(0o640).expect("replaced");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        drop(second);
        fs::remove_file(&path).expect("removes");
        fs::write(&path, "mine").expect("a file");
        assert!(
            place
                .listen(0o600)
                .expect_err("a file")
                .message
                .contains("is not a socket")
        );
    }
}
