//! A MySQL or MariaDB server for the tests.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wire::{Connection, Error, ServerUrl};

use crate::common::Certificates;

/// A server on a socket and a loopback port of its own, with TLS.
pub struct Server {
    process: Child,
    pub folder: PathBuf,
    pub port: u16,
    pub certificates: Certificates,
}

impl Server {
    /// A new server on a socket in a folder of its own.
    pub fn start(name: &str, daemon: &str, initialize: impl FnOnce(&Path) -> Command) -> Self {
        let folder = std::env::temp_dir().join(format!("wire-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        let data = folder.join("data");
        let status = initialize(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("an installed server");
        assert!(status.success(), "initialize {name}");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let certificates = Certificates::make(&folder);
        let process = Command::new(daemon)
            .args(["--no-defaults", "--user=root", "--skip-name-resolve"])
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--port={port}"))
            .args(["--local-infile=1", "--innodb-buffer-pool-size=32M"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", folder.join("s").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg("--loose-mysqlx=OFF")
            .arg(format!("--ssl-ca={}", certificates.ca.display()))
            .arg(format!("--ssl-cert={}", certificates.certificate.display()))
            .arg(format!("--ssl-key={}", certificates.key.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an installed server");
        Self {
            process,
            folder,
            port,
            certificates,
        }
    }

    pub fn connect(&self, login: &str) -> Result<Box<dyn Connection>, Error> {
        let socket = self.folder.join("s");
        let url = format!("mysql://{login}@/mysql?socket={}", socket.display());
        wire::connect(&ServerUrl::parse(&url)?)
    }

    pub fn wait(&self) -> Box<dyn Connection> {
        let begin = Instant::now();
        loop {
            match self.connect("root") {
                Ok(connection) => return connection,
                Err(error) => assert!(begin.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
