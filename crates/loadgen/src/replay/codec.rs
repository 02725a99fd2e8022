//! Numbers and values as bytes: LEB128 for lengths, zigzag before it for signed numbers.

use wire::Value;

const NULL: u8 = 0;
const INT: u8 = 1;
const DECIMAL: u8 = 2;
const TEXT: u8 = 3;
const TIMESTAMP: u8 = 4;
const BYTES: u8 = 5;

/// Bytes that are not what a trace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block has contents that no recording writes")]
pub struct Malformed;

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(NULL),
        Value::Int(number) => {
            out.push(INT);
            put_signed(out, *number);
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

/// Takes bytes apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.take(length)
    }

    pub(super) fn value(&mut self) -> Result<Value, Malformed> {
        Ok(match self.byte()? {
            NULL => Value::Null,
            INT => Value::Int(self.signed()?),
            DECIMAL => {
                let scale = self.byte()?;
                let unscaled = self.signed()?;
                Value::Decimal { unscaled, scale }
            }
            TEXT => {
                let words = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?;
                Value::Text(words.to_owned())
            }
            BYTES => Value::Bytes(self.bytes()?.to_vec()),
            TIMESTAMP => Value::Timestamp(self.signed()?),
            _ => return Err(Malformed),
        })
    }

    pub(super) fn values(&mut self) -> Result<Vec<Value>, Malformed> {
        let count = self.number()?;
        (0..count).map(|_| self.value()).collect()
    }
}
