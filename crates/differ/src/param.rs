//! Parameters of prepared statements, as the binary protocol carries them.

use serde::{Deserialize, Serialize};
use wire::mysql::put_text;

/// Numbers of types in MySQL's protocol.
pub mod kind {
    /// DECIMAL, as text.
    pub const NEWDECIMAL: u8 = 246;
    /// One byte.
    pub const TINY: u8 = 1;
    /// Two bytes.
    pub const SHORT: u8 = 2;
    /// Four bytes.
    pub const LONG: u8 = 3;
    /// Four bytes, IEEE 754.
    pub const FLOAT: u8 = 4;
    /// Eight bytes, IEEE 754.
    pub const DOUBLE: u8 = 5;
    /// Nothing.
    pub const NULL: u8 = 6;
    /// Eight bytes.
    pub const LONGLONG: u8 = 8;
    /// A date alone.
    pub const DATE: u8 = 10;
    /// A duration.
    pub const TIME: u8 = 11;
    /// Date and time of day.
    pub const DATETIME: u8 = 12;
    /// Bytes without a character set.
    pub const BLOB: u8 = 252;
    /// Text.
    pub const VAR_STRING: u8 = 253;
    /// Text.
    pub const STRING: u8 = 254;
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Param {
    /// NULL, told to be of this type.
    Null(u8),
    /// An integer: its type's number, whether it is unsigned, its bits.
    Int(u8, bool, u64),
    /// Eight bytes of a floating point number.
    Double(#[serde(with = "number")] f64),
    /// Four bytes of one.
    Float(#[serde(with = "number")] f32),
    /// Whatever is sent as bytes with a length: the type's number and the bytes.
    Bytes(u8, Vec<u8>),
    /// DATE, DATETIME or TIME: the type's number and the fields as the protocol has them, without their length.
    Temporal(u8, Vec<u8>),
    /// Sent before, by COM_STMT_SEND_LONG_DATA.
    Long,
}

impl Param {
    /// The type as it is announced: the number, and 0x80 in the second byte for unsigned.
    #[must_use]
    pub fn announced(&self) -> [u8; 2] {
        match self {
            Self::Null(kind) | Self::Bytes(kind, _) | Self::Temporal(kind, _) => [*kind, 0],
            Self::Int(kind, unsigned, _) => [*kind, if *unsigned { 0x80 } else { 0 }],
            Self::Double(_) => [kind::DOUBLE, 0],
            Self::Float(_) => [kind::FLOAT, 0],
            Self::Long => [kind::BLOB, 0],
        }
    }

    /// Its value's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null(_) | Self::Long => {}
            Self::Int(kind, _, bits) => {
                let width = match *kind {
                    kind::TINY => 1,
                    kind::SHORT => 2,
                    kind::LONG => 4,
                    _ => 8,
                };
                out.extend_from_slice(&bits.to_le_bytes()[..width]);
            }
            Self::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Float(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Bytes(_, bytes) => put_text(out, bytes),
            Self::Temporal(_, fields) => {
                out.push(u8::try_from(fields.len()).unwrap_or(0));
                out.extend_from_slice(fields);
            }
        }
    }

    /// For a reader: the value, and the type that it is sent as.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Null(kind) => format!("NULL of type {kind}"),
            Self::Int(kind, true, bits) => format!("{bits} as unsigned of type {kind}"),
            #[expect(clippy::cast_possible_wrap, reason = "the bits are the number's")]
            Self::Int(kind, false, bits) => format!("{} of type {kind}", *bits as i64),
            Self::Double(number) => format!("{number} as DOUBLE"),
            Self::Float(number) => format!("{number} as FLOAT"),
            Self::Bytes(kind, bytes) => {
                format!("{:?} of type {kind}", String::from_utf8_lossy(bytes))
            }
            Self::Temporal(kind, fields) => format!("{fields:?} of type {kind}"),
            Self::Long => "long data".to_owned(),
        }
    }
}

/// JSON has no infinite numbers, and none that is not a number: these are texts.
mod number {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written<T> {
        Number(T),
        Text(String),
    }

    pub fn serialize<T, S>(number: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Display + Into<f64> + Serialize,
        S: Serializer,
    {
        match (*number).into().is_finite() {
            true => number.serialize(to),
            false => to.collect_str(number),
        }
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de> + FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(number),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_as_json_infinite_ones_too() {
        for number in [0.5, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            for param in [Param::Float(number), Param::Double(number.into())] {
                let text = serde_json::to_string(&param).expect("JSON");
                let read: Param = serde_json::from_str(&text).expect("a parameter");
                assert_eq!(read, param, "{text}");
            }
        }
        let text = serde_json::to_string(&Param::Float(f32::NAN)).expect("JSON");
        let read: Param = serde_json::from_str(&text).expect("a parameter");
        assert!(matches!(read, Param::Float(number) if number.is_nan()));
        // As a report of an earlier Upshift has it.
        let read: Param = serde_json::from_str(r#"{"Double":0.5}"#).expect("a parameter");
        assert_eq!(read, Param::Double(0.5));
        assert!(serde_json::from_str::<Param>(r#"{"Double":"half"}"#).is_err());
    }
}
