//! From bytes that passed to tables and lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tempfile::TempDir;
use trace::{Begin, Capture, Ending, TraceWriter};
use wire::Family;
use wire::passive::{Side, Stream};

#[path = "../../wire/tests/common/captured.rs"]
mod captured;

use captured::captured;

/// The tables' columns, as every reader of them expects.
const EXCHANGES: &str = "exchange:INT64 connection:INT64 transaction:INT64 kind:TEXT verb:TEXT statement:TEXT digest_text:TEXT sql:TEXT \
    parameters:TEXT request_us:INT64 request_end_us:INT64 first_byte_us:INT64 last_byte_us:INT64 round_trips:INT64 packets_sent:INT64 \
    packets_received:INT64 bytes_sent:INT64 bytes_received:INT64 definition_bytes:INT64 rows:INT64 affected:INT64 warnings:INT64 \
    fetch_size:INT64 cursor:BOOLEAN early_close:BOOLEAN statements_in_text:INT64 error_code:INT64 sqlstate:TEXT \
    in_transaction_after:BOOLEAN autocommit_after:BOOLEAN no_index_used:BOOLEAN no_good_index_used:BOOLEAN answer:TEXT \
    rows_examined:INT64 lock_us:INT64 full_scan:BOOLEAN sort_rows:INT64 temporary_tables:INT64 temporary_disk_tables:INT64";
const SESSIONS: &str = "connection:INT64 began_us:INT64 ended_us:INT64 joined_late:BOOLEAN client:TEXT client_version:TEXT \
    database:TEXT character_set:TEXT attributes:TEXT server_version:TEXT user_hash:TEXT tls:BOOLEAN compressed:BOOLEAN login_round_trips:INT64";

/// A folder that goes with the test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn trace(&self) -> PathBuf {
        self.0.path().join("app.trace")
    }

    fn writer(&self, family: &str, masked: bool) -> TraceWriter {
        let begin = Begin {
            family: family.to_owned(),
            began_unix_us: 1_700_000_000_123_456,
            capture: Capture::Proxy,
            masked,
            log: None,
        };
        TraceWriter::create(&self.trace(), &begin, 0).expect("room")
    }

    fn export(&self) -> Export {
        let out = self.0.path().join("out");
        stack::export::run(&self.trace(), &out).expect("a trace");
        for file in std::fs::read_dir(&out).expect("a folder") {
            let found = file.and_then(|file| file.metadata()).expect("a file");
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
        }
        let about = std::fs::read_to_string(out.join("trace.json")).expect("written");
        Export {
            about: serde_json::from_str(&about).expect("JSON"),
            sessions: table(&out.join("sessions.parquet"), SESSIONS),
            exchanges: table(&out.join("exchanges.parquet"), EXCHANGES),
        }
    }

    fn lines(&self) -> Vec<Value> {
        let mut text = Vec::new();
        stack::dump::run(&self.trace(), &mut text).expect("a trace");
        let text = String::from_utf8(text).expect("UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

type Row = BTreeMap<String, Value>;

struct Export {
    about: Value,
    sessions: Vec<Row>,
    exchanges: Vec<Row>,
}

/// The rows of a table that has these columns in this order.
fn table(path: &Path, columns: &str) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).expect("written")).expect("Parquet");
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let found: Vec<String> = schema
        .columns()
        .iter()
        .map(|column| {
            let kind = match column.physical_type() {
                parquet::basic::Type::BYTE_ARRAY => "TEXT".to_owned(),
                other => other.to_string(),
            };
            format!("{}:{kind}", column.name())
        })
        .collect();
    assert_eq!(
        found.join(" "),
        columns.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let cells = row.get_column_iter();
        cells
            .map(|(name, field)| (name.clone(), cell(field)))
            .collect()
    })
    .collect()
}

fn cell(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Long(number) => (*number).into(),
        Field::Bool(is) => (*is).into(),
        Field::Str(text) => text.clone().into(),
        other => panic!("{other:?}"),
    }
}

/// Tell a writer what passed on one connection; a line takes a microsecond.
fn observe<B: AsRef<[u8]>>(writer: &TraceWriter, family: Family, passed: &[(Side, B)]) {
    let connection = writer.connected(1_000, false);
    let mut stream = Stream::new(family);
    let mut at_ns = 1_000;
    for (side, bytes) in passed {
        at_ns += 1_000;
        stream.bytes(*side, bytes.as_ref(), at_ns, &mut |observed| {
            writer.observed(connection, &observed)
        });
    }
    stream.end(at_ns, &mut |observed| {
        writer.observed(connection, &observed)
    });
    writer.closed(connection, at_ns, stream.totals());
}

