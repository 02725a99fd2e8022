//! The pauses of a recorded transaction, at the pace of a replay.

use std::time::Duration;

use super::choices::Pace;
use crate::session::Session;

/// When a transaction's next request is due.
pub(super) struct Pauses {
    /// So many times as fast as recorded; none: without pauses.
    times: Option<f64>,
    /// When the request before was answered, or left out.
    since_ns: u64,
}

impl Pauses {
    /// Of a transaction that begins now.
    pub(super) fn new(pace: Pace, session: &Session) -> Self {
        let times = match pace {
            Pace::Fast => None,
            Pace::Recorded(times) => Some(times),
        };
        Self {
            times,
            since_ns: times.map_or(0, |_| session.clock().now_ns()),
        }
    }

    /// Wait until the next request is due, so long after the answer before as when it was recorded.
    pub(super) fn wait(&mut self, pause: Duration, session: &Session) {
        let Some(times) = self.times else { return };
        if pause.is_zero() {
            return;
        }
        let pause = pause.div_f64(times).as_nanos();
        let pause_ns = u64::try_from(pause).unwrap_or(u64::MAX);
        // What --no-chatter leaves out has no answer: its pause is added to the one before.
        let since_ns = self.since_ns.max(session.answered_ns());
        self.since_ns = since_ns.saturating_add(pause_ns);
        session.pause_until(self.since_ns);
    }
}

#[cfg(test)]
mod tests;
