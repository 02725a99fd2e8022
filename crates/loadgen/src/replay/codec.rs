//! The values of parameters as bytes.

use ::trace::bytes::{Bytes, Malformed, put_bytes, put_number, put_signed};
use wire::Value;

const NULL: u8 = 0;
const INT: u8 = 1;
const DECIMAL: u8 = 2;
const TEXT: u8 = 3;
const TIMESTAMP: u8 = 4;
const BYTES: u8 = 5;
const UINT: u8 = 6;
const DOUBLE: u8 = 7;

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(NULL),
        Value::Int(number) => {
            out.push(INT);
            put_signed(out, *number);
        }
        Value::UInt(number) => {
            out.push(UINT);
            put_number(out, *number);
        }
        Value::Double(number) => {
            out.push(DOUBLE);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Decimal { unscaled, scale } => {
            out.extend_from_slice(&[DECIMAL, *scale]);
            put_signed(out, *unscaled);
        }
        Value::Text(words) => {
            out.push(TEXT);
            put_bytes(out, words.as_bytes());
        }
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_bytes(out, bytes);
        }
        Value::Timestamp(epoch_us) => {
            out.push(TIMESTAMP);
            put_signed(out, *epoch_us);
        }
    }
}

pub(super) fn put_values(out: &mut Vec<u8>, values: &[Value]) {
    put_number(out, values.len() as u64);
    for value in values {
        put_value(out, value);
    }
}

fn value(bytes: &mut Bytes<'_>) -> Result<Value, Malformed> {
    Ok(match bytes.byte()? {
        NULL => Value::Null,
        INT => Value::Int(bytes.signed()?),
        UINT => Value::UInt(bytes.number()?),
        DOUBLE => Value::Double(f64::from_le_bytes(bytes.array()?)),
        DECIMAL => {
            let scale = bytes.byte()?;
            let unscaled = bytes.signed()?;
            Value::Decimal { unscaled, scale }
        }
        TEXT => Value::Text(bytes.text()?),
        BYTES => Value::Bytes(bytes.bytes()?.to_vec()),
        TIMESTAMP => Value::Timestamp(bytes.signed()?),
        _ => return Err(Malformed),
    })
}

pub(super) fn values(bytes: &mut Bytes<'_>) -> Result<Vec<Value>, Malformed> {
    let count = bytes.number()?;
    (0..count).map(|_| value(bytes)).collect()
}
