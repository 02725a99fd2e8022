//! What differs between the servers: their programs, options and users.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Network;

/// What names a MySQL for the tests: the path of a `mysqld` 8.0 or newer. No distribution packages one beside MariaDB.
pub const MYSQLD: &str = "UPSHIFT_TEST_MYSQLD";
/// The user that a PostgreSQL runs as where the tests run as root, which it refuses.
const POSTGRES_USER: &str = "postgres";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The system's MariaDB.
    MariaDb,
    /// The MySQL that [`MYSQLD`] names.
    MySql,
    /// The system's newest PostgreSQL.
    Postgres,
}

impl Kind {
    pub(super) fn system_database(self) -> &'static str {
        match self {
            Self::MariaDb | Self::MySql => "mysql",
            Self::Postgres => "postgres",
        }
    }

    /// Asks how many clients are connected, the one that asks among them, as the server counts them against its limit.
    pub(super) fn count_connections(self) -> &'static str {
        match self {
            Self::MariaDb => {
                "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'Threads_connected'"
            }
            Self::MySql => {
                "SELECT variable_value FROM performance_schema.global_status \
                 WHERE variable_name = 'Threads_connected'"
            }
            Self::Postgres => {
                "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            }
        }
    }

    /// Asks how many of others' prepared statements were executed (PostgreSQL: transactions committed) since the server began.
    pub(super) fn count_executions(self) -> &'static str {
        match self {
            Self::MariaDb => {
                "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'Com_stmt_execute'"
            }
            Self::MySql => {
                "SELECT variable_value FROM performance_schema.global_status \
                 WHERE variable_name = 'Com_stmt_execute'"
            }
            Self::Postgres => {
                "SELECT coalesce(sum(xact_commit), 0)::bigint FROM pg_stat_database \
                 WHERE datname <> current_database()"
            }
        }
    }

    /// The program that runs the server.
    pub(super) fn program(self) -> PathBuf {
        match self {
            Self::MariaDb => "mariadbd".into(),
            Self::MySql => std::env::var_os(MYSQLD).expect(MYSQLD).into(),
            Self::Postgres => postgres_programs().join("postgres"),
        }
    }

    pub(super) fn initialize(self, data: &Path) -> Command {
        let folder = format!("--datadir={}", data.display());
        match self {
            Self::MariaDb => {
                let mut command = Command::new("mariadb-install-db");
                command.args(["--no-defaults", "--skip-test-db"]);
                command.args(["--auth-root-authentication-method=normal", &folder]);
                command.args(as_root());
                command
            }
            Self::MySql => {
                let mut command = Command::new(self.program());
                command.args(["--no-defaults", "--initialize-insecure", &folder]);
                command.args(as_root());
                command
            }
            Self::Postgres => {
                let mut command = as_other_user(&postgres_programs().join("initdb"));
                command
                    .args(["-U", "postgres", "-A", "trust", "--no-sync", "-D"])
                    .arg(data);
                command
            }
        }
    }

    /// Options that open a port and offer TLS on it.
    pub(super) fn on_network(self, network: &Network) -> Vec<String> {
        let Network { port, certificates } = network;
        let (ca, certificate) = (
            certificates.ca.display(),
            certificates.certificate.display(),
        );
        let key = certificates.key.display();
        match self {
            Self::MariaDb | Self::MySql => vec![
                "--skip-networking=0".to_owned(),
                "--skip-name-resolve".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--port={port}"),
                format!("--ssl-ca={ca}"),
                format!("--ssl-cert={certificate}"),
                format!("--ssl-key={key}"),
            ],
            Self::Postgres => [
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
                "ssl=on".to_owned(),
                format!("ssl_cert_file={certificate}"),
                format!("ssl_key_file={key}"),
            ]
            .into_iter()
            .flat_map(|setting| ["-c".to_owned(), setting])
            .collect(),
        }
    }

    pub(super) fn run(self, folder: &Path, data: &Path) -> Command {
        let place = folder.display();
        match self {
            Self::MariaDb | Self::MySql => {
                let mut command = Command::new(self.program());
                command
                    .args(["--no-defaults", "--skip-networking"])
                    .args(as_root())
                    .args(["--local-infile=1", "--innodb-buffer-pool-size=64M"])
                    // A distribution's server has a folder of its package compiled in.
                    .arg("--secure-file-priv=")
                    .arg(format!("--datadir={}", data.display()))
                    .arg(format!("--socket={place}/s"))
                    .arg(format!("--pid-file={place}/pid"))
                    .arg("--loose-mysqlx=OFF");
                command
            }
            Self::Postgres => {
                let mut command = as_other_user(&self.program());
                command
                    .args(["-c", "listen_addresses=", "-c", "fsync=off"])
                    .args(["-c", "shared_preload_libraries=pg_stat_statements"])
                    .arg("-k")
                    .arg(folder)
                    .arg("-D")
                    .arg(data);
                command
            }
        }
    }
}

/// Debian's place of the newest version's programs, or those of PATH.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .max_by_key(|programs| version(programs))
        .unwrap_or_default()
}

fn version(programs: &Path) -> u32 {
    let name = programs.parent().and_then(Path::file_name);
    name.and_then(|name| name.to_str()?.parse().ok())
        .unwrap_or_default()
}

/// Whether the tests run as root: a process's own folder in /proc belongs to its user.
fn is_root() -> bool {
    fs::metadata("/proc/self").expect("Linux").uid() == 0
}

/// MySQL and MariaDB run as root only where they are told to.
fn as_root() -> Option<&'static str> {
    is_root().then_some("--user=root")
}

/// PostgreSQL's user, where the tests run as root.
pub(super) fn other_user() -> Option<u32> {
    if !is_root() {
        return None;
    }
    let output = Command::new("id").args(["-u", POSTGRES_USER]).output();
    let text = String::from_utf8(output.expect("id").stdout).expect("a number");
    Some(
        text.trim()
            .parse()
            .expect("the user postgres, whom the package brings"),
    )
}

fn as_other_user(program: &Path) -> Command {
    if other_user().is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", POSTGRES_USER, "--"]).arg(program);
    // The tests' own folder may be closed to that user.
    command.current_dir("/");
    command
}
