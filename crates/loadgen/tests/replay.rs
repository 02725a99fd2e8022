//! Record on one real server, replay on it and on others, compare the answers.

mod common;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{every_option_is_told, fill, filled, load, path, start, wait};
use loadgen::replay::{Event, Trace};
use serde_json::Value;
use testserver::{Kind, Server, one, run};

const TABLES: u32 = 2;
const ROWS: u32 = 200;

/// Record 60 transactions of `read_write` over three connections, from new tables on; the tables are new again afterwards.
fn record(server: &Server, url: &str) -> String {
    let trace = path(&common::file(server, "trace")).to_owned();
    let line = format!(
        "oltp read_write run --record {trace} --tables {TABLES} --table-size {ROWS} -c 3 --max-transactions 60 --json"
    );
    let recorded = load(&line, url);
    assert_eq!(recorded.json(0)["transactions"]["read_write"]["count"], 60);
    assert!(
        recorded
            .stderr
            .contains("recorded 60 transactions, 1200 requests"),
        "{}",
        recorded.stderr
    );
    fill(url, TABLES, ROWS);
    trace
}

fn replay(line: &str, trace: &str, url: &str) -> common::Ran {
    load(&format!("replay {trace} {line} --json"), url)
}

fn server_time_is_told(result: &Value, prepared_on_mariadb: bool) {
    let time = &result["server_time"];
    if prepared_on_mariadb {
        assert!(
            time["unavailable"]
                .as_str()
                .expect("why")
                .contains("--protocol text"),
            "{time:#}"
        );
        return;
    }
    for (name, statement) in result["statements"].as_object().expect("statements") {
        if name == "connect" || name == "prepare" {
            continue;
        }
        assert_eq!(
            time["statements"][name]["count"], statement["count"],
            "{name} {time:#}"
        );
        assert!(
            time["statements"][name]["mean_us"]
                .as_f64()
                .expect("a mean")
                >= 0.0
        );
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn all_servers_and_all_ways_give_equal_answers() {
    let mariadb = Server::mariadb(&["--performance-schema=ON"]);
    let home = filled(&mariadb, TABLES, ROWS);
    let trace = record(&mariadb, &home);
    let digest = common::file(&mariadb, "digest");
    let digest = path(&digest);
    // Ranges have no ORDER BY, and PostgreSQL moves the rows that it updates.
    let first = replay(
        &format!("--unordered --lenient --digest {digest}"),
        &trace,
        &home,
    )
    .json(0);
    assert_eq!(first["transactions"]["read_write"]["count"], 60);
    assert_eq!(first["replay"]["requests"], 1200);
    every_option_is_told(&["replay"], &first);
    assert!(first["replay"]["differences"].is_null());
    server_time_is_told(&first, true);
    let postgres = Server::postgres(&[]);
    let mysql = Server::mysql(&[]);
    for server in [Some(&mariadb), Some(&postgres), mysql.as_ref()]
        .into_iter()
        .flatten()
    {
        let url = if server.kind() == Kind::MariaDb {
            home.clone()
        } else {
            server.create("t")
        };
        if server.kind() == Kind::Postgres {
            run(
                &mut *server.connect("t").expect("a login"),
                "CREATE EXTENSION pg_stat_statements",
            );
        }
        let mut ways = vec![
            ("--protocol text", false),
            ("--protocol prepared --fetch-size 7", true),
        ];
        if server.kind() == Kind::Postgres {
            ways.push(("--binary-results", true));
        }
        for (way, prepared) in ways {
            fill(&url, TABLES, ROWS);
            let line = format!("--unordered --lenient --compare {digest} {way}");
            let result = replay(&line, &trace, &url).json(0);
            assert_eq!(
                result["replay"]["differences"], 0,
                "{way} {:#}",
                result["replay"]
            );
            assert_eq!(result["replay"]["ended_otherwise"], 0);
            server_time_is_told(&result, prepared && server.kind() == Kind::MariaDb);
        }
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn what_differs_is_listed_with_its_statement() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, TABLES, ROWS);
    let trace = record(&server, &url);
    let digest = common::file(&server, "digest");
    let digest = path(&digest);
    replay(&format!("--digest {digest}"), &trace, &url).json(0);
    fill(&url, TABLES, ROWS);
    let equal = replay(&format!("--compare {digest}"), &trace, &url).json(0);
    assert_eq!(equal["replay"]["differences"], 0);
    fill(&url, TABLES, ROWS);
    let mut connection = server.connect("t").expect("a login");
    run(
        &mut *connection,
        "ALTER TABLE sbtest1 MODIFY pad VARCHAR(60) NOT NULL, MODIFY c VARCHAR(120) NOT NULL",
    );
    let line = format!("--compare {digest}");
    let retyped = replay(&line, &trace, &url);
    retyped.refused(1, &["answered differently"]);
    // The same cells in columns of another type.
    let differing = &retyped.json(1)["replay"]["differing"];
    assert_eq!(differing[0]["cell"], Value::Null, "{differing:#}");
    fill(&url, TABLES, ROWS);
    run(&mut *connection, "UPDATE sbtest2 SET c = 'other'");
    let changed = replay(&line, &trace, &url).json(1);
    let mut differing = changed["replay"]["differing"]
        .as_array()
        .expect("a list")
        .iter();
    let point = differing.find(|one| one["statement"] == "point_select");
    let cell = serde_json::json!({"row": 1, "column": 1, "name": "c"});
    assert_eq!(point.expect("a point select")["cell"], cell);
    replay(&format!("{line} --lenient"), &trace, &url).refused(1, &["--lenient"]);
    fill(&url, TABLES, ROWS);
    run(
        &mut *connection,
        "DELETE FROM sbtest2 WHERE id BETWEEN 90 AND 110",
    );
    let other = replay(&line, &trace, &url);
    other.refused(1, &["answered differently"]);
    let differing = &other.json(1)["replay"]["differing"];
    let point = differing.as_array().expect("a list").iter();
    let point = point
        .clone()
        .find(|one| one["statement"] == "point_select")
        .expect("a point select");
    let sql = point["sql"].as_str().expect("SQL");
    assert!(
        sql.starts_with("SELECT c FROM sbtest2 WHERE id=") && !sql.contains('?'),
        "{sql}"
    );
    assert_eq!(
        (&point["earlier"]["rows"], &point["now"]["rows"]),
        (&Value::from(1), &Value::from(0))
    );
    // The digest belongs to this trace and these choices.
    replay(&format!("--protocol text --compare {digest}"), &trace, &url)
        .refused(1, &["--protocol"]);
    replay(&format!("--unordered --compare {digest}"), &trace, &url).refused(1, &["--unordered"]);
    replay(&format!("--rows first --compare {digest}"), &trace, &url).refused(1, &["--rows"]);
    let again = record(&server, &url);
    replay(&line, &again, &url).refused(1, &["another trace"]);
    replay(&format!("--compare {trace}"), &trace, &url).refused(1, &["not a digest"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn many_connections_replay_all_of_it() {
    let server = Server::postgres(&[]);
    let url = filled(&server, 1, ROWS);
    let trace = path(&common::file(&server, "trace")).to_owned();
    // Sums that no order changes, unlike what delete and insert of the same row leave when they overlap.
    let line = format!(
        "oltp update_index run --record {trace} --table-size {ROWS} -c 3 --max-transactions 60"
    );
    load(&line, &url).done();
    let mut connection = server.connect("t").expect("a login");
    let mut sum = || one(&mut *connection, "SELECT sum(k) FROM sbtest1").parse::<u64>();
    let mut before = sum().expect("a sum");
    for connections in [1, 2, 5] {
        let result = replay(&format!("-c {connections}"), &trace, &url).json(0);
        assert_eq!(result["statements"]["index_update"]["affected"], 60);
        assert_eq!(result["replay"]["ended_otherwise"], 0, "{result:#}");
        let after = sum().expect("a sum");
        assert_eq!(after, before + 60);
        before = after;
    }
}

/// How many deletes overlapped one of the same id: nobody knows which came first.
fn ambiguous(trace: &str) -> u64 {
    let trace = Trace::open(Path::new(trace), false).expect("whole");
    let mut reader = trace.reader().expect("opens");
    let mut deletes = Vec::new();
    while let Some(recorded) = reader.next_transaction().expect("reads") {
        deletes.push((recorded.after, recorded.events().expect("decodes")));
    }
    let id = |events: &[Event]| match &events[0] {
        Event::Statement { parameters, .. } => parameters.clone(),
        other => panic!("{other:?}"),
    };
    let mut found = HashSet::new();
    for (place, (after, events)) in deletes.iter().enumerate() {
        let overlapping = deletes.iter().enumerate().take(place).skip(*after as usize);
        for (other, _) in overlapping.filter(|(_, (_, other))| id(other) == id(events)) {
            found.extend([place, other]);
        }
    }
    found.len() as u64
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn connections_keep_the_recorded_order_among_each_other() {
    let server = Server::postgres(&[]);
    let url = filled(&server, 1, ROWS);
    let trace = path(&common::file(&server, "trace")).to_owned();
    // The first delete of an id changes a row, the others none. The schedule leaves each time to end before the next, on any connection;
    // a busy machine may let some overlap.
    let line = format!(
        "oltp delete run --record {trace} --table-size {ROWS} -c 4 --rate 200 --arrivals uniform --max-transactions 300 --seconds 60 --distribution uniform --json"
    );
    let recorded = load(&line, &url).json(0);
    let changed = &recorded["statements"]["delete"]["affected"];
    assert!((100..200).contains(&changed.as_u64().expect("a count")));
    let ambiguous = ambiguous(&trace);
    assert!(ambiguous < 50, "{ambiguous}");
    for connections in [4, 3, 2, 1] {
        fill(&url, 1, ROWS);
        let ran = replay(&format!("-c {connections}"), &trace, &url);
        let told = &ran.json(ran.code.expect("a code"))["replay"];
        let counted = told["counted_otherwise"].as_u64().expect("a count");
        assert!(counted <= ambiguous, "{counted} of {ambiguous}");
    }
    // Rows that are not there any more are no good replay, whether there is a digest or not.
    let again = replay("", &trace, &url);
    again.refused(1, &["another number of rows", "as they were when"]);
    let told = &again.json(1)["replay"];
    assert_eq!(&told["counted_otherwise"], changed, "{told:#}");
    replay("--lenient", &trace, &url).json(0);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn errors_are_answers_and_a_changed_end_is_a_failure() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, ROWS);
    let mut connection = server.connect("t").expect("a login");
    let trace = path(&common::file(&server, "trace")).to_owned();
    // Every insert is refused: the trace has transactions that end so.
    run(
        &mut *connection,
        "CREATE TRIGGER no BEFORE INSERT ON sbtest1 FOR EACH ROW SIGNAL SQLSTATE '45000'",
    );
    let line = format!(
        "oltp read_write run --record {trace} --table-size {ROWS} --max-transactions 10 --on-error continue --json"
    );
    let recorded = load(&line, &url).json(0);
    assert_eq!(
        recorded["transactions"]["read_write"]["errors"], 10,
        "{recorded:#}"
    );
    let digest = common::file(&server, "digest");
    let digest = path(&digest);
    let same = replay(&format!("--digest {digest}"), &trace, &url).json(0);
    assert_eq!(same["errors"]["1644"]["count"], 10, "{same:#}");
    assert_eq!(same["replay"]["ended_otherwise"], 0);
    let text = fs::read_to_string(digest).expect("a digest");
    assert_eq!(text.matches("error:1644:45000").count(), 10);
    // What was rolled back then is rolled back now: the tables are as they were.
    replay(&format!("--compare {digest}"), &trace, &url).json(0);
    run(&mut *connection, "DROP TRIGGER no");
    let otherwise = replay("", &trace, &url);
    assert_eq!(otherwise.json(1)["replay"]["ended_otherwise"], 10);
    otherwise.refused(1, &["10 transactions ended in another way"]);
    replay(&format!("--compare {digest}"), &trace, &url)
        .refused(1, &["10 requests were answered differently"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn damaged_traces_and_missing_tables_are_refused() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, TABLES, ROWS);
    let trace = record(&server, &url);
    let bytes = fs::read(&trace).expect("a trace");
    let broken = common::file(&server, "broken");
    let broken = path(&broken);
    // The ending is one block of 13 bytes of head and a few of numbers.
    fs::write(broken, &bytes[..bytes.len() - 15]).expect("writes");
    replay("", broken, &url).refused(
        1,
        &[
            "truncated",
            "60 transactions with 1200 statements",
            "--allow-truncated",
        ],
    );
    let whole_part = replay("--allow-truncated", broken, &url).json(0);
    assert_eq!(whole_part["replay"]["truncated"], true);
    assert_eq!(whole_part["transactions"]["read_write"]["count"], 60);
    let mut newer = bytes.clone();
    newer[8] = 9;
    fs::write(broken, newer).expect("writes");
    replay("", broken, &url).refused(1, &["version 9"]);
    fs::write(broken, "SELECT 1").expect("writes");
    replay("", broken, &url).refused(1, &["not a trace"]);
    replay("", "/no/such/trace", &url).refused(1, &["/no/such/trace"]);
    let empty = server.create("nothing_here");
    replay("", &trace, &empty).refused(1, &["refuses point_select", "same prepare"]);
    let nowhere = format!("oltp point_select run --record /no/such/trace --table-size {ROWS}");
    load(&nowhere, &url).refused(1, &["/no/such/trace"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_full_disk_ends_the_recording_and_keeps_what_is_there() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, TABLES, ROWS);
    let trace = common::file(&server, "trace");
    let trace = path(&trace);
    // A limit of 100 KiB on files stands for the disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 200; exec {} oltp point_select run --record {trace} --tables {TABLES} --table-size {ROWS} --seconds 20 --json --server '{url}'",
        env!("CARGO_BIN_EXE_upshift-load")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let full = common::ended(shell);
    full.refused(
        1,
        &[
            "the recording ended early",
            "File too large",
            "--allow-truncated",
        ],
    );
    let result = full.json(1);
    assert!(
        result["failure"]
            .as_str()
            .expect("why")
            .contains("recording")
    );
    assert_eq!(result["interrupted"], false);
    assert!(result["duration_s"].as_f64().expect("seconds") < 19.0);
    replay("", trace, &url).refused(1, &["truncated"]);
    let kept = replay("--allow-truncated", trace, &url).json(0);
    assert!(
        kept["transactions"]["point_select"]["count"]
            .as_u64()
            .expect("a count")
            > 1000,
        "{kept:#}"
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn the_recorded_pace_counts_latency_from_the_recorded_start() {
    let server = Server::mariadb(&[]);
    let url = filled(&server, 1, ROWS);
    let trace = path(&common::file(&server, "trace")).to_owned();
    // Sixty starts, 50 ms apart.
    let line = format!(
        "oltp point_select run --record {trace} --table-size {ROWS} --rate 20 --arrivals uniform --max-transactions 60 --seconds 60"
    );
    load(&line, &url).done();
    let fast = replay("", &trace, &url).json(0);
    assert!(fast["open_loop"].is_null(), "{fast:#}");
    let child = start(&format!("replay {trace} --pace recorded --json"), &url);
    server.wait_for_work(1, 5);
    server.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    server.signal(libc::SIGCONT);
    let result = wait(child).json(0);
    let open = &result["open_loop"];
    assert_eq!(open["arrivals"], "recorded");
    assert_eq!(
        (&open["begun"], &open["not_begun"]),
        (&60.into(), &0.into())
    );
    let rate = open["rate"].as_f64().expect("a rate");
    assert!((10.0..25.0).contains(&rate), "{open:#}");
    let duration_s = result["duration_s"].as_f64().expect("seconds");
    assert!(duration_s > 59.0 / rate - 0.1, "{result:#}");
    // Twenty starts fell into the second that stood still, and wait on average for half of it.
    let us = |of: &Value, name: &str| of[name].as_f64().expect("a latency");
    assert!(us(&result, "latency_us_p90") > 300_000.0, "{result:#}");
    assert!(us(open, "lag_us_max") > 800_000.0, "{open:#}");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_that_is_killed_under_a_replay() {
    let mut server = Server::mariadb(&[]);
    let url = filled(&server, 1, ROWS);
    let trace = path(&common::file(&server, "trace")).to_owned();
    let line =
        format!("oltp update_index run --record {trace} --table-size {ROWS} -c 2 --seconds 4");
    load(&line, &url).done();
    let digest = common::file(&server, "digest");
    for (way, code, reconnects) in [("reconnect", 1, 1), ("stop", 1, 0)] {
        // At the recorded pace it lasts as long as the recording did.
        let line = format!(
            "replay {trace} --pace recorded --digest {} --on-disconnect {way} --json",
            path(&digest)
        );
        let child = start(&line, &url);
        server.wait_for_work(1, 50);
        server.kill();
        server.restart();
        let ran = wait(child);
        let result = ran.json(code);
        assert_eq!(result["reconnects"], reconnects, "{result:#}");
        if way == "stop" {
            assert!(ran.stderr.contains("was not written"), "{}", ran.stderr);
            ran.refused(1, &["--on-disconnect reconnect"]);
            continue;
        }
        // The transaction that the connection was lost in, and no other.
        assert_eq!(result["replay"]["ended_otherwise"], 1, "{result:#}");
        assert_eq!(result["replay"]["counted_otherwise"], 0, "{result:#}");
        let text = fs::read_to_string(&digest).expect("a digest");
        assert_eq!(text.matches("\tlost\t").count(), 1);
        assert_eq!(
            text.lines().count() as u64,
            3 + result["replay"]["requests"].as_u64().expect("a count")
        );
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_digest_that_cannot_be_written_is_an_error_even_where_differences_count() {
    let server = Server::postgres(&[]);
    let url = filled(&server, TABLES, ROWS);
    let trace = record(&server, &url);
    let taken = common::file(&server, "taken");
    fs::create_dir(&taken).expect("a folder");
    for choice in ["fail", "count"] {
        let line = format!("--on-difference {choice} --digest {}", path(&taken));
        replay(&line, &trace, &url).refused(1, &["cannot write", "taken"]);
        fill(&url, TABLES, ROWS);
    }
}
