//! Make and fill the tables, side by side on several connections; indexes come after the rows.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::{Connection, Error, Family};

use super::config::Config;
use super::part::Part;
use super::rows::Load;
use crate::drive::refused;
use crate::failure::Failure;
use crate::session::Connector;
use crate::sql::{self, say};

/// Rows in one INSERT where the server takes no bulk load.
const INSERT_ROWS: usize = 500;
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

/// Make and fill all tables, on `threads` connections. Tables of these names are dropped first if `drop` says so.
///
/// # Errors
/// The first error of any connection.
pub(super) fn prepare(
    connector: &Connector,
    warehouses: i64,
    threads: u32,
    drop: bool,
    seed: u64,
) -> anyhow::Result<()> {
    // Before anything is dropped, made or filled.
    let mut connections = connect_all(connector, threads)?;
    let mut connection = connector().map_err(|error| refused(&error, threads, threads + 1))?;
    if drop {
        drop_tables(&mut *connection)?;
    }
    let family = connection.family();
    let (tables, indexes) = match family {
        Family::Mysql => (
            include_str!("../../statements/schema/mysql_tables.sql"),
            include_str!("../../statements/schema/mysql_indexes.sql"),
        ),
        Family::Postgres => (
            include_str!("../../statements/schema/postgres_tables.sql"),
            include_str!("../../statements/schema/postgres_indexes.sql"),
        ),
    };
    for statement in statements(tables) {
        say(&mut *connection, statement).map_err(existing)?;
    }
    let load = Load::new(seed);
    let progress = Progress::new(warehouses);
    let parts = Queue::new(Part::all(warehouses));
    on_all(&mut connections, &|connection| {
        while let Some(part) = parts.next() {
            fill(connection, &load, part).inspect_err(|_| parts.stop())?;
            progress.done(part);
        }
        Ok(())
    })?;
    eprintln!("indexes and statistics");
    let queue = Queue::new(statements(indexes));
    on_all(&mut connections, &|connection| {
        while let Some(statement) = queue.next() {
            say(connection, statement).inspect_err(|_| queue.stop())?;
        }
        Ok(())
    })?;
    finish(&mut *connection)?;
    let config = Config {
        warehouses,
        c_last: load.constants.last_name(),
    };
    Ok(config.write(&mut *connection)?)
}

/// Drop all tables.
///
/// # Errors
/// The server's refusal.
pub(super) fn cleanup(connector: &Connector) -> anyhow::Result<()> {
    let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
    Ok(drop_tables(&mut *connection)?)
}

fn drop_tables(connection: &mut dyn Connection) -> Result<(), Error> {
    TABLES
        .iter()
        .try_for_each(|table| say(connection, &format!("DROP TABLE IF EXISTS {table}")))
}

/// Work that connections take from until it is done.
struct Queue<T> {
    left: Mutex<Vec<T>>,
    stopped: AtomicBool,
}

impl<T> Queue<T> {
    fn new(items: impl IntoIterator<Item = T>) -> Self {
        let mut left: Vec<T> = items.into_iter().collect();
        left.reverse();
        Self {
            left: Mutex::new(left),
            stopped: AtomicBool::new(false),
        }
    }

    fn next(&self) -> Option<T> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// One line for each warehouse that is complete.
struct Progress {
    parts_left: Vec<AtomicU64>,
}

impl Progress {
    fn new(warehouses: i64) -> Self {
        let of_warehouse = Part::all(1).len() as u64 - 1;
        Self {
            parts_left: (0..warehouses)
                .map(|_| AtomicU64::new(of_warehouse))
                .collect(),
        }
    }

    fn done(&self, part: Part) {
        let Some(w_id) = part.warehouse() else {
            return;
        };
        if self.parts_left[w_id as usize - 1].fetch_sub(1, Ordering::Relaxed) == 1 {
            eprintln!("warehouse {w_id} of {}", self.parts_left.len());
        }
    }
}

type Work<'a> = dyn Fn(&mut dyn Connection) -> anyhow::Result<()> + Sync + 'a;

fn connect_all(connector: &Connector, count: u32) -> anyhow::Result<Vec<Box<dyn Connection>>> {
    let connect = |number| -> anyhow::Result<Box<dyn Connection>> {
        let mut connection = connector().map_err(|error| refused(&error, number, count))?;
        let settings: &[&str] = match connection.family() {
            Family::Mysql => &["SET unique_checks = 0", "SET foreign_key_checks = 0"],
            Family::Postgres => &["SET synchronous_commit = off"],
        };
        for setting in settings {
            say(&mut *connection, setting)?;
        }
        Ok(connection)
    };
    (0..count).map(connect).collect()
}

fn on_all(connections: &mut [Box<dyn Connection>], work: &Work<'_>) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = connections
            .iter_mut()
            .map(|connection| scope.spawn(move || work(&mut **connection)))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("the worker does not panic"))
    })
}

fn fill(connection: &mut dyn Connection, load: &Load, part: Part) -> anyhow::Result<()> {
    let (table, columns) = part.table();
    sql::fill(connection, table, columns, || load.rows(part), INSERT_ROWS)
}

/// Statistics for the planner, and the first free number for `history`, which COPY does not move.
fn finish(connection: &mut dyn Connection) -> Result<(), Error> {
    let family = connection.family();
    for table in TABLES {
        let statement = match family {
            Family::Mysql => format!("ANALYZE TABLE {table}"),
            Family::Postgres => format!("VACUUM ANALYZE {table}"),
        };
        say(connection, &statement)?;
    }
    match family {
        Family::Mysql => Ok(()),
        Family::Postgres => say(
            connection,
            "SELECT setval('history_hist_id_seq', (SELECT MAX(hist_id) FROM history))",
        ),
    }
}

/// A file's statements.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
}

fn existing(error: Error) -> anyhow::Error {
    match &error {
        Error::Server {
            code,
            sqlstate,
            message,
        } if *code == 1050 || sqlstate == "42P07" => {
            Failure::new(message.clone(), "--drop drops tables of these names first").into()
        }
        _ => error.into(),
    }
}
