//! Captures what a client and a real server say to each other, for the tests that play it again without a server:
//! `cargo run -p wire --example capture_exchange -- 'mysql://root@/test?socket=PATH' > tests/exchanges/NAME.txt`
//!
//! `>` is what the client sends, `<` what the server sends, both in hexadecimal digits, `=` what the client made of it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use wire::{Family, ServerUrl};

#[path = "../tests/common/exchange.rs"]
mod exchange;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let text = std::env::args()
        .nth(1)
        .ok_or("usage: capture_exchange URL")?;
    let mut url = ServerUrl::parse(&text)?;
    let mut server = url.socket.clone().ok_or("the URL must name a socket")?;
    if url.family == Family::Postgres && server.is_dir() {
        server.push(format!(".s.PGSQL.{}", url.port));
    }
    let folder = tempfile::tempdir()?;
    let between = folder.path().join("s");
    let listener = UnixListener::bind(&between)?;
    url.socket = Some(between);
    let lines = Arc::new(Mutex::new(String::new()));
    let copied = Arc::clone(&lines);
    let proxy = std::thread::spawn(move || -> std::io::Result<()> {
        let (client, _) = listener.accept()?;
        let server = UnixStream::connect(server)?;
        let (back, lines) = (
            (server.try_clone()?, client.try_clone()?),
            Arc::clone(&copied),
        );
        let answers = std::thread::spawn(move || copy(back.0, back.1, '<', &lines));
        copy(client, server, '>', &copied)?;
        answers.join().expect("no panic")
    });
    let said = exchange::talk(&url);
    proxy.join().expect("no panic")?;
    let mut lines = lines.lock().expect("no panic").clone();
    for line in said {
        writeln!(lines, "= {line}")?;
    }
    print!("{lines}");
    Ok(())
}

fn copy(
    mut from: UnixStream,
    mut to: UnixStream,
    mark: char,
    lines: &Mutex<String>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            // What the other side has not read yet is still its to read.
            return to.shutdown(std::net::Shutdown::Write);
        }
        {
            let mut lines = lines.lock().expect("no panic");
            lines.push_str(&format!("{mark} "));
            for byte in &bytes[..read] {
                lines.push_str(&format!("{byte:02x}"));
            }
            lines.push('\n');
        }
        to.write_all(&bytes[..read])?;
    }
}
