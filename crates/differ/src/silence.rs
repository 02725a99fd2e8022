//! Requests that a server did not answer in time: how long each server took, and what follows from it for the patches.
//!
//! A server that waits for the machine, or for itself, may be silent for a while and answer after all. It is therefore waited for
//! longer than [`crate::peer::PATIENCE`]. What follows is decided by these rules, and by no others:
//!
//! - The patched server never answers, and stock does: wrong, whatever stock did elsewhere.
//! - The patched server answers late, and stock was not silent at that time, on this connection or on another one: wrong.
//! - Stock never answers: a hang, of which nothing follows for the patches.
//! - Whatever else is late is slow. The answers are compared as any others.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::witness::Said;

/// Whether a server answered. That a connection ends is an answer, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// Before anybody grew impatient.
    InTime,
    /// While it was waited for longer.
    Late,
    /// Not while it was waited for.
    Never,
}

/// How long a server was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waited {
    /// Whether it answered.
    pub came: Came,
    /// Since the request was sent. The patched server's answer is read after stock's: of it this is the most that it took.
    pub seconds: f64,
}

impl Waited {
    fn shown(self) -> String {
        match self.came {
            Came::Never => format!("no answer in {:.0} s", self.seconds),
            _ => format!("answered after {:.1} s", self.seconds),
        }
    }
}

/// A request that a server did not answer in time.
#[derive(Debug, Clone, Serialize)]
pub struct Silence {
    /// The request.
    #[serde(skip)]
    pub statement: String,
    /// When it was sent, in seconds of Unix time.
    pub sent_s: f64,
    /// How long stock took.
    pub stock: Waited,
    /// How long the patched server took.
    pub patched: Waited,
    /// What both servers said of themselves meanwhile.
    pub evidence: Vec<Said>,
}

impl Silence {
    /// For a reader.
    #[must_use]
    pub fn shown(&self) -> String {
        let (stock, patched) = (self.stock.shown(), self.patched.shown());
        format!("an answer is late: stock {stock}, the patched server {patched}")
    }

    /// Each server answered, one of them late.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.stock.came != Came::Never && self.patched.came != Came::Never
    }

    /// The patched server answered late, and stock was silent in none of these at that time.
    #[must_use]
    pub fn is_of_patched_alone<'a>(&self, mut all: impl Iterator<Item = &'a Self>) -> bool {
        let stock_was_silent = |other: &Self| {
            let begins_before = other.sent_s <= self.sent_s + self.patched.seconds;
            let ends_after = self.sent_s <= other.sent_s + other.stock.seconds;
            other.stock.came != Came::InTime && begins_before && ends_after
        };
        self.is_slow() && self.patched.came == Came::Late && !all.any(stock_was_silent)
    }
}

/// Seconds of Unix time.
#[must_use]
pub fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(sent_s: f64, stock: (Came, f64), patched: (Came, f64)) -> Silence {
        let waited = |(came, seconds)| Waited { came, seconds };
        Silence {
            statement: String::new(),
            sent_s,
            stock: waited(stock),
            patched: waited(patched),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn a_late_patched_server_is_alone_unless_stock_was_silent_at_that_time() {
        let late = silence(100.0, (Came::InTime, 0.1), (Came::Late, 30.0));
        let alone = |other: Silence| late.is_of_patched_alone([&late, &other].into_iter());
        assert!(late.is_of_patched_alone([&late].into_iter()));
        for stock in [Came::Late, Came::Never] {
            let stock_is_silent = |sent_s| silence(sent_s, (stock, 25.0), (Came::Late, 25.0));
            assert!(!alone(stock_is_silent(90.0)));
            assert!(!alone(stock_is_silent(129.0)));
            assert!(alone(stock_is_silent(70.0)));
            assert!(alone(stock_is_silent(131.0)));
        }
        // That the patched server was silent elsewhere, too, says nothing of stock.
        assert!(alone(silence(
            100.0,
            (Came::InTime, 0.1),
            (Came::Never, 80.0)
        )));
        let both = silence(100.0, (Came::Late, 21.0), (Came::Late, 30.0));
        assert!(!both.is_of_patched_alone([&both].into_iter()));
    }
}
