//! Captured requests, put together, are the transactions that a replay sends.

mod captured;
mod databases;
mod growing;
mod listed;
mod lost;
mod pauses;
mod postgres;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wire::passive::{
    Exchange, Kind, Parameter, ParameterValue, Parameters, ServerError, Text, Verb,
};
use wire::{Family, Value};

use super::request::{LeftOut, Request, request};
use super::transactions::{KINDS, Transactions};
use super::ways::Sort;
use crate::replay::tests::Scratch;
use crate::replay::{Event, Meta, RecordedStatement, Trace, TraceWriter};
use crate::session::StatementId;

/// A query that was sent and answered then, in milliseconds.
fn query(sql: &str, verb: Verb, ms: (u64, u64), open_after: bool) -> Exchange {
    query_of(sql.as_bytes(), verb, ms, open_after)
}

fn query_of(sql: &[u8], verb: Verb, ms: (u64, u64), open_after: bool) -> Exchange {
    let mut exchange = Exchange::new(Kind::Query, ms.0 * 1_000_000);
    exchange.text = Some(Text {
        bytes: sql.into(),
        length: sql.len() as u64,
    });
    exchange.verb = Some(verb);
    exchange.answer_ns = Some((ms.1 * 1_000_000, ms.1 * 1_000_000));
    exchange.in_transaction_after = Some(open_after);
    exchange
}

fn refused(mut exchange: Exchange, code: u16) -> Exchange {
    exchange.error = Some(ServerError {
        code,
        sqlstate: "HY000".to_owned(),
    });
    exchange
}

/// The trace made of these, and how many requests are not in it because they were refused; the file goes with it.
fn trace_of(
    family: Family,
    name: &str,
    exchanges: &[(u32, Exchange)],
    pauses: bool,
) -> (Scratch, Trace, usize) {
    let mut ids: HashMap<String, StatementId> = HashMap::new();
    let mut statements = Vec::new();
    for (_, exchange) in exchanges {
        if let Request::Statement(sent) = request(family, exchange) {
            let id = StatementId(ids.len() as u16);
            ids.entry(sent.sql.clone()).or_insert_with(|| {
                statements.push(RecordedStatement {
                    name: sent.verb.to_owned(),
                    sql: sent.sql,
                    database: None,
                    types: sent.types,
                    first_row: false,
                    of_session: sent.of_session,
                    way: None,
                });
                id
            });
        }
    }
    let meta = Meta {
        workload: "test".into(),
        family: "mysql".into(),
        version: "1".into(),
        connections: 2,
        seed: 0,
        knobs: serde_json::json!({}),
        transactions: KINDS.iter().map(ToString::to_string).collect(),
        statements,
    };
    let file = Scratch::new(name);
    let writer = TraceWriter::create(&file.path, &meta, Arc::new(AtomicBool::new(false))).unwrap();
    let mut transactions = Transactions::new(Some(&writer), family, pauses);
    let mut left_out = 0;
    for (connection, exchange) in exchanges {
        transactions.passed(*connection, exchange);
        let asked = request(family, exchange);
        let taken = transactions.take(*connection, exchange, asked, |sent| ids[&sent.sql]);
        left_out += usize::from(!taken);
    }
    transactions.finish();
    writer.finish().unwrap();
    let trace = Trace::open(&file.path, false).unwrap();
    (file, trace, left_out)
}

/// What a trace made of these has, by connection: how many had ended before, whether it was refused, its requests with their texts.
fn imported(name: &str, exchanges: &[(u32, Exchange)]) -> (Vec<String>, u64, usize) {
    imported_on(Family::Mysql, name, exchanges)
}

fn imported_on(
    family: Family,
    name: &str,
    exchanges: &[(u32, Exchange)],
) -> (Vec<String>, u64, usize) {
    let (_file, trace, left_out) = trace_of(family, name, exchanges, true);
    (transactions(&trace), trace.ending.lost, left_out)
}

fn transactions(trace: &Trace) -> Vec<String> {
    let mut reader = trace.reader().unwrap();
    let mut found = Vec::new();
    while let Some(one) = reader.next_transaction().unwrap() {
        let events = one.events().unwrap();
        let words: Vec<String> = events
            .iter()
            .map(|event| told(event, &trace.meta))
            .collect();
        let kind = KINDS[usize::from(one.kind.0)];
        let mark = if one.refused { " refused" } else { "" };
        let (connection, after) = (one.connection, one.after);
        found.push(format!(
            "{connection} {kind} after {after}{mark}: {}",
            words.join("; ")
        ));
    }
    found
}

