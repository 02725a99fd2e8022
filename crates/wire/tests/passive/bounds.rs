//! What is kept where more was sent.

use wire::Family;
use wire::passive::ParameterValue;
use wire::passive::Side::{Client, Server};

use crate::held::most;
use crate::made::{OK, Passed, login, m, p, postgres};
use crate::{Told, told};

const NUMERIC: u32 = 1700;
const TIMESTAMP: u32 = 1114;

/// Requests that are not answered yet hold this much together.
const LONG: usize = 200_000;
const MANY: usize = 45;

/// 8 bytes that stand for 64,001 digits.
const LONG_NUMERIC: [u8; 8] = [0, 0, 0x3E, 0x80, 0, 0, 0, 0];

/// The Parse and the Bind of so many parameters of one type, each of these bytes.
fn parse_and_bind(kind: u32, bytes: &[u8], count: u16) -> [Vec<u8>; 2] {
    let types = kind.to_be_bytes().repeat(count.into());
    let parse = [&b"a\0INSERT\0"[..], &count.to_be_bytes(), &types].concat();
    let value = [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let values = value.repeat(count.into());
    let head = [&b"\0a\0\0\x01\0\x01"[..], &count.to_be_bytes()].concat();
    let bind = [head, values, b"\0\0".to_vec()].concat();
    [m(b'P', &parse), m(b'B', &bind)]
}

/// What is kept of these parameters.
fn bound(kind: u32, bytes: &[u8], count: u16) -> Vec<ParameterValue> {
    let told = postgres(vec![
        (Client, parse_and_bind(kind, bytes, count).concat()),
        (Server, [m(b'1', b""), m(b'2', b"")].concat()),
    ]);
    let bound = told.exchanges.last().expect("a Bind");
    let parameters = bound.parameters.as_ref().expect("parameters");
    assert!(!parameters.cut);
    let row = parameters.rows[0].iter();
    row.map(|each| each.value.clone()).collect()
}

fn bytes(value: &ParameterValue) -> usize {
    match value {
        ParameterValue::Text(bytes) | ParameterValue::Binary(bytes) => bytes.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_of_a_few_bytes_and_many_digits_are_made_once() {
    let kept = bound(NUMERIC, &LONG_NUMERIC, 263);
    assert_eq!((kept.len(), bytes(&kept[0])), (263, 64_001));
    assert_eq!(kept[262], ParameterValue::Binary(LONG_NUMERIC.to_vec()));
    let all: usize = kept.iter().map(bytes).sum();
    assert!(all <= 128 << 10, "{all} bytes");
}

/// Each makes a text of 64 KB, and none is answered.
#[test]
fn digits_of_requests_under_way_are_bounded_together() {
    let [parse, bind] = parse_and_bind(NUMERIC, &LONG_NUMERIC, 1);
    let passed = vec![(Client, [parse, bind.repeat(1000)].concat())];
    let held = most(|| {
        let told = postgres(passed.clone());
        assert_eq!((told.broken, told.exchanges.len()), (None, 1001));
    });
    assert!(held < 16 << 20, "{held} bytes");
}

#[test]
fn points_in_time_are_text_however_many_they_are() {
    let kept = bound(TIMESTAMP, &1_i64.to_be_bytes(), 5_000);
    let text = ParameterValue::Text(b"2000-01-01 00:00:00.000001".to_vec());
    assert!(kept.iter().all(|each| *each == text));
}

/// The last text, of which the first piece comes while others hold all the room, and the rest when they are answered.
fn in_pieces(statement: &str, head: usize, message: &[u8], long: &[u8], answer: &[u8]) -> Passed {
    let (first, second) = message.split_at(head + statement.len() / 2);
    vec![
        (Client, long.repeat(MANY)),
        (Client, first.to_vec()),
        (Server, answer.repeat(MANY)),
        (Client, second.to_vec()),
        (Server, answer.to_vec()),
    ]
}

#[test]
fn what_is_kept_of_a_text_has_no_hole() {
    let numbers: Vec<_> = (0..2_000).map(|number| format!("'{number}'")).collect();
    let statement = format!("INSERT INTO t VALUES ({})", numbers.join(", "));
    let long = format!("SELECT '{}'", "x".repeat(LONG));
    let check = |told: &Told| {
        told.is_whole();
        assert_eq!(told.exchanges.len(), MANY + 1);
        let text = told.exchanges[MANY].text.as_ref().expect("a text");
        assert_eq!(text.length, statement.len() as u64);
        let kept = String::from_utf8_lossy(&text.bytes);
        assert!(statement.starts_with(&*kept), "{kept}");
        assert!(kept.len() < statement.len());
    };
    let query = |sql: &str| p(0, &[b"\x03", sql.as_bytes()].concat());
    let passed = in_pieces(&statement, 5, &query(&statement), &query(&long), &p(1, OK));
    check(&told(Family::Mysql, &[login(0), passed].concat()));
    let query = |sql: &str| m(b'Q', &[sql.as_bytes(), b"\0"].concat());
    let answer = [m(b'C', b"SELECT 0\0"), m(b'Z', b"I")].concat();
    let passed = in_pieces(&statement, 5, &query(&statement), &query(&long), &answer);
    check(&postgres(passed));
}
