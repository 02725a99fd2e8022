//! A certificate authority and a certificate for a server on the loopback address.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A certificate authority and a certificate of its for 127.0.0.1, as PEM files.
pub struct Certificates {
    /// The authority's own certificate.
    pub ca: PathBuf,
    /// The server's.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl Certificates {
    /// Made by openssl, which every packaged server that offers TLS brings along.
    #[must_use]
    pub fn make(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        let ca_key = file("ca-key.pem");
        let files = Self {
            ca: file("ca.pem"),
            certificate: file("certificate.pem"),
            key: file("key.pem"),
        };
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        openssl(
            &format!("{request} -subj /CN=tests"),
            &[("-out", &files.ca), ("-keyout", &ca_key)],
        );
        openssl(
            &format!(
                "{request} -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
                 -addext basicConstraints=critical,CA:FALSE"
            ),
            &[
                ("-CA", &files.ca),
                ("-CAkey", &ca_key),
                ("-out", &files.certificate),
                ("-keyout", &files.key),
            ],
        );
        files
    }
}

fn openssl(arguments: &str, files: &[(&str, &Path)]) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace());
    for (option, file) in files {
        command.arg(option).arg(file);
    }
    let output = command.output().expect("openssl");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A port of the loopback address that nobody listened on just now.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}
