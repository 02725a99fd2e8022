//! The values of an execution.

use std::fmt::Write;

use super::statements::Prepared;
use crate::Error;
use crate::mysql::field::Fields;
use crate::passive::{Parameter, ParameterValue, Parameters};

const TINY: u16 = 1;
const SHORT: u16 = 2;
const LONG: u16 = 3;
const FLOAT: u16 = 4;
const DOUBLE: u16 = 5;
const NULL: u16 = 6;
const TIMESTAMP: u16 = 7;
const LONGLONG: u16 = 8;
const INT24: u16 = 9;
const DATE: u16 = 10;
const TIME: u16 = 11;
const DATETIME: u16 = 12;
const YEAR: u16 = 13;
const UNSIGNED: u16 = 0x8000;

/// MySQL: the number of parameters comes with the execution.
const COUNT_AVAILABLE: u8 = 8;
/// MariaDB's bulk execution: types come with it.
const BULK_TYPES: u16 = 128;
/// A statement has no more.
const PARAMETERS_MAX: u64 = 65_535;

/// The parameters of COM_STMT_EXECUTE, from behind the statement's id. What was not kept of the payload makes them `cut`. `agreed` says
/// whether statements have attributes; without a login the execution says so itself.
pub(super) fn execute(
    payload: &[u8],
    agreed: Option<bool>,
    prepared: &mut Prepared,
) -> Option<Parameters> {
    let mut parameters = Parameters::default();
    parameters.cut = match read(payload, agreed, prepared) {
        Ok(None) => return None,
        Ok(Some((row, whole))) => {
            parameters.rows.push(row);
            !whole
        }
        Err(_) => true,
    };
    if prepared.is_secret {
        hide(&mut parameters);
    }
    Some(parameters)
}

type Row = Vec<Parameter>;

fn read(
    payload: &[u8],
    agreed: Option<bool>,
    prepared: &mut Prepared,
) -> Result<Option<(Row, bool)>, Error> {
    let mut fields = Fields(payload);
    let flags = fields.u8()?;
    fields.u32()?;
    let has_attributes = agreed.unwrap_or(flags & COUNT_AVAILABLE != 0);
    let Some(own) = prepared.parameters else {
        // How many there are was not seen.
        return if fields.0.is_empty() {
            Ok(None)
        } else {
            Ok(Some((Row::new(), false)))
        };
    };
    let mut count = u64::from(own);
    if has_attributes && (own > 0 || flags & COUNT_AVAILABLE != 0) {
        count = fields.length()?.min(PARAMETERS_MAX);
    }
    if count == 0 || (own == 0 && !has_attributes) {
        return Ok(None);
    }
    let nulls = fields.bytes(count.div_ceil(8) as usize)?;
    let mut attribute_types = Vec::new();
    if fields.u8()? == 1 {
        prepared.types.clear();
        for number in 0..count {
            let kind = fields.u16()?;
            if has_attributes {
                fields.text()?;
            }
            match number < u64::from(own) {
                true => prepared.types.push(kind),
                false => attribute_types.push(kind),
            }
        }
    }
    let mut row = Row::new();
    for number in 0..own.min(count as u16) {
        let is_null = nulls[usize::from(number) / 8] & (1 << (number % 8)) != 0;
        let Some(&kind) = prepared.types.get(usize::from(number)) else {
            return Ok(Some((row, false)));
        };
        let long = prepared.long.iter().find(|(long, _)| *long == number);
        let value = match (is_null, long) {
            (true, _) => ParameterValue::Null,
            (false, Some((_, bytes))) => ParameterValue::Long(*bytes),
            (false, None) => match value(&mut fields, kind) {
                Ok(value) => value,
                Err(_) => return Ok(Some((row, false))),
            },
        };
        row.push(Parameter {
            kind: kind.into(),
            value,
        });
    }
    // Attributes of the statement follow, which nobody asks for.
    Ok((own > 0).then_some((row, true)))
}

/// Read over the attributes of a statement as text.
pub(super) fn skip(fields: &mut Fields<'_>, count: u64) -> Result<(), Error> {
    let count = count.min(PARAMETERS_MAX);
    let nulls = fields.bytes(count.div_ceil(8) as usize)?;
    fields.u8()?;
    let mut kinds = Vec::new();
    for _ in 0..count {
        kinds.push(fields.u16()?);
        fields.text()?;
    }
    for (number, kind) in kinds.into_iter().enumerate() {
        if nulls[number / 8] & (1 << (number % 8)) == 0 {
            value(fields, kind)?;
        }
    }
    Ok(())
}

