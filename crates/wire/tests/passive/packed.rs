//! Compressed conversations made by hand, in both of MySQL's methods and in pieces of any length.

use std::io::Write;

use wire::Family;
use wire::passive::{Compression, Side, Stream, Why};

use crate::made::{OK, Passed, login, p};
use crate::{Told, read, told};

use Side::{Client, Server};

const METHODS: [(u32, Compression); 2] =
    [(1 << 5, Compression::Zlib), (1 << 26, Compression::Zstd)];

/// A compressed packet; one that is not worth compressing as it is.
fn pack(method: Compression, number: u8, plain: &[u8]) -> Vec<u8> {
    let packed = match method {
        _ if plain.len() < 50 => plain.to_vec(),
        Compression::Zstd => zstd::bulk::compress(plain, 3).expect("compresses"),
        _ => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).expect("compresses");
            encoder.finish().expect("compresses")
        }
    };
    let unpacked = if plain.len() < 50 { 0 } else { plain.len() };
    let (length, unpacked) = (packed.len().to_le_bytes(), unpacked.to_le_bytes());
    [&length[..3], &[number], &unpacked[..3], &packed].concat()
}

fn query(sql: &str) -> Vec<u8> {
    p(0, &[b"\x03", sql.as_bytes()].concat())
}

fn rows(count: usize) -> Vec<u8> {
    let column = p(2, b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0");
    let eof = |number| p(number, b"\xfe\0\0\x02\0");
    // The numbers of packets begin anew behind each compressed one.
    let rows = (0..count).map(|_| p(4, b"\x0212"));
    [
        vec![p(1, b"\x01"), column, eof(3)],
        rows.collect(),
        vec![eof(9)],
    ]
    .concat()
    .concat()
}

/// Requests and answers, short and long, behind the login.
fn conversation() -> Passed {
    let long = format!("SELECT '{}'", "x".repeat(300_000));
    vec![
        (Client, query("DO 1")),
        (Server, p(1, OK)),
        (Client, query(&long)),
        (Server, rows(20_000)),
        (
            Client,
            query("SELECT a FROM t WHERE id = 1 AND name = 'somebody''s'"),
        ),
        (Server, rows(3)),
        (Client, p(0, b"\x01")),
    ]
}

fn packed(method: Compression, plain: &Passed) -> Passed {
    let each = plain.iter();
    each.map(|(side, bytes)| (*side, pack(method, u8::from(*side == Server), bytes)))
        .collect()
}

/// What was asked and answered.
fn what(told: &Told) -> Vec<(Option<String>, u64, [u64; 4], u32)> {
    let each = told.exchanges.iter().map(|each| {
        let packets = [each.packets_sent, each.packets_received];
        let counts = [packets, [each.bytes_sent, each.bytes_received]].concat();
        let counts = counts.try_into().expect("four");
        (crate::text(each), each.rows, counts, each.round_trips)
    });
    each.collect()
}

/// A plain stream would take the numbers of these packets for a mistake.
fn expected() -> Vec<(Option<String>, u64, u32)> {
    let text = |sql: &str| Some(sql.to_owned());
    let long = format!("SELECT '{}'", "x".repeat(300_000));
    vec![
        (text("DO 1"), 0, 1),
        (text(&long[..256 * 1024]), 20_000, 1),
        (
            text("SELECT a FROM t WHERE id = 1 AND name = 'somebody''s'"),
            3,
            1,
        ),
        (None, 0, 0),
    ]
}

#[test]
fn what_was_compressed_is_read_as_if_it_were_not() {
    for (flag, method) in METHODS {
        let conversation = conversation();
        let whole = [login(flag), packed(method, &conversation)].concat();
        let seen = told(Family::Mysql, &whole);
        assert_eq!((seen.broken, seen.totals.unread), (None, 0), "{seen:#?}");
        assert_eq!(seen.sessions[0].compression, method);
        let short: Vec<_> = what(&seen)
            .into_iter()
            .map(|(text, rows, _, trips)| (text, rows, trips))
            .collect();
        assert_eq!(short, expected());
        // Counts are those of what was packed.
        let [_, _, sent, received] = seen.sums();
        let sum = |side| -> usize {
            let each = [login(flag), conversation.clone()].concat();
            let each = each.iter().filter(|(whose, _)| *whose == side);
            each.map(|(_, bytes)| bytes.len()).sum()
        };
        assert_eq!(
            (sent as usize, received as usize),
            (sum(Client), sum(Server))
        );
        for step in [1, 5, 1000] {
            let pieces: Passed = whole
                .iter()
                .flat_map(|(side, bytes)| bytes.chunks(step).map(|piece| (*side, piece.to_vec())))
                .collect();
            assert_eq!(what(&told(Family::Mysql, &pieces)), what(&seen), "{step}");
        }
    }
}

#[test]
fn a_compressed_stream_is_found_again_behind_a_gap() {
    for (flag, method) in METHODS {
        let begun = [login(flag), packed(method, &conversation())].concat();
        let mut stream = Stream::new(Family::Mysql);
        let mut seen = Told::default();
        for (at, (side, bytes)) in begun[..6].iter().enumerate() {
            stream.bytes(*side, bytes, at as u64, &mut |told| seen.add(told));
        }
        stream.gap(Server, 100, 9, &mut |told| seen.add(told));
        // Nothing of what was under way is taken for a request.
        stream.bytes(Server, b"the rest of an answer", 10, &mut |told| {
            seen.add(told)
        });
        stream.bytes(Client, b"the rest of a request", 10, &mut |told| {
            seen.add(told)
        });
        for (side, bytes) in &packed(method, &conversation())[..2] {
            stream.bytes(*side, bytes, 11, &mut |told| seen.add(told));
        }
        assert_eq!(seen.broken, None, "{method:?}");
        let texts: Vec<_> = seen.exchanges.iter().map(crate::text).collect();
        assert_eq!(
            texts
                .iter()
                .filter(|text| text.as_deref() == Some("DO 1"))
                .count(),
            2
        );
    }
}

#[test]
fn a_compressed_connection_is_joined_late() {
    for (_, method) in METHODS {
        let late = &packed(method, &conversation())[3..];
        let seen = read(Stream::joined_late(Family::Mysql), late);
        assert_eq!(seen.broken, None);
        assert_eq!(seen.exchanges.len(), 2, "{seen:#?}");
        assert_eq!(seen.exchanges[0].rows, 3);
        assert_eq!(seen.sessions[0].compression, method);
    }
}

#[test]
fn bytes_that_cannot_be_unpacked_are_no_protocol() {
    for (flag, method) in METHODS {
        let mut request = pack(method, 0, &query(&"x".repeat(100)));
        request[9..].fill(0x55);
        let broken = told(
            Family::Mysql,
            &[login(flag), vec![(Client, request)]].concat(),
        );
        assert_eq!(broken.broken, Some(Why::NotTheProtocol));
    }
}
