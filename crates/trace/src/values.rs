//! Parameters as bytes.

use wire::passive::{Parameter, ParameterValue, Parameters};

use crate::bytes::{Bytes, Malformed, put_bytes, put_number, put_signed};

const NULL: u8 = 0;
const DEFAULT: u8 = 1;
const IGNORE: u8 = 2;
const INT: u8 = 3;
const UINT: u8 = 4;
const FLOAT: u8 = 5;
const DOUBLE: u8 = 6;
const TEXT: u8 = 7;
const BINARY: u8 = 8;
const LONG: u8 = 9;
const MASKED: u8 = 10;
const UNKNOWN: u8 = 11;

pub(crate) fn put_parameters(out: &mut Vec<u8>, parameters: &Parameters) {
    out.push(u8::from(parameters.cut));
    put_number(out, parameters.rows.len() as u64);
    for row in &parameters.rows {
        put_number(out, row.len() as u64);
        for parameter in row {
            put_number(out, parameter.kind.into());
            put_value(out, &parameter.value);
        }
    }
}

fn put_value(out: &mut Vec<u8>, value: &ParameterValue) {
    match value {
        ParameterValue::Null => out.push(NULL),
        ParameterValue::Default => out.push(DEFAULT),
        ParameterValue::Ignore => out.push(IGNORE),
        ParameterValue::Int(number) => {
            out.push(INT);
            put_signed(out, *number);
        }
        ParameterValue::UInt(number) => {
            out.push(UINT);
            put_number(out, *number);
        }
        ParameterValue::Float(number) => {
            out.push(FLOAT);
            out.extend_from_slice(&number.to_le_bytes());
        }
        ParameterValue::Double(number) => {
            out.push(DOUBLE);
            out.extend_from_slice(&number.to_le_bytes());
        }
        ParameterValue::Text(bytes) => {
            out.push(TEXT);
            put_bytes(out, bytes);
        }
        ParameterValue::Binary(bytes) => {
            out.push(BINARY);
            put_bytes(out, bytes);
        }
        ParameterValue::Long(length) => {
            out.push(LONG);
            put_number(out, *length);
        }
        ParameterValue::Masked(length) => {
            out.push(MASKED);
            put_number(out, *length);
        }
        ParameterValue::Unknown => out.push(UNKNOWN),
    }
}

pub(crate) fn parameters(bytes: &mut Bytes<'_>) -> Result<Parameters, Malformed> {
    let cut = bytes.flag()?;
    let rows = bytes.number()?;
    let rows = (0..rows).map(|_| row(bytes)).collect::<Result<_, _>>()?;
    Ok(Parameters { rows, cut })
}

fn row(bytes: &mut Bytes<'_>) -> Result<Vec<Parameter>, Malformed> {
    let count = bytes.number()?;
    let parameters = (0..count).map(|_| {
        Ok(Parameter {
            kind: bytes.small()?,
            value: value(bytes)?,
        })
    });
    parameters.collect()
}

fn value(bytes: &mut Bytes<'_>) -> Result<ParameterValue, Malformed> {
    Ok(match bytes.byte()? {
        NULL => ParameterValue::Null,
        DEFAULT => ParameterValue::Default,
        IGNORE => ParameterValue::Ignore,
        INT => ParameterValue::Int(bytes.signed()?),
        UINT => ParameterValue::UInt(bytes.number()?),
        FLOAT => ParameterValue::Float(f32::from_le_bytes(bytes.array()?)),
        DOUBLE => ParameterValue::Double(f64::from_le_bytes(bytes.array()?)),
        TEXT => ParameterValue::Text(bytes.bytes()?.to_vec()),
        BINARY => ParameterValue::Binary(bytes.bytes()?.to_vec()),
        LONG => ParameterValue::Long(bytes.number()?),
        MASKED => ParameterValue::Masked(bytes.number()?),
        UNKNOWN => ParameterValue::Unknown,
        _ => return Err(Malformed),
    })
}
