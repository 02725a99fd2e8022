//! Connections that were captured from real servers, put together in other ways.

use proptest::prelude::*;
use proptest::sample::Index;

use wire::Family;
use wire::passive::{Kind, Side, Stream};

use crate::captured::captured;
use crate::made::m;
use crate::{Told, read, told};

const FILES: [(Family, &str); 6] = [
    (Family::Mysql, "mysql-9.7.txt"),
    (Family::Mysql, "mysql-9.7-metadata-off.txt"),
    (Family::Mysql, "mariadb-10.11.txt"),
    (Family::Mysql, "mariadb-10.11-metadata-off.txt"),
    (Family::Postgres, "postgres-15.txt"),
    (Family::Postgres, "postgres-15-binary-results.txt"),
];

/// The same bytes in pieces, each told at the time of the line that it was a part of.
fn in_pieces(family: Family, lines: &[(Side, Vec<u8>)], cut: impl Fn(usize) -> usize) -> Told {
    let mut stream = Stream::new(family);
    let mut told = Told::default();
    for (at, (side, bytes)) in lines.iter().enumerate() {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
            stream.bytes(*side, piece, at as u64, &mut |observed| told.add(observed));
            rest = after;
        }
    }
    stream.end(lines.len() as u64, &mut |observed| told.add(observed));
    told.totals = stream.totals();
    told
}

#[test]
fn every_byte_belongs_to_the_login_or_an_exchange() {
    for (family, name) in FILES {
        let told = told(family, &captured(name));
        told.is_whole();
        let [facts] = &told.sessions[..] else {
            panic!("one login: {:?}", told.sessions);
        };
        let named = |text: &Option<String>| text.clone().expect("named at the login");
        let session = (named(&facts.database), named(&facts.character_set));
        let expected = match family {
            Family::Mysql => ("mysql", "utf8mb4"),
            Family::Postgres => ("postgres", "UTF8"),
        };
        assert_eq!((&*session.0, &*session.1), expected, "{name}");
        assert!(told.exchanges.len() > 15, "{name}");
        let refused: Vec<_> = told
            .exchanges
            .iter()
            .filter_map(|each| each.error.as_ref())
            .collect();
        assert_eq!(refused.len(), 1, "{name}");
        let last = told.exchanges.last().expect("many");
        assert_eq!((last.kind, last.answer_ns), (Kind::Quit, None));
    }
}

#[test]
fn bytes_split_anywhere_give_the_same() {
    for (family, name) in FILES {
        let lines = captured(name);
        let whole = told(family, &lines);
        for step in 1..20 {
            assert_eq!(in_pieces(family, &lines, |_| step), whole, "{name} {step}");
        }
        let longest = lines.iter().map(|(_, bytes)| bytes.len()).max();
        for position in 1..longest.expect("lines") {
            // Each line in two pieces.
            let cut = |left: usize| {
                if left > position {
                    left - position
                } else {
                    left
                }
            };
            assert_eq!(in_pieces(family, &lines, cut), whole, "{name} {position}");
        }
    }
}

#[test]
fn a_length_that_no_message_has_is_not_waited_for() {
    let query = m(b'Q', b"SELECT 1\0");
    let answer = [m(b'D', b"\0\0"), m(b'C', b"SELECT 1\0"), m(b'Z', b"I")];
    let passed = [
        (Side::Client, query.clone()),
        // The end of an earlier row looks like the head of a message.
        (Side::Server, b"D\xff\xff\xff\xf0 and so on".to_vec()),
        (Side::Client, query),
        (Side::Server, answer.concat()),
    ];
    let told = read(Stream::joined_late(Family::Postgres), &passed);
    assert_eq!(told.broken, None);
    let seen: Vec<_> = told
        .exchanges
        .iter()
        .map(|each| (each.incomplete, each.rows))
        .collect();
    assert_eq!(seen, [(true, 0), (false, 1)]);
}

#[test]
fn a_stream_that_is_joined_late_goes_on_at_the_next_request() {
    for (family, name) in FILES {
        let lines = captured(name);
        let whole = told(family, &lines);
        let mut joined = 0;
        for begin in 3..lines.len() {
            let told = read(Stream::joined_late(family), &lines[begin..]);
            assert_eq!(told.broken, None, "{name} {begin}");
            let facts = |told: &Told| -> Vec<_> {
                let each = told.exchanges.iter();
                each.map(|each| {
                    (
                        each.kind,
                        each.rows,
                        each.affected,
                        each.bytes_sent,
                        each.bytes_received,
                    )
                })
                .collect()
            };
            let (late, all) = (facts(&told), facts(&whole));
            assert!(all.ends_with(&late), "{name} {begin}: {late:?}");
            assert!(told.sessions.iter().all(|facts| facts.joined_late));
            joined += usize::from(!late.is_empty());
        }
        assert!(
            joined > lines.len() / 2,
            "{name}: {joined} of {}",
            lines.len()
        );
    }
}

