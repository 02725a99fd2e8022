//! TLS that ends in the proxy: real servers with TLS and without it, real clients with it and without it.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Capture, Ended, Folder, records, statements, text};
use serde_json::Value;
use testserver::{ALL, Certificates, Kind, Server, one, run};
use wire::{Connection, Error, ServerUrl};

const SECRET: &str = "SELECT 'secret'";

/// A proxy on a port, with a certificate of its own.
struct Proxy {
    folder: Folder,
    certificates: Certificates,
    port: u16,
    capture: Capture,
}

impl Proxy {
    fn start(server: &str, more: &[&str]) -> Self {
        let folder = Folder::new();
        let certificates = Certificates::make(folder.0.path());
        Self::with(server, folder, certificates, more)
    }

    fn with(server: &str, folder: Folder, certificates: Certificates, more: &[&str]) -> Self {
        let (port, trace) = (testserver::free_port(), folder.file("t"));
        let listen = format!("127.0.0.1:{port}");
        let (certificate, key) = (&certificates.certificate, &certificates.key);
        let mut arguments = vec!["--server", server, "--listen", &listen, "--json"];
        arguments.extend(["--tls-certificate", text(certificate)]);
        arguments.extend(["--tls-key", text(key), text(&trace)]);
        arguments.extend(more);
        let capture = Capture::start(&arguments);
        assert!(capture.said.contains("TLS ends here"), "{}", capture.said);
        Self {
            folder,
            certificates,
            port,
            capture,
        }
    }

    /// A login through it, which takes nobody else's certificate; or without TLS.
    fn login(
        &self,
        family: &str,
        login: &str,
        database: &str,
        tls: bool,
    ) -> Result<Box<dyn Connection>, Error> {
        let ca = self.certificates.ca.display();
        let options = match tls {
            true => format!("tls=verify&tls-ca={ca}&max_allowed_packet=67108864"),
            false => "max_allowed_packet=67108864".to_owned(),
        };
        let url = format!(
            "{family}://{login}@127.0.0.1:{}/{database}?{options}",
            self.port
        );
        wire::connect(&ServerUrl::parse(&url).expect("valid"))
    }

