//! Attributes of executions on MySQL's protocol, where nobody saw the login that agreed on them.

use wire::Family;
use wire::passive::Side::{Client, Server};
use wire::passive::{ParameterValue, Stream};

use crate::made::{OK, p};
use crate::read;

/// The parameters of an execution with these flags, on a connection that was joined late. Statement 9 has one.
fn joined_late(flags: u8, rest: &[u8]) -> Vec<ParameterValue> {
    let execute = [&b"\x17\x09\0\0\0"[..], &[flags], b"\x01\0\0\0", rest].concat();
    let prepared = [p(1, b"\0\x09\0\0\0\0\0\x01\0\0\0\0"), p(2, b"\x03def")];
    let passed = [
        (Client, p(0, b"\x16SELECT ?")),
        (Server, prepared.concat()),
        (Client, p(0, &execute)),
        (Server, p(1, OK)),
    ];
    let told = read(Stream::joined_late(Family::Mysql), &passed);
    told.is_whole();
    let executed = told.exchanges.last().expect("an execution");
    let parameters = executed.parameters.as_ref().expect("parameters");
    assert!(!parameters.cut, "{executed:?}");
    let row = parameters.rows[0].iter();
    row.map(|each| each.value.clone()).collect()
}

const FIVE: [u8; 8] = 5_u64.to_le_bytes();

#[test]
fn an_execution_says_itself_whether_it_has_attributes() {
    // A count, no NULL, new types, and a parameter without a name.
    let one = [&b"\x01\0\x01\x08\0\0"[..], &FIVE].concat();
    // Behind it the attribute `id`, a text.
    let two = [&b"\x02\0\x01\x08\0\0\xfd\0\x02id"[..], &FIVE, b"\x01a"].concat();
    // With a cursor, too.
    for flags in [0x08, 0x09] {
        assert_eq!(joined_late(flags, &one), [ParameterValue::Int(5)]);
        assert_eq!(joined_late(flags, &two), [ParameterValue::Int(5)]);
    }
    let plain = [&b"\0\x01\x08\0"[..], &FIVE].concat();
    assert_eq!(joined_late(0, &plain), [ParameterValue::Int(5)]);
}
