//! The same load as four witnesses saw it: the proxy, tcpdump, the load's own recording, and the server's counters. They have to agree
//! on every statement, row and byte.

mod by_statement;
#[path = "../common/mod.rs"]
mod common;
mod counted;
mod packets;
mod proxied;
mod recorded;

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use common::{Capture, Folder, records, text};
use loadgen::cli::{LoadOptions, run_workload};
use loadgen::oltp::{self, Distribution, Oltp, Script};
use packets::Packets;
use proxied::Proxied;
use recorded::Recorded;
use testserver::{Kind, Server, free_port, run};
use wire::{Family, ServerUrl};

/// So many rows that no two transactions wait for each other for long.
const TABLES: oltp::Options = oltp::Options {
    tables: 2,
    table_size: 10_000,
    range_size: 100,
    distribution: Distribution::Uniform,
};
const CONNECTIONS: u32 = 4;
const TRANSACTIONS: u64 = 60;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: LoadOptions,
}

/// What `upshift load oltp read_write run --record` does.
fn load(url: &str, protocol: &str, record: &Path) {
    let (connections, transactions) = (CONNECTIONS.to_string(), TRANSACTIONS.to_string());
    let line = Line::parse_from([
        "load",
        "--server",
        url,
        "--connections",
        &connections,
        "--max-transactions",
        &transactions,
        "--seconds",
        "120",
        "--protocol",
        protocol,
        "--record",
        text(record),
    ]);
    let workload = Arc::new(Oltp::new(Script::ReadWrite, TABLES));
    run_workload(workload, &line.options).expect("the load ends well");
}

/// A server on a port, with a user for it and filled tables.
fn filled(kind: Kind) -> Server {
    let options: &[&str] = match kind {
        Kind::Postgres => &[],
        Kind::MariaDb | Kind::MySql => &["--performance-schema=ON"],
    };
    let server = Server::start_with_tls(kind, options);
    let url = ServerUrl::parse(&server.create("t")).expect("valid");
    let mut root = server.connect("t").expect("a login");
    if kind == Kind::Postgres {
        run(&mut *root, "CREATE ROLE app LOGIN SUPERUSER");
    } else {
        run(&mut *root, "CREATE USER app@'127.0.0.1'");
        run(&mut *root, "GRANT ALL ON *.* TO app@'127.0.0.1'");
    }
    let connector: loadgen::session::Connector = Arc::new(move || wire::connect(&url));
    oltp::prepare(&connector, &TABLES, 2, false, 1).expect("fills");
    server
}

/// What a trace has otherwise than a witness, in words.
type Differs = Box<dyn Fn(&Proxied) -> Vec<String>>;

/// The server's counters, from now on until they are asked for.
fn account(server: &Server) -> Box<dyn FnOnce() -> Differs> {
    match server.kind() {
        Kind::Postgres => {
            let account = by_statement::Account::open(server);
            Box::new(move || {
                let counted = account.close();
                Box::new(move |proxied| counted.differs_from(proxied))
            })
        }
        Kind::MariaDb | Kind::MySql => {
            let mut account = counted::Account::open(server);
            Box::new(move || {
                let counted = account.close();
                Box::new(move |proxied| counted.differs_from(proxied))
            })
        }
    }
}

fn all_witnesses_agree(kind: Kind) {
    let (scheme, family) = match kind {
        Kind::Postgres => ("postgres", Family::Postgres),
        Kind::MariaDb | Kind::MySql => ("mysql", Family::Mysql),
    };
    let server = filled(kind);
    let folder = Folder::new();
    let (trace, listen) = (folder.file("t"), format!("127.0.0.1:{}", free_port()));
    let url = server.url_over_tcp("", "");
    let arguments = [
        "--server",
        &url,
        "--listen",
        &listen,
        "--json",
        text(&trace),
    ];
    let capture = Capture::start(&arguments);
    // From here on, behind the capture's own look at the server.
    let packets = Packets::start(&folder, server.port());
    let account = account(&server);
    let recordings = ["prepared", "text"].map(|protocol| {
        let recording = folder.file(protocol);
        load(&format!("{scheme}://app@{listen}/t"), protocol, &recording);
        recording
    });
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let counted = account();
    let proxied = Proxied::new(&records(&trace));
    proxied.is_whole();
    assert_eq!(
        proxied.requests() as u64,
        summary(&ended.stdout, "requests")
    );
    if let Some(packets) = packets {
        let captured = Proxied::new(&packets.end(&url));
        captured.is_whole();
        assert_eq!(proxied.differs_from(&captured), NOTHING);
    }
    let recorded = Recorded::of(family, &recordings);
    assert_eq!(recorded.transactions, 2 * TRANSACTIONS);
    assert_eq!(recorded.differs_from(&proxied), NOTHING);
    assert_eq!(counted(&proxied), NOTHING);
    each_of_them_misses_a_statement(&proxied, &recorded, &counted);
}

const NOTHING: Vec<String> = Vec::new();

/// So that the above can fail: a statement that the proxy had not seen, and a row.
fn each_of_them_misses_a_statement(proxied: &Proxied, recorded: &Recorded, counted: &Differs) {
    for verb in ["select", "update", "insert", "delete", "begin", "commit"] {
        let less = proxied.without_one(verb);
        assert_ne!(proxied.differs_from(&less), NOTHING, "{verb}");
        assert_ne!(recorded.differs_from(&less), NOTHING, "{verb}");
        assert_ne!(counted(&less), NOTHING, "{verb}");
    }
    let less = proxied.with_a_row_less();
    assert_ne!(proxied.differs_from(&less), NOTHING);
    assert_ne!(recorded.differs_from(&less), NOTHING);
    assert_ne!(counted(&less), NOTHING);
}

fn summary(stdout: &str, key: &str) -> u64 {
    let summary: serde_json::Value = serde_json::from_str(stdout).expect("JSON");
    summary[key].as_u64().expect("a number")
}

#[test]
fn mariadb() {
    all_witnesses_agree(Kind::MariaDb);
}

#[test]
fn postgres() {
    all_witnesses_agree(Kind::Postgres);
}

#[test]
fn mysql() {
    if Server::has_mysql() {
        all_witnesses_agree(Kind::MySql);
    }
}
