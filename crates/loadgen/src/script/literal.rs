//! Values as they stand in a file, as parameters have them.

use toml::de::DeValue;
use toml::value::{Date, Datetime, Time};
use wire::Value;

use super::keys::{Found, integer};
use super::problem::Problems;

const DAY_US: i64 = 86_400_000_000;
const SECOND_US: i64 = 1_000_000;

/// What the whole numbers of a range stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Integer,
    /// So many digits after the point.
    Decimal(u8),
    /// Days since 1970-01-01.
    Days,
    /// Seconds since 1970-01-01 00:00:00.
    Seconds,
}

impl Scale {
    pub(super) fn value(self, number: i64) -> Value {
        match self {
            Self::Integer => Value::Int(number),
            Self::Decimal(scale) => Value::Decimal {
                unscaled: number,
                scale,
            },
            Self::Days => Value::Timestamp(number * DAY_US),
            Self::Seconds => Value::Timestamp(number * SECOND_US),
        }
    }
}

/// A value that stands for itself.
pub(super) fn literal(value: Found<'_>, name: &str, problems: &mut Problems) -> Option<Value> {
    let found = match value.get_ref() {
        DeValue::String(text) => Some(Value::Text(text.clone().into_owned())),
        DeValue::Integer(_) => integer(value.get_ref()).map(Value::Int),
        DeValue::Float(number) => {
            decimal(number.as_str()).map(|(unscaled, scale)| Value::Decimal { unscaled, scale })
        }
        DeValue::Datetime(moment) => epoch_us(moment).map(Value::Timestamp),
        DeValue::Boolean(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    };
    if found.is_none() {
        let kind = value.get_ref().type_str();
        problems.error(
            value.span().start,
            format!("the value of {name} cannot be a parameter: {kind}"),
            "values are texts in quotes, whole numbers of 64 bits, numbers with a point and up to 18 digits, dates, and dates with times; \
             write TRUE, FALSE and NULL into the statement",
        );
    }
    found
}

/// The ends of a range as whole numbers, and what those stand for; none where they are no two of a type.
pub(super) fn point(low: &DeValue<'_>, high: &DeValue<'_>) -> Option<(i64, i64, Scale)> {
    match (low, high) {
        (DeValue::Integer(_), DeValue::Integer(_)) => {
            Some((integer(low)?, integer(high)?, Scale::Integer))
        }
        (DeValue::Datetime(low), DeValue::Datetime(high)) => {
            let ends = (epoch_us(low)?, epoch_us(high)?);
            if low.time.is_none() && high.time.is_none() {
                return Some((ends.0 / DAY_US, ends.1 / DAY_US, Scale::Days));
            }
            Some((
                ends.0.div_euclid(SECOND_US),
                ends.1.div_euclid(SECOND_US),
                Scale::Seconds,
            ))
        }
        _ => {
            let (low, low_scale) = written(low)?;
            let (high, high_scale) = written(high)?;
            let scale = low_scale.max(high_scale);
            let wide = |unscaled: i64, from: u8| {
                unscaled.checked_mul(10_i64.checked_pow(u32::from(scale - from))?)
            };
            let ends = (wide(low, low_scale)?, wide(high, high_scale)?);
            Some((ends.0, ends.1, Scale::Decimal(scale)))
        }
    }
}

/// A number's digits, and how many of them stand after the point.
fn written(value: &DeValue<'_>) -> Option<(i64, u8)> {
    match value {
        DeValue::Float(number) => decimal(number.as_str()),
        whole => Some((integer(whole)?, 0)),
    }
}

/// `-12.50` is -1250 with two digits after the point.
fn decimal(text: &str) -> Option<(i64, u8)> {
    let (whole, fraction) = text.split_once('.')?;
    let unscaled = format!("{whole}{fraction}").parse().ok()?;
    Some((unscaled, u8::try_from(fraction.len()).ok()?))
}

/// The whole part of a number, also of one in a text: a DOUBLE of a row is one. 0 for a negative number; none for what is no number.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => Some(u64::try_from(*number).unwrap_or(0)),
        Value::UInt(number) => Some(*number),
        Value::Decimal { unscaled, scale } => {
            let parts = 10_i64.checked_pow(u32::from(*scale));
            let whole = parts.map_or(0, |parts| unscaled / parts);
            Some(u64::try_from(whole).unwrap_or(0))
        }
        Value::Text(text) => {
            let text = text.trim();
            let number = || text.parse().ok().filter(|number: &f64| number.is_finite());
            text.parse()
                .ok()
                .or_else(|| number().map(|number| number as u64))
        }
        Value::Null | Value::Double(_) | Value::Bytes(_) | Value::Timestamp(_) => None,
    }
}

