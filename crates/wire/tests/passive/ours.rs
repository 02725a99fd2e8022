//! Our own client through a relay: each of its calls beside what was seen of it.

use testserver::{Kind, Server};
use wire::passive::{Kind as Request, ParameterValue, character_set};
use wire::{
    BatchWay, Connection, Counters, Done, Family, Fetch, RowsWanted, ServerUrl, Value, connect,
};

use crate::relay::Relay;
use crate::{Told, told};

/// What a call cost and what it returned.
struct Call {
    what: String,
    cost: Counters,
    done: Option<Done>,
}

/// A connection that notes each call.
struct Noting {
    connection: Box<dyn Connection>,
    calls: Vec<Call>,
}

impl Noting {
    fn new(url: &str) -> Self {
        let connection = connect(&ServerUrl::parse(url).expect("a URL")).expect("login");
        Self {
            connection,
            calls: Vec::new(),
        }
    }

    fn call<T>(
        &mut self,
        what: &str,
        work: impl FnOnce(&mut dyn Connection) -> Result<T, wire::Error>,
        done: impl FnOnce(&T) -> Option<Done>,
    ) -> Option<T> {
        let before = self.connection.counters();
        let result = work(&mut *self.connection).ok();
        self.calls.push(Call {
            what: what.to_owned(),
            cost: self.connection.counters() - before,
            done: result.as_ref().and_then(done),
        });
        result
    }

    fn query(&mut self, sql: &str) {
        let all = Fetch::ALL;
        self.call(sql, |on| on.query(sql, all, &mut ()), |done| Some(*done));
    }

    fn execute(&mut self, statement: &wire::Statement, parameters: &[Value], fetch: Fetch) {
        let done = self.call(
            "execute",
            |on| on.execute(statement, parameters, fetch, &mut ()),
            |done| Some(*done),
        );
        assert!(done.is_some());
    }
}

fn work(url: &str, kind: Kind) -> (Vec<Call>, Counters) {
    let mut on = Noting::new(url);
    let family = on.connection.family();
    on.query(match family {
        Family::Mysql => "CREATE TABLE t (id BIGINT PRIMARY KEY, price DECIMAL(9,2), words LONGTEXT, at DATETIME(6))",
        Family::Postgres => "CREATE TABLE t (id bigint PRIMARY KEY, price numeric(9,2), words text, at timestamp)",
    });
    let insert = on
        .call(
            "prepare",
            |on| on.prepare("INSERT INTO t VALUES (?, ?, ?, ?)"),
            |_| None,
        )
        .expect("prepared");
    let row = |id: i64, words: Value| {
        let price = Value::Decimal {
            unscaled: -id,
            scale: 2,
        };
        vec![Value::Int(id), price, words, Value::Timestamp(id)]
    };
    on.query("BEGIN");
    for id in 0..5 {
        on.execute(&insert, &row(id, Value::Null), Fetch::ALL);
    }
    // The same key again.
    on.call(
        "refused",
        |on| on.execute(&insert, &row(1, Value::Null), Fetch::ALL, &mut ()),
        |_| None,
    );
    on.query("ROLLBACK");
    let rows: Vec<_> = (0..40)
        .map(|id| row(id, Value::Text(format!("it's {id}"))))
        .collect();
    on.call(
        "batch",
        |on| on.execute_batch(&insert, &rows, BatchWay::Single),
        |done| Some(*done),
    );
    let rows: Vec<_> = (40..90).map(|id| row(id, Value::Null)).collect();
    let way = match kind {
        Kind::MariaDb => BatchWay::Bulk,
        Kind::MySql => BatchWay::Single,
        Kind::Postgres => BatchWay::Pipeline,
    };
    on.call(
        "batch",
        |on| on.execute_batch(&insert, &rows, way),
        |done| Some(*done),
    );
    on.call("close", |on| on.close(insert), |()| None);
    on.call(
        "load",
        |on| {
            on.load(
                "t",
                &["id", "words"],
                &mut (90..3000).map(|id| vec![Value::Int(id), Value::Text("x".repeat(200))]),
            )
        },
        |affected| {
            Some(Done {
                affected: *affected,
                ..Done::default()
            })
        },
    );
    // A request and an answer of more than 16 MiB.
    on.query(&format!("SELECT LENGTH('{}')", "y".repeat((16 << 20) + 5)));
    on.query(match family {
        Family::Mysql => "SELECT REPEAT('z', 33554427), 1 UNION ALL SELECT 'w', 2",
        Family::Postgres => "SELECT REPEAT('z', 33554427), 1 UNION ALL SELECT 'w', 2 /* both */",
    });
    on.query("SELECT * FROM t WHERE id < 0");
    on.query("SELEC 1");
    let select = on
        .call(
            "prepare",
            |on| on.prepare("SELECT id, words FROM t WHERE id >= ? ORDER BY id LIMIT 25"),
            |_| None,
        )
        .expect("prepared");
    for (size, rows) in [
        (0, RowsWanted::All),
        (10, RowsWanted::All),
        (25, RowsWanted::All),
        (7, RowsWanted::First),
    ] {
        on.execute(&select, &[Value::Int(3)], Fetch { size, rows });
    }
    on.execute(&select, &[Value::Null], Fetch::ALL);
    let counters = on.connection.counters();
    (on.calls, counters)
}

