//! What a small run looks like in each output.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use wire::{Counters, Done, Error, ServerUrl};

use super::{
    About, AnswerResult, DifferingRequest, Latency, OpenLoop, RecordedOn, Replay, Result, Server,
    Transport, histogram, result, table, write_hdr, write_parquet,
};
use crate::clock::MonotonicClock;
use crate::commit::Commit;
use crate::drive::{ArrivalProcess, Arrivals, Finished, OnDisconnect, OnError, Plan};
use crate::measure::{Collector, Names, Recorder, TransactionRecord, server_time};
use crate::replay::Place;
use crate::session::{Knobs, Shared, StatementId};
use crate::workload::{Outcome, TransactionKind, Workload};

/// One transaction of 3 ms with one statement of 2 ms, and one refused statement.
fn small() -> (Commit, Shared, Plan, Finished) {
    let workload = Commit::new(10);
    let names = Arc::new(Names::new(workload.statements()));
    let collector = Collector::new(names.all().len(), 1);
    let mut recorder = Recorder::new(Arc::clone(&collector));
    recorder.start();
    let wire = Counters {
        round_trips: 1,
        packets_sent: 1,
        packets_received: 2,
        bytes_sent: 20,
        bytes_received: 30,
        syscalls: 2,
    };
    let name = names.of(StatementId(0));
    recorder.statement(
        name,
        0,
        2_000_000,
        wire,
        &Ok(Done {
            rows: 1,
            ..Done::default()
        }),
    );
    let refused = Error::Server {
        code: 1114,
        sqlstate: "HY000".into(),
        message: "full".into(),
    };
    recorder.statement(name, 0, 1_000_000, wire, &Err(refused));
    let kind = TransactionKind(0);
    let outcome = Some(Outcome::Committed);
    recorder.transaction(TransactionRecord {
        kind,
        scheduled_ns: 0,
        began_ns: 0,
        ended_ns: 3_000_000,
        outcome,
        retries: 0,
    });
    recorder.cpu(80_000);
    recorder.flush();
    let shared = Shared {
        connector: Arc::new(|| Err(Error::Unsupported("no server".into()))),
        statements: workload.statements().into(),
        names,
        knobs: Knobs::default(),
        clock: Arc::new(MonotonicClock::start()),
    };
    let plan = Plan {
        connections: 1,
        client_threads: 1,
        time: None,
        warmup: Duration::ZERO,
        wait: Duration::from_secs(30),
        transactions: Some(1),
        arrivals: Arrivals::Closed,
        on_disconnect: OnDisconnect::Stop,
        on_error: OnError::Continue,
        seed: 1,
    };
    let totals = collector.totals();
    let finished = Finished {
        totals,
        duration_s: 0.5,
        interrupted: false,
        failure: None,
        is_gone: false,
        stuck_connections: 0,
    };
    (workload, shared, plan, finished)
}

fn small_result() -> Result {
    result_of(&small())
}

fn result_of((workload, shared, plan, finished): &(Commit, Shared, Plan, Finished)) -> Result {
    let url = "mysql://h/d?tls=required";
    let server = Server {
        family: "mysql".into(),
        version: "9.7.4".into(),
        transport: Transport::from(&ServerUrl::parse(url).expect("valid")),
        isolation: Some("repeatable-read".into()),
        durability: [("sync_binlog".to_owned(), "1".to_owned())].into(),
    };
    let server_time = server_time(
        Err("performance_schema is off".into()),
        Err("performance_schema is off".into()),
        &shared.statements,
    );
    result(
        &About::from(workload as &dyn Workload),
        shared,
        plan,
        server,
        server_time,
        finished,
    )
}

#[test]
fn a_load_that_ends_within_its_warm_up_says_so() {
    let mut run = small();
    run.2.warmup = Duration::from_secs(5);
    assert_eq!(result_of(&run).notes, small_result().notes);
    run.3.duration_s = 0.0;
    let notes = result_of(&run).notes.join("; ");
    assert!(notes.contains("within its warm-up"), "{notes}");
}

