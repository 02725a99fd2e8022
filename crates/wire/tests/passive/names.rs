//! Prepared statements of PostgreSQL that are freed by SQL, and those that were never prepared.

use wire::Family;
use wire::passive::Side::{Client, Server};
use wire::passive::{Observed, Stream};

use crate::made::{Passed, SYNC, bind, execute, m, parse, postgres, startup};
use crate::{Told, text};

fn query(sql: &str) -> Vec<u8> {
    m(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

fn completed(tag: &str) -> Vec<u8> {
    m(b'C', &[tag.as_bytes(), b"\0"].concat())
}

fn ready() -> Vec<u8> {
    m(b'Z', b"I")
}

/// Statements are prepared in one flight.
fn prepared(all: &[(&str, &str)]) -> Passed {
    let parses: Vec<_> = all.iter().map(|(name, sql)| parse(name, sql)).collect();
    let answers = m(b'1', b"").repeat(all.len());
    vec![
        (Client, [parses.concat(), SYNC.to_vec()].concat()),
        (Server, [answers, ready()].concat()),
    ]
}

fn executed(name: &str) -> Passed {
    let flight = [bind("", name), execute("", 0), SYNC.to_vec()];
    let answer = [m(b'2', b""), completed("SELECT 0"), ready()];
    vec![(Client, flight.concat()), (Server, answer.concat())]
}

/// The text of the last request.
fn last(told: &Told) -> Option<String> {
    told.is_whole();
    text(told.exchanges.last().expect("a request"))
}

const BOTH: [(&str, &str); 3] = [("a", "SELECT 1"), ("B", "SELECT 2"), ("", "SELECT 3")];

/// A text of SQL that is answered with tags.
fn asked(sql: &str, tags: &[&str]) -> Passed {
    let tags: Vec<_> = tags.iter().map(|tag| completed(tag)).collect();
    vec![
        (Client, query(sql)),
        (Server, [tags.concat(), ready()].concat()),
    ]
}

#[test]
fn what_sql_frees_is_not_known_any_more() {
    for (sql, tags, [a, b]) in [
        ("SELECT 1", &["SELECT 1"][..], [true, true]),
        ("DEALLOCATE a", &["DEALLOCATE"], [false, true]),
        ("DEALLOCATE PREPARE \"B\";", &["DEALLOCATE"], [true, false]),
        ("DEALLOCATE b", &["DEALLOCATE"], [true, true]),
        (
            "SELECT 1; DEALLOCATE a",
            &["SELECT 1", "DEALLOCATE"],
            [false, true],
        ),
        ("DEALLOCATE ALL", &["DEALLOCATE ALL"], [false, false]),
        ("DISCARD ALL", &["DISCARD ALL"], [false, false]),
        ("DISCARD PLANS", &["DISCARD PLANS"], [true, true]),
    ] {
        for (name, stays, own) in [
            ("a", a, "SELECT 1"),
            ("B", b, "SELECT 2"),
            ("", true, "SELECT 3"),
        ] {
            let passed = [prepared(&BOTH), asked(sql, tags), executed(name)].concat();
            let told = postgres(passed);
            let expected = stays.then(|| own.to_owned());
            assert_eq!(last(&told), expected, "{sql}: {name:?}");
        }
    }
}

#[test]
fn what_the_server_refuses_to_free_stays() {
    let refused = m(b'E', b"SERROR\0C25P02\0\0");
    let refusal = vec![
        (Client, query("DEALLOCATE a")),
        (Server, [refused, ready()].concat()),
    ];
    let told = postgres([prepared(&BOTH), refusal, executed("a")].concat());
    assert_eq!(last(&told).as_deref(), Some("SELECT 1"));
}

/// A client may send both before it has an answer.
#[test]
fn a_name_that_is_used_again_at_once_is_the_new_statements() {
    let flight = [query("DEALLOCATE a"), parse("a", "SELECT 9"), SYNC.to_vec()];
    let answers = [completed("DEALLOCATE"), ready(), m(b'1', b""), ready()];
    let both = vec![(Client, flight.concat()), (Server, answers.concat())];
    let told = postgres([prepared(&BOTH), both, executed("a")].concat());
    assert_eq!(last(&told).as_deref(), Some("SELECT 9"));
}

#[test]
fn a_parse_that_is_refused_gives_a_name_no_other_statement() {
    let refused = || m(b'E', b"SERROR\0C42P05\0\0");
    let flight = |parses: &[(&str, &str)]| -> Vec<u8> {
        let parses = parses.iter().map(|(name, sql)| parse(name, sql));
        [parses.collect::<Vec<_>>().concat(), SYNC.to_vec()].concat()
    };
    // The first is refused, and the server reads over the others.
    for (parses, name, expected) in [
        (&[("a", "SELECT 8")][..], "a", Some("SELECT 1")),
        (
            &[("a", "SELECT 8"), ("a", "SELECT 9")],
            "a",
            Some("SELECT 1"),
        ),
        (
            &[("a", "SELECT 8"), ("B", "SELECT 9")],
            "B",
            Some("SELECT 2"),
        ),
        (&[("a", "SELECT 8"), ("", "SELECT 9")], "", Some("SELECT 3")),
        (&[("new", "SELECT 8")], "new", None),
        // The one without a name is freed before its Parse is read.
        (&[("", "SELECT 8"), ("", "SELECT 9")], "", None),
    ] {
        let refusal = vec![
            (Client, flight(parses)),
            (Server, [refused(), ready()].concat()),
        ];
        let told = postgres([prepared(&BOTH), refusal, executed(name)].concat());
        assert_eq!(last(&told).as_deref(), expected, "{parses:?}");
    }
    // What is sent after the error and before the Sync.
    let told = postgres(
        [
            prepared(&BOTH),
            vec![
                (Client, [parse("x", "SELEC"), m(b'H', b"")].concat()),
                (Server, refused()),
                (Client, flight(&[("a", "SELECT 9")])),
                (Server, ready()),
            ],
            executed("a"),
        ]
        .concat(),
    );
    assert_eq!(last(&told).as_deref(), Some("SELECT 1"));
}

/// As psycopg does it, for longer than so many names are remembered.
#[test]
fn a_long_connection_that_frees_its_statements_never_has_too_many() {
    let mut stream = Stream::new(Family::Postgres);
    let mut last = None;
    let mut pass = |passed: Passed| {
        for (side, bytes) in passed {
            stream.bytes(side, &bytes, 0, &mut |observed| {
                if let Observed::Exchange(exchange) = observed {
                    last = Some(exchange);
                }
            });
        }
    };
    pass(startup());
    for number in 0..100_001 {
        let name = format!("_pg3_{number}");
        pass(prepared(&[(&name, "SELECT 1")]));
        pass(asked(&format!("DEALLOCATE {name}"), &["DEALLOCATE"]));
    }
    pass(prepared(&[("last", "SELECT 2")]));
    pass(executed("last"));
    let text = text(&last.expect("a request"));
    assert_eq!(text.as_deref(), Some("SELECT 2"));
}
