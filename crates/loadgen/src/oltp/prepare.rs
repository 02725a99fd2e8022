//! Make and fill sysbench's tables.

use std::sync::atomic::{AtomicU32, Ordering};

use rand::{RngExt, SeedableRng};
use wire::{Connection, Family, Value};

use super::{Options, rows};
use crate::drive::refused;
use crate::session::Connector;
use crate::sql::{self, say};
use crate::workload::Random;

/// Rows in one INSERT where the server takes no bulk load.
const INSERT_ROWS: usize = 1000;

/// Make and fill all tables, `threads` at a time. Tables of these names are dropped first if `drop` says so.
///
/// # Errors
/// The first error of any table.
pub fn prepare(
    connector: &Connector,
    options: &Options,
    threads: u32,
    drop: bool,
    seed: u64,
) -> anyhow::Result<()> {
    let next = AtomicU32::new(1);
    let work = || -> anyhow::Result<()> {
        let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
        loop {
            let table = next.fetch_add(1, Ordering::Relaxed);
            if table > options.tables {
                return Ok(());
            }
            fill(&mut *connection, table, options.table_size, drop, seed)?;
            eprintln!("sbtest{table}: {} rows", options.table_size);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, options.tables))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("the worker does not panic"))
    })
}

/// Drop all tables.
///
/// # Errors
/// The server's refusal.
pub fn cleanup(connector: &Connector, tables: u32) -> anyhow::Result<()> {
    let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
    for table in 1..=tables {
        say(
            &mut *connection,
            &format!("DROP TABLE IF EXISTS sbtest{table}"),
        )?;
    }
    Ok(())
}

fn fill(
    connection: &mut dyn Connection,
    table: u32,
    size: u64,
    drop: bool,
    seed: u64,
) -> anyhow::Result<()> {
    if drop {
        say(connection, &format!("DROP TABLE IF EXISTS sbtest{table}"))?;
    }
    let (id, engine) = match connection.family() {
        Family::Mysql => ("INTEGER NOT NULL AUTO_INCREMENT", "ENGINE=InnoDB"),
        Family::Postgres => ("SERIAL", ""),
    };
    say(
        connection,
        &format!(
            "CREATE TABLE sbtest{table} (id {id}, k INTEGER DEFAULT 0 NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
             pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) {engine}"
        ),
    )?;
    let seed = seed.wrapping_add(u64::from(table));
    sql::fill(
        connection,
        &format!("sbtest{table}"),
        &["id", "k", "c", "pad"],
        || generate(size, seed),
        INSERT_ROWS,
    )?;
    say(
        connection,
        &format!("CREATE INDEX k_{table} ON sbtest{table} (k)"),
    )?;
    if connection.family() == Family::Postgres {
        // COPY moves no sequence: the next plain INSERT would take id 1.
        say(
            connection,
            &format!("SELECT setval('sbtest{table}_id_seq', {})", size.max(1)),
        )?;
        say(connection, &format!("ANALYZE sbtest{table}"))?;
    }
    Ok(())
}

fn generate(size: u64, seed: u64) -> impl Iterator<Item = Vec<Value>> {
    let mut random = Random::seed_from_u64(seed);
    (1..=size).map(move |id| {
        let k = random.random_range(1..=size) as i64;
        vec![
            Value::Int(id as i64),
            Value::Int(k),
            rows::c(&mut random),
            rows::pad(&mut random),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_rows_in_every_version() {
        let rows: Vec<Vec<Value>> = generate(1000, 1).collect();
        let text = format!("{rows:?}");
        assert_eq!(
            xxhash_rust::xxh3::xxh3_64(text.as_bytes()),
            15_905_555_678_633_424_870
        );
    }
}