#[test]
fn the_table_says_what_differs() {
    let same = || AnswerResult {
        answer: "ok".into(),
        rows: 3,
        affected: 0,
        warnings: 0,
        last_insert_id: 7,
        hash: "00".into(),
    };
    let told_at = |cell: Option<Place>, change: fn(&mut AnswerResult)| {
        let mut now = same();
        change(&mut now);
        let mut result = small_result();
        result.replay = Some(Replay {
            trace: "t".into(),
            recorded_on: RecordedOn {
                family: "mysql".into(),
                version: "1".into(),
            },
            truncated: false,
            requests: 9,
            overlapped: 0,
            laps: 1,
            ended_otherwise: 0,
            ended_otherwise_overlapped: 0,
            counted_otherwise: 2,
            counted_otherwise_overlapped: 1,
            differences: Some(1),
            differences_overlapped: Some(0),
            unsteady: Some(0),
            differing: vec![DifferingRequest {
                request: 4,
                statement: "s".into(),
                sql: "SELECT".into(),
                overlapped: false,
                cell,
                earlier: same(),
                now,
            }],
        });
        let text = table(&result, false);
        assert!(text.contains("\n1 of 9 requests were answered differently\n"));
        let counted = "\n2 requests returned or changed another number of rows than in the recording, 1 in transactions that overlapped";
        assert!(text.contains(counted), "{text}");
        let line = text.lines().find(|line| line.starts_with("request 4"));
        line.expect("a line").to_owned()
    };
    let told = |change| told_at(None, change);
    let at = |name: Option<&str>| {
        let place = Place {
            row: 3,
            column: 2,
            name: name.map(str::to_owned),
        };
        told_at(Some(place), |now| now.hash = "01".into())
    };
    let counts = "request 4 (s): earlier 3 rows, 0 affected";
    for (line, rest) in [
        (told(|now| now.rows = 2), ", now 2 rows, 0 affected"),
        (
            told(|now| now.warnings = 1),
            ", 0 warnings, now 3 rows, 0 affected, 1 warnings",
        ),
        (
            told(|now| now.last_insert_id = 8),
            ", insert id 7, now 3 rows, 0 affected, insert id 8",
        ),
        (
            told(|now| now.hash = "01".into()),
            ", now 3 rows, 0 affected; other columns, values or order of rows",
        ),
        (
            at(Some("qty")),
            ", now 3 rows, 0 affected; first other cell: row 3, column 2 (qty)",
        ),
        (
            at(None),
            ", now 3 rows, 0 affected; first other cell: row 3, column 2",
        ),
        (told(|now| now.answer = "lost".into()), ", now lost"),
    ] {
        assert_eq!(line, format!("{counts}{rest}"));
    }
}

#[test]
fn json_has_the_keys_and_figures_that_the_reference_names() {
    let result = small_result();
    let json = serde_json::to_value(&result).expect("serializes");
    assert_eq!(json["schema_version"], 3);
    for (option, value) in [
        ("connections", 1.into()),
        ("max_transactions", 1.into()),
        ("protocol", "prepared".into()),
        ("isolation", "default".into()),
        ("accounts", 10.into()),
        ("seconds", serde_json::Value::Null),
    ] {
        assert_eq!(json["options"][option], value, "{option}");
    }
    assert_eq!(json["ran"]["engine"], "threads");
    assert_eq!(json["server"]["isolation"], "repeatable-read");
    assert_eq!(json["server"]["transport"], "tcp");
    assert_eq!(json["server"]["tls"], "required");
    assert_eq!(json["server"]["durability"]["sync_binlog"], "1");
    assert!(json["tpmc"].is_null());
    assert_eq!(json["tps"], 2.0);
    assert_eq!(json["qps"], 4.0);
    assert_eq!(json["client_cpu_us_per_statement"], 40.0);
    let statement = &json["statements"]["account_update"];
    let figures = [
        ("count", 2),
        ("errors", 1),
        ("rows", 1),
        ("round_trips", 2),
        ("packets_sent", 2),
        ("packets_received", 4),
        ("bytes_sent", 40),
        ("bytes_received", 60),
        ("syscalls", 4),
    ];
    for (key, figure) in figures {
        assert_eq!(statement[key], figure, "{key}");
    }
    assert_eq!(json["transactions"]["commit"]["round_trips"], 2);
    for of in [&json, statement, &json["transactions"]["commit"]] {
        for figure in ["p50", "p90", "p99", "p999", "p9999", "max", "mean"] {
            let key = format!("latency_us_{figure}");
            assert!(of[&key].as_f64().is_some_and(|us| us > 0.0), "{key}");
        }
    }
    for (option, value) in [("warmup_s", 0.0), ("wait_s", 30.0)] {
        assert_eq!(json["options"][option], value, "{option}");
    }
    let max_us = json["transactions"]["commit"]["latency_us_max"]
        .as_f64()
        .expect("a number");
    assert!((3000.0..3003.0).contains(&max_us), "{max_us}");
    assert_eq!(json["errors"]["1114"]["count"], 1);
    assert!(json["server_time"]["source"].is_null());
    let text = table(&result, false);
    assert!(
        text.contains("no time in the server: performance_schema is off"),
        "{text}"
    );
    assert!(
        text.contains("2.0 transactions/s (120 a minute)") && text.contains("account_update"),
        "{text}"
    );
}

