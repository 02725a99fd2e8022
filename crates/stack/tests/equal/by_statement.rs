//! What PostgreSQL counted: how often each statement ran, and its rows. It counts no bytes, and no messages.

use std::collections::{BTreeMap, BTreeSet};

use testserver::{Server, rows, run};
use wire::sql::digest_text;
use wire::{Connection, Family};

use super::proxied::{Proxied, is_statement, number};

/// Of the user that comes through the proxy: the connection that asks is another one's.
const COUNTED: &str = "SELECT query, calls, rows FROM pg_stat_statements \
     WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = 'app')";

/// Calls and rows, returned and changed, by the statement's digest.
type Calls = BTreeMap<String, [u64; 2]>;

/// A connection past the proxy that reads what is counted.
pub struct Account(Box<dyn Connection>);

/// What was counted.
pub struct Counted(Calls);

impl Account {
    /// All counts are 0 from here on.
    pub fn open(server: &Server) -> Self {
        let mut watch = server.connect("t").expect("a login");
        run(
            &mut *watch,
            "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
        );
        run(&mut *watch, "SELECT pg_stat_statements_reset()");
        Self(watch)
    }

    pub fn close(mut self) -> Counted {
        let mut calls = Calls::new();
        for row in rows(&mut *self.0, COUNTED) {
            let [sql, count, rows] = [0, 1, 2].map(|column| row[column].as_deref());
            let of = |cell: Option<&str>| cell.expect("not NULL").parse().expect("a number");
            add(&mut calls, sql.expect("a statement"), [of(count), of(rows)]);
        }
        Counted(calls)
    }
}

impl Counted {
    /// What a trace of all traffic has otherwise, in words. What the server refused is not counted.
    pub fn differs_from(&self, proxied: &Proxied) -> Vec<String> {
        let mut seen = Calls::new();
        let statements = proxied.exchanges().filter(|each| is_statement(each));
        for each in statements.filter(|each| each["error"].is_null()) {
            let sql = each["sql"].as_str().unwrap_or_default();
            let rows = number(each, "rows") + number(each, "affected");
            add(&mut seen, sql, [1, rows]);
        }
        let all: BTreeSet<&String> = self.0.keys().chain(seen.keys()).collect();
        let of = |calls: &Calls, sql| calls.get(sql).copied().unwrap_or_default();
        all.into_iter()
            .map(|sql| (sql, of(&self.0, sql), of(&seen, sql)))
            .filter(|(_, server, ours)| server != ours)
            .map(|(sql, server, ours)| {
                format!("{sql}: {server:?} calls and rows by the server, {ours:?} seen")
            })
            .collect()
    }
}

fn add(calls: &mut Calls, sql: &str, more: [u64; 2]) {
    let known = calls.entry(digest_text(Family::Postgres, sql)).or_default();
    for (known, more) in known.iter_mut().zip(more) {
        *known += more;
    }
}
