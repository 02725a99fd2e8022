//! This crate's counts beside those of a packet capture.

use testserver::{ALL, rows as texts};
use wire::{BatchWay, TlsMode, Value, connect};

use crate::capture::Capture;
use testserver::Server;

use crate::url;

/// Messages in a stream: a tag and a length before each; the client's first one has no tag.
fn messages(stream: &[u8], mut tag_bytes: usize) -> u64 {
    let mut rest = stream;
    let mut messages = 0;
    while !rest.is_empty() {
        let length = rest[tag_bytes..].first_chunk().expect("a whole message");
        rest = &rest[tag_bytes + u32::from_be_bytes(*length) as usize..];
        tag_bytes = 1;
        messages += 1;
    }
    messages
}

pub fn everything(server: &Server) {
    for tls in [TlsMode::Off, TlsMode::Required] {
        let capture = Capture::start(server.port());
        let is_plain = tls == TlsMode::Off;
        let mut url = url(server, if is_plain { "scram" } else { "safe" }, "s", false);
        url.tls = tls;
        let mut connection = connect(&url).expect("login");
        let sql = "SELECT n FROM generate_series(1, 3) n WHERE n > ?";
        let select = connection.prepare(sql).expect("prepare");
        for n in 0..200 {
            connection
                .execute(&select, &[Value::Int(n)], ALL, &mut ())
                .expect("select");
        }
        texts(&mut *connection, "CREATE TEMPORARY TABLE n (n int)");
        let insert = connection
            .prepare("INSERT INTO n VALUES (?)")
            .expect("prepare");
        let rows: Vec<_> = (0..1500).map(|n| vec![Value::Int(n)]).collect();
        connection
            .execute_batch(&insert, &rows, BatchWay::Pipeline)
            .expect("pipeline");
        connection
            .load("n", &["n"], &mut rows.into_iter())
            .expect("load");
        assert!(connection.query("SELEC 1", ALL, &mut ()).is_err());
        texts(
            &mut *connection,
            "SELECT repeat('x', 200000), n FROM n LIMIT 30",
        );
        let counted = connection.counters();
        drop(connection);
        let seen = capture.seen();
        // Terminate follows what was counted: 5 bytes, in TLS with a record around them.
        let end_bytes = if is_plain { 5 } else { 5 + 22 };
        assert_eq!(
            seen.client.payload.len() as u64,
            counted.bytes_sent + end_bytes
        );
        // The server may say that it closes a TLS connection; we do not listen any more.
        let unheard = seen.server.payload.len() as u64 - counted.bytes_received;
        assert!(
            unheard == 0 || (!is_plain && unheard == 24),
            "{unheard} bytes"
        );
        if is_plain {
            assert_eq!(messages(&seen.client.payload, 0), counted.packets_sent + 1);
            assert_eq!(messages(&seen.server.payload, 1), counted.packets_received);
        }
    }
}
