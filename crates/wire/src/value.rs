//! Values on their way to the server and cells on their way back.

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// Any integer column.
    Int(i64),
    /// An integer that MySQL is told to be unsigned.
    UInt(u64),
    /// A floating point number. As a text it would be another value where the server compares it with a text.
    Double(f64),
    /// An exact number: `unscaled` / 10^`scale`.
    Decimal {
        /// The digits as an integer.
        unscaled: i64,
        /// How many of them stand after the point.
        scale: u8,
    },
    /// CHAR, VARCHAR, TEXT.
    Text(String),
    /// BINARY, VARBINARY, BLOB, bytea.
    Bytes(Vec<u8>),
    /// A point in time, microseconds since 1970-01-01 00:00:00 in the session's own time zone.
    Timestamp(i64),
}

/// One cell of a row, borrowed from the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// SQL NULL.
    Null,
    /// An integer from the binary protocol.
    Int(i64),
    /// What the text protocol carries, and all other types, floating point numbers too, as the server's text.
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    /// The same allocation for the cells of the next row, which borrow from other bytes.
    pub(crate) fn recycled<'b>(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'b>> {
        cells.clear();
        cells.into_iter().map(|_| Cell::Null).collect()
    }

    /// The cell as an integer; `None` for NULL and for what is not one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            Self::Null => None,
        }
    }

    /// The cell as text, the same on both protocols; NULL as `None`.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Int(number) => Some(number.to_string()),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}
