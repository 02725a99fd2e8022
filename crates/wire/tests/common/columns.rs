//! A sink that keeps what the server says of a result's columns.

use wire::{Cell, ColumnDefinition, RowSink};

/// Each column's name and type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Columns(pub Vec<(String, u32)>);

impl RowSink for Columns {
    fn row(&mut self, _cells: &[Cell<'_>]) {}

    fn wants_columns(&self) -> bool {
        true
    }

    fn column(&mut self, definition: &ColumnDefinition<'_>) {
        let name = String::from_utf8(definition.name.to_vec()).expect("UTF-8");
        self.0.push((name, definition.kind));
    }
}
