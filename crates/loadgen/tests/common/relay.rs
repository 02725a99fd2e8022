//! A capture of what passes between a client and a test's server, on threads of the test.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use testserver::{Kind, Server};
use trace::{Begin, Capture, Ending, Record, TraceReader, TraceWriter};
use wire::passive::{Exchange, Observed, Side, Stream};

/// A relay before a server's socket, that captures what passes.
pub struct Relay {
    pub socket: PathBuf,
    seen: Arc<Mutex<Seen>>,
    copies: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

struct Seen {
    writer: Option<TraceWriter>,
    began: Instant,
}

/// One connection of it.
struct Watched {
    stream: Stream,
    number: u32,
}

impl Relay {
    pub fn start(server: &Server, trace: &Path) -> Self {
        let (name, family) = match server.kind() {
            Kind::Postgres => (".s.PGSQL.5432", "postgres"),
            _ => ("s", "mysql"),
        };
        let folder = trace.with_extension("relay");
        std::fs::create_dir(&folder).expect("a folder");
        let (socket, target) = (folder.join(name), server.folder().join(name));
        let begin = Begin {
            family: family.to_owned(),
            began_unix_us: 0,
            capture: Capture::Proxy,
            masked: false,
            log: None,
        };
        let writer = TraceWriter::create(trace, &begin, 0).expect("a trace");
        writer.waits();
        let listener = UnixListener::bind(&socket).expect("a socket");
        let relay = Self {
            socket,
            seen: Arc::new(Mutex::new(Seen {
                writer: Some(writer),
                began: Instant::now(),
            })),
            copies: Arc::default(),
        };
        let (seen, copies) = (Arc::clone(&relay.seen), Arc::clone(&relay.copies));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client");
                let server = UnixStream::connect(&target).expect("a server");
                let number = seen.lock().expect("no panic").connected();
                let watched = Arc::new(Mutex::new(Watched {
                    stream: Stream::new(begin.family()),
                    number,
                }));
                let back = (
                    server.try_clone().expect("a copy"),
                    client.try_clone().expect("a copy"),
                );
                let ways = [
                    (Side::Client, client, server),
                    (Side::Server, back.0, back.1),
                ];
                for (side, from, to) in ways {
                    let (seen, watched) = (Arc::clone(&seen), Arc::clone(&watched));
                    let copied = std::thread::spawn(move || copy(side, from, to, &seen, &watched));
                    copies.lock().expect("no panic").push(copied);
                }
            }
        });
        relay
    }

    /// What passed is in the trace; clients have gone.
    pub fn finish(&self) {
        let copies: Vec<_> = self.copies.lock().expect("no panic").drain(..).collect();
        for copy in copies {
            copy.join().expect("no panic");
        }
        let writer = self.seen.lock().expect("no panic").writer.take();
        let finished = writer.expect("not finished").finish(Ending::default());
        finished.expect("written");
    }

    pub fn url(&self, server: &Server) -> String {
        let own = server.url("t");
        let (begin, _) = own.split_once("?socket=").expect("a socket");
        format!("{begin}?socket={}", self.socket.display())
    }
}

impl Seen {
    fn connected(&self) -> u32 {
        let writer = self.writer.as_ref().expect("not finished");
        writer.connected(self.at_ns(), false)
    }

    fn at_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a short test")
    }

    fn tell(
        &self,
        watched: &mut Watched,
        tell: impl FnOnce(&mut Stream, u64, &mut dyn FnMut(Observed)),
    ) {
        let writer = self.writer.as_ref().expect("not finished");
        let (at_ns, number) = (self.at_ns(), watched.number);
        tell(&mut watched.stream, at_ns, &mut |observed| {
            assert!(!matches!(observed, Observed::Broken { .. }), "{observed:?}");
            writer.observed(number, &observed);
        });
    }
}

fn copy(
    side: Side,
    mut from: UnixStream,
    mut to: UnixStream,
    seen: &Mutex<Seen>,
    watched: &Mutex<Watched>,
) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        // Seen before it is sent on: no answer comes before its request.
        {
            let seen = seen.lock().expect("no panic");
            let watched = &mut *watched.lock().expect("no panic");
            match (read, side) {
                (0, Side::Client) => {
                    seen.tell(watched, |stream, at_ns, out| stream.end(at_ns, out));
                    let writer = seen.writer.as_ref().expect("not finished");
                    writer.closed(watched.number, seen.at_ns(), watched.stream.totals());
                }
                (0, Side::Server) => {}
                (_, side) => seen.tell(watched, |stream, at_ns, out| {
                    stream.bytes(side, &bytes[..read], at_ns, out);
                }),
            }
        }
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

/// The requests of a trace, with their connections.
pub fn exchanges(trace: &Path) -> Vec<(u32, Exchange)> {
    let mut reader = TraceReader::open(trace).expect("a trace");
    let mut found = Vec::new();
    while let Some(record) = reader.next().expect("a record") {
        if let Record::Exchange {
            connection,
            exchange,
        } = record
        {
            found.push((connection, *exchange));
        }
    }
    found
}
