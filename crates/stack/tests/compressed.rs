//! MySQL's compressed protocol through the proxy: the servers' own clients, whose trace is the same without compression.

mod common;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Capture, Folder, records, text};
use serde_json::{Map, Value};
use testserver::{Kind, MYSQLD, Server};

/// Short and long answers, an error, a transaction, a file, several statements in one text, and what compresses well.
fn script(rows: &Path) -> String {
    format!(
        "CREATE TABLE f (id INT PRIMARY KEY, t MEDIUMTEXT);\n\
         LOAD DATA LOCAL INFILE '{}' INTO TABLE f (id);\n\
         BEGIN;\nUPDATE f SET t = REPEAT('long ', 20000);\nSELECT * FROM f;\nROLLBACK;\n\
         SELEC 1;\nINSERT INTO f VALUES (1, 'again');\nSELECT COUNT(*) FROM f;\n\
         SELECT LENGTH('{}');\n\
         delimiter //\nSELECT 1; SELECT 2 UNION ALL SELECT 3;\n//\ndelimiter ;\nDROP TABLE f;\n",
        rows.display(),
        "text ".repeat(100_000),
    )
}

/// The client beside the MySQL under test, or MariaDB's; none where it was not built.
fn client(kind: Kind) -> Option<OsString> {
    if kind == Kind::MariaDb {
        return Some("mariadb".into());
    }
    let built = std::env::var_os(MYSQLD).map(|server| Path::new(&server).with_file_name("mysql"));
    let built = built.filter(|client| client.exists());
    if built.is_none() {
        eprintln!("NOT RUN: there is no client beside a MySQL that {MYSQLD} names");
    }
    built.map(Into::into)
}

/// What a client's session and its exchanges are in the trace, without times, and the bytes that crossed the network.
struct Seen {
    session: Map<String, Value>,
    exchanges: Vec<Map<String, Value>>,
    network: u64,
}

fn seen(server: &Server, client: &OsString, option: Option<&str>) -> Seen {
    let folder = Folder::new();
    let (listen, trace, rows) = (folder.file("p"), folder.file("t"), folder.file("rows"));
    let statements = script(&rows);
    std::fs::write(&rows, "1\n2\n3\n").expect("room");
    let url = server.url("");
    let capture = Capture::start(&["--server", &url, "--listen", text(&listen), text(&trace)]);
    let mut child = Command::new(client)
        .args([
            "--no-defaults",
            "--local-infile=1",
            "--force",
            "-uroot",
            "-N",
        ])
        .args(option)
        .arg(format!("--socket={}", listen.display()))
        .arg("packed")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the client");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(statements.as_bytes()).expect("a script");
    drop(stdin);
    child.wait().expect("an end");
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let mut found = Seen {
        session: Map::new(),
        exchanges: Vec::new(),
        network: 0,
    };
    for record in records(&trace) {
        let Value::Object(mut record) = record else {
            panic!("{record}")
        };
        let kind = record["record"].as_str().expect("a kind").to_owned();
        record.retain(|name, _| !name.ends_with("_ns") && name != "connection");
        match kind.as_str() {
            "session" => found.session = record,
            "exchange" => found.exchanges.push(record),
            "closed" => {
                let bytes = |name: &str| record[name].as_u64().expect("a number");
                assert_eq!(bytes("unread_bytes") + bytes("missing_bytes"), 0);
                found.network += bytes("bytes_sent") + bytes("bytes_received");
            }
            "end" => assert_eq!(record["whole"], true),
            "gap" | "unread" | "lost" => panic!("{option:?}: {record:?}"),
            _ => {}
        }
    }
    // Each run reads its rows from a file of its own.
    for each in &mut found.exchanges {
        if let Some(Value::String(sql)) = each.get_mut("sql") {
            *sql = sql.replace(text(&rows), "ROWS");
        }
    }
    found
}

fn compressed_is_read_as_plain(kind: Kind, options: &[(&str, &str)]) {
    let Some(client) = client(kind) else {
        return;
    };
    let server = Server::start(kind, &[]);
    drop(server.create("packed"));
    let plain = seen(&server, &client, None);
    assert_eq!(plain.session["compression"], "none");
    let sum = |name: &str| -> u64 {
        plain
            .exchanges
            .iter()
            .map(|each| each[name].as_u64().unwrap_or(0))
            .sum()
    };
    assert!(sum("rows") >= 3 + 1 + 1 + 3, "{:?}", plain.exchanges);
    let refused = plain
        .exchanges
        .iter()
        .filter(|each| !each["error"].is_null());
    let refused = refused.map(|each| each["sql"].as_str());
    // MySQL's client asks so whether the server knows text between dollars.
    let refused: Vec<_> = refused.filter(|sql| *sql != Some("select $$")).collect();
    let wrong = ["SELEC 1", "INSERT INTO f VALUES (1, 'again')"];
    assert_eq!(refused, wrong.map(Some));
    for (option, method) in options {
        let packed = seen(&server, &client, Some(option));
        assert_eq!(packed.session["compression"], *method, "{option}");
        for (packed, plain) in packed.exchanges.iter().zip(&plain.exchanges) {
            assert_eq!(packed, plain, "{option}");
        }
        assert_eq!(packed.exchanges.len(), plain.exchanges.len(), "{option}");
        assert!(
            packed.network * 10 < plain.network,
            "{option}: {}",
            packed.network
        );
    }
}

#[test]
fn mariadb() {
    compressed_is_read_as_plain(Kind::MariaDb, &[("--compress", "zlib")]);
}

#[test]
fn mysql() {
    if Server::has_mysql() {
        let options = [
            ("--compress", "zlib"),
            ("--compression-algorithms=zlib", "zlib"),
            ("--compression-algorithms=zstd", "zstd"),
        ];
        compressed_is_read_as_plain(Kind::MySql, &options);
    }
}
