//! This crate's counts beside those of a packet capture.

use testserver::{ALL, rows as texts};
use wire::{BatchWay, ServerUrl, Value};

use crate::capture::Capture;
use testserver::Server;

/// Packets in a stream: a length of three bytes and a number before each.
fn packets(stream: &[u8]) -> u64 {
    let mut rest = stream;
    let mut packets = 0;
    while let [low, middle, high, _number, after @ ..] = rest {
        let length = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        rest = &after[length..];
        packets += 1;
    }
    assert!(rest.is_empty(), "a packet is cut off");
    packets
}

pub fn everything(server: &Server) {
    for tls in ["off", "required"] {
        let capture = Capture::start(server.port());
        let url = format!(
            "mysql://far:se%40cret@127.0.0.1:{}/mysql?tls={tls}",
            server.port()
        );
        let mut connection = wire::connect(&ServerUrl::parse(&url).expect("valid")).expect("login");
        let point = connection
            .prepare("SELECT words FROM t WHERE id = ?")
            .expect("prepare");
        for id in 1..=200 {
            connection
                .execute(&point, &[Value::Int(id)], ALL, &mut ())
                .expect("select");
        }
        let rows: Vec<_> = (1..=50).map(|id| vec![Value::Int(id)]).collect();
        connection
            .execute_batch(&point, &rows, BatchWay::Single)
            .expect("batch");
        connection.close(point).expect("close");
        assert!(connection.query("SELEC 1", ALL, &mut ()).is_err());
        // Longer than a buffer, and than a packet of the network.
        texts(
            &mut *connection,
            "SELECT REPEAT('x', 200000), t.* FROM t LIMIT 2",
        );
        let counted = connection.counters();
        drop(connection);
        let seen = capture.seen();
        // COM_QUIT follows what was counted: 5 bytes, in TLS with a record around them.
        let (quit_bytes, is_plain) = if tls == "off" {
            (5, true)
        } else {
            (5 + 22, false)
        };
        assert_eq!(
            seen.client.payload.len() as u64,
            counted.bytes_sent + quit_bytes
        );
        // The server may say that it closes a TLS connection; we do not listen any more.
        let unheard = seen.server.payload.len() as u64 - counted.bytes_received;
        assert!(
            unheard == 0 || (!is_plain && unheard == 24),
            "{unheard} bytes"
        );
        if is_plain {
            // Whatever it sent without having heard more was one request; nobody waits for an answer to COM_QUIT.
            assert_eq!(seen.client.heard.len() as u64 - 1, counted.round_trips);
            assert_eq!(packets(&seen.client.payload), counted.packets_sent + 1);
            assert_eq!(packets(&seen.server.payload), counted.packets_received);
        }
    }
}