/// What a long run of TPC-C on a slow server leaves: the longest names and large figures.
fn large() -> Result {
    let mut result = small_result();
    result.server.version = "10.11.14-MariaDB-0+deb12u2".into();
    result.server_time.unavailable = None;
    let latency = Latency {
        p50: 1_234_567.8,
        p90: 2_345_678.9,
        p99: 3_456_789.1,
        p999: 9_999_999.0,
        p9999: 9_999_999.0,
        max: 31_000_000.0,
        mean: 1_234_567.8,
    };
    let statement = result.statements.get_mut("account_update").expect("is");
    (statement.count, statement.errors) = (99_999_999, 123_456);
    statement.latency = latency;
    statement.wire.bytes_received = 99_999_999 * 123_456;
    let statement = result.statements.remove("account_update").expect("is");
    let name = "new_order.order_line_insert_multirow";
    result.statements.insert(name.into(), statement);
    result.latency = latency;
    let commit = result.transactions.get_mut("commit").expect("is");
    commit.retries = 1_234_567;
    result.tps = 123_456.7;
    result.qps = 1_234_567.8;
    result.open_loop = Some(OpenLoop {
        rate: 100_000.0,
        arrivals: ArrivalProcess::Poisson,
        begun: 12_345_678,
        not_begun: 12_345_678,
        lag: latency,
    });
    result.server_time.source = Some("performance_schema.events_statements_summary_by_digest");
    result
}

#[test]
fn tables_fit_their_columns() {
    let result = large();
    for (wide, columns) in [(false, 80), (true, 132)] {
        let text = table(&result, wide);
        let longest = text.lines().max_by_key(|line| line.len()).expect("lines");
        assert!(longest.len() <= columns, "{}: {longest}", longest.len());
        assert_eq!(text.contains("syscalls"), wide, "{text}");
        assert!(text.contains("\n  new_order.order_line_insert_multirow\n"));
        assert!(text.contains("1234567 retries\n"), "{text}");
    }
}

#[test]
fn a_histogram_has_each_latency_with_its_count() {
    let (_, _, _, mut finished) = small();
    let latency = &mut finished.totals.latency;
    latency.record_n(5_000, 7).expect("in range");
    let pairs = histogram(latency);
    assert_eq!(pairs.len(), 2);
    assert!((pairs[0].0 - 5.0).abs() < 0.01 && pairs[0].1 == 7);
    assert!((pairs[1].0 - 3000.0).abs() < 5.0 && pairs[1].1 == 1);
}

#[test]
fn hdr_log_and_parquet_are_written() {
    let (workload, shared, _, mut finished) = small();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (hdr, parquet) = (folder.join("run.hlog"), folder.join("run.parquet"));
    write_hdr(&hdr, workload.transactions(), &shared.names, &finished).expect("writes");
    let log = std::fs::read_to_string(&hdr).expect("text");
    assert!(
        log.contains("Tag=transaction.commit,") && log.contains("Tag=statement.account_update,"),
        "{log}"
    );
    write_parquet(&parquet, &finished).expect("writes");
    let rows = seconds(&parquet);
    let column = |name| rows[0][name];
    assert_eq!(rows.len(), 1, "all of it lies in the first second");
    assert_eq!(column("second"), 0);
    assert_eq!((column("transactions"), column("statements")), (1, 2));
    assert_eq!((column("errors"), column("retries")), (0, 0));
    // 3 ms, in two digits.
    for name in [
        "latency_us_p50",
        "latency_us_p90",
        "latency_us_p99",
        "latency_us_max",
    ] {
        assert!(
            (2990..=3030).contains(&column(name)),
            "{name} {}",
            column(name)
        );
    }
    let missing = write_parquet(&folder.join("no/such"), &finished).expect_err("no folder");
    assert!(missing.to_string().contains("no/such"));
    // A tag ends with the first comma or space.
    write_hdr(&hdr, &["pay, now"], &shared.names, &finished).expect("writes");
    let log = std::fs::read_to_string(&hdr).expect("text");
    assert!(log.contains("Tag=transaction.pay__now,"), "{log}");
    // Seconds in which nothing ended have rows, too.
    finished.duration_s = 9.5;
    write_parquet(&parquet, &finished).expect("writes");
    let rows = seconds(&parquet);
    let told: Vec<_> = rows.iter().map(|row| row["second"]).collect();
    assert_eq!(told, Vec::from_iter(0..10));
    assert_eq!((rows[0]["transactions"], rows[9]["transactions"]), (1, 0));
}

/// The rows of a Parquet file, by their columns.
fn seconds(path: &Path) -> Vec<HashMap<String, i64>> {
    let file = std::fs::File::open(path).expect("a file");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let columns = row.get_column_iter().enumerate();
        columns
            .map(|(place, (name, _))| (name.clone(), row.get_long(place).expect("a number")))
            .collect()
    })
    .collect()
}
