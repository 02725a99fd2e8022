//! A relay between clients and a server that keeps what passes, in the order in which it passed.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;
use testserver::{Kind, Server};
use wire::Family;
use wire::passive::Side;

/// What passed on one connection.
pub type Passed = Vec<(Side, Vec<u8>)>;

/// Listens on a socket in a folder of its own.
pub struct Relay {
    folder: TempDir,
    socket: PathBuf,
    family: Family,
    /// What passes on the connections so far.
    passed: Arc<Mutex<Vec<Arc<Mutex<Passed>>>>>,
    copies: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Relay {
    pub fn start(server: &Server) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (name, family) = match server.kind() {
            Kind::Postgres => (".s.PGSQL.5432", Family::Postgres),
            Kind::MariaDb | Kind::MySql => ("s", Family::Mysql),
        };
        let (socket, target) = (folder.path().join(name), server.folder().join(name));
        let listener = UnixListener::bind(&socket).expect("a socket");
        let relay = Self {
            folder,
            socket,
            family,
            passed: Arc::default(),
            copies: Arc::default(),
        };
        let (passed, copies) = (Arc::clone(&relay.passed), Arc::clone(&relay.copies));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = UnixStream::connect(&target) else {
                    return;
                };
                let kept = Arc::new(Mutex::new(Passed::new()));
                passed.lock().expect("no panic").push(Arc::clone(&kept));
                let ends = (
                    client.try_clone().expect("a copy"),
                    server.try_clone().expect("a copy"),
                );
                let back = Arc::clone(&kept);
                let mut copies = copies.lock().expect("no panic");
                copies.push(std::thread::spawn(move || {
                    copy(client, server, Side::Client, &kept)
                }));
                copies.push(std::thread::spawn(move || {
                    copy(ends.1, ends.0, Side::Server, &back)
                }));
            }
        });
        relay
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The URL of a login and database through the relay.
    pub fn url(&self, login: &str, database: &str) -> String {
        let socket = self.socket.display();
        match self.family {
            Family::Mysql => format!("mysql://{login}@/{database}?socket={socket}"),
            Family::Postgres => format!("postgres://{login}@/{database}?socket={socket}"),
        }
    }

    /// What passed on all connections, which their clients have closed.
    pub fn passed(&self) -> Vec<Passed> {
        let copies: Vec<_> = self.copies.lock().expect("no panic").drain(..).collect();
        for copy in copies {
            copy.join().expect("no panic");
        }
        let all = std::mem::take(&mut *self.passed.lock().expect("no panic"));
        all.into_iter()
            .map(|passed| std::mem::take(&mut *passed.lock().expect("no panic")))
            .collect()
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream, side: Side, passed: &Mutex<Passed>) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        if read == 0 {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        // Before it is sent on: no answer comes before its request.
        passed
            .lock()
            .expect("no panic")
            .push((side, bytes[..read].to_vec()));
        if to.write_all(&bytes[..read]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
}