    fn end(self) -> (Value, Vec<Value>) {
        let ended = self.capture.stop();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let summary = serde_json::from_str(&ended.stdout).expect("JSON");
        (summary, records(&self.folder.file("t")))
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The bytes of each exchange with this statement.
fn bytes_of(records: &[Value], sql: &str) -> Vec<[u64; 2]> {
    let each = records.iter().filter(|each| each["sql"] == sql);
    let number = |value: &Value| value.as_u64().expect("a number");
    each.map(|each| [number(&each["bytes_sent"]), number(&each["bytes_received"])])
        .collect()
}

fn sessions(records: &[Value]) -> Vec<bool> {
    let each = records.iter().filter(|each| each["record"] == "session");
    each.map(|each| each["tls"].as_bool().expect("a flag"))
        .collect()
}

/// Statements of clients with TLS and without it are read alike, however long they are.
fn everything_is_read(
    family: &str,
    proxy: &Proxy,
    login: &str,
    database: &str,
    has_cipher: Option<&str>,
) {
    for tls in [true, false] {
        let mut client = proxy.login(family, login, database, tls).expect("a login");
        assert_eq!(one(&mut *client, SECRET), "secret");
        let refused = client.query("SELEKT", ALL, &mut ());
        assert!(matches!(refused, Err(Error::Server { .. })));
        let prepared = client.prepare("SELECT 1 + ?").expect("prepares");
        client
            .execute(&prepared, &[wire::Value::Int(4)], ALL, &mut ())
            .expect("executes");
        let long = one(
            &mut *client,
            &format!("SELECT CONCAT('{}', 'end')", "x".repeat(17 << 20)),
        );
        assert_eq!(long.len(), (17 << 20) + 3);
        if let Some(question) = has_cipher {
            let cipher = one(&mut *client, question);
            assert!(cipher.starts_with("TLS") || cipher == "true", "{cipher}");
        }
    }
}

fn everything_was_read(summary: &Value, records: &[Value], with_tls: &[bool]) {
    assert_eq!(summary["unread_connections"], serde_json::json!({}));
    assert_eq!(summary["gap_bytes"], 0);
    assert_eq!(sessions(records), with_tls);
    let bytes = bytes_of(records, SECRET);
    assert_eq!(bytes.len(), 2);
    assert_eq!(bytes[0], bytes[1], "what TLS adds is not counted");
    let statements = statements(records);
    for begin in ["SELEKT", "SELECT 1 + "] {
        let found = statements
            .iter()
            .filter(|(_, sent)| sent.starts_with(begin));
        assert!(found.count() >= 2, "{begin}: {statements:?}");
    }
}

/// What MariaDB's or MySQL's own client says.
fn mysql_client(server: &Server, proxy: &Proxy, more: &[&str], sql: &str) -> Output {
    let (name, own): (_, &[&str]) = match server.kind() {
        Kind::MySql => {
            let program = std::env::var(testserver::MYSQLD).expect("a server");
            let client = Path::new(&program).with_file_name("mysql");
            // Newer ones know "status" only when told so; older ones do not know that they can be.
            (client, &["--ssl-mode=VERIFY_IDENTITY", "--loose-commands"])
        }
        _ => ("mariadb".into(), &["--ssl-verify-server-cert"]),
    };
    let mut command = Command::new(name);
    command.args(["--no-defaults", "-N", "-B", "-h127.0.0.1"]);
    command.args(own);
    command.arg(format!("--port={}", proxy.port));
    command.args(more).args(["-e", sql]);
    command.output().expect("the client program")
}

fn mysql_without_tls_behind(kind: Kind) {
    let server = Server::start(kind, &["--max-allowed-packet=64M"]);
    drop(server.create("shop"));
    let proxy = Proxy::start(&server.url(""), &["--share-identity"]);
    everything_is_read("mysql", &proxy, "root", "shop", None);
    let (summary, records) = proxy.end();
    everything_was_read(&summary, &records, &[true, false]);
    // The server's own client, which checks the certificate; and one that knows another authority.
    let proxy = Proxy::start(&server.url(""), &["--share-identity"]);
    let ca = format!("--ssl-ca={}", proxy.certificates.ca.display());
    let status = said(&mysql_client(&server, &proxy, &["-uroot", &ca], "status"));
    assert!(status.contains("Cipher in use is TLS"), "{status}");
    let others = Folder::new();
    let other = Certificates::make(others.0.path());
    let ca = format!("--ssl-ca={}", other.ca.display());
    let refused = mysql_client(&server, &proxy, &["-uroot", &ca], "SELECT 1");
    assert!(!refused.status.success());
    let (summary, _) = proxy.end();
    assert_eq!(summary["proxy"]["tls_broken"], 1, "{summary}");
    let why = summary["proxy"]["tls_why"].as_str().expect("a reason");
    assert!(why.starts_with("TLS with a client: "), "{why}");
}

fn mysql_with_tls_behind(kind: Kind) {
    let server = Server::start_with_tls(kind, &["--max-allowed-packet=64M"]);
    let mut admin = server.connect("mysql").expect("a login");
    run(&mut *admin, "CREATE DATABASE shop");
    run(
        &mut *admin,
        "CREATE USER safe@127.0.0.1 IDENTIFIED BY 's' REQUIRE SSL",
    );
    run(&mut *admin, "GRANT ALL ON shop.* TO safe@127.0.0.1");
    let ca = server.certificates().ca.display().to_string();
    let url = format!("{}?tls=verify&tls-ca={ca}", server.url_over_tcp("", ""));
    let proxy = Proxy::start(&url, &[]);
    assert!(proxy.capture.said.contains("encrypted again"));
    // The first login of MySQL's default method sends the password itself.
    drop(
        proxy
            .login("mysql", "safe:s", "shop", true)
            .expect("a login"),
    );
    let cipher = "SELECT IF(variable_value = '', 'none', variable_value) FROM session_status WHERE variable_name = 'Ssl_cipher'";
    let schema = match kind {
        Kind::MySql => "performance_schema",
        _ => "information_schema",
    };
    let cipher = cipher.replace("session_status", &format!("{schema}.session_status"));
    everything_is_read("mysql", &proxy, "safe:s", "shop", Some(&cipher));
    let (summary, records) = proxy.end();
    everything_was_read(&summary, &records, &[true, true, false]);
}

#[test]
fn mariadb() {
    mysql_without_tls_behind(Kind::MariaDb);
    mysql_with_tls_behind(Kind::MariaDb);
}

#[test]
fn mysql() {
    if Server::has_mysql() {
        mysql_without_tls_behind(Kind::MySql);
        mysql_with_tls_behind(Kind::MySql);
    }
}

/// A PostgreSQL whose user `scram` has a password.
fn postgres_with_a_password() -> Server {
    let server = Server::start_with_tls(Kind::Postgres, &[]);
    let access = server.data().join("pg_hba.conf");
    let rules = fs::read_to_string(&access).expect("rules");
    let rule = "host all scram 127.0.0.1/32 scram-sha-256\n";
    fs::write(&access, format!("{rule}{rules}")).expect("written");
    let mut admin = server.connect("postgres").expect("a login");
    assert_eq!(one(&mut *admin, "SELECT pg_reload_conf()"), "t");
    run(&mut *admin, "SET password_encryption = 'scram-sha-256'");
    run(&mut *admin, "CREATE ROLE scram LOGIN PASSWORD 's'");
    server
}

fn psql(proxy: &Proxy, options: &str, sql: &str) -> Output {
    let mut command = Command::new("psql");
    let place = format!(
        "host=127.0.0.1 port={} user=scram dbname=postgres",
        proxy.port
    );
    command.args([
        "-X",
        "-A",
        "-t",
        "-d",
        &format!("{place} {options}"),
        "-c",
        sql,
    ]);
    command.env("PGPASSWORD", "s").output().expect("psql")
}

#[test]
fn postgres() {
    let server = postgres_with_a_password();
    let question = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    // Towards the server without TLS: it does not offer to bind the login to the connection.
    let proxy = Proxy::start(&server.url_over_tcp("", ""), &[]);
    assert!(
        proxy.capture.said.contains("WARNING"),
        "{}",
        proxy.capture.said
    );
    everything_is_read("postgres", &proxy, "scram:s", "postgres", None);
    let (summary, all) = proxy.end();
    everything_was_read(&summary, &all, &[true, false]);
    let proxy = Proxy::start(&server.url_over_tcp("", ""), &[]);
    let ca = proxy.certificates.ca.display().to_string();
    let verify = format!("sslmode=verify-full sslrootcert={ca}");
    assert_eq!(said(&psql(&proxy, &verify, question)).trim(), "false");
    let bound = psql(
        &proxy,
        &format!("{verify} channel_binding=require"),
        question,
    );
    assert!(!bound.status.success(), "{bound:?}");
    let (_, all) = proxy.end();
    assert!(statements(&all).iter().any(|(_, sql)| sql == question));
    // With TLS behind it: a login that is bound needs the server's own certificate.
    let server_ca = server.certificates().ca.display().to_string();
    let url = format!(
        "{}?tls=verify&tls-ca={server_ca}",
        server.url_over_tcp("", "")
    );
    let proxy = Proxy::start(&url, &[]);
    let ca = proxy.certificates.ca.display().to_string();
    let verify = format!("sslmode=verify-full sslrootcert={ca}");
    let unbound = format!("{verify} channel_binding=disable");
    assert_eq!(said(&psql(&proxy, &unbound, question)).trim(), "true");
    assert_eq!(
        said(&psql(&proxy, "sslmode=disable", question)).trim(),
        "true"
    );
    let refused = psql(&proxy, &verify, question);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("channel binding"), "{words}");
    drop(proxy.end());
    let folder = Folder::new();
    let same = Certificates {
        ca: server.certificates().ca.clone(),
        certificate: server.certificates().certificate.clone(),
        key: server.certificates().key.clone(),
    };
    let proxy = Proxy::with(&url, folder, same, &[]);
    let bound = format!("sslmode=verify-full sslrootcert={server_ca} channel_binding=require");
    assert_eq!(said(&psql(&proxy, &bound, question)).trim(), "true");
    everything_is_read("postgres", &proxy, "scram:s", "postgres", Some(question));
    let (summary, _) = proxy.end();
    assert_eq!(summary["unread_connections"], serde_json::json!({}));
}

/// What is refused before anything is changed.
#[test]
fn refusals() {
    let folder = Folder::new();
    let (files, trace) = (Certificates::make(folder.0.path()), folder.file("t"));
    let server = Server::mariadb(&[]);
    let refused = |url: &str, certificate: &Path, key: &Path| -> Ended {
        let listen = folder.file("p");
        let mut arguments = vec!["--server", url, "--listen", text(&listen), text(&trace)];
        arguments.extend([
            "--tls-certificate",
            text(certificate),
            "--tls-key",
            text(key),
        ]);
        let ended = Capture::try_start(&arguments).err().expect("refused");
        assert!(!trace.exists() && !listen.exists());
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
        ended
    };
    let (url, certificate, key) = (server.url(""), &files.certificate, &files.key);
    let ended = refused(&url, key, key);
    assert!(
        ended.stderr.contains("no certificate in PEM format"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.code, Some(2));
    let ended = refused(&url, certificate, &folder.file("missing.pem"));
    assert!(ended.stderr.contains("missing.pem"), "{}", ended.stderr);
    let ended = refused(&url, &files.ca, key);
    assert!(
        ended.stderr.contains("is not the key of the certificate"),
        "{}",
        ended.stderr
    );
    let ended = refused(&format!("{url}&tls=required"), certificate, key);
    assert!(ended.stderr.contains("offers no TLS"), "{}", ended.stderr);
    // One option of the two; TLS towards the server alone; a certificate that is not the authority's.
    let half = [
        "--server",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--tls-key",
        text(key),
        text(&trace),
    ];
    let ended = Capture::try_start(&half).err().expect("refused");
    assert!(
        ended.stderr.contains("--tls-certificate"),
        "{}",
        ended.stderr
    );
    let towards = format!("{url}&tls=required");
    let alone = ["--server", &towards, "--take-socket", text(&trace)];
    let ended = Capture::try_start(&alone).err().expect("refused");
    assert!(
        ended
            .stderr
            .contains("--tls-certificate and --tls-key end TLS"),
        "{}",
        ended.stderr
    );
    assert!(!trace.exists());
    for kind in [Kind::MariaDb, Kind::Postgres] {
        let server = Server::start_with_tls(kind, &[]);
        let url = server.url_over_tcp("", "");
        let other = format!("{url}?tls=verify&tls-ca={}", files.ca.display());
        let ended = refused(&other, certificate, key);
        assert!(
            ended.stderr.contains("no TLS with the server at"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("certificate"), "{}", ended.stderr);
    }
}