#[test]
fn rows_of_a_cursor_belong_to_its_statement() {
    let execute = |ms, open| {
        let mut exchange = query("SELECT a FROM t", Verb::Select, ms, open);
        exchange.cursor = true;
        exchange
    };
    let fetch = |ms, rows| {
        let mut exchange = query("SELECT a FROM t", Verb::Select, ms, false);
        exchange.kind = Kind::Fetch;
        exchange.rows = rows;
        exchange
    };
    let (found, ..) = imported(
        "import-cursor",
        &[
            (1, execute((0, 1), false)),
            (1, fetch((2, 3), 2)),
            (1, fetch((4, 5), 1)),
            (1, query("BEGIN", Verb::Begin, (6, 7), true)),
            (1, execute((8, 9), true)),
            (1, fetch((10, 11), 4)),
            (1, query("COMMIT", Verb::Commit, (12, 13), false)),
            (1, execute((14, 15), false)),
            (1, fetch((16, 17), 5)),
        ],
    );
    let rows: Vec<_> = found
        .iter()
        .filter_map(|one| one.split(" -> ").nth(1))
        .collect();
    assert_eq!(rows, ["3", "4; COMMIT", "5"]);
}

fn told(event: &Event, meta: &Meta) -> String {
    match event {
        Event::Begin => "BEGIN".to_owned(),
        Event::Commit => "COMMIT".to_owned(),
        Event::Rollback => "ROLLBACK".to_owned(),
        Event::Ping => "ping".to_owned(),
        Event::Reset => "reset".to_owned(),
        Event::Statement {
            id,
            parameters,
            counts,
        } => {
            let sql = &meta.statements[usize::from(id.0)].sql;
            let text = wire::render(Family::Mysql, sql, parameters);
            match counts.rows {
                0 => text,
                rows => format!("{text} -> {rows}"),
            }
        }
        Event::Batch { rows, .. } => format!("{} rows", rows.len()),
    }
}

#[test]
fn statements_alone_and_in_transactions_keep_their_order() {
    let (found, lost, left_out) = imported(
        "import-order",
        &[
            (
                7,
                query("SELECT a FROM t WHERE id = 1", Verb::Select, (0, 10), false),
            ),
            (7, query("BEGIN", Verb::Begin, (11, 12), true)),
            // Began before the first one had ended.
            (
                9,
                query("SELECT a FROM t WHERE id = 2", Verb::Select, (5, 13), false),
            ),
            (
                7,
                query(
                    "UPDATE t SET a = 3 WHERE id = 1",
                    Verb::Update,
                    (14, 15),
                    true,
                ),
            ),
            (7, query("COMMIT", Verb::Commit, (16, 17), false)),
            (9, query("COMMIT", Verb::Commit, (18, 19), false)),
            // autocommit is off.
            (
                9,
                query("DELETE FROM t WHERE id = 2", Verb::Delete, (20, 21), true),
            ),
            (9, query("ROLLBACK", Verb::Rollback, (22, 23), false)),
            (9, query("BEGIN", Verb::Begin, (24, 25), true)),
        ],
    );
    assert_eq!(
        found,
        [
            "0 read after 0: SELECT a FROM t WHERE id = 1",
            "1 read after 0: SELECT a FROM t WHERE id = 2",
            "0 write after 1: BEGIN; UPDATE t SET a = 3 WHERE id = 1; COMMIT",
            "1 write after 3: BEGIN; DELETE FROM t WHERE id = 2; ROLLBACK",
        ]
    );
    assert_eq!((lost, left_out), (1, 0));
}

#[test]
fn a_refused_statement_ends_its_transaction_only_where_the_server_did() {
    let update = |ms| query("UPDATE t SET a = 3 WHERE id = 1", Verb::Update, ms, true);
    let insert = |ms, open| query("INSERT INTO t VALUES (1)", Verb::Insert, ms, open);
    let (found, lost, left_out) = imported(
        "import-refused",
        &[
            (1, query("BEGIN", Verb::Begin, (0, 1), true)),
            (1, update((2, 3))),
            (1, refused(insert((4, 5), true), 1062)),
            (1, query("COMMIT", Verb::Commit, (6, 7), false)),
            (1, query("BEGIN", Verb::Begin, (8, 9), true)),
            (1, refused(insert((10, 11), false), 1213)),
            (1, refused(insert((12, 13), false), 1062)),
            // Commits what is open.
            (1, query("BEGIN", Verb::Begin, (14, 15), true)),
            (1, update((16, 17))),
            (1, query("BEGIN", Verb::Begin, (18, 19), true)),
            (
                1,
                query("CREATE TABLE u (a INT)", Verb::Ddl, (20, 21), false),
            ),
        ],
    );
    assert_eq!(
        found,
        [
            "0 write after 0: BEGIN; UPDATE t SET a = 3 WHERE id = 1; COMMIT",
            "0 write after 1 refused: BEGIN; INSERT INTO t VALUES (1)",
            "0 write after 2 refused: INSERT INTO t VALUES (1)",
            "0 write after 3: BEGIN; UPDATE t SET a = 3 WHERE id = 1; COMMIT",
            "0 write after 4: BEGIN; CREATE TABLE u (a INT); COMMIT",
        ]
    );
    assert_eq!((lost, left_out), (0, 1));
}

