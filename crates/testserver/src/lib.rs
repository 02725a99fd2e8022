//! Real servers for integration tests: each with a socket and data in a folder of its own, stopped and removed when it is dropped.
//!
//! Everything here panics when it fails, as a test should, with the server's log.

mod kind;
mod rows;
mod tls;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kind::other_user;
use tempfile::TempDir;
use wire::{Connection, Error, ServerUrl};

pub use kind::{Kind, MYSQLD};
pub use rows::{ALL, Texts, one, rows, run};
pub use tls::{Certificates, free_port};

/// Servers start within seconds; a busy machine takes longer.
const START: Duration = Duration::from_secs(90);
/// A server that does not stop in this time is killed.
const STOP: Duration = Duration::from_secs(20);

/// One server.
pub struct Server {
    kind: Kind,
    folder: TempDir,
    prefix: Vec<String>,
    options: Vec<String>,
    network: Option<Network>,
    process: Option<Child>,
}

/// What a server on a loopback port has.
struct Network {
    port: u16,
    certificates: Certificates,
}

impl Server {
    /// The system's MariaDB, with these options on top of what every test needs.
    #[must_use]
    pub fn mariadb(options: &[&str]) -> Self {
        Self::start(Kind::MariaDb, options)
    }

    /// The MySQL that [`MYSQLD`] names; none, and the test says so, where it names none.
    #[must_use]
    pub fn mysql(options: &[&str]) -> Option<Self> {
        Self::has_mysql().then(|| Self::start(Kind::MySql, options))
    }

    /// Whether [`MYSQLD`] names a server; the test says so where it names none.
    #[must_use]
    pub fn has_mysql() -> bool {
        let named = std::env::var_os(MYSQLD).is_some();
        if !named {
            eprintln!("NOT RUN: {MYSQLD} names no server");
        }
        named
    }

    /// The system's PostgreSQL, with pg_stat_statements loaded.
    #[must_use]
    pub fn postgres(options: &[&str]) -> Self {
        Self::start(Kind::Postgres, options)
    }

    /// A new, empty server of this kind.
    #[must_use]
    pub fn start(kind: Kind, options: &[&str]) -> Self {
        let mut server = Self::new(kind, options);
        server.initialize();
        server.restart();
        server
    }

    /// The same, on a loopback port of its own too, with TLS.
    #[must_use]
    pub fn start_with_tls(kind: Kind, options: &[&str]) -> Self {
        let mut server = Self::new(kind, options);
        let network = Network {
            port: free_port(),
            certificates: Certificates::make(server.folder.path()),
        };
        if let (Kind::Postgres, Some(user)) = (kind, other_user()) {
            chown(&network.certificates.key, Some(user), None).expect("the key's owner changes");
        }
        server.options.extend(kind.on_network(&network));
        server.network = Some(network);
        server.initialize();
        server.restart();
        server
    }

    fn new(kind: Kind, options: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("upshift-{kind:?}-").to_lowercase())
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder for the server");
        if let (Kind::Postgres, Some(user)) = (kind, other_user()) {
            chown(folder.path(), Some(user), None).expect("the folder's owner changes");
        }
        Self {
            kind,
            folder,
            prefix: Vec::new(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            network: None,
            process: None,
        }
    }

    fn initialize(&self) {
        let mut initialize = self.kind.initialize(&self.data());
        // Two MariaDBs that are set up in one folder for temporary files remove each other's.
        initialize.env("TMPDIR", self.folder());
        let output = initialize.output().expect("an installed server");
        assert!(output.status.success(), "{initialize:?}: {output:?}");
    }

    /// What its command line begins with from the next [`Server::restart`] on: a program, with its arguments, that becomes the
    /// server it is given. Empty: nothing.
    pub fn set_prefix(&mut self, prefix: &[String]) {
        self.prefix = prefix.to_vec();
    }

    /// Start it again after [`Server::kill`] or [`Server::stop`], and wait until it answers.
    pub fn restart(&mut self) {
        let log = fs::File::create(self.folder().join("log")).expect("a log");
        let mut command = prefixed(&self.prefix, self.kind.run(self.folder(), &self.data()));
        command
            .args(&self.options)
            .env("TMPDIR", self.folder())
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(command.spawn().expect("an installed server"));
        let begin = Instant::now();
        while let Err(error) = self.connect(self.kind.system_database()) {
            assert!(begin.elapsed() < START, "{error}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Which server.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The program that runs it.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.kind.program()
    }

    /// Its folder, which goes with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it wrote on stderr.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// Its superuser's URL for a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_as("", database)
    }

    /// The URL for another login, `user` or `user:password`; empty for the superuser's.
    #[must_use]
    pub fn url_as(&self, login: &str, database: &str) -> String {
        let folder = self.folder().display();
        match self.kind {
            Kind::MariaDb | Kind::MySql => format!("mysql://{login}@/{database}?socket={folder}/s"),
            // The port is a part of the socket file's name.
            Kind::Postgres => match &self.network {
                Some(_) => format!("{}?socket={folder}", self.url_over_tcp(login, database)),
                None => format!("postgres://{login}@/{database}?socket={folder}"),
            },
        }
    }

    /// The URL for a login over TCP, to a server that was started with TLS.
    #[must_use]
    pub fn url_over_tcp(&self, login: &str, database: &str) -> String {
        let scheme = match self.kind {
            Kind::MariaDb | Kind::MySql => "mysql",
            Kind::Postgres => "postgres",
        };
        let port = self.network().port;
        format!("{scheme}://{login}@127.0.0.1:{port}/{database}")
    }

    /// The files of a server that was started with TLS.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.network().certificates
    }

