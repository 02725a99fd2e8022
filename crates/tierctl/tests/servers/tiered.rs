//! A server under the tier, and the state of its tier and of its files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use testserver::{Kind, MYSQLD, Server};

use crate::common::{cache, library, text};

/// Small, so that pages are read again and again.
const OPTIONS: [&str; 2] = [
    "--innodb-buffer-pool-size=8M",
    "--innodb-log-buffer-size=1M",
];

/// More than it takes on a busy machine until the tier has hits and tells of them.
const HITS_MAX: Duration = Duration::from_secs(60);

/// A server and the settings of its tier.
pub struct Tiered {
    pub server: Server,
    kind: Kind,
    /// A program that the command is started through, with its arguments; empty: none.
    pub through: Vec<String>,
    /// `cache run --medium`.
    pub medium: String,
    /// `cache run --size`.
    pub size: String,
}

impl Tiered {
    /// A new server, which runs without the tier until [`Tiered::start`].
    pub fn new(kind: Kind) -> Self {
        let server = Server::start(kind, &OPTIONS);
        let medium = format!("file:{}", server.folder().join("cache").display());
        Self {
            server,
            kind,
            through: Vec::new(),
            medium,
            size: "96M".into(),
        }
    }

    /// Starts the stopped server with its tier.
    pub fn start(&mut self) {
        let mut prefix = self.through.clone();
        prefix.extend([
            "env".to_owned(),
            format!("UPSHIFT_TIER_LIBRARY={}", library().display()),
            env!("CARGO_BIN_EXE_upshift-cache").to_owned(),
            "run".to_owned(),
            format!("--size={}", self.size),
            // Sums are long sequential runs.
            "--cutoff=0".to_owned(),
            format!("--medium={}", self.medium),
            format!("--status={}", self.status().display()),
            "--".to_owned(),
        ]);
        self.server.set_prefix(&prefix);
        self.server.restart();
    }

    /// The file of the statistics page.
    pub fn status(&self) -> PathBuf {
        self.server.folder().join("status")
    }

    /// The file that the tier keeps pages in, where its medium is one.
    pub fn file(&self) -> &Path {
        let (_, path) = self.medium.split_once(':').expect("a medium with a file");
        Path::new(path)
    }

    /// A command on this server's tier.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        ask(&self.status(), arguments)
    }

    /// The same, while `keep` gives the server something to do: it answers at a read or write.
    pub fn ask_while(&self, arguments: &[&str], mut keep: impl FnMut()) -> Output {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| self.ask(arguments));
            while !asked.is_finished() {
                keep();
            }
            asked.join().expect("the command ends")
        })
    }

    /// What `upshift cache stat` says.
    pub fn stat(&self) -> Value {
        let done = self.ask(&["stat", "--json"]);
        serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", text(&done), self.server.log()))
    }

    /// How the tier started: `warm: N pages` or `cold: reason`.
    pub fn began(&self) -> String {
        self.stat()["start"].as_str().expect("a text").to_owned()
    }

    /// One of the tier's counters.
    pub fn counter(&self, name: &str) -> u64 {
        self.stat()["counters"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// `innochecksum` on every .ibd file of the stopped server. Not on ibdata1, whose page 64, the first of MariaDB's doublewrite
    /// buffer, it finds invalid after a load, with the tier and without.
    pub fn check_files(&self) {
        let files = tablespaces(&self.server.data());
        assert!(
            files.iter().any(|file| file.ends_with("bank/account.ibd")),
            "{files:?}"
        );
        for file in files {
            let done = Command::new(self.innochecksum())
                .arg(&file)
                .output()
                .expect("innochecksum is installed");
            assert!(done.status.success(), "{}: {}", file.display(), text(&done));
        }
    }

    /// The one that belongs to the server.
    fn innochecksum(&self) -> PathBuf {
        match self.kind {
            Kind::MySql => {
                Path::new(&std::env::var_os(MYSQLD).expect(MYSQLD)).with_file_name("innochecksum")
            }
            _ => "innochecksum".into(),
        }
    }
}

/// A command on the tier of a statistics page.
fn ask(status: &Path, arguments: &[&str]) -> Output {
    cache(arguments)
        .arg("--status")
        .arg(status)
        .output()
        .expect("upshift-cache runs")
}

/// Wait until the statistics page of a running server tells of hits: a killed server's page has what it last wrote there.
pub fn wait_for_hits(status: &Path) {
    let until = Instant::now() + HITS_MAX;
    while Instant::now() < until {
        let done = ask(status, &["stat", "--json"]);
        let said: Option<Value> = serde_json::from_slice(&done.stdout).ok();
        if said.is_some_and(|stat| stat["counters"]["hits"].as_u64() > Some(0)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the tier had no hits for {} s", HITS_MAX.as_secs());
}

/// Files of InnoDB's in a data folder.
fn tablespaces(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a data folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(tablespaces(&path));
        } else if path.extension().is_some_and(|end| end == "ibd") {
            found.push(path);
        }
    }
    found
}