#[test]
fn what_cannot_be_sent_again_is_named() {
    let select = || query("SELECT a FROM t WHERE id = ?", Verb::Select, (0, 1), false);
    let execute = |values: Vec<ParameterValue>, cut| {
        let mut exchange = select();
        exchange.kind = Kind::Execute;
        let row = values.into_iter().map(|value| Parameter { kind: 8, value });
        exchange.parameters = Some(Parameters {
            rows: vec![row.collect()],
            cut,
        });
        exchange
    };
    let why = |exchange: &Exchange| match request(Family::Mysql, exchange) {
        Request::Leave(why) => Some(why),
        _ => None,
    };
    let sent = request(
        Family::Mysql,
        &execute(vec![ParameterValue::UInt(5)], false),
    );
    assert!(matches!(sent, Request::Statement(sent) if sent.rows == [[Value::UInt(5)]]));
    let sent = execute(vec![ParameterValue::Double(10.0)], false);
    let sent = request(Family::Mysql, &sent);
    assert!(matches!(sent, Request::Statement(sent) if sent.rows == [[Value::Double(10.0)]]));
    assert_eq!(why(&execute(vec![], false)), Some(LeftOut::NotCaptured));
    assert_eq!(
        why(&execute(vec![ParameterValue::Int(5)], true)),
        Some(LeftOut::NotCaptured)
    );
    assert_eq!(
        why(&execute(vec![ParameterValue::Long(9)], false)),
        Some(LeftOut::NotCaptured)
    );
    let show = "SHOW STATUS LIKE 'Com_%'";
    let sent = request(Family::Mysql, &query(show, Verb::Show, (0, 1), false));
    assert!(matches!(sent, Request::Statement(sent) if sent.sql == show));
    let mut unknown = execute(vec![ParameterValue::Int(5)], false);
    unknown.text = None;
    assert_eq!(why(&unknown), Some(LeftOut::UnknownText));
    let mut several = query("SELECT 1; SELECT 2", Verb::Select, (0, 1), false);
    several.results = 2;
    several.rows = 2;
    let Request::Statement(sent) = request(Family::Mysql, &several) else {
        panic!("several statements of one text are sent");
    };
    // As it is: a value in the middle of it is no parameter.
    assert_eq!(
        (sent.sql.as_str(), sent.rows),
        ("SELECT 1; SELECT 2", vec![vec![]])
    );
    assert_eq!((sent.sort, sent.counts.rows), (Sort::Several, 2));
    several.verb = Some(Verb::Begin);
    assert!(matches!(
        request(Family::Mysql, &several),
        Request::Statement(_)
    ));
    let set = query_of(b"SET @a = '\xFF'", Verb::Set, (0, 1), false);
    assert_eq!(why(&set), Some(LeftOut::Binary));
    let mut cut = query("SELECT 1", Verb::Select, (0, 1), false);
    cut.text.as_mut().unwrap().length = 1 << 20;
    assert_eq!(why(&cut), Some(LeftOut::NotCaptured));
    for (exchange, reason) in [
        (
            query("USE other", Verb::Use, (0, 1), false),
            LeftOut::Database,
        ),
        (Exchange::new(Kind::InitDb, 0), LeftOut::Database),
        (Exchange::new(Kind::ChangeUser, 0), LeftOut::Session),
        (
            query("SET NAMES utf8mb4, autocommit=0", Verb::Set, (0, 1), false),
            LeftOut::Session,
        ),
    ] {
        assert_eq!(why(&exchange), Some(reason), "{exchange:?}");
    }
    let load = query(
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
        Verb::Load,
        (0, 1),
        false,
    );
    assert_eq!(why(&load), Some(LeftOut::Load));
    for (family, asked) in [
        (Family::Mysql, Request::Ping),
        (Family::Postgres, Request::Implied),
    ] {
        assert_eq!(request(family, &Exchange::new(Kind::Ping, 0)), asked);
    }
}

