//! Looks at the server before anything is changed for it: that it is there, and that it speaks the protocol of its URL.

mod encrypted;

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use socket2::{SockAddr, Socket, Type};
use wire::{Family, TlsClient};

use super::place::Place;
use super::proxy::tls::TLS_REQUEST;
use crate::failure::Failure;

/// So long a server may take to say its first word.
const PATIENCE: Duration = Duration::from_secs(3);

/// A server as its URL describes it.
pub struct Wanted<'a> {
    /// Where it is.
    pub place: Place,
    /// Which protocol it speaks.
    pub family: Family,
    /// How connections to it are encrypted, if they are.
    pub tls: Option<&'a TlsClient>,
}

/// What a server's first words are.
#[derive(Debug, PartialEq, Eq)]
enum Spoken {
    Mysql,
    Postgres,
    Other,
}

/// The first of the server's addresses that answers in the protocol of the URL.
///
/// # Errors
/// A server that is not there, speaks the other protocol, or cannot be encrypted to.
pub fn probe(wanted: &Wanted) -> Result<SockAddr, Failure> {
    let (place, family) = (&wanted.place, wanted.family);
    let mut refused = None;
    for address in place.addresses()? {
        match connect(&address) {
            Ok(socket) => {
                let said = match ask(&socket, family) {
                    Err(error) if is_silence(&error) => return Err(silent(place)),
                    said => said.unwrap_or_default(),
                };
                judge(place, family, &spoken(&said))?;
                if let Some(tls) = wanted.tls {
                    encrypted::try_it(&socket, wanted, tls, &said)?;
                }
                return Ok(address);
            }
            Err(error) => refused = Some(error),
        }
    }
    let why = refused.map_or_else(String::new, |error| error.to_string());
    Err(Failure::failed(
        format!("no server at {place}: {why}"),
        "check that it runs, and the address in --server",
    ))
}

fn connect(address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    match socket.connect(address) {
        // The system's words for one that took too long (SO_SNDTIMEO in socket(7)).
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EAGAIN)) => {
            let why = format!("it accepts no connection within {} s", PATIENCE.as_secs());
            Err(io::Error::new(ErrorKind::TimedOut, why))
        }
        connected => connected.map(|()| socket),
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn silent(place: &Place) -> Failure {
    Failure::failed(
        format!("the server at {place} accepts connections and does not answer"),
        "see whether it hangs, or waits for a name server (MySQL: skip_name_resolve), and check the address in --server",
    )
}

/// MySQL speaks first, PostgreSQL answers. The first bytes of what the server says.
fn ask(mut socket: &Socket, family: Family) -> io::Result<Vec<u8>> {
    let mut said = [0; 5];
    if family == Family::Mysql {
        match read(socket, &mut said) {
            Err(error) if is_silence(&error) => {}
            read => return Ok(said[..read?].to_vec()),
        }
    }
    socket.write_all(&TLS_REQUEST)?;
    let read = read(socket, &mut said)?;
    Ok(said[..read].to_vec())
}

/// Until the buffer is full or the server pauses.
fn read(mut socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match socket.read(&mut buffer[read..])? {
            0 => break,
            more => read += more,
        }
        // PostgreSQL's answer is this one letter.
        if read == 1 && matches!(buffer[0], b'S' | b'N') {
            break;
        }
    }
    Ok(read)
}

fn spoken(said: &[u8]) -> Spoken {
    match said {
        // Length, number 0, and protocol 10 or an error such as "too many connections".
        [_, _, _, 0, 10 | 255, ..] => Spoken::Mysql,
        [b'S' | b'N'] | [b'E', ..] => Spoken::Postgres,
        _ => Spoken::Other,
    }
}

fn judge(place: &Place, family: Family, spoken: &Spoken) -> Result<(), Failure> {
    let (right, wrong) = match family {
        Family::Mysql => (Spoken::Mysql, Spoken::Postgres),
        Family::Postgres => (Spoken::Postgres, Spoken::Mysql),
    };
    let name = |spoken: &Spoken| match spoken {
        Spoken::Mysql => ("MySQL's protocol", "mysql://"),
        _ => ("PostgreSQL's protocol", "postgres://"),
    };
    if *spoken == right {
        return Ok(());
    }
    if *spoken == wrong {
        let (language, scheme) = name(&wrong);
        return Err(Failure::failed(
            format!("the server at {place} speaks {language}"),
            format!("begin its URL with {scheme}"),
        ));
    }
    let (language, _) = name(&right);
    Err(Failure::failed(
        format!("what listens at {place} does not speak {language}"),
        "check the address in --server",
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn look(place: Place, family: Family) -> Result<SockAddr, Failure> {
        probe(&Wanted {
            place,
            family,
            tls: None,
        })
    }

    /// A server that says something, after it has heard so many bytes.
    fn server(hears: usize, says: &'static [u8]) -> Place {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut heard = vec![0; hears];
            if client.read_exact(&mut heard).is_ok() {
                let _ = client.write_all(says);
                let _ = client.read(&mut [0; 64]);
            }
        });
        Place::Port("127.0.0.1".to_owned(), port)
    }

    #[test]
    fn each_is_known_by_its_first_words() {
        let greeting = b"\x4a\0\0\0\x0a9.7.4\0";
        assert!(look(server(0, greeting), Family::Mysql).is_ok());
        assert!(look(server(0, b"\x17\0\0\0\xff\x10\x04Too many"), Family::Mysql).is_ok());
        assert!(look(server(8, b"N"), Family::Postgres).is_ok());
        assert!(look(server(8, b"S"), Family::Postgres).is_ok());
        let failure = look(server(0, greeting), Family::Postgres).expect_err("MySQL");
        assert!(failure.message.contains("speaks MySQL's"), "{failure:?}");
        assert!(failure.hint.contains("mysql://"));
        let failure = look(server(8, b"N"), Family::Mysql).expect_err("PostgreSQL");
        assert!(failure.message.contains("speaks PostgreSQL's"));
        let failure = look(server(0, b"SSH-2.0-x"), Family::Mysql).expect_err("neither");
        assert!(failure.message.contains("does not speak MySQL's"));
    }

    #[test]
    fn a_server_that_is_silent_is_said() {
        let failure = look(server(64, b""), Family::Postgres).expect_err("silent");
        assert!(failure.message.contains("does not answer"), "{failure:?}");
        // A full backlog: nobody accepts.
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::File(folder.path().join("s"));
        let address = place.addresses().expect("short").remove(0);
        let socket = |_| Socket::new(socket2::Domain::UNIX, Type::STREAM, None).expect("a socket");
        let [listener, first, second] = [0, 1, 2].map(socket);
        listener.bind(&address).expect("a free path");
        listener.listen(0).expect("listens");
        first.connect(&address).expect("room for one");
        second.set_nonblocking(true).expect("non-blocking");
        second.connect(&address).expect_err("no room for two");
        let failure = look(place, Family::Mysql).expect_err("full");
        assert!(
            failure.message.contains("accepts no connection within 3 s"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_server_that_is_gone_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let place = Place::Port("127.0.0.1".to_owned(), port);
        let failure = look(place, Family::Mysql).expect_err("gone");
        assert!(failure.message.starts_with("no server at 127.0.0.1:"));
    }
}
