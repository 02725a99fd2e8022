//! PostgreSQL's protocol against a real server, started here on a socket and a loopback port of its own.

#[path = "../common/capture.rs"]
mod capture;
mod captured;
#[path = "../common/columns.rs"]
mod columns;
mod tls;

use columns::Columns;
use testserver::{ALL, Kind, Server, Texts, one, rows as texts};
use wire::{
    BatchWay, Cell, Connection, Error, Fetch, RowSink, RowsWanted, ServerUrl, Value, connect,
};

/// One login for each way to prove it.
const ACCESS: &str = "local all postgres,trusty trust
host all md5y 127.0.0.1/32 md5
host all clear 127.0.0.1/32 password
hostssl all safe 127.0.0.1/32 scram-sha-256
host all scram 127.0.0.1/32 scram-sha-256
";

const ROLES: &str = "CREATE ROLE trusty LOGIN SUPERUSER; SET password_encryption = 'md5'; CREATE ROLE md5y LOGIN PASSWORD 'm';
SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD 's';
CREATE ROLE safe LOGIN PASSWORD 's';
CREATE ROLE clear LOGIN PASSWORD 'c'";

fn url(server: &Server, user: &str, password: &str, socket: bool) -> ServerUrl {
    let login = format!("{user}:{password}");
    let url = if socket {
        server.url_as(&login, "postgres")
    } else {
        let url = server.url_over_tcp(&login, "postgres");
        format!("{url}?require_auth=md5,password,scram-sha-256")
    };
    ServerUrl::parse(&url).expect("valid")
}

