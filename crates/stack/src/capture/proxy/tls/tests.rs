//! A relay between a client and a server of this test's own, that speak TLS and next to nothing else.

use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use wire::passive::Side;
use wire::{ServerUrl, Tls, TlsClient, TlsMode, TlsServer};

use super::{Broken, Ends, Out, Relay};

/// Bytes on their way, and who reads and writes them.
struct Line {
    relay: Relay,
    out: Out,
    client: Peer,
    server: Peer,
    seen: Vec<(Side, Vec<u8>)>,
}

/// One side.
#[derive(Default)]
struct Peer {
    tls: Option<Tls>,
    heard: Vec<u8>,
    /// To the relay.
    says: Vec<u8>,
}

impl Peer {
    fn say(&mut self, plain: &[u8]) {
        match &mut self.tls {
            None => self.says.extend_from_slice(plain),
            Some(tls) => tls.seal(plain, &mut self.says).expect("sealed"),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Some(tls) = &mut self.tls else {
            self.heard.extend_from_slice(bytes);
            return;
        };
        let opened = tls.open(bytes, |plain| self.heard.extend_from_slice(plain));
        tls.seal(&[], &mut self.says).expect("sealed");
        opened.expect("decrypts");
    }

    /// A handshake begins.
    fn encrypts(&mut self, tls: Tls) {
        self.tls = Some(tls);
        self.say(&[]);
    }
}

impl Line {
    fn new(files: &Files, url: &str) -> Self {
        let url = ServerUrl::parse(url).expect("valid");
        let ends = Ends::new(&files.certificate, &files.key, &url).expect("usable");
        Self {
            relay: Relay::new(&Arc::new(ends)),
            out: Out::default(),
            client: Peer::default(),
            server: Peer::default(),
            seen: Vec::new(),
        }
    }

    /// Until nobody has anything to say, so many bytes at a time.
    fn run(&mut self, step: usize) -> Result<(), Broken> {
        while !(self.client.says.is_empty() && self.server.says.is_empty()) {
            for side in [Side::Client, Side::Server] {
                let says = std::mem::take(&mut self.peer(side).says);
                for piece in says.chunks(step) {
                    self.out.clear();
                    let taken = self.relay.take(side, piece, &mut self.out);
                    let seen = self.out.seen().map(|(side, bytes)| (side, bytes.to_vec()));
                    self.seen.extend(seen);
                    for to in [Side::Client, Side::Server] {
                        let bytes = std::mem::take(self.out.to(to));
                        self.peer(to).hear(&bytes);
                    }
                    taken?;
                }
            }
        }
        Ok(())
    }

