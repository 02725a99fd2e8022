//! Encrypted connections, and what of them the server counts.

use testserver::{one, rows as texts};
use wire::{Connection, Error, ServerUrl};

use crate::counters_equal_the_servers;
use testserver::Server;

/// TLS 1.3: a record's header, its type, and its authentication tag, in bytes.
const RECORD_BYTES: u64 = 5 + 1 + 16;

fn connect(server: &Server, login: &str, options: &str) -> Result<Box<dyn Connection>, Error> {
    let url = format!("{}?{options}", server.url_over_tcp(login, "mysql"));
    wire::connect(&ServerUrl::parse(&url)?)
}

pub fn everything(server: &Server, connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE USER safe@127.0.0.1 IDENTIFIED BY 'se@cret' REQUIRE SSL",
    );
    texts(connection, "GRANT ALL ON *.* TO safe@127.0.0.1");
    let login = "safe:se%40cret";
    let refused = connect(server, login, "tls=off&get_server_public_key=1")
        .err()
        .expect("refused");
    assert!(
        matches!(refused, Error::Server { code: 1045, .. }),
        "{refused}"
    );
    // The first login sends the password, the second its hash.
    for _ in 0..2 {
        let options = "tls=required&get_server_public_key=1";
        let mut safe = connect(server, login, options).expect("login");
        let cipher = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";
        assert!(
            texts(&mut *safe, cipher)[0][1]
                .as_ref()
                .expect("a value")
                .starts_with("TLS_")
        );
        counters_equal_the_servers(&mut *safe, RECORD_BYTES);
        long_answers(&mut *safe);
    }
    certificates(server, login);
}

fn long_answers(connection: &mut dyn Connection) {
    let long = "x".repeat(3 << 20);
    let sql = format!("SELECT '{long}'");
    assert!(one(connection, &sql) == long);
}

fn certificates(server: &Server, login: &str) {
    let verify = |ca: &std::path::Path| format!("tls=verify&tls-ca={}", ca.display());
    let right = verify(&server.certificates().ca);
    let mut verified = connect(server, login, &right).expect("verified");
    assert_eq!(one(&mut *verified, "SELECT 1"), "1");
    for (options, why) in [
        (verify(&server.certificates().certificate), "certificate"),
        (verify(&server.certificates().key), "PEM"),
        (verify(&server.folder().join("missing")), "No such file"),
    ] {
        let refused = connect(server, login, &options).err().expect("refused");
        assert!(
            matches!(&refused, Error::Tls(words) if words.contains(why)),
            "{refused}"
        );
    }
    // The certificate is for 127.0.0.1, not for the name.
    let url = format!("mysql://{login}@localhost:{}/mysql?{right}", server.port());
    let refused = wire::connect(&ServerUrl::parse(&url).expect("valid"))
        .err()
        .expect("refused");
    assert!(
        matches!(&refused, Error::Tls(words) if words.contains("localhost")),
        "{refused}"
    );
    // Whatever the name, the authority has to be the right one.
    let authority_alone = |ca: &std::path::Path| {
        let options = format!("tls=verify-ca&tls-ca={}", ca.display());
        let url = format!(
            "mysql://{login}@localhost:{}/mysql?{options}",
            server.port()
        );
        wire::connect(&ServerUrl::parse(&url).expect("valid"))
    };
    authority_alone(&server.certificates().ca).expect("verified");
    let refused = authority_alone(&server.certificates().certificate).err();
    assert!(matches!(refused, Some(Error::Tls(_))), "{refused:?}");
}
