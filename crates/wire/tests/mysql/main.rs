//! The protocol against real servers: a MariaDB of the system, and the MySQL that `UPSHIFT_TEST_MYSQLD` names.

mod answers;
mod bulk;
#[path = "../common/capture.rs"]
mod capture;
mod captured;
#[path = "../common/columns.rs"]
mod columns;
mod ending;
mod literals;
mod metadata;
mod tls;

use testserver::{ALL, Kind, Server, Texts, rows as texts};
use wire::{BatchWay, Connection, Error, Fetch, RowsWanted, ServerUrl, Value};

/// The server's own (received, sent) bytes.
fn server_bytes(connection: &mut dyn Connection) -> (u64, u64) {
    let rows = texts(connection, r"SHOW SESSION STATUS LIKE 'Bytes\_%'");
    let value = |row: usize| {
        rows[row][1]
            .as_ref()
            .expect("a value")
            .parse()
            .expect("a number")
    };
    (value(0), value(1))
}

fn values_come_back_the_same_by_both_encodings(connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, small SMALLINT, big BIGINT UNSIGNED, price DECIMAL(12,2), words VARCHAR(99), \
         at DATETIME(3), day DATE, clock TIME, ratio DOUBLE, single FLOAT)",
    );
    let insert = connection
        .prepare("INSERT INTO t VALUES (?, ?, 18446744073709551615, ?, ?, ?, '2024-02-29', '-101:02:03', 0.1, 0.1)")
        .expect("prepare");
    let row = |id: i64, words: Value| {
        vec![
            Value::Int(id),
            Value::Int(-id),
            Value::Decimal {
                unscaled: -1205,
                scale: 2,
            },
            words,
            Value::Timestamp(1_709_251_199_250_000),
        ]
    };
    let rows = [row(1, Value::Null), row(2, Value::Text("it's \\".into()))];
    let done = connection
        .execute_batch(&insert, &rows, BatchWay::Single)
        .expect("insert");
    assert_eq!(done.affected, 2);
    connection.close(insert).expect("close");
    let mut more = (3..=300).map(|id| row(id, Value::Text("a\tb\n\\".into())));
    let columns = ["id", "small", "price", "words", "at"];
    assert_eq!(
        connection.load("t", &columns, &mut more).expect("load"),
        298
    );
    let mut bytes = std::iter::once(vec![Value::Int(301), Value::Bytes(vec![0xFF])]);
    let refused = connection.load("t", &["id", "words"], &mut bytes);
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");

    let sql = "SELECT * FROM t ORDER BY id";
    let text = texts(connection, sql);
    assert_eq!(text.len(), 300);
    assert_eq!(text[0][5].as_deref(), Some("2024-02-29 23:59:59.250"));
    assert_eq!(text[299][4].as_deref(), Some("a\tb\n\\"));
    let select = connection.prepare(sql).expect("prepare");
    for size in [0, 7] {
        let mut binary = Texts::default();
        let fetch = Fetch { size, ..ALL };
        let before = connection.counters();
        let done = connection.execute(&select, &[], fetch, &mut binary);
        assert_eq!(done.expect("select").rows, 300);
        assert_eq!(binary.0, text);
        let round_trips = (connection.counters() - before).round_trips;
        assert!(if size == 0 {
            round_trips == 1
        } else {
            round_trips > 42
        });
        let first = Fetch {
            size,
            rows: RowsWanted::First,
        };
        let mut one = Texts::default();
        connection
            .execute(&select, &[], first, &mut one)
            .expect("first");
        assert_eq!(one.0, text[..1]);
    }
    connection.close(select).expect("close");
}

/// The server counts before encryption, we what is on the socket: one record each way a statement, of so many bytes, is the difference.
fn counters_equal_the_servers(connection: &mut dyn Connection, record_bytes: u64) {
    let point = connection
        .prepare("SELECT words FROM t WHERE id = ?")
        .expect("prepare");
    // A status holds its own request but not its own answer: between two of them lie one request and one answer for each of ours.
    let ours = connection.counters();
    let servers = server_bytes(connection);
    for id in 1..=100 {
        connection
            .execute(&point, &[Value::Int(id)], ALL, &mut ())
            .expect("select");
    }
    let ours = connection.counters() - ours;
    let servers_after = server_bytes(connection);
    let records_bytes = 101 * record_bytes;
    assert_eq!(ours.bytes_sent - records_bytes, servers_after.0 - servers.0);
    assert_eq!(
        ours.bytes_received - records_bytes,
        servers_after.1 - servers.1
    );
    assert_eq!(ours.round_trips, 101);
    assert_eq!(ours.syscalls, 202);
    connection.close(point).expect("close");
}

fn refusals_leave_the_connection_usable(connection: &mut dyn Connection) {
    for sql in ["SELEC 1", "SELECT * FROM nowhere"] {
        let error = connection.query(sql, ALL, &mut ()).expect_err(sql);
        assert!(matches!(error, Error::Server { .. }), "{error}");
        assert!(connection.prepare(sql).is_err());
    }
    assert_eq!(texts(connection, "SELECT 1")[0][0].as_deref(), Some("1"));
    let load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT 1; SELECT 2";
    let error = connection.query(load, ALL, &mut ()).expect_err(load);
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert_eq!(texts(connection, "SELECT 1").len(), 1);
    texts(connection, "SET GLOBAL local_infile = 0");
    let mut rows = std::iter::once(vec![Value::Int(1000)]);
    let error = connection.load("t", &["id"], &mut rows).expect_err("off");
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert_eq!(texts(connection, "SELECT 1").len(), 1);
}

