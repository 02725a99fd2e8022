//! Statements that know their answers on several connections of one server, while others change definitions, kill and switch.
//!
//! A row of `kv` follows from its key, and the accounts keep their total: an answer that is not what it must be is wrong, whatever ran
//! beside it. Errors are not wrong answers, as long as they are those that a disturbance may bring.

mod disturb;
mod may_come;
mod totals;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use wire::{Cell, Connection, Error, Fetch, RowSink, ServerUrl, Statement, Value};

use crate::report::SCHEMA_VERSION;
use disturb::disturb;
pub use disturb::find_switches;
use may_come::{A_STATEMENT, may_come};
pub use totals::check;
use totals::totals;

const ROWS: i64 = 400;
const ACCOUNTS: i64 = 40;
const EACH: i64 = 1000;

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

/// Rows as text.
#[derive(Default)]
struct Rows(Vec<Vec<Option<String>>>);

impl RowSink for Rows {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0.push(cells.iter().map(Cell::to_text).collect());
    }
}

struct Shared<'a> {
    url: &'a ServerUrl,
    over: AtomicBool,
    statements: AtomicU64,
    found: Mutex<Storm>,
    ids: Mutex<BTreeMap<usize, i64>>,
}

impl Shared<'_> {
    fn note(&self, change: impl FnOnce(&mut Storm)) {
        if let Ok(mut found) = self.found.lock() {
            change(&mut found);
        }
    }

    fn wrong(&self, what: String) {
        self.note(|found| {
            if found.wrong.len() < 20 {
                found.wrong.push(what);
            }
        });
    }

    /// An error that may come is counted; any other is wrong. Whether the connection is gone.
    fn error(&self, error: &Error, during: &str) -> bool {
        if let Error::Server { code, .. } = error {
            self.note(|found| *found.errors.entry(*code).or_default() += 1);
            if !may_come(*code, during) && !error.is_disconnect() {
                self.wrong(format!("{during}: {error}"));
            }
        }
        error.is_disconnect()
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
    for key in 0..ROWS {
        let [a, s, u] = row_of(key);
        run_sql(
            &mut *connection,
            &format!("INSERT INTO storm.kv VALUES ({key}, {a}, '{s}', {u})"),
        )?;
        let sql = format!(
            "INSERT INTO storm.parts VALUES ({}, {}, 'z{key}', {key})",
            key % 7,
            key % 11
        );
        run_sql(&mut *connection, &sql)?;
    }
    for id in 0..ACCOUNTS {
        run_sql(
            &mut *connection,
            &format!("INSERT INTO storm.account VALUES ({id}, 'owner {id}', {EACH})"),
        )?;
    }
    Ok(())
}

