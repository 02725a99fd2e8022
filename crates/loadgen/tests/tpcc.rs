//! TPC-C on real servers: its consistency conditions hold after runs, after a killed client and after a killed server.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use loadgen::replay::ResultHash;
use serde_json::Value;
use testserver::{Kind, Server};

/// What the log has is safe from a killed server, if not from a power failure.
const INNODB: [&str; 2] = [
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=2",
];
const FLAVOURS: [&str; 2] = ["benchmarksql", "tuned"];

/// A server with an empty database.
struct Bench {
    server: Server,
    url: String,
}

impl Bench {
    fn new(server: Server) -> Self {
        let url = server.create("tpcc");
        Self { server, url }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_upshift-load"));
        command.args(arguments).args(["--server", &self.url]);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("upshift-load")
    }

    /// Run it and expect success; its stdout.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.done(&arguments)).expect("JSON")
    }

    /// Run it and expect failure with this exit code and these words on stderr.
    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let output = self.output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        for word in words {
            assert!(
                stderr.contains(word),
                "{arguments:?}: no {word} in {stderr}"
            );
        }
    }

    fn holds(&self, when: &str) {
        let output = self.output(&["tpcc", "check"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{when}: {output:?}");
        assert_eq!(text.matches(" holds ").count(), 11, "{when}: {text}");
    }

    /// A load that does not end by itself in time.
    fn load_in_background(&self) -> Child {
        let arguments = [
            "tpcc",
            "run",
            "--connections",
            "4",
            "--seconds",
            "300",
            "--json",
        ];
        let mut command = self.command(&arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        self.server.wait_for_load(4);
        std::thread::sleep(Duration::from_secs(2));
        child.expect("upshift-load")
    }
}

fn story(bench: &mut Bench) {
    bench.refused(&["tpcc", "run"], 1, &["hint: fill the tables", "prepare"]);
    let many = ["tpcc", "prepare", "--connections", "1000"];
    bench.refused(&many, 1, &["of 1000 connections", "--connections"]);
    bench.refused(&["tpcc", "check"], 1, &["hint: fill the tables"]);
    bench.done(&["tpcc", "prepare", "--warehouses", "2"]);
    bench.holds("freshly loaded");
    bench.refused(&["tpcc", "prepare"], 1, &["--drop"]);
    bench.refused(&["tpcc", "run", "--autocommit"], 2, &["hint"]);
    bench.refused(&["tpcc", "run", "--rows", "first"], 2, &["hint"]);
    bench.refused(&["tpcc", "run", "--flavour", "x"], 2, &["benchmarksql"]);
    too_few_columns(bench);
    runs(bench);
    any_warehouse(bench);
    one_statement(bench);
    noted_by_another(bench);
    violated(bench);
    killed_client(bench);
    killed_server(bench);
    half_loaded(bench);
}

/// A file of the user's own with fewer columns than the shipped one.
fn too_few_columns(bench: &Bench) {
    let flavour = bench.server.folder().join("own");
    std::fs::create_dir(&flavour).expect("a folder");
    let sql = "SELECT d_tax FROM district WHERE d_w_id = :w_id AND d_id = :d_id";
    std::fs::write(flavour.join("new_order.district_select.sql"), sql).expect("writes");
    let folder = common::path(bench.server.folder());
    let choice = ["--statement", "new_order.district_select=own"];
    let line = ["tpcc", "run", "--statements-dir", folder];
    bench.refused(
        &[&line[..], &choice].concat(),
        1,
        &["ERROR: ", "fewer columns", "hint: "],
    );
}

/// Each flavour and each way of batches that the server has.
fn runs(bench: &Bench) {
    let own = match bench.server.kind() {
        Kind::MariaDb => "bulk",
        Kind::MySql => "none",
        Kind::Postgres => "pipeline",
    };
    for flavour in FLAVOURS {
        for batch in ["none", "multirow", "rewritten", own] {
            let arguments = ["tpcc", "run", "-c", "4", "--seconds", "1"];
            let choice = ["--flavour", flavour, "--batch", batch];
            let result = bench.json(&[&arguments[..], &choice].concat());
            let new_orders = result["transactions"]["new_order"]["count"]
                .as_u64()
                .expect("a count");
            assert!(
                new_orders > 0 && result["tpmc"].as_f64() > Some(0.0),
                "{result}"
            );
            for transaction in result["transactions"]
                .as_object()
                .expect("by name")
                .values()
            {
                assert_eq!(
                    transaction["errors"], 0,
                    "{flavour} {batch}: {}",
                    result["errors"]
                );
            }
        }
    }
    for mode in ["text", "prepare-per-request"] {
        bench.done(&[
            "tpcc",
            "run",
            "-c",
            "2",
            "--seconds",
            "1",
            "--protocol",
            mode,
        ]);
    }
    bench.holds("after runs");
}

/// Two connections reach all of the warehouses, and the result says which they worked for.
fn any_warehouse(bench: &Bench) {
    let mut connection = bench.server.connect("tpcc").expect("a login");
    let mut ordered = || -> u64 {
        let sql = "SELECT SUM(d_next_o_id) FROM district WHERE d_w_id = 2";
        testserver::one(&mut *connection, sql)
            .parse()
            .expect("a sum")
    };
    let line = ["tpcc", "run", "-c", "1", "--max-transactions", "100"];
    let before = ordered();
    let home = bench.json(&line);
    let notes = home["notes"].to_string();
    assert!(notes.contains("first 1 of 2 warehouses"), "{notes}");
    assert_eq!(ordered(), before, "its home is the first");
    let any = bench.json(&[&line[..], &["--warehouses", "any"]].concat());
    assert_eq!(any["options"]["warehouses"], "any");
    common::every_option_is_told(&["tpcc", "run"], &any);
    assert_eq!(any["options"]["warehouses_loaded"], 2);
    assert!(ordered() > before, "{any}");
    bench.holds("after any warehouse");
}

fn one_statement(bench: &Bench) {
    for name in [
        "new_order.stock_update",
        "new_order.order_insert",
        "delivery.new_order_delete",
    ] {
        let result = bench.json(&["tpcc", "one", name, "-c", "2", "--seconds", "0.3"]);
        common::every_option_is_told(&["tpcc", "one"], &result);
        let statement = &result["statements"][name];
        assert_eq!(statement["errors"], 0, "{result}");
        assert!(
            statement["affected"].as_u64() > Some(0),
            "{name}: {statement}"
        );
    }
    bench.refused(
        &["tpcc", "one", "new_order.x"],
        2,
        &["new_order.stock_update"],
    );
    let delete = "delivery.new_order_delete";
    let line = ["tpcc", "one", delete, "--autocommit", "--seconds", "0.3"];
    bench.refused(&line, 2, &["tables would change", "hint"]);
    for reads in ["stock_level.low_stock", "payment.customer_select"] {
        bench.done(&["tpcc", "one", reads, "--autocommit", "--seconds", "0.3"]);
    }
    bench.holds("after single statements");
}

/// Payment adds its note to those of the payments that ended while it waited for the customer, not to those that it saw at its begin.
fn noted_by_another(bench: &Bench) {
    let statements = Path::new(env!("CARGO_MANIFEST_DIR")).join("statements/both");
    let of_payment = |name: &str| {
        let file = statements.join(format!("payment.{name}.sql"));
        let sql = std::fs::read_to_string(file).expect("a statement");
        let names = [":c_w_id", ":c_d_id", ":c_id", ":w_id", ":d_id"];
        names.iter().fold(sql, |sql, name| sql.replace(name, "1"))
    };
    let login = || bench.server.connect("tpcc").expect("a login");
    let (mut one, mut other) = (login(), login());
    testserver::run(&mut *one, "BEGIN");
    testserver::rows(&mut *one, &of_payment("district_select"));
    let note = "UPDATE customer SET c_data = 'noted' WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1";
    testserver::run(&mut *other, note);
    testserver::rows(&mut *one, &of_payment("customer_select"));
    let seen = testserver::one(&mut *one, &of_payment("customer_data_select"));
    testserver::run(&mut *one, "ROLLBACK");
    assert_eq!(seen, "noted");
}

/// A condition that does not hold is found.
fn violated(bench: &Bench) {
    let mut connection = bench.server.connect("tpcc").expect("a login");
    let add = |cents: &str| format!("UPDATE warehouse SET w_ytd = w_ytd + {cents} WHERE w_id = 1");
    testserver::run(&mut *connection, &add("0.01"));
    two_are_violated(bench);
    testserver::run(&mut *connection, &add("(-0.01)"));
    // A comparison with NULL is neither true nor false.
    let key = "WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1";
    let balance = format!("SELECT c_balance FROM customer {key}");
    let balance = testserver::one(&mut *connection, &balance);
    for value in ["NULL", balance.as_str()] {
        let set = format!("UPDATE customer SET c_balance = {value} {key}");
        testserver::run(&mut *connection, &set);
        if value == "NULL" {
            two_are_violated(bench);
        }
    }
    bench.holds("repaired");
}

fn two_are_violated(bench: &Bench) {
    let output = bench.output(&["tpcc", "check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.matches("VIOLATED         1 rows").count(), 2, "{text}");
}

fn killed_client(bench: &Bench) {
    let mut client = bench.load_in_background();
    client.kill().expect("SIGKILL");
    client.wait().expect("gone");
    bench.holds("after a killed client");
}

fn killed_server(bench: &mut Bench) {
    let client = bench.load_in_background();
    bench.server.kill();
    std::thread::sleep(Duration::from_secs(1));
    bench.server.restart();
    bench.server.wait_for_load(4);
    std::thread::sleep(Duration::from_secs(1));
    let pid = client.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(
        sent.expect("kill").success(),
        "the client outlives its server"
    );
    let output = client.wait_with_output().expect("its results");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(result["reconnects"].as_u64() > Some(0), "{result}");
    assert!(
        result["errors"]["disconnect"]["count"].as_u64() > Some(0),
        "{result}"
    );
    bench.holds("after a killed server");
}

fn half_loaded(bench: &Bench) {
    let mut command = bench.command(&["tpcc", "prepare", "--drop", "--warehouses", "2"]);
    let mut prepare = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("upshift-load");
    let mut lines = BufReader::new(prepare.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    prepare.kill().expect("SIGKILL");
    prepare.wait().expect("gone");
    assert!(first.starts_with("warehouse "), "{first}");
    for arguments in [&["tpcc", "run"][..], &["tpcc", "check"]] {
        bench.refused(arguments, 1, &["incomplete", "--drop"]);
    }
    bench.done(&["tpcc", "prepare", "--drop"]);
    bench.holds("loaded again");
    bench.done(&["tpcc", "cleanup"]);
    bench.refused(&["tpcc", "run"], 1, &["hint: fill the tables"]);
}

const TABLES: [&str; 10] = [
    "config",
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "oorder",
    "order_line",
    "item",
    "stock",
];

/// Rows of each table after `prepare`, and their hash.
fn prepared(server: Server, threads: &str) -> Vec<(&'static str, u64, u64)> {
    let bench = Bench::new(server);
    bench.done(&["tpcc", "prepare", "--seed", "7", "--connections", threads]);
    let mut connection = bench.server.connect("tpcc").expect("a login");
    TABLES
        .iter()
        .map(|table| {
            let mut hash = ResultHash::new(true, true);
            let sql = format!("SELECT * FROM {table}");
            connection
                .query(&sql, testserver::ALL, &mut hash)
                .expect(table);
            let (rows, hash) = hash.take();
            (*table, rows, hash)
        })
        .collect()
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn the_same_seed_makes_the_same_tables_everywhere() {
    let mariadb = prepared(Server::mariadb(&INNODB), "1");
    let stock = mariadb.iter().find(|(table, ..)| *table == "stock");
    assert_eq!(stock.map(|(_, rows, _)| *rows), Some(100_000));
    assert_eq!(prepared(Server::postgres(&[]), "3"), mariadb);
    if let Some(mysql) = Server::mysql(&INNODB) {
        assert_eq!(prepared(mysql, "2"), mariadb);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn mariadb() {
    story(&mut Bench::new(Server::mariadb(&INNODB)));
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn postgres() {
    story(&mut Bench::new(Server::postgres(&[
        "-c",
        "shared_buffers=256MB",
    ])));
}

#[test]
#[ignore = "needs a MySQL: UPSHIFT_TEST_MYSQLD names a mysqld 8.0 or newer"]
fn mysql() {
    if let Some(server) = Server::mysql(&INNODB) {
        story(&mut Bench::new(server));
    }
}
