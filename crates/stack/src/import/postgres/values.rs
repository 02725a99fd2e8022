//! Parameters as PostgreSQL logs them.

use wire::passive::{Parameter, ParameterValue};

/// The values of `parameters: $1 = '16786', $2 = NULL`; none where the detail is another one.
pub(super) fn values(detail: &[u8]) -> Option<Vec<Parameter>> {
    let mut rest = detail
        .strip_prefix(b"parameters: ")
        .or_else(|| detail.strip_prefix(b"Parameters: "))?;
    let mut found = Vec::new();
    loop {
        let at = rest.windows(3).position(|window| window == b" = ")?;
        rest = &rest[at + 3..];
        let (value, after) = match rest.strip_prefix(b"NULL") {
            Some(after) => (ParameterValue::Null, after),
            None => quoted(rest)?,
        };
        // Nobody says the type: the value is the server's text for it.
        found.push(Parameter { kind: 0, value });
        match after.strip_prefix(b", ") {
            Some(next) => rest = next,
            None => return Some(found),
        }
    }
}

/// A text in quotes, of which two stand for one, and what follows it.
fn quoted(text: &[u8]) -> Option<(ParameterValue, &[u8])> {
    let mut rest = text.strip_prefix(b"'")?;
    let mut value = Vec::new();
    loop {
        let at = rest.iter().position(|byte| *byte == b'\'')?;
        value.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix(b"'") {
            Some(next) => {
                value.push(b'\'');
                rest = next;
            }
            None => break,
        }
    }
    let value = match std::str::from_utf8(&value) {
        // Of a value longer than log_parameter_max_length this stands behind its begin.
        _ if value.ends_with(b"...") => ParameterValue::Unknown,
        Ok(_) => ParameterValue::Text(value),
        Err(_) => ParameterValue::Binary(value),
    };
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(detail: &str) -> Option<Vec<ParameterValue>> {
        let found = values(detail.as_bytes())?;
        Some(found.into_iter().map(|each| each.value).collect())
    }

    #[test]
    fn values_are_read_as_they_are_quoted() {
        let text = |text: &str| ParameterValue::Text(text.into());
        for (detail, expected) in [
            (
                "parameters: $1 = '4', $2 = NULL",
                vec![text("4"), ParameterValue::Null],
            ),
            (
                "Parameters: $1 = 'it''s, $2 = x', $2 = ''",
                vec![text("it's, $2 = x"), text("")],
            ),
            // With log_parameter_max_length=4.
            (
                "parameters: $1 = 'it''s...', $2 = '4', $3 = 'a..'",
                vec![ParameterValue::Unknown, text("4"), text("a..")],
            ),
        ] {
            assert_eq!(shown(detail), Some(expected), "{detail}");
        }
        for detail in [
            "",
            "prepare: prepare p(int) as select $1",
            "parameters: ",
            "parameters: $1 = 'x",
            "parameters: $1 = 5",
        ] {
            assert_eq!(shown(detail), None, "{detail}");
        }
    }
}