fn login(server: &Server, login: &str) -> Result<Box<dyn Connection>, Error> {
    wire::connect(&ServerUrl::parse(&server.url_as(login, "mysql"))?)
}

fn passwords(server: &Server, connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE USER me@localhost IDENTIFIED BY 'se@cret'",
    );
    texts(connection, "GRANT ALL ON *.* TO me@localhost");
    // The first login is a full one under caching_sha2_password, the second a fast one.
    for _ in 0..2 {
        let mut mine = login(server, "me:se%40cret").expect("login");
        assert_eq!(texts(&mut *mine, "SELECT 1").len(), 1);
    }
    // Over TCP the full login encrypts the password with the server's public key.
    texts(
        connection,
        "CREATE USER far@127.0.0.1 IDENTIFIED BY 'se@cret'",
    );
    texts(connection, "GRANT ALL ON *.* TO far@127.0.0.1");
    for _ in 0..2 {
        let url = server.url_over_tcp("far:se%40cret", "");
        let url = ServerUrl::parse(&format!("{url}?get_server_public_key=1")).expect("valid");
        let mut far = wire::connect(&url).expect("login over TCP");
        assert_eq!(texts(&mut *far, "SELECT 1").len(), 1);
    }
    named_key(server, connection);
    let error = login(server, "me:wrong").err().expect("refused");
    assert!(matches!(error, Error::Server { code: 1045, .. }), "{error}");
}

/// MySQL's own RSA key, which MariaDB's logins do not need.
fn named_key(server: &Server, connection: &mut dyn Connection) {
    let key = server.data().join("public_key.pem");
    if server.kind() != Kind::MySql {
        return;
    }
    // The server forgets the hashes that make logins fast.
    texts(connection, "FLUSH PRIVILEGES");
    let url = server.url_over_tcp("far:se%40cret", "");
    let connect = |url: &str| wire::connect(&ServerUrl::parse(url).expect("valid"));
    let refused = connect(&url).err().expect("refused");
    assert!(matches!(refused, Error::Unsupported(_)), "{refused}");
    connect(&format!("{url}?server_public_key_path={}", key.display())).expect("login");
}

fn values_longer_than_a_packet(server: &Server, connection: &mut dyn Connection) {
    texts(connection, "SET GLOBAL max_allowed_packet = 67108864");
    let mut connection = server.connect("mysql").expect("login");
    let select = connection.prepare("SELECT ?").expect("prepare");
    for length in [(1 << 24) - 1, 17 << 20] {
        let value = "x".repeat(length);
        let mut texts = Texts::default();
        connection
            .execute(&select, &[Value::Text(value.clone())], ALL, &mut texts)
            .expect("select");
        assert!(texts.0[0][0].as_ref() == Some(&value));
    }
}

fn everything(server: &Server) {
    let mut connection = server.connect("mysql").expect("login");
    values_come_back_the_same_by_both_encodings(&mut *connection);
    answers::everything(&mut *connection);
    counters_equal_the_servers(&mut *connection, 0);
    refusals_leave_the_connection_usable(&mut *connection);
    passwords(server, &mut *connection);
    tls::everything(server, &mut *connection);
    metadata::everything(server);
    bulk::everything(&mut *connection);
    literals::everything(&mut *connection);
    captured::everything(server);
    ending::everything(server, &mut *connection);
    values_longer_than_a_packet(server, &mut *connection);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    everything(&Server::start_with_tls(Kind::MariaDb, &[]));
}

#[test]
#[ignore = "needs a MySQL: UPSHIFT_TEST_MYSQLD names a mysqld 8.0 or newer"]
fn mysql() {
    if Server::has_mysql() {
        everything(&Server::start_with_tls(Kind::MySql, &[]));
    }
}

/// MySQL makes an authority and certificates in its data folder when it is given none. They name no host.
#[test]
#[ignore = "needs a MySQL: UPSHIFT_TEST_MYSQLD names a mysqld 8.0 or newer"]
fn mysqls_own_certificates() {
    let port = testserver::free_port();
    let own_port = format!("--port={port}");
    let options = ["--skip-networking=0", "--bind-address=127.0.0.1", &own_port];
    let Some(server) = Server::mysql(&options) else {
        return;
    };
    let mut connection = server.connect("mysql").expect("login");
    let sql = "CREATE USER far@127.0.0.1 IDENTIFIED BY 's' REQUIRE SSL";
    texts(&mut *connection, sql);
    let connect = |tls: &str| {
        let ca = server.data().join("ca.pem");
        let options = format!("tls={tls}&tls-ca={}", ca.display());
        let url = format!("mysql://far:s@127.0.0.1:{port}/?{options}");
        wire::connect(&ServerUrl::parse(&url).expect("valid"))
    };
    let mut verified = connect("verify-ca").expect("verified");
    assert_eq!(texts(&mut *verified, "SELECT 1").len(), 1);
    let refused = connect("verify").err().expect("refused");
    assert!(
        matches!(&refused, Error::Tls(words) if words.contains("127.0.0.1")),
        "{refused}"
    );
}
