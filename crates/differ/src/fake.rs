//! A server for tests: it says OK to whatever a test does not want answered otherwise.

use std::io::{Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::allow::Allowed;
use crate::lockstep::{Pair, Place};
use crate::peer::capability::{DEPRECATE_EOF, MULTI_STATEMENTS, USUAL};
use crate::random::CLIENTS;

/// What a request is answered.
pub(crate) enum Says {
    Fine,
    Error(u8),
    /// One row, with a column that is called so.
    Row(&'static str, &'static str),
    /// The begin of a result whose column is called so; then it hangs up.
    Torn(&'static str),
    HangUp,
    Nothing,
    /// It says OK after this time.
    Late(Duration),
}

type Answers = Arc<dyn Fn(&str) -> Says + Send + Sync>;

/// The two servers, with a folder for their sockets that goes with them.
pub(crate) struct Fakes {
    pub(crate) place: Place,
    _folder: TempDir,
}

impl Fakes {
    /// By what they say to the text of a request.
    pub(crate) fn new(
        stock: impl Fn(&str) -> Says + Send + Sync + 'static,
        patched: impl Fn(&str) -> Says + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().expect("room");
        let socket = |name: &str, says: Answers| listen(folder.path().join(name), says);
        let place = Place {
            stock: socket("stock", Arc::new(stock)),
            patched: socket("patched", Arc::new(patched)),
            database: "fake".to_owned(),
            wanted: CLIENTS[0],
            session: Vec::new(),
            allowed: Allowed::default(),
        };
        Self {
            place,
            _folder: folder,
        }
    }

    pub(crate) fn pair(&self) -> Pair {
        Pair::new(self.place.clone())
    }
}

fn listen(socket: PathBuf, says: Answers) -> PathBuf {
    let listener = UnixListener::bind(&socket).expect("room for a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let says = says.clone();
            std::thread::spawn(move || serve(stream, &says));
        }
    });
    socket
}

fn serve(mut stream: UnixStream, says: &Answers) -> Result<()> {
    let offered = (USUAL | MULTI_STATEMENTS | DEPRECATE_EOF).to_le_bytes();
    let (low, high) = offered.split_at(2);
    let greeting = [b"\x0a8\0", &[0; 13][..], low, &[255, 2, 0], high, &[0; 24]].concat();
    send(&mut stream, 0, &[&greeting])?;
    request(&mut stream)?;
    send(&mut stream, 2, &[FINE])?;
    loop {
        let asked = request(&mut stream)?;
        let said = says(&String::from_utf8_lossy(&asked));
        let packets: &[&[u8]] = match (said, asked.first()) {
            (_, Some(0x18 | 0x19)) | (Says::Nothing, _) => &[],
            (Says::HangUp, _) => return Ok(()),
            (Says::Late(time), _) => {
                std::thread::sleep(time);
                &[FINE]
            }
            (Says::Torn(column), _) => return send(&mut stream, 1, &[&[1], column.as_bytes()]),
            (Says::Error(code), _) => &[&[0xFF, code, 4, b'#', b'H', b'Y', b'0', b'0', b'0']],
            (Says::Row(column, row), _) => {
                let row = [&[row.len() as u8], row.as_bytes()].concat();
                send(&mut stream, 1, &[&[1], column.as_bytes(), &row, END])?;
                &[]
            }
            (_, Some(0x16)) => &[&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
            (_, Some(0x1C)) => &[END],
            _ => &[FINE],
        };
        send(&mut stream, 1, packets)?;
    }
}

const FINE: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const END: &[u8] = &[0xFE, 0, 0, 2, 0, 0, 0];

fn send(stream: &mut UnixStream, first: u8, packets: &[&[u8]]) -> Result<()> {
    let mut out = Vec::new();
    for (number, packet) in (first..).zip(packets) {
        out.extend_from_slice(&[packet.len() as u8, 0, 0, number]);
        out.extend_from_slice(packet);
    }
    stream.write_all(&out)
}

fn request(stream: &mut UnixStream) -> Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}
