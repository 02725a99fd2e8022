//! What the server counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testserver::{Server, rows};
use wire::{Connection, Counters};

use super::proxied::{Proxied, is_statement, number};

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name REGEXP '^(Com_.*|Questions|Bytes_.*|Threads_connected)$'";
/// Rows by the user that got them: those of the connection that asks are not among them.
const ROWS: &str = "SELECT SUM(SUM_ROWS_SENT), SUM(SUM_ROWS_AFFECTED) \
     FROM performance_schema.events_statements_summary_by_account_by_event_name WHERE USER = 'app'";

type Numbers = BTreeMap<String, u64>;

/// A connection past the proxy that reads the server's counters.
pub struct Account {
    watch: Box<dyn Connection>,
    before: Look,
}

struct Look {
    status: Numbers,
    /// What had passed on the connection that asks, before it asked.
    watched: Counters,
    /// How often it asked for the status.
    asked: u64,
    rows: [u64; 2],
}

/// How the counters have grown.
pub struct Counted {
    grown: Numbers,
    rows: [u64; 2],
}

impl Account {
    pub fn open(server: &Server) -> Self {
        let mut watch = server.connect("t").expect("a login");
        alone(&mut *watch);
        // Asked for outside of what is counted: before the status here, behind it in the end.
        let rows = rows_of(&mut *watch);
        let before = Look {
            rows,
            ..look(&mut *watch)
        };
        Self { watch, before }
    }

    pub fn close(&mut self) -> Counted {
        let Self { watch, before } = self;
        let asked = alone(&mut **watch);
        let last = look(&mut **watch);
        let after = Look {
            asked: asked + last.asked,
            rows: rows_of(&mut **watch),
            ..last
        };
        // A status holds its own request and not its own answer: between two of them lie one request and one answer for each of ours.
        let own = after.watched - before.watched;
        let mut grown: Numbers = before.status.clone();
        for (name, value) in &mut grown {
            // Connections that are open now may be fewer.
            *value = after.status[name].saturating_sub(*value);
        }
        for (name, own) in [
            ("bytes_received", own.bytes_sent),
            ("bytes_sent", own.bytes_received),
            ("questions", after.asked),
        ] {
            *grown.get_mut(name).expect(name) -= own;
        }
        let rows = [0, 1].map(|place| after.rows[place] - before.rows[place]);
        Counted { grown, rows }
    }
}

/// Ask until no other connection is left, and how often: a connection's end counts when the server comes to it, however long its
/// client is gone by then.
fn alone(watch: &mut dyn Connection) -> u64 {
    let (began, mut asked) = (Instant::now(), 1);
    // MariaDB adds the connections' counts up before it counts the connections, so that one may end between the two.
    while status(watch)["threads_connected"] > 1 {
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(20), "connections do not end");
        std::thread::sleep(Duration::from_millis(50));
        asked += 1;
    }
    asked
}

fn look(watch: &mut dyn Connection) -> Look {
    Look {
        watched: watch.counters(),
        status: status(watch),
        asked: 1,
        rows: [0; 2],
    }
}

fn status(watch: &mut dyn Connection) -> Numbers {
    let named = rows(watch, STATUS).into_iter().map(|row| {
        let [name, value] = [0, 1].map(|column| row[column].clone().expect("not NULL"));
        (name.to_lowercase(), value.parse().unwrap_or_default())
    });
    named.collect()
}

fn rows_of(watch: &mut dyn Connection) -> [u64; 2] {
    let row = rows(watch, ROWS).remove(0);
    let number = |cell: &Option<String>| {
        let text = cell.as_deref().unwrap_or("0");
        text.parse().expect("a number")
    };
    [0, 1].map(|column| number(&row[column]))
}

impl Counted {
    /// What a trace of all traffic has otherwise, in words. Known to differ: COM_QUIT is one of the server's `Questions`, COM_STMT_PREPARE
    /// is none; a prepared statement counts in its own `Com_` when it is executed, as a text does.
    pub fn differs_from(&self, proxied: &Proxied) -> Vec<String> {
        let count = |so: &dyn Fn(&str, &str) -> bool| {
            let all = proxied.exchanges().filter(|each| {
                let word = |key: &str| each[key].as_str().unwrap_or_default();
                so(word("kind"), word("verb"))
            });
            all.count() as u64
        };
        let mut both = vec![
            ("bytes_received", proxied.sum("bytes_sent")),
            ("bytes_sent", proxied.sum("bytes_received")),
            (
                "questions",
                count(&|kind, _| matches!(kind, "query" | "execute" | "quit")),
            ),
            ("com_stmt_prepare", count(&|kind, _| kind == "prepare")),
            ("com_stmt_execute", count(&|kind, _| kind == "execute")),
        ];
        for (com, verb) in [
            ("com_select", "select"),
            ("com_update", "update"),
            ("com_delete", "delete"),
            ("com_insert", "insert"),
            ("com_begin", "begin"),
            ("com_commit", "commit"),
            ("com_rollback", "rollback"),
        ] {
            let ours = count(&|kind, of| matches!(kind, "query" | "execute") && of == verb);
            both.push((com, ours));
        }
        let counted = both
            .iter()
            .map(|(name, ours)| (*name, self.grown[*name], *ours));
        let sum = |key: &str| {
            let all = proxied.exchanges().filter(|each| is_statement(each));
            all.map(|each| number(each, key)).sum::<u64>()
        };
        let rows = [
            ("rows sent", self.rows[0], sum("rows")),
            ("rows affected", self.rows[1], sum("affected")),
        ];
        counted
            .chain(rows)
            .filter(|(_, server, ours)| server != ours)
            .map(|(name, server, ours)| format!("{name}: {server} by the server, {ours} seen"))
            .collect()
    }
}
