//! In which database a captured connection is.

use wire::passive::{Exchange, Kind, SessionFacts, Text, Verb};

use super::super::databases::Databases;
use super::{query, refused};

fn to(kind: Kind, name: &[u8]) -> Exchange {
    let mut exchange = Exchange::new(kind, 0);
    exchange.text = Some(Text {
        bytes: name.into(),
        length: name.len() as u64,
    });
    exchange
}

fn several(sql: &str) -> Exchange {
    let mut exchange = query(sql, Verb::Select, (0, 1), false);
    exchange.results = 2;
    exchange
}

#[test]
fn a_connection_is_where_it_logged_in_or_went() {
    let mut databases = Databases::default();
    let shop = SessionFacts {
        database: Some("shop".to_owned()),
        ..SessionFacts::default()
    };
    databases.logged_in(7, &shop);
    databases.logged_in(8, &SessionFacts::default());
    assert_eq!(databases.of(8), None);
    let go = |sql| query(sql, Verb::Use, (0, 1), false);
    for (exchange, database) in [
        (query("SELECT 1", Verb::Select, (0, 1), false), Some("shop")),
        (go("USE a"), Some("a")),
        (refused(go("USE b"), 1049), Some("a")),
        (to(Kind::InitDb, b"c"), Some("c")),
        (several("SELECT 1; SELECT 2"), Some("c")),
        // One of them goes nobody knows where.
        (several("SELECT 1; use d; SELECT 2"), None),
        (to(Kind::InitDb, b"e"), Some("e")),
        (Exchange::new(Kind::ResetConnection, 0), Some("e")),
        (Exchange::new(Kind::ChangeUser, 0), None),
        (go("USE `f`"), Some("f")),
        (to(Kind::InitDb, b"\xFF"), None),
    ] {
        databases.passed(7, &exchange);
        let found = databases.of(7).map(String::as_str);
        assert_eq!(found, database, "{exchange:?}");
    }
    databases.passed(7, &go("USE g"));
    databases.closed(7);
    assert_eq!(databases.of(7), None);
}
