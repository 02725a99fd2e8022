//! Statements that know their answers on several connections of one server, while others change definitions, kill and switch.
//!
//! A row of `kv` follows from its key, and the accounts keep their total: an answer that is not what it must be is wrong, whatever ran
//! beside it. Errors are not wrong answers, as long as they are those that a disturbance may bring.

mod ahead;
mod disturb;
mod may_come;
mod shared;
mod totals;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use wire::{Cell, Connection, Error, Fetch, RowSink, ServerUrl};

use crate::report::SCHEMA_VERSION;
use disturb::disturb;
pub use disturb::find_switches;
use shared::Shared;
pub use totals::check;
use totals::totals;

const ROWS: i64 = 400;
const ACCOUNTS: i64 = 40;
const EACH: i64 = 1000;
/// Connections that send ahead.
const AHEAD: usize = 2;
/// An answer that takes longer never comes: all waits for locks are shorter.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much is run.
#[derive(Debug, Clone)]
pub struct Extent {
    /// How long.
    pub time: Duration,
    /// Of those that check.
    pub connections: usize,
    /// Global variables that are switched on and off.
    pub switches: Vec<String>,
    /// Of the choices.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Storm {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// storm or check.
    pub part: &'static str,
    /// Statements whose answers were checked.
    pub statements: u64,
    /// Disturbances by their first word.
    pub disturbances: BTreeMap<String, u64>,
    /// Errors that may come, by number.
    pub errors: BTreeMap<u16, u64>,
    /// Connections that were lost and made again.
    pub reconnects: u64,
    /// Answers that cannot be.
    pub wrong: Vec<String>,
    /// The server went away and did not come back.
    pub lost: bool,
    /// How long it took, in seconds.
    pub wall_s: f64,
}

impl Storm {
    /// What did not come to pass proves nothing.
    fn judge(&mut self) {
        if self.statements == 0 {
            self.wrong.push("no answer was checked".to_owned());
        }
        if self.disturbances.is_empty() {
            self.wrong.push("nothing disturbed".to_owned());
        }
    }
}

/// Rows as text.
#[derive(Default)]
struct Rows(Vec<Vec<Option<String>>>);

impl RowSink for Rows {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0.push(cells.iter().map(Cell::to_text).collect());
    }
}

fn row_of(key: i64) -> [String; 3] {
    [
        (key * 7919 % 10_007).to_string(),
        format!("value {key}"),
        (key + 1_000_000).to_string(),
    ]
}

fn run_sql(connection: &mut dyn Connection, sql: &str) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    connection.query(sql, Fetch::ALL, &mut rows)?;
    Ok(rows)
}

/// Make the tables.
///
/// # Errors
/// A server that refuses.
pub fn prepare(url: &ServerUrl) -> Result<()> {
    let mut connection = wire::connect(url)?;
    for sql in [
        "DROP DATABASE IF EXISTS storm",
        "CREATE DATABASE storm",
        "CREATE TABLE storm.kv (k INT PRIMARY KEY, a BIGINT NOT NULL, s VARCHAR(40) NOT NULL, u INT NOT NULL, UNIQUE KEY u (u))",
        "CREATE TABLE storm.parts (x INT, y INT, z VARCHAR(10) COLLATE utf8mb4_bin, v INT NOT NULL, PRIMARY KEY (x, y, z))",
        "CREATE TABLE storm.account (id INT PRIMARY KEY, owner VARCHAR(20) NOT NULL UNIQUE, balance BIGINT NOT NULL)",
        "DROP USER IF EXISTS weak@localhost",
        "CREATE USER weak@localhost",
        "GRANT ALL ON storm.* TO weak@localhost",
    ] {
        run_sql(&mut *connection, sql).with_context(|| sql.to_owned())?;
    }
    let listed =
        |end: i64, row: &dyn Fn(i64) -> String| (0..end).map(row).collect::<Vec<_>>().join(", ");
    let kv = listed(ROWS, &|key| {
        let [a, s, u] = row_of(key);
        format!("({key}, {a}, '{s}', {u})")
    });
    let parts = listed(ROWS, &|key| {
        format!("({}, {}, 'z{key}', {key})", key % 7, key % 11)
    });
    let accounts = listed(ACCOUNTS, &|id| format!("({id}, 'owner {id}', {EACH})"));
    for (table, rows) in [("kv", kv), ("parts", parts), ("account", accounts)] {
        let sql = format!("INSERT INTO storm.{table} VALUES {rows}");
        run_sql(&mut *connection, &sql).with_context(|| format!("the rows of {table}"))?;
    }
    Ok(())
}

/// Run the storm.
///
/// # Errors
/// A server that is not there at the beginning.
pub fn run(url: &ServerUrl, weak: &ServerUrl, extent: &Extent) -> Result<Storm> {
    prepare(url)?;
    let patient = |url: &ServerUrl| {
        let mut url = url.clone();
        url.limits.read = Some(PATIENCE);
        url
    };
    let (url, weak) = (&patient(url), &patient(weak));
    let begin = Instant::now();
    let shared = Shared::new(
        url,
        Storm {
            schema_version: SCHEMA_VERSION,
            part: "storm",
            ..Storm::default()
        },
    );
    let seeded = |number: u64| extent.seed.wrapping_mul(1000).wrapping_add(number);
    std::thread::scope(|scope| {
        let shared = &shared;
        for number in 0..extent.connections {
            let url = if number % 4 == 3 { weak } else { url };
            let seed = seeded(number as u64);
            scope.spawn(move || work::work(shared, url, number, seed));
        }
        for number in 0..AHEAD {
            let seed = seeded(600 + number as u64);
            scope.spawn(move || ahead::work(shared, extent.connections + number, seed));
        }
        for number in 0..2 {
            let seed = seeded(500 + number);
            scope.spawn(move || disturb(shared, extent, seed));
        }
        while begin.elapsed() < extent.time && !shared.over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        shared.over.store(true, Ordering::Relaxed);
    });
    let mut found = shared.found.into_inner().unwrap_or_default();
    found.statements = shared.statements.load(Ordering::Relaxed);
    found.wall_s = begin.elapsed().as_secs_f64();
    found.judge();
    if !found.lost {
        match totals(url) {
            Ok(wrong) => found.wrong.extend(wrong),
            Err(error) => {
                found.lost = true;
                found
                    .wrong
                    .push(format!("the totals could not be asked for: {error:#}"));
            }
        }
    }
    Ok(found)
}

/// A generator of its own, so that a storm does not depend on that of the episodes.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: i64) -> i64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 1) as i64 % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_that_checked_nothing_or_was_calm_is_wrong() {
        let judged = |statements: u64, disturbances: &[&str]| {
            let mut storm = Storm {
                statements,
                disturbances: disturbances
                    .iter()
                    .map(|&each| (each.to_owned(), 1))
                    .collect(),
                ..Storm::default()
            };
            storm.judge();
            storm.wrong
        };
        assert_eq!(judged(7, &["KILL"]), Vec::<String>::new());
        assert_eq!(judged(0, &["KILL"]), ["no answer was checked"]);
        assert_eq!(judged(7, &[]), ["nothing disturbed"]);
    }
}
