//! What servers that are none are told: each says what it was given, over plain TCP, and keeps what it hears.

#[path = "common/script.rs"]
mod script;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use script::{CAPABILITIES, greeting, heard, packet};
use tempfile::TempDir;
use testserver::Certificates;
use wire::{Error, ServerUrl};

const PASSWORD: &str = "sesame";

/// The login's error, and what the server has heard when it has said its answers, one after each thing that it heard.
fn told(url: &str, says: &[Vec<u8>]) -> (Error, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let says = says.to_vec();
    let first = url.starts_with("mysql");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("set");
        if first {
            stream.write_all(&says[0]).expect("said");
        }
        heard(stream, &says[usize::from(first)..])
    });
    attempt(url, port, server)
}

fn attempt(url: &str, port: u16, server: JoinHandle<Vec<u8>>) -> (Error, Vec<u8>) {
    let url = url.replace("HOST", &format!("me:{PASSWORD}@127.0.0.1:{port}"));
    let error = wire::connect(&ServerUrl::parse(&url).expect("valid"));
    (
        error.err().expect("refused"),
        server.join().expect("server"),
    )
}

fn has(heard: &[u8], part: &[u8]) -> bool {
    heard.windows(part.len()).any(|window| window == part)
}

#[test]
fn mysql_gets_no_password_for_a_key_of_its_own() {
    let full_login = [greeting(CAPABILITIES), packet(2, &[1, 4])];
    let (error, heard) = told("mysql://HOST/", &full_login);
    assert!(
        error.to_string().contains("get_server_public_key=1"),
        "{error}"
    );
    // Nothing follows the login.
    assert!(heard.ends_with(b"caching_sha2_password\0"));
    let (_, heard) = told(
        "mysql://HOST/?get_server_public_key=1&connect_timeout=1",
        &full_login,
    );
    assert!(heard.ends_with(b"\x01\0\0\x03\x02"), "it asks for the key");
}

#[test]
fn mysql_gets_a_password_encrypted_with_the_key_that_was_named() {
    let key = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/common/public_key.pem");
    let url = format!(
        "mysql://HOST/?connect_timeout=1&server_public_key_path={}",
        key.display()
    );
    let says = [greeting(CAPABILITIES), packet(2, &[1, 4])];
    let (_, heard) = told(&url, &says);
    let begin = heard.len() - 4 - 256;
    assert_eq!(heard[begin..begin + 4], [0, 1, 0, 3]);
    assert!(!has(&heard, PASSWORD.as_bytes()));
}

#[test]
fn mysql_gets_no_clear_text_over_plain_tcp() {
    let says = [
        greeting(CAPABILITIES),
        packet(2, b"\xfemysql_clear_password\0"),
    ];
    for (options, why) in [
        ("", "enable_cleartext_plugin=1"),
        ("?enable_cleartext_plugin=1", "others could read"),
    ] {
        let (error, heard) = told(&format!("mysql://HOST/{options}"), &says);
        assert!(error.to_string().contains(why), "{error}");
        assert!(!has(&heard, PASSWORD.as_bytes()));
    }
}

/// Certificates for the loopback address, in a folder that goes with them.
struct Scratch {
    certificates: Certificates,
    _folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            certificates: Certificates::make(folder.path()),
            _folder: folder,
        }
    }

    /// Checked and unchecked: options for a URL.
    fn modes(&self) -> [(String, bool); 2] {
        let checked = format!("tls=verify&tls-ca={}", self.certificates.ca.display());
        [(checked, true), ("tls=required".to_owned(), false)]
    }
}

/// As [`told`], by a server that speaks TLS from the login on.
fn told_over_tls(url: &str, files: &Certificates, says: &[Vec<u8>]) -> (Error, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let certificate = CertificateDer::from_pem_file(&files.certificate).expect("PEM");
    let key = PrivateKeyDer::from_pem_file(&files.key).expect("PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            let config = config.with_no_client_auth();
            config.with_single_cert(vec![certificate], key)
        });
    let connection = ServerConnection::new(Arc::new(config.expect("a certificate")));
    let connection = connection.expect("a server");
    let (says, mysql) = (says.to_vec(), url.starts_with("mysql"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("set");
        // The client's wish for TLS: a login that breaks off, or a request of its own.
        if mysql {
            stream
                .write_all(&greeting(CAPABILITIES | 1 << 11))
                .expect("said");
            stream.read_exact(&mut [0; 4 + 32]).expect("a wish");
        } else {
            stream.read_exact(&mut [0; 8]).expect("a wish");
            stream.write_all(b"S").expect("said");
        }
        heard(StreamOwned::new(connection, stream), &says)
    });
    attempt(url, port, server)
}

/// "No", as MySQL says it.
fn mysql_refusal(number: u8) -> Vec<u8> {
    packet(number, b"\xff\x15\x04#28000no")
}

#[test]
#[ignore = "needs openssl: run by ./upshift test"]
fn mysql_gets_a_password_over_tls_only_with_a_checked_certificate() {
    let scratch = Scratch::new();
    for (mode, is_checked) in scratch.modes() {
        for (asks, options, why) in [
            (&[1, 4][..], "", "get_server_public_key=1"),
            (
                b"\xfemysql_clear_password\0",
                "&enable_cleartext_plugin=1",
                "others could read",
            ),
        ] {
            let url = format!("mysql://HOST/?{mode}{options}");
            let says = [packet(3, asks), mysql_refusal(5)];
            let (error, heard) = told_over_tls(&url, &scratch.certificates, &says);
            assert_eq!(has(&heard, PASSWORD.as_bytes()), is_checked, "{url}");
            let why = if is_checked { "28000" } else { why };
            assert!(error.to_string().contains(why), "{url}: {error}");
        }
    }
    let url = "mysql://HOST/?tls=required&get_server_public_key=1";
    let says = [packet(3, &[1, 4]), mysql_refusal(5)];
    let (_, heard) = told_over_tls(url, &scratch.certificates, &says);
    assert!(has(&heard, PASSWORD.as_bytes()), "allowed");
}