    /// The port of a server that was started with TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.network().port
    }

    fn network(&self) -> &Network {
        self.network.as_ref().expect("a server started with TLS")
    }

    /// Connect as the superuser.
    ///
    /// # Errors
    /// Any of wire's.
    pub fn connect(&self, database: &str) -> Result<Box<dyn Connection>, Error> {
        wire::connect(&ServerUrl::parse(&self.url(database))?)
    }

    /// Wait until the server has freed every connection but the one that asks, however many it had when their clients went away.
    pub fn wait_until_alone(&self) {
        self.wait_for_connections(|connections| connections == 1);
    }

    /// Wait until a load of so many connections has logged in.
    pub fn wait_for_load(&self, connections: u32) {
        self.wait_for_connections(|all| all > connections);
    }

    /// Wait until a load of so many connections has logged in and executed so many of its prepared statements.
    pub fn wait_for_work(&self, connections: u32, executions: u32) {
        self.wait_for_load(connections);
        let first = Cell::new(None);
        self.wait_until(self.kind.count_executions(), |now| {
            first.set(first.get().or(Some(now)));
            first.get().is_some_and(|first| now >= first + executions)
        });
    }

    /// Wait until the number of connections, the one that asks among them, is right.
    fn wait_for_connections(&self, right: impl Fn(u32) -> bool) {
        self.wait_until(self.kind.count_connections(), right);
    }

    /// Wait until a question has the right answer.
    fn wait_until(&self, question: &str, right: impl Fn(u32) -> bool) {
        let begin = Instant::now();
        loop {
            // It may have no room for the one that asks.
            let counted = self
                .connect(self.kind.system_database())
                .map(|mut connection| one(&mut *connection, question));
            if matches!(&counted, Ok(text) if right(text.parse().expect("a number"))) {
                return;
            }
            assert!(begin.elapsed() < START, "{counted:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Make a database and return its URL.
    #[must_use]
    pub fn create(&self, database: &str) -> String {
        let mut connection = self.connect(self.kind.system_database()).expect("a login");
        run(&mut *connection, &format!("CREATE DATABASE {database}"));
        self.url(database)
    }

    /// The server's own process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        match self.kind {
            Kind::MariaDb | Kind::MySql => {
                let process = self.process.as_ref().expect("a running server");
                i32::try_from(process.id()).expect("a process id")
            }
            // The child may be runuser.
            Kind::Postgres => self.postmaster().expect("postmaster.pid"),
        }
    }

    /// Send a signal to the server's own process.
    pub fn signal(&self, signal: i32) {
        assert!(
            send(self.pid(), signal),
            "{}",
            std::io::Error::last_os_error()
        );
    }

    /// Kill it, as a crash would. `PostgreSQL`'s other processes have ended afterwards: while one is left, the memory that they
    /// share is, and no server starts on their data.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
        let begin = Instant::now();
        while works_in(&self.data()) {
            assert!(
                begin.elapsed() < STOP,
                "its processes go on\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ask MySQL or MariaDB to stop, and wait until it has.
    pub fn stop(&mut self) {
        self.signal(libc::SIGTERM);
        let mut process = self.process.take().expect("a running server");
        let begin = Instant::now();
        while process.try_wait().expect("a child").is_none() {
            if begin.elapsed() > START {
                let _ = process.kill();
                let _ = process.wait();
                panic!("the server does not stop\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn postmaster(&self) -> Option<i32> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        text.lines().next()?.parse().ok()
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // PostgreSQL cleans its shared memory up after SIGQUIT, not after SIGKILL; the others have nothing that outlives them.
        if self.kind == Kind::Postgres {
            if let Some(pid) = self.postmaster() {
                send(pid, libc::SIGQUIT);
            }
            let begin = Instant::now();
            while begin.elapsed() < STOP && matches!(process.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn prefixed(prefix: &[String], server: Command) -> Command {
    let [program, arguments @ ..] = prefix else {
        return server;
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(server.get_program());
    command.args(server.get_args());
    command
}

/// Whether a process has this working directory, as all of a server's have its data.
fn works_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc");
    let folders = processes
        .filter_map(Result::ok)
        .map(|each| fs::read_link(each.path().join("cwd")));
    folders.filter_map(Result::ok).any(|found| found == folder)
}

/// Whether a process took a signal.
fn send(pid: i32, signal: i32) -> bool {
    // SAFETY: kill touches no memory. The process is a child that was not waited for, or its child, so that the id is still its own.
    unsafe { libc::kill(pid, signal) == 0 }
}