/// Whether a value of a file is a whole number, however it is written.
pub(super) fn is_whole(value: &Value) -> bool {
    match value {
        Value::Int(_) | Value::UInt(_) => true,
        Value::Decimal { unscaled, scale } => {
            let parts = 10_i64.checked_pow(u32::from(*scale));
            parts.is_some_and(|parts| unscaled % parts == 0)
        }
        Value::Text(text) => text.trim().parse::<i64>().is_ok(),
        Value::Null | Value::Double(_) | Value::Bytes(_) | Value::Timestamp(_) => false,
    }
}

/// Microseconds since 1970-01-01 00:00:00; none for what has a zone or no date.
fn epoch_us(moment: &Datetime) -> Option<i64> {
    let Datetime {
        date: Some(date),
        time,
        offset: None,
    } = moment
    else {
        return None;
    };
    Some(days(date) * DAY_US + time.as_ref().map_or(0, time_us))
}

fn time_us(time: &Time) -> i64 {
    let seconds = i64::from(time.hour) * 3600
        + i64::from(time.minute) * 60
        + i64::from(time.second.unwrap_or(0));
    seconds * SECOND_US + i64::from(time.nanosecond.unwrap_or(0)) / 1000
}

/// Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that the leap day is their last.
fn days(date: &Date) -> i64 {
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    let year = i64::from(date.year) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_since_1970() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2026-11-23", 20_780),
        ] {
            let date = text.parse::<Datetime>().expect("a date").date;
            assert_eq!(days(&date.expect("a date")), expected, "{text}");
        }
        let moment = "2000-01-01 00:00:01.5".parse().expect("a moment");
        assert_eq!(epoch_us(&moment), Some(946_684_801_500_000));
        let zoned = "2000-01-01T00:00:00Z".parse().expect("a moment");
        assert_eq!(epoch_us(&zoned), None);
    }

    #[test]
    fn a_number_counts_by_its_whole_part() {
        let text = |text: &str| Value::Text(text.to_owned());
        let decimal = |unscaled, scale| Value::Decimal { unscaled, scale };
        for (value, rounds, has_no_part) in [
            (Value::Int(3), Some(3), true),
            (Value::Int(-3), Some(0), true),
            (Value::UInt(u64::MAX), Some(u64::MAX), true),
            (decimal(30_000, 4), Some(3), true),
            (decimal(39_999, 4), Some(3), false),
            (decimal(-15, 1), Some(0), false),
            (decimal(1, 255), Some(0), false),
            (text(" 3 "), Some(3), true),
            (text("3.9"), Some(3), false),
            (text("1e2"), Some(100), false),
            (text("-1"), Some(0), true),
            (text("inf"), None, false),
            (text("many"), None, false),
            (Value::Null, None, false),
        ] {
            assert_eq!(whole(&value), rounds, "{value:?}");
            assert_eq!(is_whole(&value), has_no_part, "{value:?}");
        }
    }

    #[test]
    fn a_decimal_keeps_its_digits() {
        assert_eq!(decimal("-12.50"), Some((-1250, 2)));
        assert_eq!(decimal("+0.05"), Some((5, 2)));
        for none in ["1e5", "1.5e3", "inf", "nan", "99999999999.9999999999"] {
            assert_eq!(decimal(none), None, "{none}");
        }
    }
}
