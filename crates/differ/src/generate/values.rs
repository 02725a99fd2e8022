//! Types of columns, and values that hit them, miss them and do not fit them.

use super::dice::Dice;
use crate::param::{Param, kind};

/// What a column's values are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Integers of so many bits.
    Int(u32, bool),
    /// BIT.
    Bit,
    /// DECIMAL.
    Decimal,
    /// FLOAT and DOUBLE.
    Real,
    /// Text of any collation.
    Text,
    /// BINARY, VARBINARY and BLOB.
    Bytes,
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// DATETIME and TIMESTAMP.
    DateTime,
    /// YEAR.
    Year,
    /// ENUM and SET of a, b, c.
    Enum,
    /// JSON.
    Json,
}

/// A type as DDL has it.
pub type Type = (&'static str, Class);

/// Types that a key may have: integers, then texts and bytes, then others.
pub const KEYS: [Type; 40] = [
    ("INT", Class::Int(32, false)),
    ("BIGINT", Class::Int(64, false)),
    ("INT UNSIGNED", Class::Int(32, true)),
    ("SMALLINT", Class::Int(16, false)),
    ("TINYINT UNSIGNED", Class::Int(8, true)),
    ("BIGINT UNSIGNED", Class::Int(64, true)),
    ("TINYINT", Class::Int(8, false)),
    ("SMALLINT UNSIGNED", Class::Int(16, true)),
    ("MEDIUMINT", Class::Int(24, false)),
    ("MEDIUMINT UNSIGNED", Class::Int(24, true)),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        Class::Text,
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        Class::Text,
    ),
    ("VARCHAR(20) CHARACTER SET latin1", Class::Text),
    (
        "CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        Class::Text,
    ),
    (
        "CHAR(8) CHARACTER SET latin1 COLLATE latin1_bin",
        Class::Text,
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        Class::Text,
    ),
    // Padded and not, shorter than some words, of other character sets, with a comparison of several characters with one.
    (
        "CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        Class::Text,
    ),
    (
        "VARCHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs",
        Class::Text,
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
        Class::Text,
    ),
    ("VARCHAR(20) CHARACTER SET utf16", Class::Text),
    (
        "CHAR(8) CHARACTER SET latin1 COLLATE latin1_german2_ci",
        Class::Text,
    ),
    (
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin",
        Class::Text,
    ),
    ("VARCHAR(20) CHARACTER SET gbk", Class::Text),
    ("CHAR(8) CHARACTER SET ascii", Class::Text),
    // Long: what stands behind them in a key lies far from its beginning.
    ("VARCHAR(255) CHARACTER SET utf8mb4", Class::Text),
    ("CHAR(90) CHARACTER SET utf8mb4", Class::Text),
    ("VARBINARY(20)", Class::Bytes),
    ("BINARY(4)", Class::Bytes),
    ("DATE", Class::Date),
    ("DATETIME", Class::DateTime),
    ("DATETIME(3)", Class::DateTime),
    ("TIMESTAMP", Class::DateTime),
    ("TIME", Class::Time),
    ("YEAR", Class::Year),
    ("DECIMAL(6,2)", Class::Decimal),
    ("DECIMAL(20,0)", Class::Decimal),
    ("BIT(5)", Class::Bit),
    ("ENUM('a','b','c')", Class::Enum),
    ("DOUBLE", Class::Real),
    ("FLOAT", Class::Real),
];

/// How many of [`KEYS`] are integers.
pub const INTEGERS: usize = 10;

/// How many of [`KEYS`], behind the integers, are texts and bytes.
pub const TEXTS: usize = 18;

/// Types of other columns, besides those of keys.
pub const OTHERS: [Type; 7] = [
    ("TEXT", Class::Text),
    ("BLOB", Class::Bytes),
    ("JSON", Class::Json),
    ("SET('a','b','c')", Class::Enum),
    ("VARCHAR(300) CHARACTER SET utf8mb4", Class::Text),
    ("BIT(33)", Class::Bit),
    ("DECIMAL(12,4) UNSIGNED", Class::Decimal),
];

/// A value before it is a literal or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// NULL.
    Null,
    /// Any integer of the 65 bits.
    Int(i128),
    /// A floating point number.
    Real(f64),
    /// An exact number, as text.
    Exact(String),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// DATE, TIME or DATETIME: the protocol's fields and the text.
    Temporal(u8, Vec<u8>, String),
}

const WORDS: [&str; 38] = [
    "",
    "a",
    "A",
    "á",
    "ä",
    "b",
    "B",
    "c",
    "ab",
    "aB",
    "AB",
    "ß",
    "ss",
    "é",
    "e",
    "z",
    "日本",
    "😀",
    "a ",
    " a",
    "a\t",
    "\\",
    "'",
    "%",
    "1",
    "01",
    "1.0",
    "1e0",
    "-1",
    "abc",
    "ABCDEFGHIJ",
    "null",
    "2024-02-29",
    "ab cd ef gh ij kl mn",
    "a                           ",
    "ü",
    "ue",
    "ABC ",
];

