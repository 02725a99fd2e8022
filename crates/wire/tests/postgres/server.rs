//! A PostgreSQL server for the tests.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::{Family, ServerUrl, TlsMode};

use crate::common::Certificates;

/// One login for each way to prove it.
const ACCESS: &str = "local all trusty trust
host all md5y 127.0.0.1/32 md5
host all clear 127.0.0.1/32 password
hostssl all safe 127.0.0.1/32 scram-sha-256
host all scram 127.0.0.1/32 scram-sha-256
";

/// A server on a socket and a loopback port of its own, with TLS.
pub struct Server {
    programs: PathBuf,
    pub folder: PathBuf,
    pub port: u16,
    pub certificates: Certificates,
}

impl Server {
    pub fn start() -> Self {
        let programs = fs::read_dir("/usr/lib/postgresql")
            .expect("PostgreSQL is installed")
            .map(|entry| entry.expect("entry").path().join("bin"))
            .max()
            .expect("a version of PostgreSQL");
        let folder = std::env::temp_dir().join(format!("wire-postgres-{}", std::process::id()));
        fs::create_dir(&folder).expect("folder");
        let certificates = Certificates::make(&folder);
        if is_root() {
            let id = Command::new("id").args(["-u", "postgres"]).output();
            let id = String::from_utf8(id.expect("id").stdout).expect("number");
            let user = id.trim().parse().expect("user postgres");
            chown(&folder, Some(user), None).expect("chown");
            chown(&certificates.key, Some(user), None).expect("chown");
        }
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("port");
        let port = listener.local_addr().expect("address").port();
        let server = Self {
            programs,
            folder,
            port,
            certificates,
        };
        server.run("initdb", &["-U", "trusty", "-A", "trust"]);
        fs::write(server.folder.join("data/pg_hba.conf"), ACCESS).expect("access");
        drop(listener);
        let options = format!(
            "-p {port} -k {} -c fsync=off -c listen_addresses=127.0.0.1 \
             -c shared_preload_libraries=pg_stat_statements -c ssl=on -c ssl_cert_file={} -c ssl_key_file={}",
            server.folder.display(),
            server.certificates.certificate.display(),
            server.certificates.key.display()
        );
        let log = server.folder.join("log");
        let log = log.to_str().expect("path");
        server.run("pg_ctl", &["start", "-w", "-l", log, "-o", &options]);
        server
    }

    /// The server refuses to run as root.
    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("-D").arg(self.folder.join("data"));
        // pg_ctl's child would hold a pipe open.
        command.stdout(std::process::Stdio::null());
        assert!(command.args(arguments).status().expect("run").success());
    }

    pub fn url(&self, user: &str, password: &str, socket: bool) -> ServerUrl {
        ServerUrl {
            family: Family::Postgres,
            user: user.to_owned(),
            password: password.to_owned(),
            host: "127.0.0.1".to_owned(),
            port: self.port,
            database: "postgres".to_owned(),
            socket: socket.then(|| self.folder.clone()),
            tls: TlsMode::Off,
            metadata: true,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("pg_ctl", &["stop", "-w", "-m", "immediate"]);
        let _ = fs::remove_dir_all(Path::new(&self.folder));
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    id.stdout == b"0\n"
}