#[test]
#[ignore = "needs openssl: run by ./upshift test"]
fn postgres_gets_a_password_over_tls_only_with_a_checked_certificate() {
    let scratch = Scratch::new();
    let refusal = b"E\0\0\0\x17SERROR\0C28000\0Mno\0\0".to_vec();
    for (mode, is_checked) in scratch.modes() {
        let url = format!("postgres://HOST/?{mode}");
        let says = [request(3, b""), refusal.clone()];
        let (error, heard) = told_over_tls(&url, &scratch.certificates, &says);
        assert_eq!(has(&heard, PASSWORD.as_bytes()), is_checked, "{url}");
        let why = if is_checked {
            "28000"
        } else {
            "require_auth=password"
        };
        assert!(error.to_string().contains(why), "{url}: {error}");
        // SCRAM is bound to the connection where the server can.
        for (offers, taken, is_bound) in [
            (
                &b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"[..],
                &b"SCRAM-SHA-256-PLUS\0"[..],
                true,
            ),
            (b"SCRAM-SHA-256\0\0", b"SCRAM-SHA-256\0", false),
        ] {
            let says = [request(10, offers), refusal.clone()];
            let (_, heard) = told_over_tls(&url, &scratch.certificates, &says);
            assert!(has(&heard, taken), "{url}");
            assert_eq!(has(&heard, b"p=tls-server-end-point"), is_bound, "{url}");
        }
    }
}

#[test]
fn mysql_that_lacks_something_is_told_what() {
    let (error, _) = told("mysql://HOST/", &[greeting(CAPABILITIES & !(1 << 24))]);
    assert!(
        error.to_string().contains("CLIENT_DEPRECATE_EOF"),
        "{error}"
    );
}

/// An authentication request of PostgreSQL.
fn request(number: u32, rest: &[u8]) -> Vec<u8> {
    let length = (8 + rest.len()) as u32;
    [b"R", &length.to_be_bytes()[..], &number.to_be_bytes(), rest].concat()
}

#[test]
fn postgres_gets_a_weak_proof_only_where_it_is_allowed() {
    for (number, name, rest) in [(3, "password", &b""[..]), (5, "md5", b"salt")] {
        let says = [request(number, rest)];
        let (error, heard) = told("postgres://HOST/", &says);
        let opt_in = format!("require_auth={name}");
        assert!(error.to_string().contains(&opt_in), "{error}");
        assert!(!has(&heard, b"p\0"), "no answer");
        let (_, heard) = told(
            &format!("postgres://HOST/?connect_timeout=1&{opt_in}"),
            &says,
        );
        assert!(has(&heard, b"p\0\0\0"), "an answer");
        let (error, _) = told("postgres://HOST/?require_auth=scram-sha-256", &says);
        assert!(error.to_string().contains("does not name it"), "{error}");
    }
    let (error, _) = told("postgres://HOST/?require_auth=md5", &[request(0, b"")]);
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn postgres_gets_nothing_that_is_not_due() {
    let sasl = request(10, b"SCRAM-SHA-256\0\0");
    for (second, url) in [
        (
            request(3, b""),
            "postgres://HOST/?require_auth=scram-sha-256,password",
        ),
        (
            request(5, b"salt"),
            "postgres://HOST/?require_auth=scram-sha-256,md5",
        ),
        (request(0, b""), "postgres://HOST/"),
        (b"Z\0\0\0\x05I".to_vec(), "postgres://HOST/"),
    ] {
        let (error, heard) = told(url, &[sasl.clone(), second]);
        assert!(matches!(error, Error::Protocol(_)), "{error}");
        assert!(!has(&heard, PASSWORD.as_bytes()));
    }
}

#[test]
fn postgres_cannot_make_a_login_count_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).expect("a startup");
        stream
            .write_all(&request(10, b"SCRAM-SHA-256\0\0"))
            .expect("said");
        let read = stream.read(&mut buffer).expect("a nonce");
        let first = String::from_utf8_lossy(&buffer[..read]);
        let nonce = first.split("r=").nth(1).expect("a nonce");
        let answer = format!("r={nonce}more,s=c2FsdA==,i=2000000000");
        stream
            .write_all(&request(11, answer.as_bytes()))
            .expect("said");
        let _ = stream.read(&mut buffer);
    });
    let url = format!("postgres://me:{PASSWORD}@127.0.0.1:{port}/");
    let error = wire::connect(&ServerUrl::parse(&url).expect("valid"));
    let error = error.err().expect("refused");
    assert!(error.to_string().contains("iteration"), "{error}");
    server.join().expect("server");
}

#[test]
fn nothing_long_is_waited_for_before_the_login() {
    let (error, _) = told("mysql://HOST/", &[vec![0xFF, 0xFF, 0xFF, 0, 10]]);
    assert!(error.to_string().contains("65536 bytes"), "{error}");
    let (error, _) = told("postgres://HOST/", &[b"R\x3f\xff\xff\xff".to_vec()]);
    assert!(error.to_string().contains("65536 bytes"), "{error}");
}
