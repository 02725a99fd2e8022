//! An application whose keys are bytes, captured and replayed: each statement is sent, and finds what it found.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::relay::{Relay, exchanges};
use common::{file, load, path};
use testserver::{ALL, Kind, Server, rows, run};
use wire::{BatchWay, Connection, ServerUrl, Value};

/// Keys of 16 bytes that are not UTF-8, with what a literal escapes among them.
fn key(number: u8) -> Vec<u8> {
    let mut key = vec![0xFF, 0, b'\'', b'\\', b'\n', b'?', number];
    key.resize(16, 0x80 | number);
    key
}

fn fill(server: &Server) {
    let connection = &mut *server.connect("t").expect("a login");
    let (key, bytes) = match server.kind() {
        Kind::Postgres => ("bytea", "bytea"),
        _ => ("BINARY(16)", "BLOB"),
    };
    run(connection, "DROP TABLE IF EXISTS t");
    let create = format!("CREATE TABLE t (k {key} PRIMARY KEY, b {bytes}, n INT)");
    run(connection, &create);
    if server.kind() == Kind::Postgres {
        run(connection, "ALTER TABLE t ADD u uuid");
    }
}

/// What the table holds, readable.
fn held(server: &Server) -> Vec<Vec<Option<String>>> {
    let sql = match server.kind() {
        Kind::Postgres => "SELECT encode(k, 'hex'), encode(b, 'hex'), n, u FROM t ORDER BY k",
        _ => "SELECT hex(k), hex(b), n FROM t ORDER BY k",
    };
    rows(&mut *server.connect("t").expect("a login"), sql)
}

fn application(server: &Server, connection: &mut dyn Connection) {
    let is_postgres = server.kind() == Kind::Postgres;
    let insert = match is_postgres {
        true => "INSERT INTO t (k, b, n, u) VALUES (?, ?, ?, ?)",
        false => "INSERT INTO t (k, b, n) VALUES (?, ?, ?)",
    };
    let insert = connection.prepare(insert).expect("prepares");
    let row = |number: u8| {
        let bytes = match number % 3 {
            0 => Value::Null,
            _ => Value::Bytes(vec![number, 0xFE, b'x']),
        };
        let mut row = vec![Value::Bytes(key(number)), bytes, Value::Int(0)];
        // A uuid's binary form is its bytes.
        row.extend(is_postgres.then(|| Value::Bytes(key(number))));
        row
    };
    for number in 0..20 {
        let done = connection.execute(&insert, &row(number), ALL, &mut ());
        assert_eq!(done.expect("a row").affected, 1);
    }
    if server.kind() == Kind::MariaDb {
        let more: Vec<_> = (20..30).map(row).collect();
        let done = connection.execute_batch(&insert, &more, BatchWay::Bulk);
        assert_eq!(done.expect("a batch").affected, 10);
    }
    let select = connection
        .prepare("SELECT n, b FROM t WHERE k = ?")
        .expect("prepares");
    let update = "UPDATE t SET b = ?, n = n + 1 WHERE k = ?";
    for number in 0..10 {
        let key = Value::Bytes(key(number));
        let done = connection.execute(&select, std::slice::from_ref(&key), ALL, &mut ());
        assert_eq!(done.expect("a row").rows, 1);
        // As a driver sends it that writes values into the text.
        let values = [Value::Bytes(vec![0xFD, number]), key];
        let text = wire::render(connection.dialect(), update, &values);
        let done = connection.query(&text, ALL, &mut ());
        assert_eq!(done.expect("a row").affected, 1, "{text}");
    }
    run(connection, "BEGIN");
    let gone = wire::render(
        connection.dialect(),
        "DELETE FROM t WHERE k IN (?, ?)",
        &[Value::Bytes(key(7)), Value::Bytes(key(8))],
    );
    run(connection, &gone);
    run(connection, "COMMIT");
}

/// A statement that is not UTF-8, as PyMySQL and PHP write it.
fn raw(relay: &Relay) {
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--batch", "t"])
        .arg(format!("--socket={}", relay.socket.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("MariaDB's client");
    let escaped = key(1)
        .into_iter()
        .flat_map(|byte| match byte {
            0 => b"\\0".to_vec(),
            b'\n' => b"\\n".to_vec(),
            b'\'' | b'\\' => vec![b'\\', byte],
            _ => vec![byte],
        })
        .collect::<Vec<u8>>();
    let mut sql = Vec::new();
    for introducer in ["_binary", ""] {
        sql.extend_from_slice(b"SELECT n FROM t WHERE k = ");
        sql.extend_from_slice(introducer.as_bytes());
        sql.extend_from_slice(&[&b"'"[..], &escaped, b"';\n"].concat());
    }
    let mut input = client.stdin.take().expect("a pipe");
    input.write_all(&sql).expect("writes");
    drop(input);
    let output = client.wait_with_output().expect("ends");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n1\nn\n1\n");
}

/// What the statements on the table said: their rows, those that they changed, and a hash of their answer's bytes.
fn answers(trace: &Path) -> Vec<(u64, u64, Option<u64>)> {
    let of_table = exchanges(trace).into_iter().filter(|(_, exchange)| {
        let text = exchange.text.as_ref();
        let text = text.map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
        let is_preparation = matches!(
            exchange.kind,
            wire::passive::Kind::Prepare | wire::passive::Kind::CloseStatement
        );
        !is_preparation && text.is_some_and(|text| text.contains(" t "))
    });
    let told = of_table.map(|(_, exchange)| (exchange.rows, exchange.affected, exchange.answer));
    told.collect()
}

fn comes_back(server: &Server) {
    drop(server.create("t"));
    fill(server);
    let (capture, replay) = (file(server, "app.trace"), file(server, "app.replay"));
    let relay = Relay::start(server, &capture);
    let url = ServerUrl::parse(&relay.url(server)).expect("valid");
    application(server, &mut *wire::connect(&url).expect("a login"));
    if server.kind() == Kind::MariaDb {
        raw(&relay);
    }
    relay.finish();
    let (left, said) = (held(server), answers(&capture));
    assert!(said.len() > 40, "{said:?}");
    let import = common::command("import", &[path(&capture), path(&replay), "--json"]);
    let made = common::ended(import).json(0);
    assert_eq!(made["left_out"], serde_json::json!({}), "{made}");
    // As it was sent, and answered byte by byte as it was.
    fill(server);
    let again = file(server, "again.trace");
    let relay = Relay::start(server, &again);
    let line = format!("replay {} --json", path(&replay));
    load(&line, &relay.url(server)).json(0);
    relay.finish();
    assert_eq!(held(server), left);
    assert_eq!(answers(&again), said);
    // In each way, with the same answers.
    let digest = file(server, "digest");
    for way in [
        format!("--digest {}", path(&digest)),
        format!("--compare {} --protocol text", path(&digest)),
        format!("--compare {} --protocol prepared", path(&digest)),
    ] {
        fill(server);
        let result = load(&format!("{line} --lenient {way}"), &server.url("t")).json(0);
        assert_eq!(held(server), left, "{way}");
        assert_eq!(result["replay"]["counted_otherwise"], 0, "{way}");
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    comes_back(&Server::mariadb(&[]));
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mysql() {
    if let Some(server) = Server::mysql(&[]) {
        comes_back(&server);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    comes_back(&Server::postgres(&[]));
}
