//! Results as hashes: exact, with their columns' names and types, or in a form that does not depend on the engine, the protocol or the
//! encoding. docs/reference/load.md lists what is normalised then.
//!
//! Neither protocol's rows say their columns' types here, so the rules look at the text alone: two texts that one rule makes equal are
//! equal as numbers, as points in time, or as CHAR values, whatever their columns are.

use std::borrow::Cow;

use wire::{Cell, ColumnDefinition, RowSink};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::cells::Cells;

/// Before a cell that is NULL, and before one that is not.
const NULL: u8 = 0;
const PRESENT: u8 = 1;

/// Hashes the columns and rows of one result.
pub struct ResultHash {
    unordered: bool,
    lenient: bool,
    columns: Xxh3,
    columns_told: bool,
    rows: u64,
    in_order: Xxh3,
    /// Sum of the rows' own hashes, which their order does not change and a row's repetition does.
    sum: u64,
    row: Vec<u8>,
    cells: Cells,
}

impl ResultHash {
    /// No rows yet. `unordered`: rows may come in any order. `lenient`: cells are normalised, and columns do not count.
    #[must_use]
    pub fn new(unordered: bool, lenient: bool) -> Self {
        Self {
            unordered,
            lenient,
            columns: Xxh3::new(),
            columns_told: false,
            rows: 0,
            in_order: Xxh3::new(),
            sum: 0,
            row: Vec::new(),
            cells: Cells::default(),
        }
    }

    /// The cells so far, if they are few and in an order; before [`Self::take`].
    pub(super) fn cells(&mut self) -> Cells {
        let in_order = !self.unordered || self.rows <= 1;
        let cells = self.cells.take();
        if in_order { cells } else { Cells::default() }
    }

    /// Rows so far, and their hash; begins anew.
    pub fn take(&mut self) -> (u64, u64) {
        let hash = if self.unordered {
            self.sum
        } else {
            self.in_order.digest()
        };
        let hash = match self.columns_told {
            true => hash ^ self.columns.digest(),
            false => hash,
        };
        let rows = self.rows;
        self.columns_told = false;
        self.columns.reset();
        self.rows = 0;
        self.sum = 0;
        self.in_order.reset();
        self.cells = Cells::default();
        (rows, hash)
    }
}

impl RowSink for ResultHash {
    fn wants_columns(&self) -> bool {
        true
    }

    fn column(&mut self, definition: &ColumnDefinition<'_>) {
        self.cells.name(definition.name);
        if self.lenient {
            return;
        }
        self.columns_told = true;
        self.columns
            .update(&(definition.name.len() as u64).to_le_bytes());
        self.columns.update(definition.name);
        self.columns.update(&definition.kind.to_le_bytes());
    }

    fn row(&mut self, cells: &[Cell<'_>]) {
        self.row.clear();
        self.cells.row(cells.len());
        for cell in cells {
            let begin = self.row.len();
            put(&mut self.row, cell, self.lenient);
            self.cells.add(&self.row[begin..]);
        }
        self.rows += 1;
        if self.unordered {
            self.sum = self.sum.wrapping_add(xxh3_64(&self.row));
        } else {
            self.in_order.update(&(self.row.len() as u64).to_le_bytes());
            self.in_order.update(&self.row);
        }
    }
}

fn put(row: &mut Vec<u8>, cell: &Cell<'_>, lenient: bool) {
    let made;
    let text = match cell {
        Cell::Null => return row.push(NULL),
        Cell::Bytes(bytes) => bytes,
        Cell::Int(_) => {
            made = cell.to_text().unwrap_or_default();
            made.as_bytes()
        }
    };
    let text = if lenient {
        canonical(text)
    } else {
        Cow::Borrowed(text)
    };
    row.push(PRESENT);
    row.extend_from_slice(&(text.len() as u64).to_le_bytes());
    row.extend_from_slice(&text);
}

/// A cell's text in the one form.
fn canonical(text: &[u8]) -> Cow<'_, [u8]> {
    // PostgreSQL pads CHAR(n), MySQL does not.
    let text = text.trim_suffix_spaces();
    // Most cells are words: the first byte tells.
    if !text
        .first()
        .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
    {
        return Cow::Borrowed(text);
    }
    if is_decimal(text) {
        return Cow::Borrowed(without_trailing_zeros(text));
    }
    if let Some(plain) = from_exponent(text) {
        return Cow::Owned(plain);
    }
    if has_clock_fraction(text) {
        return Cow::Borrowed(without_trailing_zeros(text));
    }
    Cow::Borrowed(text)
}

