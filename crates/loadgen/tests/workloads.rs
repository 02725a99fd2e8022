//! The workloads that the documents show: their commands run as they stand.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{ended, file, load, path};
use serde_json::Value;
use testserver::{Server, rows};
use toml::de::DeTable;

fn count(result: &Value, kind: &str, name: &str, what: &str) -> u64 {
    let count = &result[kind][name][what];
    count
        .as_u64()
        .unwrap_or_else(|| panic!("{kind} {name} {what}: {result:#}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of a workload of Upshift's, with its placeholders filled in.
fn commands(workload: &Path, fill: &[(&str, String)]) -> Vec<(String, Command)> {
    let text = std::fs::read_to_string(workload).expect("a workload");
    let table = DeTable::parse(&text).expect("TOML").into_inner();
    let mut commands = Vec::new();
    for name in ["fill", "load", "fixed"] {
        let Some(section) = table.get(name) else {
            continue;
        };
        let words = section.get_ref().get("command").expect("a command");
        let words = words.get_ref().as_array().expect("a list").iter();
        let words = words.map(|word| {
            let word = word.get_ref().as_str().expect("a word").to_owned();
            let filled = fill.iter();
            filled.fold(word, |word, (key, value)| word.replace(key, value))
        });
        let words: Vec<String> = words.collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(root());
        commands.push((name.to_owned(), command));
    }
    commands
}

/// What stands for the placeholders of a load on a server's database `t`.
fn placeholders(server: &Server) -> Vec<(&'static str, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_upshift-load"));
    let programs = program.parent().expect("a folder");
    vec![
        ("{programs}", path(programs).to_owned()),
        ("{database}", "t".to_owned()),
        ("{socket}", path(&server.folder().join("s")).to_owned()),
        ("{connections}", "3".to_owned()),
        ("{seconds}", "2".to_owned()),
        ("{transactions}", "50".to_owned()),
        ("{seed}", "1".to_owned()),
    ]
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn the_tutorials_workload_runs() {
    let server = Server::mariadb(&[]);
    let _ = server.create("t");
    let workload = root().join("docs/tutorial/shop-workload.toml");
    for (name, command) in commands(&workload, &placeholders(&server)) {
        let ran = ended(command);
        match name.as_str() {
            "fill" => {
                ran.done();
            }
            "load" => {
                let result = ran.json(0);
                let (looks, orders) = (
                    count(&result, "transactions", "look", "count"),
                    count(&result, "transactions", "order", "count"),
                );
                assert!(looks > 4 * orders && orders > 0, "{result:#}");
            }
            _ => {
                let counts = ran.json(0);
                let all = ["look", "order"].map(|kind| {
                    count(&counts, "transactions", kind, "count")
                        + count(&counts, "transactions", kind, "rolled_back")
                });
                assert_eq!(all.iter().sum::<u64>(), 50);
            }
        }
    }
    let mut connection = server.connect("t").expect("a login");
    // Each connection's customers are its own: customers of three connections' thirds, all within the range.
    let ends = rows(
        &mut *connection,
        "SELECT MIN(customer) >= 1, MAX(customer) <= 5000 FROM orders",
    );
    assert_eq!(ends, [[Some("1".to_owned()), Some("1".to_owned())]]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_trace_of_reads_is_a_load_of_any_length() {
    let server = Server::mariadb(&[]);
    let url = server.create("t");
    let (trace, dump) = (file(&server, "reads.trace"), file(&server, "before.sql"));
    let filling = "CREATE TABLE sbtest1 (id INTEGER PRIMARY KEY, c CHAR(120));\nINSERT INTO sbtest1 SELECT seq, seq FROM seq_1_to_200;\n";
    std::fs::write(&dump, filling).expect("writes");
    let mut fill = placeholders(&server);
    fill.push(("/data/before.sql", path(&dump).to_owned()));
    fill.push(("/data/reads.trace", path(&trace).to_owned()));
    let workload = root().join("docs/tutorial/trace-workload.toml");
    let [(_, filling), (_, replaying), (_, fixed)] =
        <[_; 3]>::try_from(commands(&workload, &fill)).expect("three commands");
    ended(filling).done();
    let record = |what: &str, to: &Path| {
        let line = format!(
            "oltp {what} run --record {} --table-size 200 -c 4 --max-transactions 100 --seconds 60",
            path(to)
        );
        load(&line, &url).done();
    };
    record("point_select", &trace);
    let result = ended(replaying).json(0);
    let (laps, reads) = (
        result["replay"]["laps"].as_u64().expect("a count"),
        count(&result, "transactions", "point_select", "count"),
    );
    assert!(laps >= 2 && reads >= 100 * laps, "{result:#}");
    assert!(reads <= 100 * (laps + 2), "{laps} {reads}");
    assert!(result["duration_s"].as_f64() >= Some(2.0), "{result:#}");
    assert_eq!(result["replay"]["counted_otherwise"], 0);
    let fixed = ended(fixed).json(0);
    assert_eq!(count(&fixed, "transactions", "point_select", "count"), 50);
    let trace = path(&trace);
    let line = format!("replay {trace} --loop --max-transactions 250 --json");
    let counted = load(&line, &url).json(0);
    assert_eq!(
        count(&counted, "transactions", "point_select", "count"),
        250
    );
    assert_eq!(counted["replay"]["laps"], 2);
    // A connection for which the trace has nothing takes no turn from the four that it has something for.
    let line = format!("replay {trace} -c 16 --max-transactions 60 --json");
    let counted = load(&line, &url).json(0);
    assert_eq!(count(&counted, "transactions", "point_select", "count"), 60);
    // Without --loop it ends with the trace, and says so.
    let short = load(&format!("replay {trace} --seconds 60 --json"), &url).json(0);
    assert_eq!(count(&short, "transactions", "point_select", "count"), 100);
    let said = |result: &Value| {
        result["notes"]
            .to_string()
            .contains("the trace ended after")
    };
    assert!(said(&short), "{short:#}");
    assert!(!said(&result), "{result:#}");
    // Twice and half as fast as recorded, it brings its own moments.
    for (pace, times) in [("1000x", 1000.0), ("0.5x", 0.5)] {
        let line = format!("replay {trace} --pace {pace} --seconds 1 --json");
        let paced = load(&line, &url).json(0);
        let recorded = load(
            &format!("replay {trace} --pace recorded --seconds 1 --json"),
            &url,
        );
        let rate = |result: &Value| result["open_loop"]["rate"].as_f64().expect("a rate");
        let ratio = rate(&paced) / rate(&recorded.json(0));
        assert!((ratio / times - 1.0).abs() < 1e-9, "{ratio}");
        assert_eq!(paced["options"]["pace"], pace);
    }
    for (wrong, code, why) in [
        ("--loop", 2, "--max-transactions"),
        (
            "--loop --seconds 1 --digest /tmp/x",
            2,
            "cannot be used with",
        ),
        ("--pace 0x", 2, "fast, recorded, or"),
        ("--pace slow", 2, "fast, recorded, or"),
        ("--order first", 2, "serial"),
    ] {
        let ran = load(&format!("replay {trace} {wrong}"), &url);
        assert_eq!(ran.code, Some(code), "{wrong}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{wrong}: {}", ran.stderr);
    }
    let writes = file(&server, "writes.trace");
    record("delete", &writes);
    let writes = path(&writes);
    load(&format!("replay {writes} --loop --seconds 1"), &url)
        .refused(1, &["delete changes rows", "--loop always"]);
    // What is deleted already counts no row: a difference that is a failure, or only counted.
    let line = format!("replay {writes} --loop always --seconds 1 --json");
    load(&line, &url).refused(1, &["another number of rows"]);
    let counted = load(&format!("{line} --on-difference count"), &url).json(0);
    assert!(counted["replay"]["counted_otherwise"].as_u64() > Some(0));
    let connection = &mut *server.connect("t").expect("a login");
    assert!(!rows(connection, "SELECT id FROM sbtest1 LIMIT 1").is_empty());
}
