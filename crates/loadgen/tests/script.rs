//! Files of statements, on real servers.

mod common;

use std::path::{Path, PathBuf};

use common::{ended, every_option_is_told, load, path};
use serde_json::Value;
use testserver::{Kind, Server, one, run};

/// What all servers understand.
const BANK: &str = r#"
prepare = [
  "CREATE TABLE account (id INTEGER PRIMARY KEY, owner VARCHAR(20) NOT NULL, balance NUMERIC(10, 2) NOT NULL)",
  "CREATE TABLE moved (id SERIAL PRIMARY KEY, account INTEGER NOT NULL, owner VARCHAR(20) NOT NULL, amount NUMERIC(10, 2) NOT NULL)",
  { repeat = 200, redraw = ["new", "owner"], sql = "INSERT INTO account VALUES (:new, :owner, 100.00)" },
]
cleanup = ["DROP TABLE IF EXISTS account", "DROP TABLE IF EXISTS moved"]

[variables]
new = { sequence = 1 }
owner = { text = [3, 20] }
id = { uniform = [1, 200], partition = true }
high = { uniform = [150, 300] }
amount = { uniform = [-9.99, 9.99] }
times = { uniform = [1, 3] }

[transactions.look]
weight = 3
statements = ["SELECT ':id', balance FROM account WHERE id = :id -- :not a name"]

[transactions.move]
statements = [
  { sql = "SELECT owner, balance FROM account WHERE id = :id FOR UPDATE", into = ["name", "before"], rows = "first" },
  { repeat = "times", redraw = ["amount"], statements = [
    { name = "give", sql = "UPDATE account SET balance = balance + :amount WHERE id = :id" },
    { name = "note", sql = "INSERT INTO moved (account, owner, amount) VALUES (:id, :name, :amount)" },
  ] },
]

[transactions.refuse]
rollback = 1
begin = true
statements = ["UPDATE account SET balance = balance + :amount, owner = :owner WHERE id = :id"]

[transactions.perhaps]
statements = [
  { name = "perhaps.find", sql = "SELECT id FROM account WHERE id = :high", into = ["found"], no_row = "end" },
  { name = "perhaps.use", sql = "SELECT COUNT(*) FROM account WHERE id = :found" },
]
"#;

fn write(server: &Server, name: &str, text: &str) -> PathBuf {
    let file = common::file(server, name);
    std::fs::write(&file, text).expect("writes");
    file
}

fn script(file: &Path, line: &str, url: &str) -> common::Ran {
    load(&format!("script {} {line}", path(file)), url)
}

fn count(result: &Value, kind: &str, name: &str, what: &str) -> u64 {
    let count = &result[kind][name][what];
    count
        .as_u64()
        .unwrap_or_else(|| panic!("{kind} {name} {what}: {result:#}"))
}

