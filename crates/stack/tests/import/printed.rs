//! What `dump` printed, made into a trace again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use trace::{Begin, Capture, Ending, Lack, Log, TraceWriter};
use wire::passive::{
    Compression, Counted, Exchange, Kind, Observed, Parameter, ParameterValue, Parameters,
    ServerError, SessionFacts, Side, Stream, Text, Totals, Verb, Why,
};

use crate::captured::captured;
use crate::common::{Folder, program, text};

pub fn begin(family: &str) -> Begin {
    Begin {
        family: family.to_owned(),
        began_unix_us: 1_700_000_000_123_456,
        capture: Capture::Proxy,
        masked: false,
        log: None,
    }
}

pub fn lines(trace: &Path) -> String {
    let done = program().arg("dump").arg(trace).output().expect("runs");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("text")
}

fn import(lines: &str, folder: &Folder, more: &[&str]) -> (Output, PathBuf) {
    let (from, to) = (folder.file("lines"), folder.file("again.trace"));
    fs::write(&from, lines).expect("room");
    let _ = fs::remove_file(&to);
    let mut command = program();
    command.args(["import", text(&from), text(&to), "--format", "json-lines"]);
    let done = command.arg("--json").args(more).output().expect("runs");
    (done, to)
}

/// The summary, and the lines of what was made of lines.
pub fn again(from: &str, folder: &Folder, more: &[&str]) -> (Value, String) {
    let (done, to) = import(from, folder, more);
    assert!(done.status.success(), "{done:?}");
    let said = serde_json::from_slice(&done.stdout).expect("JSON");
    (said, lines(&to))
}

fn tables(trace: &Path, folder: &Folder, name: &str) -> Vec<Vec<u8>> {
    let out = folder.file(name);
    let mut command = program();
    let done = command.arg("export").arg(trace).arg(&out).output();
    assert!(done.expect("runs").status.success());
    ["trace.json", "sessions.parquet", "exchanges.parquet"]
        .map(|name| fs::read(out.join(name)).expect("written"))
        .into()
}

