//! Parameters as JSON.

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