trait TrimSpaces {
    fn trim_suffix_spaces(&self) -> &[u8];
}

impl TrimSpaces for [u8] {
    fn trim_suffix_spaces(&self) -> &[u8] {
        let kept = self.iter().rposition(|byte| *byte != b' ');
        &self[..kept.map_or(0, |last| last + 1)]
    }
}

/// `-12.50`, without superfluous zeros in front: `007` is no number but a text.
fn is_decimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let superfluous = whole > 1 && digits[0] == b'0';
    let fraction_ok = match &digits[whole..] {
        [] => true,
        [b'.', fraction @ ..] => !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    whole > 0 && !superfluous && fraction_ok
}

/// Zeros at the end of a fraction, the point when nothing follows it, and the sign of a zero.
fn without_trailing_zeros(text: &[u8]) -> &[u8] {
    let Some(point) = text.iter().rposition(|byte| *byte == b'.') else {
        return if text == b"-0" { b"0" } else { text };
    };
    let last = text.iter().rposition(|byte| *byte != b'0').unwrap_or(point);
    let kept = if last == point { point } else { last + 1 };
    match &text[..kept] {
        b"-0" => b"0",
        kept => kept,
    }
}

/// `1e+20`, `1e20`: servers choose exponents differently.
fn from_exponent(text: &[u8]) -> Option<Vec<u8>> {
    let at = text.iter().position(|byte| matches!(byte, b'e' | b'E'))?;
    let exponent = &text[at + 1..];
    let digits = exponent
        .strip_prefix(b"+")
        .or(exponent.strip_prefix(b"-"))
        .unwrap_or(exponent);
    // No double has an exponent of four digits.
    let short = (1..=3).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    if !short || !is_decimal(&text[..at]) {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let plain = number.to_string().into_bytes();
    number
        .is_finite()
        .then(|| without_trailing_zeros(&plain).to_vec())
}

/// `... 23:59:59.250`.
fn has_clock_fraction(text: &[u8]) -> bool {
    let Some(point) = text.iter().rposition(|byte| *byte == b'.') else {
        return false;
    };
    let clock = &text[..point];
    text[point + 1..].iter().all(u8::is_ascii_digit)
        && clock.len() >= 8
        && clock[clock.len() - 8..]
            .iter()
            .enumerate()
            .all(|(at, byte)| {
                if at % 3 == 2 {
                    *byte == b':'
                } else {
                    byte.is_ascii_digit()
                }
            })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes()).into_owned()).expect("UTF-8")
    }

    fn hash(unordered: bool, rows: &[&[Cell<'_>]]) -> (u64, u64) {
        let mut result = ResultHash::new(unordered, true);
        for row in rows {
            result.row(row);
        }
        result.take()
    }

    #[test]
    fn what_is_equal_on_both_servers_becomes_equal() {
        for (mysql, postgres) in [
            ("12.50", "12.5"),
            ("4.5000", "4.5000000000000000"),
            ("-0.00", "0"),
            ("100", "100.000"),
            ("1e20", "1e+20"),
            ("0.00001", "1e-05"),
            ("1e-7", "0.0000001"),
            ("abc", "abc   "),
            ("2024-02-29 23:59:59.250", "2024-02-29 23:59:59.25"),
            ("2024-02-29 23:59:59.000", "2024-02-29 23:59:59"),
            ("-101:02:03.500000", "-101:02:03.5"),
        ] {
            assert_eq!(text(mysql), text(postgres), "{mysql} {postgres}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for kept in [
            "007",
            "1.2.3",
            "10.0.0.10",
            "1-20",
            "-",
            "",
            "t",
            "1e",
            "2024-02-10",
            "e5",
            "1e9999",
            ".50",
            "1.",
            "10:20.30",
        ] {
            assert_eq!(text(kept), kept);
        }
    }

    #[test]
    fn order_counts_unless_it_is_said_not_to() {
        let (one, two): ([Cell<'_>; 1], [Cell<'_>; 1]) = ([Cell::Int(1)], [Cell::Bytes(b"2")]);
        assert_ne!(hash(false, &[&one, &two]), hash(false, &[&two, &one]));
        assert_eq!(hash(true, &[&one, &two]), hash(true, &[&two, &one]));
        assert_ne!(hash(true, &[&one, &one]), hash(true, &[&two, &two]));
        // Where one cell ends counts, and NULL is not an empty text.
        let split: [Cell<'_>; 2] = [Cell::Bytes(b"a"), Cell::Bytes(b"b")];
        let joined: [Cell<'_>; 2] = [Cell::Bytes(b"ab"), Cell::Bytes(b"")];
        assert_ne!(hash(false, &[&split]), hash(false, &[&joined]));
        assert_ne!(
            hash(false, &[&[Cell::Null]]),
            hash(false, &[&[Cell::Bytes(b"")]])
        );
        assert_eq!(
            hash(false, &[&[Cell::Int(7)]]),
            hash(false, &[&[Cell::Bytes(b"7")]])
        );
        assert_eq!(
            hash(false, &[&[Cell::Bytes(b"0.5")]]),
            hash(false, &[&[Cell::Bytes(b"0.50")]])
        );
    }

    #[test]
    fn an_other_cell_is_found_where_rows_have_an_order() {
        let cells = |unordered, numbers: [i64; 2]| {
            let mut result = ResultHash::new(unordered, true);
            for number in numbers {
                result.row(&[Cell::Bytes(b"a"), Cell::Int(number)]);
            }
            let cells = result.cells();
            result.take();
            assert_eq!(result.cells(), Cells::default());
            cells
        };
        let other = |unordered| {
            let earlier = cells(unordered, [1, 2]);
            cells(unordered, [1, 3]).first_other(&earlier)
        };
        let place = other(false).expect("in order");
        assert_eq!((place.row, place.column), (2, 2));
        assert_eq!(other(true), None);
    }

    #[test]
    fn exact_hashes_tell_digits_spaces_and_columns_apart() {
        let exact = |name: &[u8], kind, cell: &[u8]| {
            let mut result = ResultHash::new(false, false);
            result.column(&ColumnDefinition {
                name,
                kind,
                length: 10,
                collation: 0,
                flags: 0,
                decimals: 0,
            });
            result.row(&[Cell::Bytes(cell)]);
            result.take()
        };
        let one = exact(b"a", 246, b"1.50");
        assert_eq!(exact(b"a", 246, b"1.50"), one);
        for other in [
            exact(b"a", 246, b"1.5"),
            exact(b"a", 246, b"1.50 "),
            exact(b"b", 246, b"1.50"),
            exact(b"a", 253, b"1.50"),
        ] {
            assert_ne!(other, one);
        }
    }

    proptest! {
        #[test]
        fn a_canonical_text_is_its_own(bytes in "[-0-9.e:+ ]{0,24}") {
            let once = text(&bytes);
            prop_assert_eq!(text(&once), once);
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = canonical(&bytes);
        }

        #[test]
        fn numbers_that_differ_stay_different(one in -1_000_000i64..1_000_000, other in -1_000_000i64..1_000_000, scale in 0u32..6) {
            let write = |number: i64| {
                let sign = if number < 0 { "-" } else { "" };
                let unit = 10u64.pow(scale);
                let all = number.unsigned_abs();
                if scale == 0 {
                    format!("{sign}{all}")
                } else {
                    format!("{sign}{}.{:0width$}", all / unit, all % unit, width = scale as usize)
                }
            };
            prop_assert_eq!(text(&write(one)) == text(&write(other)), one == other);
        }
    }
}