fn finish(writer: &TraceWriter) {
    let ending = Ending {
        duration_us: 5_000_000,
        added_us_p50: Some(3.5),
        ..Ending::default()
    };
    writer.finish(ending).expect("room");
}

#[test]
fn what_passed_stands_in_the_tables() {
    let folder = Folder::new();
    let writer = folder.writer("mysql", false);
    for name in ["mysql-9.7.txt", "mariadb-10.11.txt"] {
        observe(&writer, Family::Mysql, &captured(name));
    }
    finish(&writer);
    let Export {
        about,
        sessions,
        exchanges,
    } = folder.export();
    assert_eq!(about["family"], "mysql");
    assert_eq!(about["server_version"], "9.7.4");
    assert_eq!(about["began"], "2023-11-14T22:13:20.123456Z");
    assert_eq!(about["duration_us"], 5_000_000);
    assert_eq!(about["exchanges"], exchanges.len());
    assert_eq!(about["sessions"], 2);
    assert_eq!(about["capture"], "proxy");
    assert_eq!(
        (&about["added_us_p50"], &about["added_us_p99"]),
        (&3.5.into(), &Value::Null)
    );
    assert_eq!(
        (&about["whole"], &about["masked"]),
        (&true.into(), &false.into())
    );
    assert_eq!(sessions[1]["server_version"], "10.11.19-MariaDB-0+deb12u1");
    assert_eq!(sessions[1]["connection"], 2);
    assert_eq!(
        (&sessions[0]["tls"], &sessions[0]["attributes"]),
        (&false.into(), &"{}".into())
    );
    assert!(sessions[0]["ended_us"].as_i64() > Some(20));

    let numbers: Vec<_> = exchanges
        .iter()
        .map(|row| row["exchange"].as_u64().expect("a number"))
        .collect();
    assert!(numbers.into_iter().eq(1..=exchanges.len() as u64));
    let last = |row: &Row| {
        row["last_byte_us"]
            .as_i64()
            .or(row["request_end_us"].as_i64())
    };
    assert!(exchanges.is_sorted_by_key(last));
    let of = |connection: u64, kind: &str| -> Vec<&Row> {
        let rows = exchanges.iter();
        rows.filter(|row| row["connection"] == connection && row["kind"] == kind)
            .collect()
    };
    let executes = of(1, "execute");
    assert_eq!(
        executes[0]["parameters"],
        r#"[1,"-0.05","it's\té","2024-02-29 23:59:59.000001"]"#
    );
    assert_eq!(executes[0]["verb"], "insert");
    assert_eq!(
        executes[0]["digest_text"],
        "INSERT INTO t(id, price, words, at) VALUES (...)"
    );
    assert_eq!(
        executes[0]["sql"],
        "INSERT INTO t (id, price, words, at) VALUES (?, ?, ?, ?)"
    );
    assert_eq!(executes[0]["statement"], of(2, "execute")[0]["statement"]);
    assert_eq!(executes[0]["statement"].as_str().expect("digits").len(), 16);
    assert_eq!(executes[0]["answer"], Value::Null);
    assert_eq!(
        (&executes[3]["rows"], &executes[4]["cursor"]),
        (&4.into(), &true.into())
    );
    let bulk = of(2, "bulk_execute")[0]["parameters"]
        .as_str()
        .expect("JSON");
    let bulk: Vec<Vec<Value>> = serde_json::from_str(bulk).expect("rows");
    assert_eq!((bulk.len(), &bulk[1][2]), (3, &Value::Null));
    let [fetch, ..] = &of(1, "fetch")[..] else {
        panic!("a fetch");
    };
    assert_eq!(
        (&fetch["fetch_size"], &fetch["rows"]),
        (&2.into(), &2.into())
    );
    let close = of(1, "close_statement")[0];
    assert_eq!(
        (&close["first_byte_us"], &close["round_trips"]),
        (&Value::Null, &0.into())
    );
    let refused = &of(1, "query")[1];
    assert_eq!(
        (&refused["error_code"], &refused["sqlstate"]),
        (&1064.into(), &"42000".into())
    );
    assert_eq!(refused["in_transaction_after"], Value::Null);

    let lines = folder.lines();
    let kinds = |kind: &str| lines.iter().filter(|line| line["record"] == kind).count();
    assert_eq!(
        (kinds("exchange"), kinds("session"), kinds("closed")),
        (exchanges.len(), 2, 2)
    );
    assert_eq!(
        (&lines[0]["record"], &lines[0]["version"]),
        (&"begin".into(), &7.into())
    );
    assert_eq!(lines[lines.len() - 1]["whole"], true);
}