#[test]
fn parameters_keep_the_types_that_they_were_given() {
    let text = "UPDATE t SET a = CASE b WHEN $1 THEN $2 END WHERE b = $1 AND c = '$2'";
    let mut exchange = query(text, Verb::Update, (0, 1), false);
    exchange.kind = Kind::Execute;
    let mut types = |family, kinds: [u32; 2]| {
        let row = kinds.map(|kind| Parameter {
            kind,
            value: ParameterValue::Int(1),
        });
        exchange.parameters = Some(Parameters {
            rows: vec![row.into()],
            cut: false,
        });
        let Request::Statement(sent) = request(family, &exchange) else {
            panic!("a statement");
        };
        assert_eq!(sent.rows[0].len(), 3);
        sent.types
    };
    // Nothing was said of the second; the text names the first one twice.
    assert_eq!(types(Family::Postgres, [23, 0]), [23, 0, 23]);
    // A type of the database's own has another number elsewhere.
    assert_eq!(types(Family::Postgres, [16_384, 23]), [0, 23, 0]);
    assert!(types(Family::Postgres, [0, 0]).is_empty());
    let statement = RecordedStatement {
        name: "update".into(),
        sql: "SELECT ?".into(),
        database: None,
        types: vec![23],
        first_row: false,
        of_session: false,
        way: None,
    };
    assert_eq!(statement.spec(Family::Postgres).types, [23]);
    assert!(statement.spec(Family::Mysql).types.is_empty());
}

#[test]
fn bytes_are_values() {
    let mut exchange = query("SELECT a FROM t WHERE k = ?", Verb::Select, (0, 1), false);
    exchange.kind = Kind::Execute;
    let mut sent = |family, kind| {
        let value = ParameterValue::Binary(vec![0xFF]);
        exchange.parameters = Some(Parameters {
            rows: vec![vec![Parameter { kind, value }]],
            cut: false,
        });
        match request(family, &exchange) {
            Request::Statement(sent) => Ok(sent.rows),
            Request::Leave(why) => Err(why),
            other => panic!("{other:?}"),
        }
    };
    let bytes = || Value::Bytes(vec![0xFF]);
    // BLOB and VAR_STRING; bytea and interval.
    assert_eq!(sent(Family::Mysql, 252), Ok(vec![vec![bytes()]]));
    assert_eq!(sent(Family::Mysql, 253), Ok(vec![vec![bytes()]]));
    assert_eq!(sent(Family::Postgres, 17), Ok(vec![vec![bytes()]]));
    assert_eq!(sent(Family::Postgres, 1186), Err(LeftOut::Binary));
    let delete = b"DELETE FROM t WHERE k = '\xFF'";
    let delete = query_of(delete, Verb::Delete, (0, 1), false);
    let Request::Statement(sent) = request(Family::Mysql, &delete) else {
        panic!("a value of bytes is sent");
    };
    assert_eq!(sent.sql, "DELETE FROM t WHERE k = ?");
    assert_eq!(sent.rows, [[bytes()]]);
}

#[test]
fn what_is_about_the_session_goes_with_the_transaction_behind_it() {
    let one = |kind, ms: (u64, u64)| {
        let mut exchange = Exchange::new(kind, ms.0 * 1_000_000);
        exchange.answer_ns = Some((ms.1 * 1_000_000, ms.1 * 1_000_000));
        exchange
    };
    let select = |ms| query("SELECT a FROM t WHERE id = 1", Verb::Select, ms, false);
    let update = |ms| query("UPDATE t SET a = 3 WHERE id = 1", Verb::Update, ms, true);
    let same = "SET @@session.autocommit = @@session.autocommit";
    let (found, lost, left_out) = imported(
        "import-session",
        &[
            (1, one(Kind::Ping, (0, 1))),
            // Ends between the ping and the select of the other connection.
            (2, select((2, 3))),
            (1, query("SET time_zone = 'UTC'", Verb::Set, (4, 5), false)),
            (1, select((6, 7))),
            (1, query("SET autocommit=0", Verb::Set, (8, 9), false)),
            (1, update((10, 11))),
            (1, one(Kind::Ping, (12, 13))),
            // Rolls back.
            (1, one(Kind::ResetConnection, (14, 15))),
            (1, update((16, 17))),
            // Commits.
            (1, query("SET autocommit = 1;", Verb::Set, (18, 19), false)),
            (1, query("SHOW WARNINGS", Verb::Show, (20, 21), false)),
        ],
    );
    assert_eq!(
        found,
        [
            "1 read after 0: SELECT a FROM t WHERE id = 1".to_owned(),
            "0 read after 1: ping; SET time_zone = 'UTC'; SELECT a FROM t WHERE id = 1".to_owned(),
            format!(
                "0 write after 2: {same}; BEGIN; UPDATE t SET a = 3 WHERE id = 1; ping; ROLLBACK; reset"
            ),
            format!("0 write after 3: BEGIN; UPDATE t SET a = 3 WHERE id = 1; {same}; COMMIT"),
            "0 read after 4: SHOW WARNINGS".to_owned(),
        ]
    );
    assert_eq!((lost, left_out), (0, 0));
}
