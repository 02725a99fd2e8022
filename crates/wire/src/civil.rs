//! Calendar dates from microseconds, without a time zone.

use std::fmt;

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// A point in time as a calendar and a clock show it; `Display` is SQL's text for it, with microseconds only where there are some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// Negative before our era.
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Microseconds of the second.
    pub micro: u32,
}

impl Civil {
    /// From microseconds since 1970-01-01 00:00:00.
    #[must_use]
    pub fn from_epoch_us(epoch_us: i64) -> Self {
        let of_day_us = epoch_us.rem_euclid(DAY_US);
        let seconds = of_day_us / SECOND_US;
        Self {
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            micro: (of_day_us % SECOND_US) as u32,
            ..Self::from_epoch_days(epoch_us.div_euclid(DAY_US))
        }
    }

    /// The beginning of a day, counted from 1970-01-01; a 32-bit number of days from any epoch fits. Years are counted from March, so
    /// that the leap day is a year's last.
    pub(crate) fn from_epoch_days(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * march_month + 2) / 5 + 1) as u8,
            hour: 0,
            minute: 0,
            second: 0,
            micro: 0,
        }
    }
}

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        )?;
        if self.micro > 0 {
            write!(f, ".{:06}", self.micro)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (epoch_us, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (951_782_400 * SECOND_US, "2000-02-29 00:00:00"),
            (1_709_251_199 * SECOND_US, "2024-02-29 23:59:59"),
            (
                1_709_251_200 * SECOND_US + 500,
                "2024-03-01 00:00:00.000500",
            ),
        ] {
            assert_eq!(Civil::from_epoch_us(epoch_us).to_string(), text);
        }
    }
}