#[test]
fn gaps_unread_connections_and_a_cut_are_said() {
    let folder = Folder::new();
    let writer = folder.writer("postgres", false);
    let lines = captured("postgres-15.txt");
    let lost = 9 + lines[9..]
        .iter()
        .position(|(side, _)| *side == Side::Server)
        .expect("an answer");
    let connection = writer.connected(0, false);
    let mut stream = Stream::new(Family::Postgres);
    for (at, (side, bytes)) in lines.iter().enumerate() {
        let mut add = |observed| writer.observed(connection, &observed);
        if at == lost {
            writer.gap(connection, *side, bytes.len() as u64, at as u64);
            stream.gap(*side, bytes.len() as u64, at as u64, &mut add);
        } else {
            stream.bytes(*side, bytes, at as u64, &mut add);
        }
    }
    observe(
        &writer,
        Family::Postgres,
        &[(Side::Client, b"\x16\x03\x01")],
    );
    finish(&writer);
    let Export {
        about,
        sessions,
        exchanges,
    } = folder.export();
    assert_eq!(about["gaps"]["connections"], 1);
    assert_eq!(about["gaps"]["bytes"], lines[lost].1.len());
    assert_eq!(about["unread"]["encrypted"], 1);
    assert_eq!(about["incomplete"], 1);
    assert_eq!(about["exchanges"], exchanges.len());
    let incomplete = folder
        .lines()
        .iter()
        .filter(|line| line["incomplete"] == true)
        .count();
    assert_eq!(incomplete, 1);
    assert_eq!(
        (&sessions[0]["ended_us"], &sessions[1]["tls"]),
        (&Value::Null, &true.into())
    );
    assert_eq!(sessions[0]["client"], "upshift-load");

    let bytes = std::fs::read(folder.trace()).expect("there");
    std::fs::write(folder.trace(), &bytes[..bytes.len() - 3]).expect("room");
    let cut = folder.export();
    assert_eq!(
        (&cut.about["whole"], cut.exchanges),
        (&false.into(), exchanges)
    );
    std::fs::write(folder.trace(), "SELECT 1").expect("room");
    let refused =
        stack::export::run(&folder.trace(), &folder.0.path().join("none")).expect_err("no trace");
    assert!(
        refused
            .downcast_ref::<trace::TraceError>()
            .is_some_and(|error| !error.hint.is_empty())
    );
    assert!(!folder.0.path().join("none").exists());
}

/// A packet of MySQL.
fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// All that stands in a trace's blocks.
fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).expect("there");
    let mut rest = &file[12..];
    let mut all = Vec::new();
    while rest.len() > 17 {
        let number =
            |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four")) as usize;
        let (stored, length) = (number(1), number(5));
        all.extend(zstd::bulk::decompress(&rest[17..17 + stored], length).expect("zstd"));
        rest = &rest[17 + stored..];
    }
    all
}

const SECRET: &[u8] = b"geheim";

