//! Values in PostgreSQL's text format, for parameters and for COPY.

use std::fmt::Write;

use crate::Value;

const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// The value added to `text`; `false`, and nothing added, for NULL.
pub(super) fn write(value: &Value, text: &mut String) -> bool {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::Null => return false,
        Value::Int(number) => write!(text, "{number}"),
        Value::Decimal { unscaled, scale } => write_decimal(*unscaled, *scale, text),
        Value::Text(characters) => text.write_str(characters),
        Value::Timestamp(time_us) => write_timestamp(*time_us, text),
    };
    true
}

/// A row of COPY's text format added to `text`, its line end included.
pub(super) fn write_copy_row(row: &[Value], text: &mut String) {
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            text.push('\t');
        }
        match value {
            Value::Text(characters) => write_escaped(characters, text),
            value => {
                if !write(value, text) {
                    text.push_str("\\N");
                }
            }
        }
    }
    text.push('\n');
}

fn write_escaped(characters: &str, text: &mut String) {
    for character in characters.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            character => text.push(character),
        }
    }
}

fn write_decimal(unscaled: i64, scale: u8, text: &mut String) -> std::fmt::Result {
    if scale == 0 {
        return write!(text, "{unscaled}");
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    write!(text, "{sign}{whole}.{fraction}")
}

/// Years outside of 1 to 9999 are written as they are, and PostgreSQL refuses them.
fn write_timestamp(time_us: i64, text: &mut String) -> std::fmt::Result {
    let (year, month, day) = date(time_us.div_euclid(DAY_US));
    let of_day_us = time_us.rem_euclid(DAY_US);
    let of_day_s = of_day_us / 1_000_000;
    write!(
        text,
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
        of_day_s / 3600,
        of_day_s / 60 % 60,
        of_day_s % 60,
        of_day_us % 1_000_000
    )
}

/// Year, month and day of the days since 1970-01-01, in the Gregorian calendar, counted in years that begin on 1 March so
/// that the leap day is the last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Value) -> String {
        let mut text = String::new();
        write(value, &mut text);
        text
    }

    #[test]
    fn numbers_and_times() {
        for (unscaled, scale, expected) in [
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (7, 0, "7"),
            (0, 1, "0.0"),
        ] {
            assert_eq!(text(&Value::Decimal { unscaled, scale }), expected);
        }
        for (time_us, expected) in [
            (0, "1970-01-01 00:00:00.000000"),
            (-1, "1969-12-31 23:59:59.999999"),
            (1_709_164_800_000_000, "2024-02-29 00:00:00.000000"),
            (4_107_542_400_000_000, "2100-03-01 00:00:00.000000"),
        ] {
            assert_eq!(text(&Value::Timestamp(time_us)), expected);
        }
    }

    #[test]
    fn a_copied_row_escapes_what_separates() {
        let mut line = String::new();
        let row = [
            Value::Text("a\tb\\\n".to_owned()),
            Value::Null,
            Value::Int(-3),
        ];
        write_copy_row(&row, &mut line);
        assert_eq!(line, "a\\tb\\\\\\n\t\\N\t-3\n");
    }
}
