//! Times as logs write them.

const SECOND_NS: i64 = 1_000_000_000;
/// The last whole year that 64 bits of nanoseconds reach.
const YEAR_MAX: i64 = 2261;

/// A time, and the name of its clock where that may be another one than UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) at_ns: u64,
    pub(super) clock: Option<String>,
}

/// `2026-11-23T07:50:22.926772Z`, `2026-11-23 08:51:10.108 CET`, `2026-11-23T08:50:22.926772+01:00`.
pub(super) fn time(text: &str) -> Option<Shown> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut days = date.splitn(3, '-').map(number);
    let (year, month, day) = (days.next()??, days.next()??, days.next()??);
    let end = rest
        .find(|sign: char| !sign.is_ascii_digit() && sign != ':' && sign != '.')
        .unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(end);
    of_day(year, month, day, clock)?.within(zone.trim())
}

/// MariaDB's `261123  7:51:06`, which says no zone.
pub(super) fn short_time(text: &str) -> Option<Shown> {
    let (date, clock) = text.split_once(' ')?;
    if date.len() != 6 || !date.is_ascii() {
        return None;
    }
    let two = |from: usize| number(&date[from..from + 2]);
    let (year, month, day) = (2000 + two(0)?, two(2)?, two(4)?);
    of_day(year, month, day, clock.trim())?.within("local time")
}

/// Seconds since 1970, with or without a fraction.
pub(super) fn epoch(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let at_ns = number(seconds)?.checked_mul(SECOND_NS)?;
    u64::try_from(at_ns.checked_add(fraction_ns(fraction)?)?).ok()
}

/// No statement takes so long: 31 years. Some servers write 2^64 microseconds where their clock was set back.
const SPAN_NS_MAX: f64 = 1e18;

/// A number of seconds or milliseconds, `unit_ns` each, such as `0.000108`.
pub(super) fn span_ns(text: &str, unit_ns: f64) -> Option<u64> {
    let span_ns = text.parse::<f64>().ok()? * unit_ns;
    (0.0..=SPAN_NS_MAX)
        .contains(&span_ns)
        .then(|| span_ns.round() as u64)
}

/// Nanoseconds since 1970 on the clock that was read.
struct OnClock(i64);

impl OnClock {
    fn within(self, zone: &str) -> Option<Shown> {
        let is_name = |zone: &str| {
            let mut signs = zone.chars();
            signs.all(|sign| sign.is_ascii_alphanumeric() || " _/+-".contains(sign))
                && zone.starts_with(|sign: char| sign.is_ascii_alphabetic())
        };
        let (offset_s, clock) = match zone {
            "Z" | "UTC" | "GMT" => (0, None),
            // Names of zones are not unique.
            _ if is_name(zone) => (0, Some(zone.to_owned())),
            _ => (offset_s(zone)?, None),
        };
        let at_ns = u64::try_from(self.0 - offset_s * SECOND_NS).ok()?;
        Some(Shown { at_ns, clock })
    }
}

fn of_day(year: i64, month: i64, day: i64, clock: &str) -> Option<OnClock> {
    if !(1970..=YEAR_MAX).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
    {
        return None;
    }
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.splitn(3, ':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(OnClock(seconds * SECOND_NS + fraction_ns(fraction)?))
}

/// Days since 1970; years are counted from March, so that the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn offset_s(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    // `+01:00`, `-03`, and `+0545`, which is how zones without a name are shown.
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() == 4 && rest.is_ascii() => rest.split_at(2),
        None => (rest, "0"),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 24 && minutes < 60).then(|| sign * (hours * 3600 + minutes * 60))
}

fn fraction_ns(digits: &str) -> Option<i64> {
    if digits.len() > 9 {
        return None;
    }
    match digits {
        "" => Some(0),
        _ => Some(number(digits)? * 10_i64.pow(9 - digits.len() as u32)),
    }
}

fn number(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_servers_write_them() {
        for (text, at_ns, clock) in [
            (
                "2026-11-23T07:50:22.926772Z",
                1_795_420_222_926_772_000,
                None,
            ),
            (
                "2026-11-23T08:50:22.926772+01:00",
                1_795_420_222_926_772_000,
                None,
            ),
            ("2026-11-23 07:50:22 UTC", 1_795_420_222_000_000_000, None),
            (
                "2026-11-23 08:51:10.108 CET",
                1_795_423_870_108_000_000,
                Some("CET"),
            ),
            ("2024-02-29 00:00:00.5 +00", 1_709_164_800_500_000_000, None),
            // Zones without a name, as in Asia/Kathmandu and America/Sao_Paulo.
            (
                "2026-11-23 13:36:10.108 +0545",
                1_795_420_270_108_000_000,
                None,
            ),
            (
                "2026-11-23 04:51:10.108 -03",
                1_795_420_270_108_000_000,
                None,
            ),
        ] {
            let clock = clock.map(str::to_owned);
            assert_eq!(time(text), Some(Shown { at_ns, clock }), "{text}");
        }
        let shown = short_time("261123  7:51:06").expect("a time");
        assert_eq!(shown.at_ns, 1_795_420_266_000_000_000);
        assert_eq!(shown.clock.as_deref(), Some("local time"));
        assert_eq!(epoch("1795420276.879"), Some(1_795_420_276_879_000_000));
        assert_eq!(span_ns("0.000108", 1e9), Some(108_000));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "2026-11-23",
            "2026-13-01 00:00:00",
            "2026-1",
            "T",
            "1-2-3 4:5:6",
            "2026-11-23 25:00:00",
            "9999-12-31 23:59:59 UTC",
            "2026-11-23 07:51:10 +999999999999999999",
            "2026-11-23 07:51:10 +99",
            "2026-11-23 07:51:10 +1:2:3",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
        for text in ["", "261123", "ü61123 7:51:06", "261323  7:51:06"] {
            assert_eq!(short_time(text), None, "{text}");
        }
        assert_eq!(epoch("12x"), None);
        assert_eq!(span_ns("-1", 1e9), None);
        // A server whose clock was set back subtracts below zero.
        assert_eq!(span_ns("18446744073.709551", 1e9), None);
    }
}
