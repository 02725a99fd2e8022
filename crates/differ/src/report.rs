//! What a run found, as JSON on stdout.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::RULES;
use crate::lockstep::LOST;
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

/// Two answers that are not equal.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// The request that showed it.
    pub statement: String,
    /// The fewest steps that were found to show it, for a reader; empty when it did not come again.
    pub script: String,
    /// The same for `upshift-differ replay`.
    pub steps: Vec<Step>,
    /// It comes again from an empty database, and stock agrees with itself: what the patched server answers is another thing.
    pub steady: bool,
    /// The seed of the episode.
    pub seed: u64,
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

    /// How many of them count: those, and connections that the patched server alone lost.
    #[must_use]
    pub fn counted(&self) -> usize {
        let counts = |each: &&Difference| each.steady || each.what.contains(LOST);
        self.differences.iter().filter(counts).count()
    }

    /// Add what another has.
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
    }
}
