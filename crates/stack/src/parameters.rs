//! Parameters as JSON, and read again.

use serde_json::{Value, json};
use wire::passive::{Parameter, ParameterValue, Parameters};

/// An array of an execute's values, of a bulk execute's an array of such arrays. What was not kept is an object that says so:
/// `{"binary": HEX}`, `{"bytes": LENGTH}` for long data and masked values, `{"default": true}`, `{"ignore": true}`,
/// `{"unknown": true}`; the last one `{"cut": true}` where more was sent than is kept.
#[must_use]
pub fn json(parameters: &Parameters, is_bulk: bool) -> Value {
    let row = |row: &Vec<Parameter>| {
        row.iter()
            .map(|parameter| value(&parameter.value))
            .collect()
    };
    let mut rows: Vec<Vec<Value>> = parameters.rows.iter().map(row).collect();
    let cut = json!({"cut": true});
    if is_bulk {
        let mut rows: Vec<Value> = rows.into_iter().map(Value::from).collect();
        if parameters.cut {
            rows.push(cut);
        }
        return rows.into();
    }
    let mut row = rows.drain(..).next().unwrap_or_default();
    if parameters.cut {
        row.push(cut);
    }
    row.into()
}

fn value(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Null => Value::Null,
        ParameterValue::Default => json!({"default": true}),
        ParameterValue::Ignore => json!({"ignore": true}),
        ParameterValue::Int(number) => json!(number),
        ParameterValue::UInt(number) => json!(number),
        ParameterValue::Float(number) => decimal(f64::from(*number), &number.to_string()),
        ParameterValue::Double(number) => decimal(*number, &number.to_string()),
        ParameterValue::Text(bytes) => json!(String::from_utf8_lossy(bytes)),
        ParameterValue::Binary(bytes) => json!({"binary": hex(bytes)}),
        ParameterValue::Long(length) | ParameterValue::Masked(length) => {
            json!({"bytes": length})
        }
        ParameterValue::Unknown => json!({"unknown": true}),
    }
}

/// The shortest digits that mean it; JSON has no infinity.
fn decimal(number: f64, digits: &str) -> Value {
    match digits.parse::<f64>() {
        Ok(parsed) if number.is_finite() => json!(parsed),
        _ => json!(digits),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`json`] has made. JSON has neither the types of parameters nor whether a number was short: integers and doubles come of it, and
/// a value of which the length is known is one that was not kept. None where it is something else.
#[must_use]
pub fn read(json: &Value, is_bulk: bool) -> Option<Parameters> {
    let all = json.as_array()?;
    let (cut, all) = match all.split_last() {
        Some((last, rest)) if last["cut"] == true => (true, rest),
        _ => (false, &all[..]),
    };
    let row = |row: &[Value]| row.iter().map(parameter).collect::<Option<Vec<_>>>();
    let rows = match is_bulk {
        true => {
            let rows = all.iter().map(|each| row(each.as_array()?));
            rows.collect::<Option<_>>()?
        }
        false => vec![row(all)?],
    };
    Some(Parameters { rows, cut })
}

fn parameter(json: &Value) -> Option<Parameter> {
    let value = match json {
        Value::Null => ParameterValue::Null,
        Value::String(text) => ParameterValue::Text(text.clone().into_bytes()),
        Value::Number(number) => {
            let signed = number.as_i64().map(ParameterValue::Int);
            let unsigned = || number.as_u64().map(ParameterValue::UInt);
            let double = || number.as_f64().map(ParameterValue::Double);
            signed.or_else(unsigned).or_else(double)?
        }
        Value::Object(object) => {
            let (what, value) = object.iter().next()?;
            match (what.as_str(), value) {
                ("default", Value::Bool(true)) => ParameterValue::Default,
                ("ignore", Value::Bool(true)) => ParameterValue::Ignore,
                ("unknown", Value::Bool(true)) => ParameterValue::Unknown,
                ("binary", Value::String(digits)) => ParameterValue::Binary(bytes(digits)?),
                ("bytes", length) => ParameterValue::Masked(length.as_u64()?),
                _ => return None,
            }
        }
        Value::Bool(_) | Value::Array(_) => return None,
    };
    Some(Parameter { kind: 0, value })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| match pair {
            [high, low] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
            }
            _ => None,
        })
        .collect()
}
