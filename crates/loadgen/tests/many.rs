//! A trace of more than a thousand connections, replayed on as many: each a fiber, two threads for all of them.

mod common;

use std::path::Path;

use common::{command, ended, file, load, path};
use testserver::{Server, one, run};
use trace::{Begin, Capture, Ending, TraceWriter};
use wire::passive::{Exchange, Kind, Observed, Text, Totals, Verb};

const CONNECTIONS: u32 = 1200;
const ROUNDS: u32 = 3;
const MS: u64 = 1_000_000;

/// What each account has in the end where every round comes after the one before: 1 x 3 + 0, x 3 + 1, x 3 + 2.
const LAST: &str = "32";

fn request(sql: &str, verb: Verb, at_ns: u64, open_after: bool) -> Observed {
    let mut exchange = Exchange::new(Kind::Query, at_ns);
    exchange.text = Some(Text {
        bytes: sql.as_bytes().into(),
        length: sql.len() as u64,
    });
    exchange.verb = Some(verb);
    exchange.affected = u64::from(verb == Verb::Update);
    exchange.answer_ns = Some((at_ns + MS, at_ns + MS));
    exchange.in_transaction_after = Some(open_after);
    Observed::Exchange(Box::new(exchange))
}

/// In each round every connection has a transaction beside all others, on an account that another one had in the round before.
fn captured(to: &Path) {
    let begin = Begin {
        family: "mysql".to_owned(),
        began_unix_us: 0,
        capture: Capture::Proxy,
        masked: false,
        log: None,
    };
    let writer = TraceWriter::create(to, &begin, 0).expect("a trace");
    writer.waits();
    for _ in 0..CONNECTIONS {
        writer.connected(0, false);
    }
    for round in 0..ROUNDS {
        let began_ns = u64::from(round) * 100 * MS;
        for place in 0..3 {
            for connection in 1..=CONNECTIONS {
                let at_ns = began_ns + 10 * place * MS + u64::from(connection) * 1000;
                let account = (connection + 7 * round) % CONNECTIONS;
                let observed = match place {
                    0 => request("BEGIN", Verb::Begin, at_ns, true),
                    1 => {
                        let sql = format!(
                            "UPDATE account SET v = v * 3 + {round}, n = n + 1 WHERE id = {account}"
                        );
                        request(&sql, Verb::Update, at_ns, true)
                    }
                    _ => request("COMMIT", Verb::Commit, at_ns, false),
                };
                writer.observed(connection, &observed);
            }
        }
    }
    for connection in 1..=CONNECTIONS {
        writer.closed(connection, 1000 * MS, Totals::default());
    }
    writer.finish(Ending::default()).expect("written");
}

fn fill(server: &Server) {
    let connection = &mut *server.connect("t").expect("a login");
    run(connection, "DROP TABLE IF EXISTS account");
    run(
        connection,
        "CREATE TABLE account (id INT PRIMARY KEY, v BIGINT, n INT)",
    );
    let rows: Vec<String> = (0..CONNECTIONS).map(|id| format!("({id}, 1, 0)")).collect();
    run(
        connection,
        &format!("INSERT INTO account VALUES {}", rows.join(", ")),
    );
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_trace_of_a_thousand_connections_is_replayed_on_as_many() {
    let server = Server::mariadb(&[
        "--max-connections=1300",
        "--innodb-flush-log-at-trx-commit=0",
        "--skip-log-bin",
    ]);
    let url = server.create("t");
    let (capture, replay) = (file(&server, "app.trace"), file(&server, "app.replay"));
    captured(&capture);
    let import = command("import", &[path(&capture), path(&replay), "--json"]);
    let made = ended(import).json(0);
    assert_eq!(made["connections"], CONNECTIONS);
    assert_eq!(made["transactions"], CONNECTIONS * ROUNDS);
    if let Err(error) = wire::fibers::available() {
        eprintln!("NOT RUN: connections in fibers: {error}");
    }
    for order in ["commit", "off"] {
        fill(&server);
        let line = format!(
            "replay {} -c {CONNECTIONS} --client-threads 2 --order {order} --json",
            path(&replay)
        );
        let result = load(&line, &url).json(0);
        let engine = match wire::fibers::available() {
            Ok(()) => "io_uring",
            Err(_) => "threads",
        };
        assert_eq!(result["ran"]["engine"], engine);
        let done = &result["transactions"]["write"];
        assert_eq!(done["count"], CONNECTIONS * ROUNDS, "{order}: {result:#}");
        assert_eq!(result["errors"], serde_json::json!({}));
        let told = &result["replay"];
        assert_eq!(told["overlapped"], CONNECTIONS * ROUNDS);
        assert_eq!(
            (&told["counted_otherwise"], &told["ended_otherwise"]),
            (&0.into(), &0.into())
        );
        let connection = &mut *server.connect("t").expect("a login");
        let count = |connection: &mut dyn wire::Connection, so: &str| {
            one(
                connection,
                &format!("SELECT COUNT(*) FROM account WHERE {so}"),
            )
        };
        let all = CONNECTIONS.to_string();
        assert_eq!(count(connection, &format!("n = {ROUNDS}")), all, "{order}");
        if order == "commit" {
            assert_eq!(count(connection, &format!("v = {LAST}")), all);
        }
        let most = "SELECT VARIABLE_VALUE >= 1200 FROM information_schema.GLOBAL_STATUS \
            WHERE VARIABLE_NAME = 'MAX_USED_CONNECTIONS'";
        assert_eq!(one(connection, most), "1");
    }
}