    fn peer(&mut self, side: Side) -> &mut Peer {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// What the observer knows of a side.
    fn seen_of(&self, side: Side) -> Vec<u8> {
        let seen = self.seen.iter().filter(|(whose, _)| *whose == side);
        seen.flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

pub struct Files {
    folder: TempDir,
    pub certificate: std::path::PathBuf,
    pub key: std::path::PathBuf,
}

impl Files {
    pub fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let (certificate, key) = (file("certificate.pem"), file("key.pem"));
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
        let mut command = Command::new("openssl");
        command
            .args(request.split(' '))
            .arg("-out")
            .arg(&certificate);
        let made = command.arg("-keyout").arg(&key).output().expect("openssl");
        assert!(made.status.success(), "{made:?}");
        Self {
            folder,
            certificate,
            key,
        }
    }

    fn client(&self) -> Tls {
        let client = TlsClient::new(&TlsMode::Required, "localhost").expect("valid");
        client.expect("on").start().expect("begins")
    }

    pub fn server(&self) -> Tls {
        let server = TlsServer::from_files(&self.certificate, &self.key).expect("usable");
        server.accept().expect("begins")
    }
}

const STARTUP: &[u8] = b"\0\0\0\x11\0\x03\0\0user\0me\0\0";

/// Both sides of a PostgreSQL connection, each with TLS or without it, in steps of any length.
#[test]
fn each_side_has_the_tls_that_it_wants() {
    let files = Files::make();
    for (url, dials) in [
        ("postgres://localhost", false),
        ("postgres://localhost?tls=required", true),
    ] {
        for asks in [false, true] {
            for step in [1, 7, 1 << 20] {
                let mut line = Line::new(&files, url);
                if asks {
                    line.client.say(&super::TLS_REQUEST);
                    line.run(step).expect("consents");
                    assert_eq!(line.client.heard, b"S");
                    line.client.heard.clear();
                    line.client.encrypts(files.client());
                    line.run(step).expect("a handshake");
                }
                line.client.say(STARTUP);
                line.run(step).expect("asks");
                if dials {
                    assert_eq!(line.server.heard, super::TLS_REQUEST);
                    line.server.heard.clear();
                    line.server.say(b"S");
                    line.run(step).expect("consents");
                    line.server.encrypts(files.server());
                    // The client's hello has come before the server was ready for it.
                    let hello = std::mem::take(&mut line.server.heard);
                    line.server.hear(&hello);
                    line.run(step).expect("a handshake");
                }
                assert_eq!(line.server.heard, STARTUP, "{url} {asks} {step}");
                let answer = vec![b'R'; 300_000];
                line.server.say(&answer);
                line.run(step.max(1000)).expect("an answer");
                assert!(line.client.heard == answer, "{url} {asks} {step}");
                let request: &[u8] = if asks { &super::TLS_REQUEST } else { b"" };
                assert_eq!(line.seen_of(Side::Client), [request, STARTUP].concat());
                let consent: &[u8] = if asks { b"S" } else { b"" };
                assert!(line.seen_of(Side::Server) == [consent, &answer].concat());
                let mut last = Vec::new();
                line.relay.close(Side::Client, &mut last);
                assert_eq!(last.is_empty(), !asks);
                line.relay.close(Side::Client, &mut last);
                line.client.hear(&last);
            }
        }
    }
}

/// Whoever sends more than that must not keep the proxy's one thread busy.
#[test]
fn what_follows_a_closure_is_nothing() {
    let files = Files::make();
    let mut client = Peer::default();
    let mut server = files.server();
    client.encrypts(files.client());
    let mut answer = Vec::new();
    while server.is_handshaking() {
        server
            .open(&std::mem::take(&mut client.says), |_| ())
            .expect("a handshake");
        server.seal(&[], &mut answer).expect("sealed");
        client.hear(&std::mem::take(&mut answer));
    }
    client.say(b"last");
    let tls = client.tls.as_mut().expect("encrypted");
    tls.close(&mut client.says).expect("a closure");
    let mut heard = Vec::new();
    for sent in [std::mem::take(&mut client.says), vec![0; 1], vec![0; 9000]] {
        server
            .open(&sent, |plain| heard.extend_from_slice(plain))
            .expect("read");
    }
    assert_eq!(heard, b"last");
}

#[test]
fn what_is_no_tls_breaks_the_connection_and_says_why() {
    let files = Files::make();
    let mut line = Line::new(&files, "postgres://localhost");
    line.client.say(&super::TLS_REQUEST);
    line.client.say(b"no handshake at all");
    let broken = line.run(1 << 20).expect_err("no handshake");
    assert!(broken.0.starts_with("TLS with a client: "), "{broken:?}");
    // The client is told.
    assert_eq!(line.client.heard[0], b'S');
    assert_eq!(line.client.heard[1], 21, "an alert");
    let mut line = Line::new(&files, "postgres://localhost?tls=required");
    line.client.say(STARTUP);
    line.run(1 << 20).expect("asks");
    line.server.say(b"S");
    line.run(1 << 20).expect("begins");
    line.server.say(b"no handshake at all");
    let broken = line.run(1 << 20).expect_err("no handshake");
    assert!(broken.0.starts_with("TLS with the server: "), "{broken:?}");
}

#[test]
fn files_that_cannot_be_used_are_said() {
    let (files, others) = (Files::make(), Files::make());
    let url = ServerUrl::parse("mysql://localhost").expect("valid");
    let missing = files.folder.path().join("missing.pem");
    for (certificate, key, why) in [
        (&missing, &files.key, "missing.pem: "),
        (&files.certificate, &missing, "missing.pem: "),
        (&files.key, &files.key, "no certificate in PEM format"),
        (
            &files.certificate,
            &files.certificate,
            "no private key in PEM format",
        ),
        (
            &files.certificate,
            &others.key,
            "is not the key of the certificate",
        ),
    ] {
        let failure = Ends::new(certificate, key, &url).expect_err("unusable");
        assert!(failure.message.contains(why), "{failure:?}");
        assert!(failure.hint.contains("openssl req"), "{failure:?}");
        assert_eq!(failure.exit_code, 2);
    }
    let url = ServerUrl::parse("mysql://localhost?tls=verify&tls-ca=/no/such.pem").expect("valid");
    let failure = Ends::new(&files.certificate, &files.key, &url).expect_err("unusable");
    assert!(failure.message.starts_with("--server: "), "{failure:?}");
    let refused = Ends::are_not_asked_for(&url).expect_err("nobody ends it");
    assert!(refused.hint.contains("--tls-certificate"), "{refused:?}");
}

#[test]
fn what_changes_is_said_before_the_capture_begins() {
    let files = Files::make();
    let words = |url: &str| {
        let url = ServerUrl::parse(url).expect("valid");
        let ends = Ends::new(&files.certificate, &files.key, &url).expect("usable");
        ends.words().join("\n")
    };
    let remote = words("mysql://db:3306");
    assert!(remote.contains("caching_sha2_password fails"), "{remote}");
    assert!(remote.contains("the server is not encrypted") && remote.contains("WARNING"));
    let local = words("mysql://?socket=/s");
    assert!(local.contains("not encrypted") && !local.contains("WARNING"));
    assert!(!local.contains("caching_sha2_password") && local.contains("X509"));
    assert!(words("postgres://db").contains("does not offer SCRAM-SHA-256-PLUS"));
    assert!(words("postgres://db?tls=required").contains("channel_binding=disable"));
    let both = words("mysql://db:3306?tls=required");
    assert!(both.contains("encrypted again") && !both.contains("WARNING"));
}
