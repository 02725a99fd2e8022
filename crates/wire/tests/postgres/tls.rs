//! Encrypted connections.

use testserver::{ALL, one};
use wire::{Error, TlsMode, Value, connect};

use crate::{sqlstate, url};
use testserver::Server;

/// TLS 1.3: a record's header, its type, and its authentication tag, in bytes.
const RECORD_BYTES: u64 = 5 + 1 + 16;

pub fn everything(server: &Server) {
    let mut url = url(server, "safe", "s", false);
    assert_eq!(sqlstate(connect(&url)), "28000");
    url.tls = TlsMode::Required;
    let mut safe = connect(&url).expect("login");
    let encrypted = "SELECT version FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()";
    assert_eq!(one(safe.as_mut(), encrypted), "TLSv1.3");
    let select = safe.prepare("SELECT ?::text").expect("prepare");
    let before = safe.counters();
    safe.execute(&select, &[Value::Text("x".to_owned())], ALL, &mut ())
        .expect("select");
    let counted = safe.counters() - before;
    assert_eq!((counted.round_trips, counted.syscalls), (1, 2));
    // BindComplete, DataRow, CommandComplete, ReadyForQuery in one record.
    assert_eq!(
        counted.bytes_received,
        RECORD_BYTES + 5 + (7 + 4 + 1) + (5 + 9) + 6
    );
    let long = "x".repeat(3 << 20);
    assert!(one(safe.as_mut(), &format!("SELECT '{long}'")) == long);
    url.tls = TlsMode::Verify(server.certificates().ca.clone());
    connect(&url).expect("verified");
    url.tls = TlsMode::Verify(server.certificates().certificate.clone());
    let refused = connect(&url).err().expect("refused");
    assert!(matches!(refused, Error::Tls(_)), "{refused}");
    url.tls = TlsMode::VerifyCa(server.certificates().ca.clone());
    url.host = "localhost".to_owned();
    connect(&url).expect("the authority is verified");
    url.tls = TlsMode::Verify(server.certificates().ca.clone());
    let refused = connect(&url).err().expect("refused");
    assert!(
        matches!(&refused, Error::Tls(words) if words.contains("localhost")),
        "{refused}"
    );
    // PostgreSQL has no TLS on its socket file.
    url.socket = Some(server.folder().to_owned());
    let refused = connect(&url).err().expect("refused");
    assert!(
        matches!(&refused, Error::Unsupported(words) if words.contains("tls=off")),
        "{refused}"
    );
}