#[test]
fn no_login_and_no_password_is_in_a_trace_or_a_table() {
    let greeting = [
        &b"\x0a8.0\0\0\0\0\x0012345678\0\x09\x82\x2d\x02\0\x18\x00\x15"[..],
        &[0; 10],
        b"123456789012\0mysql_native_password\0",
    ];
    let attributes = b"\x1e\x07os_user\x06geheim\x0c_client_name\x01c";
    let response = [
        &b"\x09\x82\x18\0\0\0\0\x01\x2d"[..],
        &[0; 23],
        b"geheim\0\x06geheimshop\0mysql_native_password\0",
        &attributes[..],
    ];
    let ok = b"\0\0\0\x02\0\0\0";
    let mut passed = vec![
        (Side::Server, packet(0, &greeting.concat())),
        (Side::Client, packet(1, &response.concat())),
        (Side::Server, packet(2, b"\xfemysql_clear_password\0")),
        (Side::Client, packet(3, b"geheim\0")),
        (Side::Server, packet(4, ok)),
    ];
    for sql in [
        "SET PASSWORD = 'geheim'",
        "SET PASSWORD FOR 'u'@'h' = PASSWORD(\"geheim\")",
        "/* x */ create user 'geheim'@'%' identified with sha2 by 'geheim'",
        "ALTER USER u IDENTIFIED BY 'a\\' geheim'",
        "GRANT ALL ON *.* TO 'geheim' IDENTIFIED BY 'geheim'",
        "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='geheim'",
        "PREPARE s FROM 'SET PASSWORD = ''geheim'''",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'geheim', PASSWORD 'geheim')",
    ] {
        passed.push((Side::Client, packet(0, &[b"\x03", sql.as_bytes()].concat())));
        passed.push((Side::Server, packet(1, ok)));
    }
    passed.extend([
        (Side::Client, packet(0, b"\x16ALTER USER u IDENTIFIED BY ?")),
        (
            Side::Server,
            [
                packet(1, b"\0\x07\0\0\0\0\0\x01\0\0\0\0"),
                packet(2, b"\x03def"),
                packet(3, b"\xfe\0\0\x02\0"),
            ]
            .concat(),
        ),
        (
            Side::Client,
            packet(0, b"\x17\x07\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x06geheim"),
        ),
        (Side::Server, packet(1, ok)),
        (Side::Client, packet(0, b"\x11geheim\0\x06geheimgeheim\0")),
        (Side::Server, packet(1, b"\xfedialog\0")),
        (Side::Client, packet(2, b"geheim")),
        (Side::Server, packet(3, ok)),
        (Side::Client, packet(0, b"\x03SELECT 'seen'")),
        (Side::Server, packet(1, ok)),
    ]);
    let folder = Folder::new();
    let writer = folder.writer("mysql", false);
    observe(&writer, Family::Mysql, &passed);
    finish(&writer);
    let Export {
        sessions,
        exchanges,
        ..
    } = folder.export();
    let tables = format!("{sessions:?} {exchanges:?}");
    let lines = serde_json::to_string(&folder.lines()).expect("JSON");
    let kinds: Vec<_> = exchanges
        .iter()
        .map(|row| row["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds[8..], ["prepare", "execute", "change_user", "query"]);
    assert_eq!(exchanges[9]["parameters"], r#"[{"bytes":6}]"#);
    for all in [
        &unpacked(&folder.trace())[..],
        tables.as_bytes(),
        lines.as_bytes(),
    ] {
        let has = |part: &[u8]| all.windows(part.len()).any(|window| window == part);
        assert!(has(b"shop") && has(b"seen") && has(b"ALTER USER u IDENTIFIED BY ?"));
        assert!(!has(SECRET), "{}", String::from_utf8_lossy(all));
    }
}

#[test]
fn a_masked_trace_has_the_same_digests_and_no_values() {
    let mut digests = Vec::new();
    for masked in [false, true] {
        let folder = Folder::new();
        let writer = folder.writer("postgres", masked);
        observe(&writer, Family::Postgres, &captured("postgres-15.txt"));
        finish(&writer);
        let Export {
            about, exchanges, ..
        } = folder.export();
        assert_eq!(about["masked"], masked);
        digests.push(
            exchanges
                .iter()
                .map(|row| row["statement"].clone())
                .collect::<Vec<_>>(),
        );
        let all = unpacked(&folder.trace());
        let has = |part: &[u8]| all.windows(part.len()).any(|window| window == part);
        for value in [&b"it's\t"[..], b"10:00:01", b"2024-02-29"] {
            assert_eq!(has(value), !masked, "{}", String::from_utf8_lossy(value));
        }
    }
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn the_reference_has_every_column_and_key() {
    let reference = include_str!("../../../docs/reference/trace.md");
    let columns = [EXCHANGES, SESSIONS].map(str::split_whitespace);
    let names = columns
        .into_iter()
        .flatten()
        .filter_map(|column| column.split(':').next());
    let folder = Folder::new();
    finish(&folder.writer("mysql", false));
    let Value::Object(about) = folder.export().about else {
        panic!("an object");
    };
    for name in names.chain(about.keys().map(String::as_str)) {
        let stands = reference.lines().any(|line| {
            let first = line.split('|').nth(1).unwrap_or_default();
            first.contains(&format!("`{name}`"))
        });
        assert!(stands, "{name}");
    }
}