/// Run the storm.
///
/// # Errors
/// A server that is not there at the beginning.
pub fn run(url: &ServerUrl, weak: &ServerUrl, extent: &Extent) -> Result<Storm> {
    prepare(url)?;
    let begin = Instant::now();
    let shared = Shared {
        url,
        over: AtomicBool::new(false),
        statements: AtomicU64::new(0),
        found: Mutex::new(Storm {
            schema_version: SCHEMA_VERSION,
            part: "storm",
            ..Storm::default()
        }),
        ids: Mutex::new(BTreeMap::new()),
    };
    std::thread::scope(|scope| {
        for number in 0..extent.connections {
            let shared = &shared;
            let url = if number % 4 == 3 { weak } else { url };
            let seed = extent.seed.wrapping_mul(1000).wrapping_add(number as u64);
            scope.spawn(move || work(shared, url, number, seed));
        }
        for number in 0..2 {
            let shared = &shared;
            let seed = extent.seed.wrapping_mul(1000).wrapping_add(500 + number);
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

const STATEMENTS: [&str; 10] = [
    "SELECT a, s, u FROM storm.kv WHERE k = ?",
    "SELECT a, s, u FROM storm.kv WHERE u = ?",
    "SELECT v FROM storm.parts WHERE x = ? AND y = ? AND z = ?",
    "SELECT COUNT(s) FROM storm.kv WHERE k BETWEEN ? AND ?",
    "SELECT id FROM storm.account WHERE owner = ?",
    "SELECT balance FROM storm.account WHERE id = ? FOR UPDATE",
    "UPDATE storm.account SET balance = balance - ? WHERE id = ?",
    "UPDATE storm.account SET balance = balance + ? WHERE owner = ?",
    "SELECT SUM(balance) FROM storm.account",
    "UPDATE storm.kv SET a = a WHERE k = ?",
];

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

type Session = (Box<dyn Connection>, Vec<Option<Statement>>);

fn open(shared: &Shared<'_>, url: &ServerUrl, number: usize) -> Option<Session> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        if let Ok(mut connection) = wire::connect(url) {
            let id = run_sql(&mut *connection, "SELECT CONNECTION_ID()")
                .ok()
                .and_then(|rows| rows.0.first()?.first()?.as_ref()?.parse().ok());
            if let (Some(id), Ok(mut ids)) = (id, shared.ids.lock()) {
                ids.insert(number, id);
                let _ = run_sql(
                    &mut *connection,
                    "SET lock_wait_timeout=3, innodb_lock_wait_timeout=2",
                );
                return Some((connection, STATEMENTS.iter().map(|_| None).collect()));
            }
        }
        if shared.over.load(Ordering::Relaxed) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    shared.note(|found| found.lost = true);
    shared.over.store(true, Ordering::Relaxed);
    None
}

fn work(shared: &Shared<'_>, url: &ServerUrl, number: usize, seed: u64) {
    let mut chance = Chance(seed);
    while !shared.over.load(Ordering::Relaxed) {
        let Some(mut session) = open(shared, url, number) else {
            return;
        };
        while !shared.over.load(Ordering::Relaxed) {
            if let Err(error) = one(shared, &mut session, &mut chance) {
                if shared.error(&error, A_STATEMENT) {
                    shared.note(|found| found.reconnects += 1);
                    break;
                }
                // Whatever was open is rolled back; statements stay prepared.
                let rolled = run_sql(&mut *session.0, "ROLLBACK");
                if rolled.is_err_and(|error| shared.error(&error, "ROLLBACK")) {
                    break;
                }
            }
        }
    }
}

fn ask(
    shared: &Shared<'_>,
    session: &mut Session,
    which: usize,
    values: &[Value],
) -> Result<Rows, Error> {
    if session.1[which].is_none() {
        session.1[which] = Some(session.0.prepare(STATEMENTS[which])?);
    }
    let mut rows = Rows::default();
    if let Some(statement) = &session.1[which] {
        session
            .0
            .execute(statement, values, Fetch::ALL, &mut rows)?;
    }
    shared.statements.fetch_add(1, Ordering::Relaxed);
    Ok(rows)
}

fn expect(
    shared: &Shared<'_>,
    what: &str,
    key: &[i64],
    found: Rows,
    due: Vec<Vec<Option<String>>>,
) {
    if found.0 != due {
        shared.wrong(format!("{what} {key:?}: {:?} in place of {due:?}", found.0));
    }
}

fn one(shared: &Shared<'_>, session: &mut Session, chance: &mut Chance) -> Result<(), Error> {
    let some = |texts: Vec<String>| vec![texts.into_iter().map(Some).collect::<Vec<_>>()];
    let choice = chance.below(100);
    match choice {
        0..=59 => {
            // A key beyond the last has no row.
            let key = chance.below(ROWS + 20);
            let by_unique = choice >= 40;
            let value = match (by_unique, chance.below(10)) {
                (false, 0) => Value::Text(key.to_string()),
                (false, _) => Value::Int(key),
                (true, _) => Value::Int(key + 1_000_000),
            };
            let rows = ask(shared, session, usize::from(by_unique), &[value])?;
            let due = if key < ROWS {
                some(row_of(key).to_vec())
            } else {
                Vec::new()
            };
            expect(
                shared,
                STATEMENTS[usize::from(by_unique)],
                &[key],
                rows,
                due,
            );
        }
        60..=69 => {
            let key = chance.below(ROWS + 20);
            let values = [
                Value::Int(key % 7),
                Value::Int(key % 11),
                Value::Text(format!("z{key}")),
            ];
            let rows = ask(shared, session, 2, &values)?;
            let due = if key < ROWS {
                some(vec![key.to_string()])
            } else {
                Vec::new()
            };
            expect(shared, STATEMENTS[2], &[key], rows, due);
        }
        70..=74 => {
            let (from, width) = (chance.below(ROWS - 100), chance.below(100));
            let rows = ask(
                shared,
                session,
                3,
                &[Value::Int(from), Value::Int(from + width)],
            )?;
            expect(
                shared,
                STATEMENTS[3],
                &[from, width],
                rows,
                some(vec![(width + 1).to_string()]),
            );
        }
        75..=79 => {
            let id = chance.below(ACCOUNTS);
            let rows = ask(shared, session, 4, &[Value::Text(format!("owner {id}"))])?;
            expect(
                shared,
                STATEMENTS[4],
                &[id],
                rows,
                some(vec![id.to_string()]),
            );
        }
        80..=83 => {
            let key = chance.below(ROWS);
            ask(shared, session, 9, &[Value::Int(key)])?;
        }
        84..=88 => {
            let rows = ask(shared, session, 8, &[])?;
            expect(
                shared,
                STATEMENTS[8],
                &[],
                rows,
                some(vec![(ACCOUNTS * EACH).to_string()]),
            );
        }
        _ => transfer(shared, session, chance)?,
    }
    Ok(())
}

fn transfer(shared: &Shared<'_>, session: &mut Session, chance: &mut Chance) -> Result<(), Error> {
    let (from, to, amount) = (
        chance.below(ACCOUNTS),
        chance.below(ACCOUNTS),
        chance.below(20),
    );
    if from == to {
        return Ok(());
    }
    run_sql(&mut *session.0, "START TRANSACTION")?;
    let before = ask(shared, session, 5, &[Value::Int(from)])?;
    ask(shared, session, 6, &[Value::Int(amount), Value::Int(from)])?;
    ask(
        shared,
        session,
        7,
        &[Value::Int(amount), Value::Text(format!("owner {to}"))],
    )?;
    let after = ask(shared, session, 5, &[Value::Int(from)])?;
    let number = |rows: &Rows| {
        rows.0
            .first()
            .and_then(|row| row.first()?.as_ref()?.parse::<i64>().ok())
    };
    if number(&before).map(|before| before - amount) != number(&after) {
        shared.wrong(format!(
            "account {from} had {:?}, gave {amount}, and has {:?}",
            before.0, after.0
        ));
    }
    // One in ten is undone.
    run_sql(
        &mut *session.0,
        if chance.below(10) == 0 {
            "ROLLBACK"
        } else {
            "COMMIT"
        },
    )?;
    Ok(())
}
