//! Which cell of an answer is another one: hashes of single cells, of answers that have few.

use std::fmt::Write;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// An answer of more cells has none here.
const CELLS_MAX: usize = 64;
/// Hexadecimal digits of a cell's hash.
const DIGITS: usize = 8;
/// In a file, in place of none.
const NONE: &str = "-";

/// The cells of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cells {
    /// Row by row; empty where there are too many, or where rows are not as wide as the first one. While an answer comes, one more than
    /// [`CELLS_MAX`] says so.
    hashes: Vec<u32>,
    /// Cells of a row; none in what a digest had.
    width: Option<usize>,
    /// The columns' names, as far as they are known; none in what a digest had.
    names: Vec<String>,
}

/// Where a cell stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// From 1.
    pub row: usize,
    /// From 1.
    pub column: usize,
    /// The column's name, where the server told it.
    pub name: Option<String>,
}

impl Cells {
    /// A column of the result, before its rows.
    pub(super) fn name(&mut self, name: &[u8]) {
        self.names.push(String::from_utf8_lossy(name).into_owned());
    }

    /// A row of so many cells begins.
    pub(super) fn row(&mut self, width: usize) {
        if *self.width.get_or_insert(width) != width {
            self.hashes.resize(CELLS_MAX + 1, 0);
        }
    }

    /// The next cell of the row.
    pub(super) fn add(&mut self, cell: &[u8]) {
        if self.hashes.len() <= CELLS_MAX {
            self.hashes.push(xxh3_64(cell) as u32);
        }
    }

    /// The answer is whole: its cells, if it has few. Begins anew.
    pub(super) fn take(&mut self) -> Self {
        let mut taken = std::mem::take(self);
        if taken.hashes.len() > CELLS_MAX {
            taken.hashes.clear();
        }
        taken
    }

    /// The first cell that is not what it was in an earlier answer of as many rows; none where the two cannot be laid side by side.
    #[must_use]
    pub(super) fn first_other(&self, earlier: &Self) -> Option<Place> {
        if self.hashes.len() != earlier.hashes.len() {
            return None;
        }
        let mut both = self.hashes.iter().zip(&earlier.hashes);
        let at = both.position(|(now, before)| now != before)?;
        let width = self.width?;
        let named = self.names.len() == width;
        Some(Place {
            row: at / width + 1,
            column: at % width + 1,
            name: named.then(|| self.names[at % width].clone()),
        })
    }

    /// As it stands in a digest.
    pub(super) fn to_text(&self) -> String {
        if self.hashes.is_empty() {
            return NONE.to_owned();
        }
        let mut text = String::with_capacity(DIGITS * self.hashes.len());
        for hash in &self.hashes {
            // Writing to a String cannot fail.
            let _ = write!(text, "{hash:0DIGITS$x}");
        }
        text
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let digits = if text == NONE { "" } else { text };
        let hashes = digits.as_bytes().chunks(DIGITS).map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            let whole = digits.len() == DIGITS;
            whole.then(|| u32::from_str_radix(digits, 16).ok())?
        });
        Some(Self {
            hashes: hashes.collect::<Option<_>>()?,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(names: &[&str], rows: &[&[&str]]) -> Cells {
        let mut cells = Cells::default();
        for name in names {
            cells.name(name.as_bytes());
        }
        for row in rows {
            cells.row(row.len());
            for cell in *row {
                cells.add(cell.as_bytes());
            }
        }
        cells.take()
    }

    #[test]
    fn the_first_other_cell_has_a_row_and_a_column() {
        let names = ["id", "qty"];
        let now = cells(&names, &[&["1", "7"], &["2", "5"], &["3", "0"]]);
        let earlier = cells(&[], &[&["1", "7"], &["2", "6"], &["3", "1"]]);
        let place = |name: Option<&str>| Place {
            row: 2,
            column: 2,
            name: name.map(str::to_owned),
        };
        // What was read of a file, and what is not known of its columns.
        let read = Cells::from_text(&earlier.to_text()).expect("hashes");
        assert_eq!(now.first_other(&read), Some(place(Some("qty"))));
        assert_eq!(earlier.first_other(&now), Some(place(None)));
        assert_eq!(now.first_other(&now), None);
        let longer = cells(
            &names,
            &[&["1", "7"], &["2", "5"], &["3", "0"], &["4", "0"]],
        );
        assert_eq!(longer.first_other(&now), None);
    }

    #[test]
    fn what_is_large_or_uneven_has_no_cells() {
        let row = ["x"; CELLS_MAX + 1];
        assert_eq!(cells(&[], &[&row[..CELLS_MAX]]).to_text().len(), 8 * 64);
        for none in [
            cells(&[], &[&row]),
            cells(&[], &[&["a"], &["a", "b", "c"]]),
            cells(&[], &[]),
        ] {
            assert_eq!(none.to_text(), "-");
            assert_eq!(none.first_other(&cells(&[], &[&["a"]])), None);
        }
        for wrong in ["0", "0123456", "0123456g", "012345678"] {
            assert_eq!(Cells::from_text(wrong), None, "{wrong}");
        }
    }
}
