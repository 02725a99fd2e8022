//! The few statements that all workloads send outside of their load.

use std::cell::Cell;

use wire::{Connection, Error, Family, Fetch, RowSink, Value};

use crate::failure::Failure;

/// Run a statement that returns nothing of interest.
///
/// # Errors
/// Any [`Error`].
pub fn say(connection: &mut dyn Connection, sql: &str) -> Result<(), Error> {
    connection.query(sql, Fetch::ALL, &mut ()).map(|_| ())
}

/// The first cell of the last row of a result.
#[derive(Debug, Default)]
pub struct One(pub Option<String>);

impl One {
    /// As a whole number.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        self.0.as_ref()?.parse().ok()
    }
}

impl RowSink for One {
    fn row(&mut self, cells: &[wire::Cell<'_>]) {
        self.0 = cells.first().and_then(wire::Cell::to_text);
    }
}

/// Ask for one value.
///
/// # Errors
/// Any [`Error`].
pub fn one(connection: &mut dyn Connection, sql: &str) -> Result<One, Error> {
    let mut one = One::default();
    connection.query(sql, Fetch::ALL, &mut one)?;
    Ok(one)
}

/// Fill a table: by the server's bulk load, or by INSERTs of `insert_rows` rows where it forbids that. Every row must arrive as it is.
///
/// # Errors
/// Any [`Error`]; a [`Failure`] where rows were left out or changed: MySQL's LOAD DATA LOCAL turns what any other statement would refuse
/// into warnings.
pub fn fill<I: Iterator<Item = Vec<Value>>>(
    connection: &mut dyn Connection,
    table: &str,
    columns: &[&str],
    rows: impl Fn() -> I,
    insert_rows: usize,
) -> anyhow::Result<()> {
    let sent = Cell::new(0);
    let count = |row| {
        sent.set(sent.get() + 1);
        row
    };
    let taken = match connection.load(table, columns, &mut rows().map(count)) {
        Err(Error::Unsupported(_)) => {
            return Ok(insert(
                connection,
                table,
                columns,
                &mut rows(),
                insert_rows,
            )?);
        }
        taken => taken?,
    };
    if connection.family() == Family::Mysql
        && let Some(warnings) = one(connection, "SHOW COUNT(*) WARNINGS")?.number()
        && warnings > 0
    {
        let first = first_warning(connection)?;
        return Err(not_as_sent(format!(
            "the server changed or left out rows of {table}: {warnings} warnings, the first: {first}"
        )));
    }
    if taken != sent.get() {
        let sent = sent.get();
        return Err(not_as_sent(format!("{table} took {taken} of {sent} rows")));
    }
    Ok(())
}

fn not_as_sent(message: String) -> anyhow::Error {
    let hint = "prepare --drop drops the tables and makes them anew";
    Failure::new(message, hint).into()
}

fn first_warning(connection: &mut dyn Connection) -> Result<String, Error> {
    struct Third(String);
    impl RowSink for Third {
        fn row(&mut self, cells: &[wire::Cell<'_>]) {
            self.0 = cells
                .last()
                .and_then(wire::Cell::to_text)
                .unwrap_or_default();
        }
    }
    let mut message = Third(String::new());
    connection.query("SHOW WARNINGS LIMIT 1", Fetch::ALL, &mut message)?;
    Ok(message.0)
}

fn insert(
    connection: &mut dyn Connection,
    table: &str,
    columns: &[&str],
    rows: &mut dyn Iterator<Item = Vec<Value>>,
    insert_rows: usize,
) -> Result<(), Error> {
    let place = format!("({})", vec!["?"; columns.len()].join(", "));
    let columns_text = columns.join(", ");
    loop {
        let values: Vec<Value> = rows.take(insert_rows).flatten().collect();
        if values.is_empty() {
            return Ok(());
        }
        let places = vec![place.as_str(); values.len() / columns.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({columns_text}) VALUES {places}");
        let sql = wire::render(connection.dialect(), &sql, &values);
        say(connection, &sql)?;
    }
}