#[test]
fn after_a_gap_the_next_request_is_read_and_its_statement_known() {
    for (family, name) in FILES {
        let lines = captured(name);
        let whole = told(family, &lines);
        let mut with_text = 0;
        for lost in 4..lines.len() - 3 {
            let mut stream = Stream::new(family);
            let mut told = Told::default();
            for (at, (side, bytes)) in lines.iter().enumerate() {
                let mut add = |observed| told.add(observed);
                match at == lost {
                    true => stream.gap(*side, bytes.len() as u64, at as u64, &mut add),
                    false => stream.bytes(*side, bytes, at as u64, &mut add),
                }
            }
            stream.end(lines.len() as u64, &mut |observed| told.add(observed));
            let totals = stream.totals();
            assert_eq!(totals.missing, lines[lost].1.len() as u64);
            let [_, _, sent, received] = told.sums();
            assert!(sent + received + totals.unread <= totals.bytes_sent + totals.bytes_received);
            assert_eq!(told.broken, None, "{name} {lost}");
            // What is told as complete was so; of what was lost nothing is made up.
            for exchange in told.exchanges.iter().filter(|each| !each.incomplete) {
                let same = whole.exchanges.iter().any(|each| {
                    (each.kind, each.rows, each.bytes_sent, each.bytes_received)
                        == (
                            exchange.kind,
                            exchange.rows,
                            exchange.bytes_sent,
                            exchange.bytes_received,
                        )
                });
                assert!(same, "{name} {lost}: {exchange:?}");
            }
            let last = told
                .exchanges
                .iter()
                .rev()
                .find(|each| each.kind == Kind::Fetch);
            with_text += usize::from(last.is_some_and(|each| each.text.is_some()));
        }
        assert!(with_text > 5, "{name}: {with_text}");
    }
}

#[test]
fn rows_before_a_gap_are_no_part_of_the_next_answer() {
    let answer = |passed: &dyn Fn(&mut Stream, &mut Told)| {
        let mut stream = Stream::joined_late(Family::Postgres);
        let mut told = Told::default();
        passed(&mut stream, &mut told);
        let query = m(b'Q', b"SELECT 2\0");
        let rows = [m(b'D', b"\0\x02"), m(b'C', b"SELECT 1\0"), m(b'Z', b"I")];
        for (side, bytes) in [(Side::Client, query), (Side::Server, rows.concat())] {
            stream.bytes(side, &bytes, 1, &mut |observed| told.add(observed));
        }
        let last = told.exchanges.pop().expect("a request");
        assert!(!last.incomplete);
        last.answer.expect("a row")
    };
    let behind_a_gap = answer(&|stream, told| {
        let mut add = |observed| told.add(observed);
        stream.bytes(Side::Client, &m(b'Q', b"SELECT 1\0"), 0, &mut add);
        stream.bytes(Side::Server, &m(b'D', b"\0\x01"), 0, &mut add);
        stream.gap(Side::Server, 9, 0, &mut add);
    });
    assert_eq!(behind_a_gap, answer(&|_, _| {}));
}

#[test]
fn a_connection_that_is_cut_tells_what_is_missing() {
    for (family, name) in FILES {
        let lines = captured(name);
        for length in 0..lines.len() {
            let told = told(family, &lines[..length]);
            assert_eq!(told.broken, None, "{name} {length}");
            let incomplete = told.exchanges.iter().filter(|each| each.incomplete).count();
            assert!(incomplete <= 3, "{name} {length}");
        }
    }
}

/// Damage to a connection.
#[derive(Debug, Clone)]
enum Damage {
    Set(Index, Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index),
    Swap(Index, Index),
    Gap(Index),
    Turn(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => (any::<Index>(), any::<Index>(), any::<u8>()).prop_map(|(line, at, byte)| Damage::Set(line, at, byte)),
        2 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..40)).prop_map(|(line, bytes)| Damage::Insert(line, bytes)),
        1 => any::<Index>().prop_map(Damage::Remove),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Damage::Swap(one, other)),
        2 => any::<Index>().prop_map(Damage::Gap),
        1 => any::<Index>().prop_map(Damage::Turn),
    ]
}

fn damaged(family: Family, mut lines: Vec<(Side, Vec<u8>)>, damages: &[Damage]) -> (Told, u64) {
    let mut gaps = Vec::new();
    for damage in damages {
        let count = lines.len();
        match damage {
            Damage::Set(line, at, byte) => {
                let bytes = &mut lines[line.index(count)].1;
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Insert(line, more) => lines[line.index(count)].1.extend_from_slice(more),
            Damage::Remove(line) => drop(lines.remove(line.index(count))),
            Damage::Swap(one, other) => lines.swap(one.index(count), other.index(count)),
            Damage::Gap(line) => gaps.push(line.index(count)),
            Damage::Turn(line) => {
                let line = &mut lines[line.index(count)];
                line.0 = match line.0 {
                    Side::Client => Side::Server,
                    Side::Server => Side::Client,
                };
            }
        }
    }
    let mut stream = Stream::new(family);
    let mut told = Told::default();
    let mut passed = 0;
    for (at, (side, bytes)) in lines.iter().enumerate() {
        let mut add = |observed| told.add(observed);
        if gaps.contains(&at) {
            stream.gap(*side, 7, at as u64, &mut add);
        }
        stream.bytes(*side, bytes, at as u64, &mut add);
        passed += bytes.len() as u64;
    }
    stream.end(9999, &mut |observed| told.add(observed));
    told.totals = stream.totals();
    (told, passed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn damaged_connections_never_panic_and_count_every_byte(
        file in 0..FILES.len(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        let (family, name) = FILES[file];
        let (told, passed) = damaged(family, captured(name), &damages);
        prop_assert_eq!(told.totals.bytes_sent + told.totals.bytes_received, passed);
        let [_, _, sent, received] = told.sums();
        prop_assert!(sent + received + told.totals.unread <= passed);
    }

    #[test]
    fn garbage_never_panics(
        pieces in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 1..60)), 0..12),
        late: bool,
        mysql: bool,
    ) {
        let family = if mysql { Family::Mysql } else { Family::Postgres };
        let stream = if late { Stream::joined_late(family) } else { Stream::new(family) };
        let side = |server| if server { Side::Server } else { Side::Client };
        let passed: Vec<_> = pieces.into_iter().map(|(server, bytes)| (side(server), bytes)).collect();
        let told = read(stream, &passed);
        let all: usize = passed.iter().map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(told.totals.bytes_sent + told.totals.bytes_received, all as u64);
    }
}
