//! Statements and their rows, in one call.

use wire::{Cell, Connection, Fetch, RowSink, RowsWanted};

/// All rows, all at once.
pub const ALL: Fetch = Fetch {
    size: 0,
    rows: RowsWanted::All,
};

/// Rows as text; NULL as `None`.
#[derive(Debug, Default)]
pub struct Texts(pub Vec<Vec<Option<String>>>);

impl RowSink for Texts {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0.push(cells.iter().map(Cell::to_text).collect());
    }
}

/// Run a statement that has no rows worth looking at.
pub fn run(connection: &mut dyn Connection, sql: &str) {
    connection.query(sql, ALL, &mut ()).expect(sql);
}

/// The rows of a statement sent as text.
pub fn rows(connection: &mut dyn Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = Texts::default();
    connection.query(sql, ALL, &mut rows).expect(sql);
    rows.0
}

/// The first cell of the first row.
pub fn one(connection: &mut dyn Connection, sql: &str) -> String {
    rows(connection, sql)[0][0].clone().expect("not NULL")
}