/// A value for a column of this class; now and then of another.
pub fn value(dice: &mut Dice, class: Class) -> Scalar {
    if dice.chance(3) {
        return Scalar::Null;
    }
    if dice.chance(4) {
        let other = *dice.pick(&[
            Class::Int(64, true),
            Class::Text,
            Class::Real,
            Class::Decimal,
            Class::DateTime,
            Class::Date,
            Class::Bytes,
            Class::Json,
            Class::Time,
        ]);
        return fitting(dice, other);
    }
    fitting(dice, class)
}

/// A value of this class.
pub fn fitting(dice: &mut Dice, class: Class) -> Scalar {
    match class {
        Class::Int(bits, unsigned) => Scalar::Int(integer(dice, bits, unsigned)),
        Class::Bit => Scalar::Int(dice.below(36).into()),
        Class::Decimal => Scalar::Exact(match dice.below(8) {
            0 => "12345678901234567890.125".to_owned(),
            1 => format!("-{}.{:02}", dice.below(9), dice.below(100)),
            2 => format!("{}.005", dice.below(9)),
            _ => format!(
                "{}.{}",
                dice.below(20),
                ["00", "50", "25", "0"][dice.below(4) as usize]
            ),
        }),
        Class::Real => Scalar::Real(match dice.below(8) {
            0 => -0.0,
            1 => 1e300,
            2 => -1.5,
            3 => 0.1,
            4 => 9_007_199_254_740_993.0,
            _ => f64::from(dice.below(20)),
        }),
        Class::Text => Scalar::Text(dice.pick(&WORDS).to_string()),
        Class::Bytes => Scalar::Bytes(match dice.below(5) {
            0 => vec![0, 1, 0xFF],
            1 => Vec::new(),
            _ => dice.pick(&WORDS).as_bytes().to_vec(),
        }),
        Class::Date => date(dice),
        Class::Time => time(dice),
        Class::DateTime if dice.chance(10) => date(dice),
        Class::DateTime => datetime(dice),
        Class::Year => Scalar::Int(match dice.below(10) {
            0 => 0,
            1 => 99,
            2 => 1900,
            _ => 1995 + i128::from(dice.below(20)),
        }),
        Class::Enum => match dice.below(8) {
            0 => Scalar::Int(dice.below(5).into()),
            1 => Scalar::Text("d".to_owned()),
            2 => Scalar::Text("A".to_owned()),
            _ => Scalar::Text(["a", "b", "c"][dice.below(3) as usize].to_owned()),
        },
        Class::Json => Scalar::Text(
            [
                "null",
                "1",
                "\"a\"",
                "{\"a\": 1, \"b\": [1, 2]}",
                "[]",
                "{",
                "1.5",
                "[1, \"x\", null]",
            ][dice.below(8) as usize]
                .to_owned(),
        ),
    }
}

fn integer(dice: &mut Dice, bits: u32, unsigned: bool) -> i128 {
    let (least, most) = if unsigned {
        (0, (1_i128 << bits) - 1)
    } else {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    };
    match dice.below(40) {
        0 => least,
        1 => most,
        2 => least - 1,
        3 => most + 1,
        4 => -1,
        5 => i128::from(i64::MIN),
        6 => i128::from(u64::MAX),
        7 => i128::from(dice.below(200)),
        _ => i128::from(dice.below(24)),
    }
}

fn date(dice: &mut Dice) -> Scalar {
    let (year, month, day) = (2024, 1 + dice.below(2), 1 + dice.below(29));
    let (year, month, day) = if dice.chance(4) {
        (0, 0, 0)
    } else {
        (year, month, day)
    };
    let text = format!("{year:04}-{month:02}-{day:02}");
    Scalar::Temporal(
        kind::DATE,
        vec![
            (year % 256) as u8,
            (year / 256) as u8,
            month as u8,
            day as u8,
        ],
        text,
    )
}

fn datetime(dice: &mut Dice) -> Scalar {
    let (month, day, hour) = (1 + dice.below(2), 1 + dice.below(5), dice.below(2) * 12);
    let us = if dice.chance(20) { 500_500_u32 } else { 0 };
    let mut fields = vec![0xE8, 0x07, month as u8, day as u8, hour as u8, 30, 0];
    let mut text = format!("2024-{month:02}-{day:02} {hour:02}:30:00");
    if us > 0 {
        fields.extend_from_slice(&us.to_le_bytes());
        text.push_str(&format!(".{us:06}"));
    }
    Scalar::Temporal(kind::DATETIME, fields, text)
}