/// Each call's cost is the sum of its exchanges'.
fn compare(calls: &[Call], told: &Told) {
    let mut exchanges = told.exchanges.iter();
    for Call { what, cost, done } in calls {
        let (mut sent, mut received, mut packets) = (0, 0, (0, 0));
        let (mut round_trips, mut rows, mut affected) = (0, 0, 0);
        while packets.0 < cost.packets_sent {
            let exchange = exchanges.next().expect(what);
            sent += exchange.bytes_sent;
            received += exchange.bytes_received;
            packets.0 += exchange.packets_sent;
            packets.1 += exchange.packets_received;
            round_trips += u64::from(exchange.round_trips);
            rows += exchange.rows;
            affected += exchange.affected;
            assert_eq!(
                exchange.error.is_some(),
                what == "refused" || what == "SELEC 1",
                "{what}"
            );
        }
        assert_eq!(
            (sent, received),
            (cost.bytes_sent, cost.bytes_received),
            "{what:.80}"
        );
        assert_eq!(
            packets,
            (cost.packets_sent, cost.packets_received),
            "{what:.80}"
        );
        assert_eq!(round_trips, cost.round_trips, "{what:.80}");
        if let Some(done) = done {
            assert_eq!((rows, affected), (done.rows, done.affected), "{what:.80}");
        }
    }
    assert_eq!(exchanges.next().map(|last| last.kind), Some(Request::Quit));
}

pub fn everything(server: &Server, database: &str) {
    let relay = Relay::start(server);
    let login = if server.kind() == Kind::Postgres {
        "postgres"
    } else {
        "root"
    };
    let (calls, counters) = work(&relay.url(login, database), server.kind());
    let [passed] = &relay.passed()[..] else {
        panic!("one connection");
    };
    let family = match server.kind() {
        Kind::Postgres => Family::Postgres,
        _ => Family::Mysql,
    };
    let told = told(family, passed);
    told.is_whole();
    compare(&calls, &told);
    let [sent, received, bytes_sent, bytes_received] = told.sums();
    // The end of the connection is not the client's counters' any more.
    assert_eq!(
        (sent - 1, bytes_sent - 5),
        (counters.packets_sent, counters.bytes_sent)
    );
    assert_eq!(
        (received, bytes_received),
        (counters.packets_received, counters.bytes_received)
    );
    assert_eq!(told.round_trips(), counters.round_trips);
    transactions(&told);
    let facts = &told.sessions[0];
    let character_set = match family {
        Family::Mysql => "utf8mb4",
        Family::Postgres => "UTF8",
    };
    assert_eq!(facts.database.as_deref(), Some(database));
    assert_eq!(facts.character_set.as_deref(), Some(character_set));
}

/// The server's own list of collations has the numbers of logins, and the character sets that they stand for.
pub fn character_sets(server: &Server) {
    let mut on = server.connect("information_schema").expect("login");
    let sql = "SELECT id, character_set_name FROM collations WHERE id BETWEEN 1 AND 255";
    let rows = testserver::rows(&mut *on, sql);
    assert!(rows.len() > 150);
    for row in rows {
        let id = row[0].as_deref().expect("a number");
        let known = character_set(id.parse().expect("eight bits"));
        assert_eq!(known, row[1].as_deref(), "{id}");
    }
}

/// BEGIN, five inserts, the refused one and ROLLBACK are one transaction.
fn transactions(told: &Told) {
    let begin = told
        .exchanges
        .iter()
        .position(|each| crate::text(each).as_deref() == Some("BEGIN"));
    let begin = begin.expect("a BEGIN");
    let number = told.exchanges[begin].transaction.expect("a transaction");
    let of_it = told
        .exchanges
        .iter()
        .filter(|each| each.transaction == Some(number));
    assert_eq!(of_it.count(), 8);
    let insert = &told.exchanges[begin + 2];
    let row = &insert.parameters.as_ref().expect("parameters").rows[0];
    assert_eq!(row[2].value, ParameterValue::Null);
    let id = match &row[0].value {
        ParameterValue::Int(id) => *id,
        ParameterValue::Text(text) => String::from_utf8_lossy(text).parse().expect("a number"),
        other => panic!("{other:?}"),
    };
    assert_eq!(id, 1);
    let early: Vec<_> = told
        .exchanges
        .iter()
        .filter(|each| each.early_close)
        .collect();
    assert_eq!(early.len(), 1, "{early:?}");
}