/// The rows of COM_STMT_BULK_EXECUTE, from behind the statement's id.
pub(super) fn bulk(payload: &[u8], prepared: &mut Prepared) -> Parameters {
    let mut parameters = Parameters::default();
    parameters.cut = read_bulk(payload, prepared, &mut parameters.rows).is_err();
    if prepared.is_secret {
        hide(&mut parameters);
    }
    parameters
}

fn read_bulk(payload: &[u8], prepared: &mut Prepared, rows: &mut Vec<Row>) -> Result<(), Error> {
    let mut fields = Fields(payload);
    let unknown = || Error::Protocol("a statement that was prepared before".to_owned());
    let count = prepared.parameters.filter(|count| *count > 0);
    let count = usize::from(count.ok_or_else(unknown)?);
    if fields.u16()? & BULK_TYPES != 0 {
        prepared.types.clear();
        for _ in 0..count {
            prepared.types.push(fields.u16()?);
        }
    }
    if prepared.types.len() != count {
        return Err(unknown());
    }
    while !fields.0.is_empty() {
        let mut row = Row::with_capacity(count);
        for &kind in &prepared.types {
            let value = match fields.u8()? {
                0 => value(&mut fields, kind)?,
                1 => ParameterValue::Null,
                2 => ParameterValue::Default,
                _ => ParameterValue::Ignore,
            };
            row.push(Parameter {
                kind: kind.into(),
                value,
            });
        }
        rows.push(row);
    }
    Ok(())
}

/// Leave of each value its type and length alone.
fn hide(parameters: &mut Parameters) {
    for parameter in parameters.rows.iter_mut().flatten() {
        parameter.hide();
    }
}

fn value(fields: &mut Fields<'_>, kind: u16) -> Result<ParameterValue, Error> {
    let is_unsigned = kind & UNSIGNED != 0;
    let integer = |signed: i64, unsigned: u64| match is_unsigned {
        true => ParameterValue::UInt(unsigned),
        false => ParameterValue::Int(signed),
    };
    Ok(match kind & !UNSIGNED {
        TINY => {
            let byte = fields.u8()?;
            integer((byte as i8).into(), byte.into())
        }
        SHORT | YEAR => {
            let number = fields.u16()?;
            integer((number as i16).into(), number.into())
        }
        LONG | INT24 => {
            let number = fields.u32()?;
            integer((number as i32).into(), number.into())
        }
        LONGLONG => {
            let number = fields.array().map(u64::from_le_bytes)?;
            integer(number as i64, number)
        }
        FLOAT => ParameterValue::Float(fields.array().map(f32::from_le_bytes)?),
        DOUBLE => ParameterValue::Double(fields.array().map(f64::from_le_bytes)?),
        DATE | DATETIME | TIMESTAMP => date(fields.text()?, kind & !UNSIGNED == DATE)?,
        TIME => time(fields.text()?)?,
        NULL => ParameterValue::Null,
        _ => ParameterValue::of(fields.text()?),
    })
}

/// Trailing parts that are zero are left out.
fn parts<const N: usize>(sent: &[u8]) -> Result<[u8; N], Error> {
    let mut parts = [0; N];
    parts
        .get_mut(..sent.len())
        .ok_or_else(|| Error::Protocol(format!("a time of {} bytes", sent.len())))?
        .copy_from_slice(sent);
    Ok(parts)
}

fn date(sent: &[u8], is_date: bool) -> Result<ParameterValue, Error> {
    let parts: [u8; 11] = parts(sent)?;
    let year = u16::from_le_bytes([parts[0], parts[1]]);
    let [month, day, hour, minute, second] = [parts[2], parts[3], parts[4], parts[5], parts[6]];
    let micro = u32::from_le_bytes([parts[7], parts[8], parts[9], parts[10]]);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if !is_date || sent.len() > 4 {
        let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
    }
    Ok(with_micros(text, micro))
}

fn time(sent: &[u8]) -> Result<ParameterValue, Error> {
    let parts: [u8; 12] = parts(sent)?;
    let days = u32::from_le_bytes([parts[1], parts[2], parts[3], parts[4]]);
    let hours = u64::from(days) * 24 + u64::from(parts[5]);
    let micro = u32::from_le_bytes([parts[8], parts[9], parts[10], parts[11]]);
    let sign = if parts[0] == 0 { "" } else { "-" };
    let text = format!("{sign}{hours:02}:{:02}:{:02}", parts[6], parts[7]);
    Ok(with_micros(text, micro))
}

fn with_micros(mut text: String, micro: u32) -> ParameterValue {
    if micro > 0 {
        let _ = write!(text, ".{micro:06}");
    }
    ParameterValue::Text(text.into_bytes())
}