fn time(dice: &mut Dice) -> Scalar {
    let (negative, days, hour) = (
        dice.chance(10),
        u32::from(dice.chance(10)) * 2,
        dice.below(6),
    );
    let mut fields = vec![u8::from(negative)];
    fields.extend_from_slice(&days.to_le_bytes());
    fields.extend_from_slice(&[hour as u8, 15, 0]);
    let sign = if negative { "-" } else { "" };
    Scalar::Temporal(
        kind::TIME,
        fields,
        format!("{sign}{:02}:15:00", hour + days * 24),
    )
}

/// As SQL has it.
pub fn literal(dice: &mut Dice, value: &Scalar) -> String {
    match value {
        Scalar::Null => "NULL".to_owned(),
        Scalar::Int(number) if dice.chance(6) => format!("'{number}'"),
        Scalar::Int(number) => number.to_string(),
        Scalar::Real(number) => format!("{number:e}"),
        Scalar::Exact(text) => text.clone(),
        Scalar::Text(text) => {
            let introducer = if dice.chance(4) { "_utf8mb4" } else { "" };
            format!("{introducer}{}", quoted(text))
        }
        Scalar::Bytes(bytes) => format!("X'{}'", hex(bytes)),
        Scalar::Temporal(kind, _, text) => {
            let word = match *kind {
                kind::DATE => "DATE",
                kind::TIME => "TIME",
                _ => "TIMESTAMP",
            };
            if dice.chance(30) {
                format!("{word}'{text}'")
            } else {
                format!("'{text}'")
            }
        }
    }
}

/// Text as a literal, the same whether backslashes escape or not.
pub fn quoted(text: &str) -> String {
    if text.contains('\\') {
        return format!("_utf8mb4 X'{}'", hex(text.as_bytes()));
    }
    format!("'{}'", text.replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As a parameter; the type is the value's own, or another that drivers send for it.
pub fn param(dice: &mut Dice, value: &Scalar) -> Param {
    match value {
        Scalar::Null => Param::Null(*dice.pick(&[
            kind::NULL,
            kind::LONGLONG,
            kind::VAR_STRING,
            kind::LONG,
            kind::DATETIME,
        ])),
        Scalar::Int(number) => int_param(dice, *number),
        Scalar::Real(number) => match dice.below(6) {
            #[expect(clippy::cast_possible_truncation, reason = "a FLOAT is what is sent")]
            0 => Param::Float(*number as f32),
            1 => Param::Bytes(kind::VAR_STRING, number.to_string().into_bytes()),
            _ => Param::Double(*number),
        },
        Scalar::Exact(text) => match dice.below(4) {
            0 => Param::Bytes(kind::VAR_STRING, text.clone().into_bytes()),
            1 => Param::Double(text.parse().unwrap_or(0.0)),
            _ => Param::Bytes(kind::NEWDECIMAL, text.clone().into_bytes()),
        },
        Scalar::Text(text) => {
            let kind = *dice.pick(&[
                kind::VAR_STRING,
                kind::VAR_STRING,
                kind::VAR_STRING,
                kind::STRING,
                kind::BLOB,
            ]);
            let mut bytes = text.clone().into_bytes();
            // Half a character, or what none begins with.
            if dice.chance(3) && bytes.pop().is_none() {
                bytes.push(0xFF);
            }
            Param::Bytes(kind, bytes)
        }
        Scalar::Bytes(bytes) => Param::Bytes(
            *dice.pick(&[kind::BLOB, kind::BLOB, kind::VAR_STRING]),
            bytes.clone(),
        ),
        Scalar::Temporal(kind, fields, text) => match dice.below(4) {
            0 => Param::Bytes(kind::VAR_STRING, text.clone().into_bytes()),
            _ => Param::Temporal(*kind, fields.clone()),
        },
    }
}

fn int_param(dice: &mut Dice, number: i128) -> Param {
    let whole = i64::try_from(number).is_ok() || u64::try_from(number).is_ok();
    if !whole || dice.chance(8) {
        let kind = *dice.pick(&[kind::VAR_STRING, kind::NEWDECIMAL, kind::STRING]);
        return Param::Bytes(kind, number.to_string().into_bytes());
    }
    if dice.chance(3) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "what a driver that has only doubles does"
        )]
        return Param::Double(number as f64);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the bits are what is sent"
    )]
    let bits = number as u64;
    let unsigned = number >= 0 && (number > i128::from(i64::MAX) || dice.chance(20));
    let kind = match number {
        -128..128 if dice.chance(8) => kind::TINY,
        -32768..32768 if dice.chance(10) => kind::SHORT,
        -2_147_483_648..2_147_483_648 if dice.chance(45) => kind::LONG,
        _ => kind::LONGLONG,
    };
    Param::Int(kind, unsigned, bits)
}
