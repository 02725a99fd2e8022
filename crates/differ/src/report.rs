//! What a run found, as JSON on stdout.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::RULES;
use crate::lockstep::LOST;
use crate::silence::Silence;
use crate::step::Step;

/// The layout of the JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// Statements of one group.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Count {
    /// How many ran.
    pub statements: u64,
    /// How many both servers refused.
    pub errors: u64,
    /// Rows that they brought, of each server.
    pub rows: u64,
}

/// What follows from a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is the patched server's.
    Wrong,
    /// It did not come again, or stock has it with itself.
    #[default]
    Unsteady,
    /// Stock does not answer.
    Hang,
    /// A server answered late.
    Slow,
}

/// Two answers that are not equal, or one that did not come in time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// The request that showed it.
    pub statement: String,
    /// The fewest steps that were found to show it, for a reader; empty when it did not come again.
    pub script: String,
    /// The same for `upshift-differ replay`; the first one says of which client and in which database they ran.
    pub steps: Vec<Step>,
    /// It comes again from an empty database, and stock agrees with itself: what the patched server answers is another thing.
    pub steady: bool,
    /// The seed of the episode.
    pub seed: u64,
    /// Of a request that was not answered in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    /// As [`Report::judge`] says it.
    pub verdict: Verdict,
}

impl Difference {
    /// An answer that was late.
    #[must_use]
    pub fn late(silence: Silence, seed: u64) -> Self {
        Self {
            what: silence.shown(),
            statement: silence.statement.clone(),
            seed,
            silence: Some(silence),
            ..Self::default()
        }
    }

    /// Beside all differences of the run, this one among them.
    fn judged(&self, all: &[Self]) -> Verdict {
        let silences = || all.iter().filter_map(|each| each.silence.as_ref());
        match &self.silence {
            _ if self.steady || self.what.contains(LOST) => Verdict::Wrong,
            Some(silence) if silence.is_of_patched_alone(silences()) => Verdict::Wrong,
            Some(silence) if silence.is_slow() => Verdict::Slow,
            Some(_) => Verdict::Hang,
            None => self.verdict,
        }
    }
}

/// The result.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// mix, random, tests or replay.
    pub part: &'static str,
    /// Of the first episode.
    pub seed: u64,
    /// Requests sent to each server.
    pub statements: u64,
    /// By group.
    pub groups: BTreeMap<String, Count>,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// What was not equal.
    pub differences: Vec<Difference>,
    /// Those that the list allows.
    pub allowed: u64,
    /// What is left out of the comparison.
    pub rules: Vec<&'static str>,
}

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(part: &'static str, seed: u64) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            part,
            seed,
            rules: RULES.to_vec(),
            ..Self::default()
        }
    }

    /// How many differences are not stock's own.
    #[must_use]
    pub fn steady(&self) -> usize {
        self.differences.iter().filter(|each| each.steady).count()
    }

    /// How many of them count: those, connections that the patched server alone lost, and answers that came late from it alone.
    #[must_use]
    pub fn counted(&self) -> usize {
        let all = &self.differences;
        all.iter()
            .filter(|each| each.judged(all) == Verdict::Wrong)
            .count()
    }

    /// Note what follows from each difference, when there are all of them: an answer that was late on one connection is judged by
    /// what was silent on the others.
    pub fn judge(&mut self) {
        let all = &self.differences;
        let verdicts: Vec<Verdict> = all.iter().map(|each| each.judged(all)).collect();
        for (each, verdict) in self.differences.iter_mut().zip(verdicts) {
            each.verdict = verdict;
        }
    }

    /// Add what another has, and judge.
    pub fn add(&mut self, other: Self) {
        self.statements += other.statements;
        self.allowed += other.allowed;
        self.differences.extend(other.differences);
        for (name, count) in other.groups {
            let all = self.groups.entry(name).or_default();
            all.statements += count.statements;
            all.errors += count.errors;
            all.rows += count.rows;
        }
        self.judge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::silence::{Came, Waited};

    fn late(stock: (Came, f64), patched: (Came, f64)) -> Difference {
        let waited = |(came, seconds)| Waited { came, seconds };
        let silence = Silence {
            statement: "SELECT 1;".to_owned(),
            sent_s: 100.0,
            stock: waited(stock),
            patched: waited(patched),
            evidence: Vec::new(),
        };
        Difference::late(silence, 7)
    }

    fn judged(differences: Vec<Difference>) -> (Vec<Verdict>, usize) {
        let mut all = Report::new("random", 1);
        for each in differences {
            let mut one = Report::new("random", 1);
            one.differences.push(each);
            all.add(one);
        }
        let verdicts = all.differences.iter().map(|each| each.verdict);
        (verdicts.collect(), all.counted())
    }

    #[test]
    fn what_is_late_is_judged_by_what_was_silent_elsewhere() {
        use Verdict::{Hang, Slow, Unsteady, Wrong};
        let alone = || late((Came::InTime, 0.1), (Came::Late, 30.0));
        let both = || late((Came::Late, 30.0), (Came::Late, 30.0));
        let neither = || late((Came::Never, 80.0), (Came::Never, 99.0));
        assert_eq!(judged(vec![alone()]), (vec![Wrong], 1));
        assert_eq!(judged(vec![both()]), (vec![Slow], 0));
        assert_eq!(judged(vec![alone(), both()]), (vec![Slow, Slow], 0));
        assert_eq!(judged(vec![alone(), neither()]), (vec![Slow, Hang], 0));
        // That it never answered counts whatever stock did elsewhere.
        let never = Difference {
            what: format!("{LOST}: no answer"),
            ..late((Came::InTime, 0.1), (Came::Never, 80.0))
        };
        assert_eq!(judged(vec![never, neither()]), (vec![Wrong, Hang], 1));
        let hung_up = Difference {
            what: format!("SHOW WARNINGS after it: {LOST}: Broken pipe"),
            ..Difference::default()
        };
        assert_eq!(judged(vec![hung_up]), (vec![Wrong], 1));
        let by_itself = Difference::default();
        assert_eq!(judged(vec![by_itself, both()]), (vec![Unsteady, Slow], 0));
    }
}
