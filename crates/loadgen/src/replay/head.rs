//! What a digest says of itself: which others it can be compared with.

use serde::{Deserialize, Serialize};

use super::digest::Likeness;
use super::trace::Trace;
use crate::failure::Failure;
use crate::session::{Knobs, Protocol, RowsMode};

/// What two digests must have in common to be comparable, and whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestHead {
    /// The trace's id, in hexadecimal.
    pub trace: String,
    /// How many requests were answered.
    pub requests: u64,
    /// Whether rows may come in any order.
    pub unordered: bool,
    /// Whether what two engines write differently counts as equal.
    pub lenient: bool,
    /// How the statements were sent, as far as answers depend on it.
    #[serde(flatten)]
    pub sent: Sent,
    /// `mysql` or `postgres`.
    pub family: String,
    /// As the server said it.
    pub version: String,
}

/// The knobs that a digest depends on: how much of each result was read, and what decides which columns the server tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the knobs")]
pub struct Sent {
    pub rows: RowsMode,
    pub protocol: Protocol,
    pub fetch_size: Option<u32>,
    pub metadata: bool,
    pub binary_results: bool,
}

impl From<Knobs> for Sent {
    fn from(knobs: Knobs) -> Self {
        Self {
            rows: knobs.rows,
            protocol: knobs.protocol,
            fetch_size: knobs.fetch_size,
            metadata: knobs.metadata,
            binary_results: knobs.binary_results,
        }
    }
}

impl Sent {
    /// The option that makes exact answers differ; lenient ones depend on `--rows` alone.
    fn differs(&self, earlier: &Self, lenient: bool) -> Option<&'static str> {
        let exact = [
            (self.protocol != earlier.protocol, "--protocol"),
            (self.fetch_size != earlier.fetch_size, "--fetch-size"),
            (self.metadata != earlier.metadata, "--metadata"),
            (
                self.binary_results != earlier.binary_results,
                "--binary-results",
            ),
        ];
        let rows = (self.rows != earlier.rows, "--rows");
        let all = std::iter::once(rows).chain(exact.into_iter().filter(|_| !lenient));
        all.into_iter()
            .find_map(|(differs, option)| differs.then_some(option))
    }
}

impl DigestHead {
    /// When answers of these two are equal.
    #[must_use]
    pub fn likeness(&self, earlier: &Self) -> Likeness {
        match (self.lenient, self.family == earlier.family) {
            (false, _) => Likeness::Exact,
            (true, true) => Likeness::OneFamily,
            (true, false) => Likeness::Lenient,
        }
    }

    /// Whether answers that are made as `self` says can be compared with those of an earlier digest of `trace`.
    ///
    /// # Errors
    /// The first thing that is not the same.
    pub fn check(&self, earlier: &Self, trace: &Trace) -> Result<(), Failure> {
        let other_trace =
            earlier.trace != trace.id_text() || earlier.requests != trace.ending.statements;
        let choice = if earlier.unordered != self.unordered {
            Some("--unordered")
        } else if earlier.lenient != self.lenient {
            Some("--lenient")
        } else {
            self.sent.differs(&earlier.sent, self.lenient)
        };
        let (what, hint) = if other_trace {
            (
                "of another trace".to_owned(),
                "replay the trace whose digest it is, or make the digest of this one first"
                    .to_owned(),
            )
        } else if let Some(option) = choice {
            (
                format!("with another choice of {option}"),
                format!("give the same {option} to both replays, or to none"),
            )
        } else if earlier.family != self.family && !self.lenient {
            (
                "on another engine".to_owned(),
                "give --lenient to both replays: two engines write the same values differently"
                    .to_owned(),
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(
            format!("the digest of --compare was made {what}"),
            hint,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_exact_answers_has_to_be_the_same() {
        let now = Sent::from(Knobs::default());
        let change = |change: fn(&mut Sent)| {
            let mut earlier = now;
            change(&mut earlier);
            [false, true].map(|lenient| now.differs(&earlier, lenient))
        };
        assert_eq!(change(|_| ()), [None; 2]);
        let rows = change(|sent| sent.rows = RowsMode::First);
        assert_eq!(rows, [Some("--rows"); 2]);
        for (differs, option) in [
            (change(|sent| sent.protocol = Protocol::Text), "--protocol"),
            (change(|sent| sent.fetch_size = Some(7)), "--fetch-size"),
            (change(|sent| sent.metadata = false), "--metadata"),
            (
                change(|sent| sent.binary_results = true),
                "--binary-results",
            ),
        ] {
            assert_eq!(differs, [Some(option), None]);
        }
    }
}
