//! How a trace is to be replayed.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;

use super::feed::Order;

/// When a replay's transactions begin, and how long they pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each when the one before it on its connection has ended.
    Fast,
    /// So many times as fast as they were recorded: after the first by that part of the recorded time, or as soon after that as a
    /// connection is free and their order lets them. So do the pauses between their requests last.
    Recorded(f64),
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fast" => return Ok(Self::Fast),
            "recorded" => return Ok(Self::Recorded(1.0)),
            _ => {}
        }
        let times = text.strip_suffix('x').and_then(|times| times.parse().ok());
        let times = times.filter(|times| (0.001..=1000.0).contains(times));
        let times = times.map(Self::Recorded);
        times.ok_or_else(|| {
            "fast, recorded, or a multiple of the recorded pace from 0.001x to 1000x".to_owned()
        })
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fast => formatter.write_str("fast"),
            Self::Recorded(times) if *times == 1.0 => formatter.write_str("recorded"),
            Self::Recorded(times) => write!(formatter, "{times}x"),
        }
    }
}

/// Whether a trace begins again at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Only a trace that changes nothing, so that each lap has the same answers.
    Reads,
    /// Any trace.
    Always,
}

/// How a trace is to be replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choices {
    /// Which transactions wait for which.
    pub order: Order,
    /// When transactions begin.
    pub pace: Pace,
    /// Whether it begins again at its end.
    pub loops: Option<Loop>,
    /// Rows may come in any order.
    pub unordered: bool,
    /// What two engines write differently counts as equal.
    pub lenient: bool,
    /// Requests about the session are sent: pings, resets, and statements that set or ask it.
    pub chatter: bool,
    /// A recorded connection begins with a login of its own.
    pub reconnect: bool,
    /// Connections go to the database that each statement ran in.
    pub follows: bool,
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn a_pace_is_a_word_or_a_multiple() {
        for (text, pace, told) in [
            ("fast", Pace::Fast, "fast"),
            ("recorded", Pace::Recorded(1.0), "recorded"),
            ("1x", Pace::Recorded(1.0), "recorded"),
            ("2x", Pace::Recorded(2.0), "2x"),
            ("0.5x", Pace::Recorded(0.5), "0.5x"),
        ] {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string(), told);
        }
        for wrong in ["", "x", "2", "0x", "-1x", "1001x", "NaNx", "slow"] {
            assert!(wrong.parse::<Pace>().is_err(), "{wrong}");
        }
    }
}