/// One server of each kind that is there.
fn servers() -> impl Iterator<Item = Server> {
    let named = Server::has_mysql().then_some(Kind::MySql);
    let kinds = [Kind::MariaDb, Kind::Postgres].into_iter().chain(named);
    kinds.map(|kind| Server::start(kind, &[]))
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_file_runs_on_every_server_and_in_every_protocol() {
    for server in servers() {
        let url = server.create("t");
        let file = write(&server, "bank.toml", BANK);
        script(&file, "check", &url).refused(
            1,
            &[
                "statement 1 of transaction look",
                "bank.toml:19:",
                "prepare",
            ],
        );
        script(&file, "prepare", &url).done();
        script(&file, "prepare", &url).refused(1, &["statement 1 of prepare", "--drop"]);
        script(&file, "prepare --drop", &url).done();
        script(&file, "check", &url).done();
        let mut connection = server.connect("t").expect("a login");
        let mut ask = |sql: &str| one(&mut *connection, sql);
        assert_eq!(ask("SELECT COUNT(*) FROM account"), "200");
        let mut notes = 0;
        for way in [
            "--protocol prepared",
            "--protocol text",
            "--protocol prepare-per-request",
        ] {
            let line = format!("run -c 4 --max-transactions 400 --seconds 60 {way} --json");
            let result = script(&file, &line, &url).json(0);
            if way == "--protocol text" {
                every_option_is_told(&["script", "run"], &result);
            }
            assert_eq!(result["workload"], "script bank");
            let number = |kind, name, what| count(&result, kind, name, what);
            let moves = number("transactions", "move", "count");
            let refused = number("transactions", "refuse", "rolled_back");
            assert_eq!(number("transactions", "refuse", "count"), 0);
            let looks = number("transactions", "look", "count");
            assert_eq!(number("statements", "look.1", "rows"), looks);
            assert_eq!(number("statements", "move.1", "count"), moves);
            let perhaps = number("transactions", "perhaps", "count");
            assert_eq!(looks + moves + refused + perhaps, 400);
            assert!((120..280).contains(&looks), "{looks}");
            assert_eq!(number("statements", "rollback", "count"), refused);
            let given = number("statements", "give", "affected");
            assert_eq!(given, number("statements", "note", "affected"));
            assert!(moves < given && given < 3 * moves, "{given} of {moves}");
            let used = number("statements", "perhaps.use", "count");
            let missed = perhaps - used;
            let note = format!("perhaps.find returned no row for its into {missed} times");
            assert_eq!(result["notes"][0], note, "{result:#}");
            notes += given;
        }
        script(&file, "run --autocommit --seconds 1", &url)
            .refused(2, &["--autocommit", "transaction refuse", "rollback"]);
        // What rows gave arrived as it was, and what was rolled back did not stay.
        assert_eq!(ask("SELECT COUNT(*) FROM moved"), notes.to_string());
        let joined =
            "SELECT COUNT(*) FROM moved m JOIN account a ON a.id = m.account AND a.owner = m.owner";
        assert_eq!(ask(joined), notes.to_string());
        let sums =
            "SELECT (SELECT SUM(balance) - 20000 FROM account) - (SELECT SUM(amount) FROM moved)";
        assert_eq!(ask(sums), "0.00");
        script(&file, "cleanup", &url).done();
        script(&file, "cleanup", &url).done();
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_file_is_recorded_and_replayed_and_paced() {
    let server = Server::mariadb(&[]);
    let url = server.create("t");
    let file = write(&server, "bank.toml", BANK);
    let trace = common::file(&server, "trace");
    let trace = path(&trace);
    script(&file, "prepare", &url).done();
    let line = format!(
        "run --record {trace} -c 3 --rate 500 --max-transactions 150 --seconds 60 --isolation read-committed --no-autocommit --json"
    );
    let result = script(&file, &line, &url).json(0);
    assert_eq!(result["open_loop"]["begun"], 150);
    assert!(result["statements"].get("begin").is_none(), "{result:#}");
    script(&file, "prepare --drop", &url).done();
    let replayed = load(&format!("replay {trace} --json"), &url).json(0);
    assert_eq!(replayed["replay"]["ended_otherwise"], 0);
    let requests = replayed["replay"]["requests"].as_u64();
    assert!(requests > Some(300), "{replayed:#}");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn what_the_server_refuses_is_said_with_its_place() {
    for server in [Server::mariadb(&[]), Server::postgres(&[])] {
        let url = server.create("t");
        let mut connection = server.connect("t").expect("a login");
        run(&mut *connection, "CREATE TABLE t (a INTEGER)");
        let text = "[transactions.one]\nstatements = [\n  'SELECT a FROM t',\n  'SELEC a FROM t',\n]\n\
                    [transactions.two]\nstatements = [{ sql = 'SELECT a FROM t', into = ['a', 'b'] }, 'SELECT :a, :b']\n";
        let file = write(&server, "wrong.toml", text);
        let checked = script(&file, "check", &url);
        checked.refused(
            1,
            &[
                "statement 2 of transaction one",
                "wrong.toml:4:3",
                "SELEC",
                "statement 1 of transaction two",
                "1 columns, and into names 2",
            ],
        );
        script(&file, "run --seconds 1", &url).refused(1, &["wrong.toml:4:3"]);
        let text = "[variables]\nid = { uniform = [1, 3], partition = true }\n[transactions.t]\nstatements = ['SELECT a FROM t WHERE a = :id']\n";
        let file = write(&server, "narrow.toml", text);
        script(&file, "run -c 4 --seconds 1", &url)
            .refused(2, &["3 values for 4 connections", "narrow.toml:2:1"]);
        script(&file, "run -c 3 --max-transactions 30", &url).done();
        script(&file, "prepare", &url).refused(1, &["has no prepare", "prepare = "]);
        if server.kind() == Kind::Postgres {
            let text = "[variables]\nx = 1\n[transactions.t]\nstatements = ['SELECT :x']\n";
            let text = text.replace(":x'", ":x + :x'");
            let file = write(&server, "untyped.toml", &text);
            script(&file, "check", &url)
                .refused(1, &["statement 1 of transaction t", "CAST(:name"]);
            let file = write(&server, "typed.toml", &text.replace(":x +", ":x::int +"));
            script(&file, "check", &url).done();
        }
    }
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.toml");
    let checked = |text: &str| {
        std::fs::write(&file, text).expect("writes");
        ended(common::command(
            &format!("script {} check", path(&file)),
            &[],
        ))
    };
    let right = checked(BANK);
    assert!(
        right.done().stdout.contains("4 transactions, 7 statements"),
        "{}",
        right.stdout
    );
    let noted = checked(&BANK.replace("[variables]", "[variables]\nmore = 1"));
    assert!(noted.done().stderr.contains("NOTE: "), "{}", noted.stderr);
    let wrong = checked(
        &BANK
            .replace("WHERE id = :id FOR", "WHERE id = :ids FOR")
            .replace("weight", "wait"),
    );
    wrong.refused(
        1,
        &[
            "has 2 errors",
            "f.toml:18:1: there is no key wait",
            "did you mean id?",
        ],
    );
    checked("").refused(1, &["f.toml:1:1", "no transactions"]);
    // A name stands in a comment for one server and not for the other: only a server can say.
    checked("[transactions.t]\nstatements = ['SELECT 1 # :x']\n").done();
    checked("[transactions.t]\nthink_ms = 5\nstatements = ['SELECT 1']\n").done();
    let run = format!("script {} run --rate 5", path(&file));
    load(&run, "mysql://root@127.0.0.1:1/t").refused(2, &["think_ms of transaction t"]);
    ended(common::command("script /no/such.toml check", &[])).refused(1, &["/no/such.toml"]);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_row_of_a_call_is_taken() {
    for server in servers().filter(|server| server.kind() != Kind::Postgres) {
        let url = server.create("t");
        let mut connection = server.connect("t").expect("a login");
        run(
            &mut *connection,
            "CREATE TABLE t (a BIGINT UNSIGNED, b VARCHAR(9))",
        );
        let call = "CREATE PROCEDURE p() SELECT CAST(18446744073709551615 AS UNSIGNED), 'x'";
        run(&mut *connection, call);
        let text = "[transactions.t]\nstatements = [{ sql = 'CALL p()', into = ['a', 'b'] }, 'INSERT INTO t VALUES (:a - 1, :b)', \
                    { sql = 'EXPLAIN SELECT a FROM t', into = ['id'] }, 'SELECT :id']\n";
        let file = write(&server, "call.toml", text);
        script(&file, "check", &url).done();
        for way in ["prepared", "text"] {
            let line = format!("run --max-transactions 3 --seconds 60 --protocol {way}");
            script(&file, &line, &url).done();
        }
        let whole = "SELECT COUNT(*) FROM t WHERE a = 18446744073709551614 AND b = 'x'";
        assert_eq!(one(&mut *connection, whole), "6");
    }
}

/// Statements whose text a server keeps in another form.
const ODD: &str = r##"
[variables]
n = { uniform = [-5, 5] }

[transactions.t]
statements = [
  "SELECT a -- it's\nFROM t WHERE a = 1 AND b = 'it''s'",
  "SELECT a FROM t WHERE a IN (:n) AND a > -1",
  "SELECT a FROM t WHERE a IN (:n, 2) OR a = -1.5 ORDER BY a LIMIT 3",
  "INSERT INTO t VALUES (:n, 'x'), (2, 'it''s')",
  "INSERT INTO one VALUES (:n), (2), (3)",
  "SELECT MOD(:n + 7, 3), COALESCE(b, 'x', 'y'), 'x' FROM t WHERE a = :n",
]
"##;

/// What MySQL and MariaDB alone read so.
const MYSQL_ODD: &str = r##"
[transactions.m]
statements = [
  "SELECT a FROM t WHERE b = \"it's\" AND a < 0xAF # end",
  "SELECT a FROM t ORDER BY a LIMIT :n, 2",
]
"##;

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn the_servers_account_has_each_statement() {
    let mysql = Server::mysql(&[]);
    let mariadb = Server::mariadb(&["--performance-schema=ON"]);
    for server in [mysql, Some(mariadb), Some(Server::postgres(&[]))]
        .into_iter()
        .flatten()
    {
        let url = server.create("t");
        let mut connection = server.connect("t").expect("a login");
        run(&mut *connection, "CREATE TABLE t (a INTEGER, b VARCHAR(9))");
        run(&mut *connection, "CREATE TABLE one (a INTEGER)");
        let mut text = ODD.to_owned();
        if server.kind() == Kind::Postgres {
            run(&mut *connection, "CREATE EXTENSION pg_stat_statements");
        } else {
            text = text.replace("[-5, 5]", "[1, 5]") + MYSQL_ODD;
        }
        let file = write(&server, "odd.toml", &text);
        for way in ["prepared", "text"] {
            if server.kind() == Kind::MariaDb && way == "prepared" {
                continue;
            }
            let line = format!("run --max-transactions 20 --seconds 60 --protocol {way} --json");
            let result = script(&file, &line, &url).json(0);
            let accounts = &result["server_time"]["statements"];
            for (name, statement) in result["statements"].as_object().expect("statements") {
                if name != "connect" && name != "prepare" {
                    let (ours, theirs) = (&statement["count"], &accounts[name]["count"]);
                    assert_eq!(theirs, ours, "{name} {way} {:?}", server.kind());
                }
            }
        }
    }
}
