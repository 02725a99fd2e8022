//! Savepoints of PostgreSQL, whose answers look as if they ended a transaction.

use wire::passive::Side::{Client, Server};

use crate::made::{SYNC, bind, execute, m, parse, postgres};

#[test]
fn a_rollback_to_a_savepoint_in_the_middle_of_a_flight_ends_no_transaction() {
    let begin = m(b'Q', b"BEGIN\0");
    let begun = [m(b'C', b"BEGIN\0"), m(b'Z', b"T")];
    let flight = [
        parse("", "ROLLBACK TO s"),
        bind("", ""),
        execute("", 0),
        parse("", "DELETE FROM t"),
        bind("", ""),
        execute("", 0),
        SYNC.to_vec(),
    ];
    let answer = [
        m(b'1', b""),
        m(b'2', b""),
        m(b'C', b"ROLLBACK\0"),
        m(b'1', b""),
        m(b'2', b""),
        m(b'C', b"DELETE 1\0"),
        m(b'Z', b"T"),
    ];
    let told = postgres(vec![
        (Client, begin),
        (Server, begun.concat()),
        (Client, flight.concat()),
        (Server, answer.concat()),
    ]);
    told.is_whole();
    let numbers: Vec<_> = told.exchanges.iter().map(|each| each.transaction).collect();
    assert_eq!(numbers, [Some(0); 5]);
}