#[test]
fn captures_of_real_servers_come_back_as_they_were() {
    for (family, names) in [
        ("mysql", &["mysql-9.7.txt", "mariadb-10.11.txt"][..]),
        ("postgres", &["postgres-15.txt"][..]),
    ] {
        let folder = Folder::new();
        let trace = folder.file("app.trace");
        let begin = begin(family);
        let writer = TraceWriter::create(&trace, &begin, 0).expect("room");
        for name in names {
            let connection = writer.connected(1_000, false);
            let mut stream = Stream::new(begin.family());
            let mut tell = |observed| writer.observed(connection, &observed);
            let mut at_ns = 1_000;
            for (side, bytes) in captured(name) {
                at_ns += 1_234;
                stream.bytes(side, &bytes, at_ns, &mut tell);
            }
            stream.end(at_ns, &mut tell);
            writer.closed(connection, at_ns, stream.totals());
        }
        let ending = Ending {
            duration_us: 5_000_000,
            added_us_p50: Some(0.1 + 0.2),
            ..Ending::default()
        };
        writer.finish(ending).expect("room");
        let printed = lines(&trace);
        let (said, found) = again(&printed, &folder, &[]);
        assert_eq!(found, printed);
        let requests = printed.matches(r#"{"record":"exchange""#).count();
        assert!(requests > 20, "{requests}");
        assert_eq!(
            (&said["requests"], &said["connections"]),
            (&requests.into(), &names.len().into())
        );
        assert_eq!(
            (&said["unread_lines"], &said["lacks"]),
            (&0.into(), &json!([]))
        );
        assert_eq!(
            tables(&trace, &folder, "first"),
            tables(&folder.file("again.trace"), &folder, "second")
        );
    }
}

/// An exchange with everything that a line has.
pub fn full(kind: Kind, verb: Verb, rows: usize) -> Exchange {
    let values = [
        ParameterValue::Null,
        ParameterValue::Default,
        ParameterValue::Ignore,
        ParameterValue::Int(i64::MIN),
        ParameterValue::UInt(u64::MAX),
        ParameterValue::Float(0.1),
        ParameterValue::Double(-0.1 - 0.2),
        ParameterValue::Double(f64::INFINITY),
        ParameterValue::Text("it's\u{e9}".into()),
        ParameterValue::Binary(vec![0, 255]),
        ParameterValue::Long(1 << 40),
        ParameterValue::Masked(3),
        ParameterValue::Unknown,
    ];
    let row = values.map(|value| Parameter { kind: 3, value }).to_vec();
    Exchange {
        verb: Some(verb),
        text: Some(Text {
            bytes: b"SELECT 'x\\', 1 FROM t"[..].into(),
            length: 1 << 30,
        }),
        parameters: Some(Parameters {
            rows: vec![row; rows],
            cut: true,
        }),
        transaction: Some(7),
        request_end_ns: 2_010,
        answer_ns: Some((2_005, 1 << 40)),
        round_trips: 2,
        packets_sent: 3,
        packets_received: 4,
        bytes_sent: 5,
        bytes_received: 6,
        definition_bytes: 7,
        rows: 8,
        affected: u64::MAX,
        warnings: 9,
        fetch_size: Some(0),
        cursor: true,
        early_close: true,
        results: 10,
        error: Some(ServerError {
            code: 1213,
            sqlstate: "40001".to_owned(),
        }),
        in_transaction_after: Some(false),
        autocommit_after: Some(true),
        no_index_used: true,
        no_good_index_used: true,
        answer: Some(u64::MAX - 1),
        backslash_escapes: false,
        incomplete: true,
        counted: Some(Box::new(Counted {
            rows_examined: Some(5_000),
            lock_ns: Some(12_345),
            full_scan: Some(false),
            sort_rows: Some(0),
            temporary_tables: None,
            temporary_disk_tables: Some(1),
        })),
        ..Exchange::new(kind, 2_000)
    }
}

/// A trace with everything, whose connections have numbers of their own.
fn everything(path: &Path, log: Option<Log>) {
    let begin = Begin {
        log,
        ..begin("mysql")
    };
    let writer = TraceWriter::create(path, &begin, 0).expect("room");
    writer.connected_as(17, 1_000, true);
    writer.connected_as(9, 500, false);
    for compression in [Compression::None, Compression::Zlib, Compression::Zstd] {
        let facts = SessionFacts {
            server_version: "9.7.4".to_owned(),
            client: Some("libmysql".to_owned()),
            database: Some("shop".to_owned()),
            character_set: Some("latin1".to_owned()),
            attributes: vec![("_os".to_owned(), "Linux".to_owned())],
            tls: true,
            compression,
            joined_late: true,
            login_round_trips: 1,
            packets_sent: 2,
            packets_received: 3,
            bytes_sent: 4,
            bytes_received: 5,
            began_ns: 500,
            ready_ns: 700,
            refused: Some(ServerError {
                code: 1045,
                sqlstate: "28000".to_owned(),
            }),
            client_version: None,
        };
        writer.observed(9, &Observed::Session(Box::new(facts)));
    }
    let tell = |exchange| writer.observed(17, &Observed::Exchange(Box::new(exchange)));
    tell(full(Kind::BulkExecute, Verb::Insert, 3));
    tell(Exchange::new(Kind::Quit, 100));
    for kind in [
        Kind::Query,
        Kind::Prepare,
        Kind::Execute,
        Kind::Fetch,
        Kind::CloseStatement,
        Kind::ResetStatement,
        Kind::LongData,
        Kind::Ping,
        Kind::ResetConnection,
        Kind::ChangeUser,
        Kind::InitDb,
        Kind::Statistics,
        Kind::Copy,
        Kind::Other,
    ] {
        tell(full(kind, Verb::Other, 1));
    }
    for verb in [
        Verb::Select,
        Verb::Update,
        Verb::Delete,
        Verb::Replace,
        Verb::Call,
        Verb::Set,
        Verb::Begin,
        Verb::Commit,
        Verb::Rollback,
        Verb::Savepoint,
        Verb::Show,
        Verb::Explain,
        Verb::Ddl,
        Verb::Load,
        Verb::Use,
    ] {
        tell(full(Kind::Query, verb, 1));
    }
    writer.gap(17, Side::Server, 99, 6_000);
    writer.gap(17, Side::Client, 98, 6_001);
    writer.lost(5);
    for why in [
        Why::Encrypted,
        Why::Compressed,
        Why::Replication,
        Why::NotTheProtocol,
        Why::TooMuch,
    ] {
        writer.observed(17, &Observed::Broken { why, at_ns: 7_000 });
    }
    let totals = Totals {
        bytes_sent: 1,
        bytes_received: 2,
        unread: 3,
        missing: 4,
    };
    writer.closed(9, 8_000, totals);
    let ending = Ending {
        duration_us: 12,
        added_us_p99: Some(1.5),
        lost: 8,
        stopped: Some("No space left on device".to_owned()),
        ..Ending::default()
    };
    writer.finish(ending).expect("room");
}

#[test]
fn every_record_and_every_word_comes_back() {
    let folder = Folder::new();
    for log in [
        None,
        Some(Log {
            format: "mysql-slow".to_owned(),
            clock: Some("CET".to_owned()),
            shortest_us: Some(6),
            lacks: vec![Lack::RoundTrips, Lack::Packets],
        }),
    ] {
        let trace = folder.file(if log.is_some() { "log" } else { "capture" });
        let lacks = log.as_ref().map_or(json!([]), |log| json!(log.lacks));
        everything(&trace, log);
        let printed = lines(&trace);
        let (said, found) = again(&printed, &folder, &[]);
        assert_eq!(found, printed);
        assert_eq!((&said["lacks"], &said["connections"]), (&lacks, &2.into()));
    }
}

#[test]
fn lines_that_break_off_are_a_trace_that_breaks_off() {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    everything(&trace, None);
    let printed = lines(&trace);
    let cut = &printed[..printed.len() - 40];
    let (said, found) = again(cut, &folder, &[]);
    assert_eq!(
        (&said["cut_entries"], &said["unread_lines"]),
        (&1.into(), &0.into())
    );
    let whole: Vec<_> = printed.lines().collect();
    let found: Vec<_> = found.lines().collect();
    assert_eq!(found[..found.len() - 1], whole[..whole.len() - 1]);
    let end: Value = serde_json::from_str(found[found.len() - 1]).expect("JSON");
    assert_eq!(end["whole"], false);
    let ending = &end["ending"];
    assert_eq!(
        (&ending["stopped"], &ending["lost"], &ending["duration_us"]),
        (
            &"the JSON lines end before the trace does".into(),
            &5.into(),
            &((1_u64 << 40) / 1000).into()
        )
    );
}

#[test]
fn lines_that_are_none_of_a_trace_are_counted_and_left_out() {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    everything(&trace, None);
    let printed = lines(&trace);
    let mut all: Vec<String> = printed.lines().map(str::to_owned).collect();
    let bad = [
        "no JSON".to_owned(),
        "[]".to_owned(),
        r#"{"record":"gossip"}"#.to_owned(),
        r#"{"record":"lost"}"#.to_owned(),
        r#"{"record":"gap","connection":17,"at_ns":1,"side":"third","bytes":1}"#.to_owned(),
        all[7].replace(r#""kind":""#, r#""kind":"x"#),
        all[6].replace(r#""binary":"00ff""#, r#""binary":"00f""#),
        all[6].replace(r#"{"unknown":true}"#, "true"),
        all[6].replace("fffffffffffffffe", "g"),
        format!(
            r#"{{"record":"lost","exchanges":1,"x":"{}"}}"#,
            "x".repeat(4 << 20)
        ),
    ];
    for (place, line) in bad.iter().enumerate() {
        assert!(!all.contains(line), "{line}");
        all.insert(3 + 2 * place, line.clone());
    }
    all.push(r#"{"record":"lost","exchanges":9}"#.to_owned());
    let (said, found) = again(&(all.join("\n") + "\n"), &folder, &[]);
    assert_eq!(found, printed);
    assert_eq!(said["unread_lines"], bad.len() + 1);
    assert_eq!(said["lines"], all.len());
}

#[test]
fn a_connection_of_which_no_line_says_that_it_began_was_there_before() {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    everything(&trace, None);
    let printed = lines(&trace);
    let without = |word: &str| -> String {
        let lines = printed.split_inclusive('\n');
        lines.filter(|line| !line.contains(word)).collect()
    };
    let (said, found) = again(&without(r#"{"record":"connected""#), &folder, &[]);
    assert_eq!(said["connections"], 2);
    let joined = |number: u32, at_ns: u64| {
        format!(
            r#"{{"record":"connected","connection":{number},"at_ns":{at_ns},"joined_late":true}}"#
        )
    };
    let expected = [joined(9, 500), joined(17, 2_000)];
    let connected: Vec<_> = found
        .lines()
        .filter(|line| line.contains("connected\""))
        .collect();
    assert_eq!(connected, expected);
}

#[test]
fn what_no_trace_holds_does_not_come_in() {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    everything(&trace, None);
    let printed = lines(&trace);
    let secret = printed
        .replace(r"SELECT 'x\\', 1 FROM t", "SET PASSWORD = 'sesame'")
        .replace("\"it's\u{e9}\"", "\"sesame\"")
        .replace(r#""_os""#, r#""os_user""#);
    assert!(secret.contains("sesame") && secret.contains("os_user"));
    let (said, found) = again(&secret, &folder, &[]);
    assert_eq!(said["unread_lines"], 0);
    assert!(
        found.contains("SET PASSWORD = '<text of 8 bytes>'"),
        "{found}"
    );
    assert!(!found.contains("sesame") && !found.contains("os_user"));
    // What has no value any more stays as it is.
    assert_eq!(again(&found, &folder, &[]).1, found);
    let masked = again(&printed, &folder, &["--mask"]).1;
    assert!(
        masked.contains("SELECT '<text of 4 bytes>', 9 FROM t"),
        "{masked}"
    );
    assert!(masked.contains(r#""masked":true"#) && !masked.contains("it's"));
    assert_eq!(again(&masked, &folder, &[]).1, masked);
}

#[test]
fn other_versions_and_what_does_not_begin_are_refused() {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    everything(&trace, None);
    let printed = lines(&trace);
    let (_, behind) = printed.split_once('\n').expect("lines");
    let version = format!(r#""version":{},"#, trace::VERSION);
    let of = |version: u32| {
        let begin = r#""record":"begin","version":"#;
        format!("{{{begin}{version}}}\n{behind}")
    };
    assert!(printed.contains(&version));
    let head = "is not what a trace begins with";
    for (lines, message, hint) in [
        (
            of(99),
            "of version 99, of a newer release; this reads",
            "with that release",
        ),
        (
            of(6),
            "of version 6, of an older release; this reads version 7",
            "print the trace again",
        ),
        (behind.to_owned(), head, "upshift stack dump"),
        (String::new(), head, "upshift stack dump"),
        (
            printed.replace(r#""family":"mysql""#, r#""family":"oracle""#),
            head,
            "dump",
        ),
        (
            printed.clone() + &printed,
            "begins another trace",
            "separately",
        ),
    ] {
        let (done, to) = import(&lines, &folder, &[]);
        assert!(!to.exists());
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        let (error, hinted) = said.split_once("hint: ").expect("a hint");
        assert!(error.contains(message) && hinted.contains(hint), "{said}");
    }
}
