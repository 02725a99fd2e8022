//! When two answers are equal.
//!
//! They are when their bytes are. What no server has to repeat is left out by these rules, and by no others:
//!
//! - The greeting, which has the connection's number and a random scramble, is read and not compared. The capabilities that it leads
//!   to are.
//! - Where SQL leaves the order of rows open, the rows of an answer are compared as a multiset, without the packets' numbers.
//! - Clocks: each session has a fixed `timestamp`, so that NOW() and the like are equal; no statement asks for more.
//! - Of what reads the data dictionary, rows in any order and errors alone are compared: its plans hang on statistics of the moment
//!   when a server first read its tables, and with them the origin of columns and the flag that no index was used.
//! - The servers' own numbers of prepared statements are left out: a client sends back what it got.

use crate::answer::{self, Answer, Kind};

/// Errors whose texts have a prepared statement's number: an unknown statement, no open cursor.
pub const NAME_STATEMENTS: [u16; 2] = [1243, 1421];

/// Rules, for those who read the result.
pub const RULES: [&str; 4] = [
    "the greeting's connection number and scramble are not compared",
    "rows without an order in SQL are compared as a multiset",
    "each session has a fixed timestamp",
    "the numbers of prepared statements are not compared",
];

/// What of two answers must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Every packet.
    Whole,
    /// Every packet, rows as a multiset.
    AnyOrder,
    /// Rows as a multiset, and errors.
    Dictionary,
}

/// What differs first, for a reader; None when the answers are equal.
#[must_use]
pub fn difference(stock: &Answer, patched: &Answer, rule: Rule) -> Option<String> {
    if stock.bytes == patched.bytes && stock.packets == patched.packets {
        return None;
    }
    let (ours, theirs) = (compared(stock, rule), compared(patched, rule));
    if ours == theirs {
        return None;
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.iter().collect(), theirs.iter().collect());
    let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let show = |side: &[&(Kind, Vec<u8>)]| match side.get(at) {
        Some((kind, packet)) => answer::shown(*kind, packet),
        None => format!("nothing after {} packets", side.len()),
    };
    Some(format!(
        "packet {}\n  stock:   {}\n  patched: {}",
        at + 1,
        show(&ours),
        show(&theirs)
    ))
}

/// The packets that are compared.
pub(crate) fn compared(answer: &Answer, rule: Rule) -> Vec<(Kind, Vec<u8>)> {
    let mut packets = comparable(answer);
    match rule {
        Rule::Whole => packets,
        Rule::AnyOrder => sorted(packets),
        Rule::Dictionary => {
            packets.retain(|(kind, _)| matches!(kind, Kind::Row | Kind::Error));
            // The rows of all results together: what stood between them is gone.
            sorted(packets)
        }
    }
}

fn comparable(answer: &Answer) -> Vec<(Kind, Vec<u8>)> {
    let each = answer.each().map(|(kind, packet)| {
        let mut packet = packet.to_vec();
        if kind == Kind::Prepared && packet.len() >= 9 {
            packet[5..9].fill(0);
        }
        // Of several answers each may have an error of its own.
        let code = packet
            .get(5..7)
            .map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
        if kind == Kind::Error && NAME_STATEMENTS.contains(&code) {
            packet.drain(..4);
            packet.retain(|byte| !byte.is_ascii_digit());
        }
        (kind, packet)
    });
    each.collect()
}

/// Rows sorted, and no packet with its number.
fn sorted(mut packets: Vec<(Kind, Vec<u8>)>) -> Vec<(Kind, Vec<u8>)> {
    for (_, packet) in &mut packets {
        if let Some(number) = packet.get_mut(3) {
            *number = 0;
        }
    }
    for rows in packets.chunk_by_mut(|a, b| a.0 == b.0) {
        if rows.first().is_some_and(|first| first.0 == Kind::Row) {
            rows.sort_by(|a, b| a.1.cmp(&b.1));
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(order: &[u8]) -> Answer {
        let mut answer = Answer::default();
        for (number, &value) in (1..).zip(order) {
            answer.bytes.extend_from_slice(&[1, 0, 0, number, value]);
            answer.packets.push((answer.bytes.len(), Kind::Row));
        }
        answer
    }

    #[test]
    fn rows_are_a_multiset_only_where_sql_leaves_their_order_open() {
        let (ours, theirs) = (rows(b"abb"), rows(b"bab"));
        assert_eq!(difference(&ours, &theirs, Rule::AnyOrder), None);
        assert!(difference(&ours, &theirs, Rule::Whole).is_some());
        assert!(difference(&ours, &rows(b"aab"), Rule::AnyOrder).is_some());
        assert!(difference(&ours, &rows(b"ab"), Rule::AnyOrder).is_some());
        assert_eq!(difference(&ours, &ours.clone(), Rule::Whole), None);
    }

    #[test]
    fn of_the_dictionary_rows_count_and_neither_their_order_nor_flags() {
        let of = |flag: u8, kind: Kind, rows: [u8; 2]| {
            let mut answer = Answer::default();
            let packets = [
                (Kind::Definition, flag),
                (kind, rows[0]),
                (kind, rows[1]),
                (Kind::End, flag),
            ];
            for (number, (kind, value)) in (1..).zip(packets) {
                answer.bytes.extend_from_slice(&[1, 0, 0, number, value]);
                answer.packets.push((answer.bytes.len(), kind));
            }
            answer
        };
        let stock = of(0, Kind::Row, *b"ab");
        let differs = |patched: &Answer| difference(&stock, patched, Rule::Dictionary).is_some();
        assert!(!differs(&of(1, Kind::Row, *b"ba")));
        assert!(differs(&of(0, Kind::Row, *b"ac")));
        assert!(differs(&of(0, Kind::Error, *b"ab")));
        assert!(differs(&Answer::default()));
        assert!(difference(&stock, &of(1, Kind::Row, *b"ba"), Rule::AnyOrder).is_some());
    }

    #[test]
    fn a_statements_number_is_left_out_and_its_columns_are_not() {
        let prepared = |id: u8, columns: u8| Answer {
            bytes: vec![12, 0, 0, 1, 0, id, 0, 0, 0, columns, 0, 0, 0, 0, 0, 0],
            packets: vec![(16, Kind::Prepared)],
            ..Answer::default()
        };
        assert_eq!(
            difference(&prepared(1, 2), &prepared(7, 2), Rule::Whole),
            None
        );
        assert!(difference(&prepared(1, 2), &prepared(1, 3), Rule::Whole).is_some());
    }
}
