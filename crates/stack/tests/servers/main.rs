//! Real servers and real clients, with the proxy between them.

#[path = "../common/mod.rs"]
mod common;
mod killed;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Capture, Folder, records, statements, text, until};
use testserver::{Kind, Server, one, run};
use wire::{Connection, ServerUrl};

fn connect(url: &str) -> Box<dyn Connection> {
    wire::connect(&ServerUrl::parse(url).expect("valid")).expect("a login")
}

/// The URL of a socket.
fn at(server: &Server, socket: &Path, database: &str) -> String {
    let scheme = match server.kind() {
        Kind::MariaDb | Kind::MySql => "mysql",
        Kind::Postgres => "postgres",
    };
    format!("{scheme}://@/{database}?socket={}", socket.display())
}

/// A server's own socket file.
fn socket(server: &Server) -> PathBuf {
    match server.kind() {
        Kind::MariaDb | Kind::MySql => server.folder().join("s"),
        Kind::Postgres => server.folder().join(".s.PGSQL.5432"),
    }
}

/// What a server's own client program says to a statement.
fn program(server: &Server, socket: &Path, sql: &str) -> Output {
    let mut command = match server.kind() {
        Kind::Postgres => {
            let mut command = Command::new("psql");
            let folder = socket.parent().expect("a folder");
            command.args(["-X", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"]);
            command.arg(folder).args(["-c", sql]);
            command
        }
        Kind::MariaDb | Kind::MySql => {
            let name = match server.kind() {
                Kind::MariaDb => "mariadb".to_owned(),
                _ => {
                    let server = std::env::var(testserver::MYSQLD).expect("a server");
                    text(&Path::new(&server).with_file_name("mysql")).to_owned()
                }
            };
            let mut command = Command::new(name);
            command.args(["--no-defaults", "-N", "-B", "-uroot", "-e", sql, "-S"]);
            command.arg(socket);
            command
        }
    };
    command.output().expect("the client program")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A capture of a server beside its own socket.
fn beside(server: &Server, folder: &Folder, more: &[&str]) -> (Capture, PathBuf) {
    let listen = folder.file(".s.PGSQL.5432");
    let (url, trace) = (server.url(""), folder.file("t"));
    let mut arguments = vec!["--server", &url, "--listen", text(&listen), text(&trace)];
    arguments.extend(more);
    (Capture::start(&arguments), listen)
}

/// Sixteen mebibytes and what a packet needs around them, where the server takes so much.
const LARGE: usize = 16 * 1024 * 1024;

fn clients_of(server: &Server) {
    let folder = Folder::new();
    let (capture, listen) = beside(server, &folder, &["--json"]);
    drop(server.create("shop"));
    let large = format!(
        "{}&max_allowed_packet=67108864",
        at(server, &listen, "shop")
    );
    let mut through = connect(&large);
    run(&mut *through, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)");
    run(&mut *through, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    assert_eq!(one(&mut *through, "SELECT b FROM t WHERE a = 2"), "two");
    // More than one packet of MySQL's, both ways.
    let text = one(
        &mut *through,
        &format!("SELECT CONCAT('{}', 'end')", "x".repeat(LARGE + 100)),
    );
    assert_eq!((text.len(), &text[LARGE + 98..]), (LARGE + 103, "xxend"));
    // The programs say the same through the proxy as without it, errors too.
    for sql in ["SELECT 6 * 7", "SELECT b FROM t", "SELEKT"] {
        let (with, without) = (
            program(server, &listen, sql),
            program(server, &socket(server), sql),
        );
        assert_eq!(
            (with.status, with.stdout, with.stderr),
            (without.status, without.stdout, without.stderr)
        );
    }
    let answer = said(&program(server, &listen, "SELECT 6 * 7"));
    assert_eq!(answer.trim(), "42");
    drop(through);
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!listen.exists());
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(summary["connections"], 5);
    assert!(summary["bytes_sent"].as_u64().expect("a number") > LARGE as u64);
    assert!(summary["bytes_received"].as_u64().expect("a number") > LARGE as u64);
    assert!(summary["proxy"]["added_us_p50"].as_f64().expect("measured") > 0.0);
    assert_eq!(summary["unread_connections"], serde_json::json!({}));
    // And the trace has it all.
    let all = records(&folder.file("t"));
    assert_eq!(all.last().expect("an end")["whole"], true);
    let statements = statements(&all);
    assert_eq!(summary["requests"], statements.len());
    for sql in [
        "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
        "SELECT 6 * 7",
        "SELEKT",
    ] {
        assert!(
            statements.iter().any(|(_, sent)| sent == sql),
            "{sql}: {statements:?}"
        );
    }
    // Ours, the programs' four, and the session of each.
    let sessions: Vec<_> = all
        .iter()
        .filter(|each| each["record"] == "session")
        .collect();
    let (programs, character_set) = match server.kind() {
        Kind::Postgres => ("postgres".into(), "UTF8"),
        Kind::MariaDb | Kind::MySql => (serde_json::Value::Null, "utf8mb4"),
    };
    assert_eq!(sessions.len(), 5);
    assert_eq!(
        (&sessions[0]["database"], &sessions[0]["character_set"]),
        (&"shop".into(), &character_set.into())
    );
    assert!(
        sessions[1..]
            .iter()
            .all(|each| each["database"] == programs)
    );
    let refused = all.iter().find(|each| each["sql"] == "SELEKT");
    let state = &refused.expect("an exchange")["error"]["sqlstate"];
    assert!(state == "42000" || state == "42601", "{state}");
}

/// The server's own socket is taken and given back.
fn taken_place(server: &Server) {
    let (folder, path) = (Folder::new(), socket(server));
    let before = fs::metadata(&path).expect("a socket");
    let identity =
        |path: &Path| fs::metadata(path).map(|found| (found.ino(), found.mode(), found.uid()));
    let (ours, url) = (identity(&path).expect("there"), server.url(""));
    let mut was_there = server.connect(system(server)).expect("a login");
    let start = |trace: &str| {
        let trace = folder.file(trace);
        let arguments = ["--server", &url, "--take-socket", "--json", text(&trace)];
        Capture::start(&arguments)
    };
    let capture = start("a");
    let taken = fs::metadata(&path).expect("ours");
    assert_ne!(taken.ino(), before.ino());
    assert_eq!((taken.mode(), taken.uid()), (before.mode(), before.uid()));
    assert_eq!(said(&program(server, &path, "SELECT 1")).trim(), "1");
    assert_eq!(one(&mut *was_there, "SELECT 2"), "2");
    // A second capture does not get it.
    let trace = folder.file("b");
    let refused = Capture::try_start(&["--server", &url, "--take-socket", text(&trace)]);
    let refused = refused.err().expect("taken");
    assert!(
        refused.stderr.contains("another capture"),
        "{}",
        refused.stderr
    );
    assert!(!trace.exists());
    capture.signal(libc::SIGTERM);
    let ended = capture.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    // The client, and the second capture's look.
    assert_eq!(summary["connections"], 2);
    assert_eq!(identity(&path).expect("given back"), ours);
    // Killed: its guard gives the place back.
    let capture = start("c");
    capture.signal(libc::SIGKILL);
    until("the guard gives the socket back", || {
        identity(&path).is_ok_and(|found| found == ours)
    });
    drop(capture.wait());
    assert_eq!(said(&program(server, &path, "SELECT 1")).trim(), "1");
    // Killed with its guard: the next capture puts the socket back first.
    let capture = start("d");
    let guard = guard_of(capture.pid());
    // SAFETY: kill touches no memory; the guard is a child of the capture, which has not waited for it.
    assert_eq!(unsafe { libc::kill(guard, libc::SIGKILL) }, 0);
    capture.signal(libc::SIGKILL);
    drop(capture.wait());
    assert!(!program(server, &path, "SELECT 1").status.success());
    let capture = start("e");
    assert!(
        capture.said.contains("put the server's socket back"),
        "{}",
        capture.said
    );
    assert_eq!(said(&program(server, &path, "SELECT 1")).trim(), "1");
    assert_eq!(capture.stop().code, Some(0));
    assert_eq!(identity(&path).expect("given back"), ours);
    assert_eq!(one(&mut *was_there, "SELECT 2"), "2");
}

fn system(server: &Server) -> &'static str {
    match server.kind() {
        Kind::MariaDb | Kind::MySql => "mysql",
        Kind::Postgres => "postgres",
    }
}

/// The process that the capture started.
fn guard_of(pid: i32) -> i32 {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(children).expect("a process");
    let mut children = children.split_whitespace();
    children.next().expect("a guard").parse().expect("a number")
}

/// What is refused before anything is changed.
fn refusals(server: &Server) {
    let folder = Folder::new();
    let (trace, listen) = (folder.file("t"), folder.file("p"));
    let own = socket(server);
    let wrong = match server.kind() {
        Kind::Postgres => format!("mysql://?socket={}", own.display()),
        _ => format!("postgres://?socket={}", own.display()),
    };
    let refused = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.push(text(&trace));
        let ended = Capture::try_start(&all).err().expect("refused");
        assert!(!trace.exists());
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
        ended.stderr
    };
    let said = refused(&["--server", &wrong, "--listen", text(&listen)]);
    assert!(
        said.contains("speaks") && said.contains("begin its URL with"),
        "{said}"
    );
    let said = refused(&["--server", &wrong, "--take-socket"]);
    assert!(said.contains("speaks"), "{said}");
    let url = server.url("");
    let said = refused(&["--server", &url, "--listen", text(&own)]);
    assert!(said.contains("another program listens on") && said.contains("--take-socket"));
    let said = refused(&["--server", &url, "--listen", "127.0.0.1:0"]);
    assert!(said.contains("--share-identity"), "{said}");
    assert_eq!(server.connect(system(server)).map(|_| ()).ok(), Some(()));
}

/// A trace that can grow no more: the traffic goes on.
fn full_disk(server: &Server) {
    let folder = Folder::new();
    let (url, listen, trace) = (
        server.url(""),
        folder.file(".s.PGSQL.5432"),
        folder.file("t"),
    );
    // A file of 16 KiB at most: the system refuses the rest, as a full disk does.
    let limited = "ulimit -f 16; trap '' XFSZ; exec \"$0\" \"$@\"";
    let capture = Capture::start_by(
        &["bash", "-c", limited],
        &[
            "--server",
            &url,
            "--listen",
            text(&listen),
            "--json",
            text(&trace),
        ],
    );
    let mut client = connect(&at(server, &listen, system(server)));
    for number in 0..2000 {
        // Nothing that could be compressed.
        let sql = format!(
            "SELECT '{:x}'",
            u128::from(number as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        );
        drop(one(&mut *client, &sql));
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(one(&mut *client, "SELECT 5"), "5");
    let ended = capture.stop();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("WARNING: the trace ends here, the traffic goes on"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("ERROR: "), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert!(
        summary["stopped"]
            .as_str()
            .is_some_and(|why| !why.is_empty())
    );
    let all = records(&trace);
    assert!(std::fs::metadata(&trace).expect("there").len() <= 16 * 1024);
    assert_eq!(all[0]["record"], "begin");
}

/// TLS passes through, and is named.
fn encrypted(kind: Kind) {
    let server = Server::start_with_tls(kind, &[]);
    let folder = Folder::new();
    let (trace, port) = (folder.file("t"), testserver::free_port());
    let listen = format!("127.0.0.1:{port}");
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
    let through = server
        .url_over_tcp("", system(&server))
        .replace(&format!(":{}/", server.port()), &format!(":{port}/"));
    let ca = server.certificates().ca.display().to_string();
    let mut secret = connect(&format!("{through}?tls=verify&tls-ca={ca}"));
    assert_eq!(one(&mut *secret, "SELECT 'secret'"), "secret");
    let mut open = connect(&through);
    assert_eq!(one(&mut *open, "SELECT 'open'"), "open");
    drop((secret, open));
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(
        summary["unread_connections"],
        serde_json::json!({"encrypted": 1})
    );
    let statements = statements(&records(&trace));
    assert!(statements.iter().any(|(_, sql)| sql == "SELECT 'open'"));
    assert!(!statements.iter().any(|(_, sql)| sql.contains("secret")));
}

#[test]
fn encrypted_mariadb() {
    encrypted(Kind::MariaDb);
}

#[test]
fn encrypted_postgres() {
    encrypted(Kind::Postgres);
}

fn all(mut server: Server) {
    clients_of(&server);
    killed::capture(&server);
    killed::within_an_answer(&server);
    full_disk(&server);
    taken_place(&server);
    refusals(&server);
    killed::server(&mut server);
}

#[test]
fn mariadb() {
    all(Server::mariadb(&["--max-allowed-packet=64M"]));
}

#[test]
fn postgres() {
    all(Server::postgres(&[]));
}

#[test]
fn mysql() {
    if let Some(server) = Server::mysql(&["--max-allowed-packet=64M"]) {
        all(server);
    }
}

/// A thousand logins of one server, and who each client is.
#[test]
fn a_thousand_logins_and_their_users() {
    let server = Server::mariadb(&["--max-connections=1100"]);
    let folder = Folder::new();
    let (capture, listen) = beside(&server, &folder, &["--json"]);
    let url = at(&server, &listen, "mysql");
    let mut clients: Vec<_> = (0..1000).map(|_| connect(&url)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(
            one(&mut **client, &format!("SELECT {number}")),
            number.to_string()
        );
    }
    drop(clients);
    // Only root can be somebody else than itself.
    if fs::metadata("/proc/self").expect("Linux").uid() == 0 {
        let mut admin = server.connect("mysql").expect("a login");
        run(
            &mut *admin,
            "CREATE USER nobody@localhost IDENTIFIED VIA unix_socket",
        );
        run(
            &mut *admin,
            "ALTER USER root@localhost IDENTIFIED VIA unix_socket",
        );
        let login = |user: &str| {
            let client = [
                "-u",
                "nobody",
                "--",
                "mariadb",
                "--no-defaults",
                "-N",
                "-B",
                "-u",
                user,
            ];
            let mut command = Command::new("runuser");
            command
                .args(client)
                .args(["-e", "SELECT 1", "-S"])
                .arg(&listen);
            command.current_dir("/").output().expect("a client")
        };
        assert_eq!(said(&login("nobody")).trim(), "1");
        let refused = login("root");
        assert!(!refused.status.success(), "nobody became root through us");
    } else {
        eprintln!("NOT RUN: only root has clients of another user");
    }
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert!(summary["connections"].as_u64().expect("a number") >= 1000);
}
