//! What the tests of both protocols need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wire::{Cell, Connection, Fetch, RowSink, RowsWanted};

/// All rows, all at once.
pub const ALL: Fetch = Fetch {
    size: 0,
    rows: RowsWanted::All,
};

/// Rows as text; NULL as `None`.
#[derive(Default)]
pub struct Texts(pub Vec<Vec<Option<String>>>);

impl RowSink for Texts {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0.push(cells.iter().map(Cell::to_text).collect());
    }
}

/// The rows of a statement sent as text.
pub fn texts(connection: &mut dyn Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = Texts::default();
    connection.query(sql, ALL, &mut rows).expect(sql);
    rows.0
}

/// The first cell of the first row.
pub fn one(connection: &mut dyn Connection, sql: &str) -> String {
    texts(connection, sql)[0][0].clone().expect("not NULL")
}

/// A certificate authority and a certificate of its for 127.0.0.1, as PEM files.
pub struct Certificates {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificates {
    /// Made by openssl, which every packaged server that offers TLS brings along.
    pub fn make(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        let files = Self {
            ca: file("ca.pem"),
            certificate: file("certificate.pem"),
            key: file("key.pem"),
        };
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        openssl(request)
            .args(["-subj", "/CN=upshift test CA", "-out"])
            .arg(&files.ca)
            .arg("-keyout")
            .arg(file("ca-key.pem"))
            .run();
        openssl(request)
            .args([
                "-subj",
                "/CN=127.0.0.1",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-CA"])
            .arg(&files.ca)
            .arg("-CAkey")
            .arg(file("ca-key.pem"))
            .arg("-out")
            .arg(&files.certificate)
            .arg("-keyout")
            .arg(&files.key)
            .run();
        files
    }
}

fn openssl(arguments: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' '));
    command
}

trait Run {
    fn run(&mut self);
}

impl Run for Command {
    fn run(&mut self) {
        let status = self
            .stderr(Stdio::null())
            .status()
            .expect("an installed program");
        assert!(status.success(), "{self:?}");
    }
}