fn sqlstate(result: Result<impl Sized, Error>) -> String {
    match result {
        Err(Error::Server { sqlstate, .. }) => sqlstate,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn everything_against_a_real_server() {
    let server = Server::start_with_tls(Kind::Postgres, &[]);
    let access = server.data().join("pg_hba.conf");
    let mut connection = server.connect("postgres").expect("trust");
    let connection = connection.as_mut();
    std::fs::write(access, ACCESS).expect("access");
    one(connection, "SELECT pg_reload_conf()");
    assert!(
        connection
            .server_version()
            .starts_with(|c: char| c.is_ascii_digit())
    );
    connection.query(ROLES, ALL, &mut ()).expect("roles");
    logins(&server);
    tls::everything(&server);
    answers(connection);
    statements(connection);
    refusals(connection);
    fetches(connection);
    binary_results(&server, connection);
    batches(connection);
    loads(connection);
    calls(connection);
    copies(connection);
    captured::everything(&server);
    endings(&server, connection);
    literals(connection);
    taken_back(connection);
    resets(connection);
}

fn logins(server: &Server) {
    for (user, password) in [("md5y", "m"), ("clear", "c"), ("scram", "s")] {
        let mut connection = connect(&url(server, user, password, false)).expect(user);
        assert_eq!(one(connection.as_mut(), "SELECT current_user"), user);
        let refused = connect(&url(server, user, "wrong", false));
        assert_eq!(sqlstate(refused), "28P01");
    }
    let mut url = url(server, "trusty", "", true);
    url.metadata = false;
    assert!(matches!(connect(&url), Err(Error::Unsupported(_))));
}

/// Rows that a statement asks for leave the connection in step.
fn copies(connection: &mut dyn Connection) {
    let sql = "COPY kinds FROM STDIN";
    let refused = connection.query(sql, ALL, &mut ());
    assert!(matches!(refused, Err(Error::Unsupported(_))));
    let copy = connection.prepare(sql).expect("prepare");
    for size in [0, 5] {
        let fetch = Fetch { size, ..ALL };
        let refused = connection.execute(&copy, &[], fetch, &mut ());
        assert!(matches!(refused, Err(Error::Unsupported(_))));
        assert_eq!(one(connection, "SELECT 7"), "7");
    }
    for way in [BatchWay::Single, BatchWay::Pipeline] {
        let refused = connection.execute_batch(&copy, &[vec![]], way);
        assert!(matches!(refused, Err(Error::Unsupported(_))));
        assert_eq!(one(connection, "SELECT 7"), "7");
    }
    connection.close(copy).expect("close");
}

fn answers(connection: &mut dyn Connection) {
    let done = connection.query("DROP TABLE IF EXISTS nowhere", ALL, &mut ());
    assert_eq!(done.expect("drop").warnings, 1);
    let sql = "SELECT 1::bigint AS one, 'x'::text AS other";
    let told = Columns(vec![("one".to_owned(), 20), ("other".to_owned(), 25)]);
    let mut columns = Columns::default();
    connection.query(sql, ALL, &mut columns).expect("query");
    assert_eq!(columns, told);
    let select = connection.prepare(sql).expect("prepare");
    for size in [0, 1] {
        let fetch = Fetch { size, ..ALL };
        let mut columns = Columns::default();
        connection
            .execute(&select, &[], fetch, &mut columns)
            .expect("select");
        assert_eq!(columns, told);
    }
    connection.close(select).expect("close");
}

fn statements(connection: &mut dyn Connection) {
    let create = "CREATE TABLE kinds (i int, d numeric(9,2), t text, at timestamp)";
    connection.query(create, ALL, &mut ()).expect(create);
    let insert = "INSERT INTO kinds VALUES (?, ?, ?, ?) -- ?";
    let insert = connection.prepare(insert).expect(insert);
    assert_eq!((insert.parameters, insert.columns), (4, 0));
    let values = [
        Value::Int(-7),
        Value::Decimal {
            unscaled: -5,
            scale: 2,
        },
        Value::Text("it's \\ é".to_owned()),
        Value::Timestamp(1_709_164_800_000_001),
    ];
    let before = connection.counters();
    let done = connection.execute(&insert, &values, ALL, &mut ());
    assert_eq!(done.expect("insert").affected, 1);
    let counted = connection.counters() - before;
    assert_eq!(counted.round_trips, 1);
    // Bind, Execute, Sync; BindComplete, CommandComplete, ReadyForQuery.
    assert_eq!((counted.packets_sent, counted.packets_received), (3, 3));
    assert_eq!(counted.bytes_received, 5 + (5 + 11) + 6);
    assert_eq!(counted.syscalls, 2);
    let nulls = vec![Value::Null; 4];
    connection
        .execute(&insert, &nulls, ALL, &mut ())
        .expect("nulls");
    let expected = ["-7", "-0.05", "it's \\ é", "2024-02-29 00:00:00.000001"];
    let expected = vec![
        expected.map(|text| Some(text.to_owned())).to_vec(),
        vec![None; 4],
    ];
    assert_eq!(texts(connection, "SELECT * FROM kinds"), expected);
    let select = connection.prepare("SELECT * FROM kinds WHERE i = ?");
    let select = select.expect("select");
    let mut rows = Texts::default();
    let done = connection.execute(&select, &[Value::Int(-7)], ALL, &mut rows);
    assert_eq!(done.expect("select").rows, 1);
    assert_eq!(rows.0, expected[..1]);
    let few = connection.execute(&select, &[], ALL, &mut ());
    assert!(matches!(few, Err(Error::Unsupported(_))));
    connection.close(select.clone()).expect("close");
    let closed = connection.execute(&select, &[Value::Int(1)], ALL, &mut ());
    assert_eq!(sqlstate(closed), "26000");
}

fn refusals(connection: &mut dyn Connection) {
    assert_eq!(sqlstate(connection.query("SELEC 1", ALL, &mut ())), "42601");
    assert_eq!(
        sqlstate(connection.prepare("SELECT * FROM nowhere")),
        "42P01"
    );
    let divide = connection.prepare("SELECT 1 / ?::int").expect("divide");
    let divided = connection.execute(&divide, &[Value::Int(0)], ALL, &mut ());
    assert_eq!(sqlstate(divided), "22012");
    let copy = connection.query("COPY kinds FROM STDIN", ALL, &mut ());
    assert!(matches!(copy, Err(Error::Unsupported(_))));
    assert_eq!(one(connection, "SELECT 1"), "1");
}

fn fetches(connection: &mut dyn Connection) {
    let sql = "SELECT n, repeat('x', 100) FROM generate_series(1, 1000) n";
    let statement = connection.prepare(sql).expect(sql);
    let fetch = |rows| Fetch { size: 300, rows };
    for transaction in [false, true] {
        if transaction {
            connection.query("BEGIN", ALL, &mut ()).expect("begin");
        }
        let before = connection.counters();
        let mut rows = Texts::default();
        let done = connection.execute(&statement, &[], fetch(RowsWanted::All), &mut rows);
        assert_eq!(done.expect("all").rows, 1000);
        assert_eq!(rows.0[999][0].as_deref(), Some("1000"));
        let trips = (connection.counters() - before).round_trips;
        assert_eq!(trips, if transaction { 4 } else { 5 });
        let mut rows = Texts::default();
        let first = connection.execute(&statement, &[], fetch(RowsWanted::First), &mut rows);
        first.expect("first");
        assert_eq!(rows.0.len(), 1);
        let done = connection.query(sql, fetch(RowsWanted::All), &mut ());
        assert_eq!(done.expect("text").rows, 1000);
    }
    let late = "SELECT 1 / (500 - n) FROM generate_series(1, 1000) n";
    connection.query("COMMIT", ALL, &mut ()).expect("commit");
    let refused = connection.query(late, fetch(RowsWanted::All), &mut ());
    assert_eq!(sqlstate(refused), "22012");
    assert_eq!(one(connection, "SELECT 2"), "2");
}

/// Every type whose binary form is read, at its edges.
const EDGES: &str = "CREATE TABLE edges AS SELECT n, n::int2 AS small, (n::int8 << 40) * -1 AS large, n % 2 = 0 AS even, 'x'::text AS words,
 (n * 7.31::numeric ^ (n % 9 - 4))::numeric(40, 12) AS exact, n::float8 / 3 AS ratio,
 (ARRAY['0', '-0.0001', '1e30', '10000', '99999999.9990', '-100020003.0004', 'NaN', '-Infinity', NULL])[n % 9 + 1]::numeric AS number,
 (ARRAY['-infinity', '0044-03-15 BC', '2000-02-29', '5874897-12-31', NULL])[n % 5 + 1]::date AS day,
 (ARRAY['infinity', '0001-12-31 23:59:59.999999 BC', '1969-12-31 23:59:59.5', '2026-01-01', NULL])[n % 5 + 1]::timestamp AS moment,
 now() AS now FROM generate_series(1, 300) n";

fn binary_results(server: &Server, connection: &mut dyn Connection) {
    /// Counts the rows whose integers came as such.
    struct Integers(u64);
    impl RowSink for Integers {
        fn row(&mut self, cells: &[Cell<'_>]) {
            let is_integer = |cell: &Cell<'_>| matches!(cell, Cell::Int(_));
            self.0 += u64::from(cells[..3].iter().all(is_integer));
        }
    }
    connection.query(EDGES, ALL, &mut ()).expect(EDGES);
    let sql = "SELECT * FROM edges ORDER BY n";
    let text = texts(connection, sql);
    let mut url = url(server, "trusty", "", true);
    url.binary_results = true;
    let mut binary = connect(&url).expect("trust");
    let select = binary.prepare(sql).expect(sql);
    for size in [0, 7] {
        let fetch = Fetch { size, ..ALL };
        let mut rows = Texts::default();
        binary
            .execute(&select, &[], fetch, &mut rows)
            .expect("binary");
        assert_eq!(rows.0, text);
    }
    let mut integers = Integers(0);
    binary
        .execute(&select, &[], ALL, &mut integers)
        .expect("binary");
    assert_eq!(integers.0, 300);
    // Text statements are text on the same connection, also after one that was refused.
    assert_eq!(texts(&mut *binary, sql), text);
    let divide = binary.prepare("SELECT 1 / ?::int").expect("divide");
    let refused = binary.execute(&divide, &[Value::Int(0)], ALL, &mut ());
    assert_eq!(sqlstate(refused), "22012");
    assert_eq!(texts(&mut *binary, sql), text);
    binary.close(select).expect("close");
    connection
        .query("DROP TABLE edges", ALL, &mut ())
        .expect("drop");
}

fn batches(connection: &mut dyn Connection) {
    let create = "CREATE TABLE batch (n int PRIMARY KEY)";
    connection.query(create, ALL, &mut ()).expect(create);
    let insert = connection.prepare("INSERT INTO batch VALUES (?)");
    let insert = insert.expect("insert");
    let rows: Vec<Vec<Value>> = (0..2500).map(|n| vec![Value::Int(n)]).collect();
    let before = connection.counters();
    let done = connection.execute_batch(&insert, &rows, BatchWay::Pipeline);
    assert_eq!(done.expect("pipeline").affected, 2500);
    assert_eq!((connection.counters() - before).round_trips, 3);
    let more: Vec<Vec<Value>> = (1..2500)
        .rev()
        .map(|n| vec![Value::Int(n * 1000)])
        .collect();
    let twice = connection.execute_batch(&insert, &more, BatchWay::Pipeline);
    assert_eq!(sqlstate(twice), "23505");
    let bulk = connection.execute_batch(&insert, &rows, BatchWay::Bulk);
    assert!(matches!(bulk, Err(Error::Unsupported(_))));
    assert_eq!(one(connection, "SELECT count(*) FROM batch"), "2500");
    let single = vec![vec![Value::Int(9001)], vec![Value::Int(9002)]];
    let done = connection.execute_batch(&insert, &single, BatchWay::Single);
    assert_eq!(done.expect("single").affected, 2);
}

fn loads(connection: &mut dyn Connection) {
    let create = "CREATE TABLE loaded (n int PRIMARY KEY, t text)";
    connection.query(create, ALL, &mut ()).expect(create);
    let row = |n| vec![Value::Int(n), Value::Text(format!("{n}\t\\\n\r'é"))];
    let loaded = connection.load("loaded", &["n", "t"], &mut (0..20_000).map(row));
    assert_eq!(loaded.expect("load"), 20_000);
    let text = one(connection, "SELECT t FROM loaded WHERE n = 19999");
    assert_eq!(text, "19999\t\\\n\r'é");
    let create = "CREATE TABLE loaded_bytes (b bytea)";
    connection.query(create, ALL, &mut ()).expect(create);
    let mut bytes = std::iter::once(vec![Value::Bytes(vec![0, b'\\', 0xFF])]);
    let loaded = connection.load("loaded_bytes", &["b"], &mut bytes);
    assert_eq!(loaded.expect("load"), 1);
    let bytes = one(connection, "SELECT b FROM loaded_bytes");
    assert_eq!(bytes, "\\x005cff");
    let twice = connection.load("loaded", &["n", "t"], &mut (19_999..60_000).map(row));
    assert_eq!(sqlstate(twice), "23505");
    let nowhere = connection.load("nowhere", &["n"], &mut std::iter::empty());
    assert_eq!(sqlstate(nowhere), "42P01");
    assert_eq!(one(connection, "SELECT count(*) FROM loaded"), "20000");
}

fn calls(connection: &mut dyn Connection) {
    let create = "CREATE EXTENSION pg_stat_statements";
    connection.query(create, ALL, &mut ()).expect(create);
    let statement = connection.prepare("SELECT n FROM batch WHERE n = ?");
    let statement = statement.expect("select");
    let reset = "SELECT pg_stat_statements_reset()";
    connection.query(reset, ALL, &mut ()).expect(reset);
    let before = connection.counters();
    for n in 0..100 {
        let done = connection.execute(&statement, &[Value::Int(n)], ALL, &mut ());
        assert_eq!(done.expect("select").rows, 1);
    }
    assert_eq!((connection.counters() - before).round_trips, 100);
    let counted = "SELECT calls FROM pg_stat_statements WHERE query LIKE '%FROM batch WHERE%'";
    assert_eq!(one(connection, counted), "100");
}

fn endings(server: &Server, connection: &mut dyn Connection) {
    for socket in [true, false] {
        let user = if socket {
            ("trusty", "")
        } else {
            ("scram", "s")
        };
        let mut idle = connect(&url(server, user.0, user.1, socket)).expect("login");
        let pid = one(idle.as_mut(), "SELECT pg_backend_pid()");
        let terminate = format!("SELECT pg_terminate_backend({pid}, 5000)");
        assert_eq!(one(connection, &terminate), "t");
        let lost = idle.query("SELECT 1", ALL, &mut ()).expect_err("lost");
        assert!(lost.is_disconnect());
        assert_eq!(sqlstate(Err::<(), _>(lost)), "57P01");
    }
}

fn literals(connection: &mut dyn Connection) {
    let value = Value::Text("it's a \\ \\' \n $$?$$ é".to_owned());
    for escapes in [false, true] {
        let set = format!("SET standard_conforming_strings = {}", !escapes);
        connection.query(&set, ALL, &mut ()).expect("set");
        assert_eq!(connection.dialect().backslash_escapes, escapes);
        let sql = "SELECT ?::text, 'x''?', E'\\'?', $$?$$, $q$ ? $q$, /* /* ? */ ? */ ?::int -- ?";
        let parameters = [value.clone(), Value::Int(-1)];
        let statement = connection.prepare(sql).expect(sql);
        assert_eq!(statement.parameters, 2);
        let mut rows = Texts::default();
        connection
            .execute(&statement, &parameters, ALL, &mut rows)
            .expect(sql);
        let rendered = wire::render(connection.dialect(), sql, &parameters);
        assert_eq!(texts(connection, &rendered), rows.0);
        assert_eq!(rows.0[0][0].as_deref(), Some("it's a \\ \\' \n $$?$$ é"));
    }
}

/// A refusal takes back what its transaction has set, and the server says so behind it.
fn taken_back(connection: &mut dyn Connection) {
    let divide = connection.prepare("SELECT 1 / ?::int").expect("divide");
    let set = |to| format!("SET standard_conforming_strings = {to}");
    connection.query(&set("on"), ALL, &mut ()).expect("set");
    for (prepared, size) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        connection.query("BEGIN", ALL, &mut ()).expect("begin");
        connection.query(&set("off"), ALL, &mut ()).expect("set");
        assert!(connection.dialect().backslash_escapes);
        let fetch = Fetch { size, ..ALL };
        let refused = match prepared {
            true => connection.execute(&divide, &[Value::Int(0)], fetch, &mut ()),
            false => connection.query("SELECT 1 / 0", fetch, &mut ()),
        };
        assert_eq!(sqlstate(refused), "22012");
        assert!(!connection.dialect().backslash_escapes);
        connection
            .query("ROLLBACK", ALL, &mut ())
            .expect("rollback");
        assert!(!connection.dialect().backslash_escapes);
    }
    connection.close(divide).expect("close");
}

fn resets(connection: &mut dyn Connection) {
    let select = connection.prepare("SELECT 1").expect("prepare");
    connection
        .query("SET work_mem = '1MB'", ALL, &mut ())
        .expect("set");
    connection.reset().expect("reset");
    assert_ne!(one(connection, "SHOW work_mem"), "1MB");
    let gone = connection.execute(&select, &[], ALL, &mut ());
    assert_eq!(sqlstate(gone), "26000");
    let select = connection.prepare("SELECT 1").expect("prepare");
    let again = connection.execute(&select, &[], ALL, &mut ());
    assert_eq!(again.expect("execute").rows, 1);
}
