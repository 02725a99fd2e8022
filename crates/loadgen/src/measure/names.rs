//! The names under which statements are reported.

use std::collections::HashMap;

use crate::session::{StatementId, StatementSpec};

/// Every name once, and which statement has which.
#[derive(Debug)]
pub struct Names {
    names: Vec<String>,
    by_statement: Vec<u16>,
}

impl Names {
    /// Logging in, with what the server needs to be told first.
    pub const CONNECT: u16 = 0;
    /// Preparing statements when they are first used.
    pub const PREPARE: u16 = 1;
    /// BEGIN.
    pub const BEGIN: u16 = 2;
    /// COMMIT.
    pub const COMMIT: u16 = 3;
    /// ROLLBACK.
    pub const ROLLBACK: u16 = 4;
    /// Round trips that ask for nothing.
    pub const PING: u16 = 5;
    /// Sessions made as they were after their login.
    pub const RESET: u16 = 6;
    /// USE, where statements ran in several databases.
    pub const USE: u16 = 7;

    /// The names of the load client's own requests, which no statement of a workload has.
    pub const FIXED: [&str; 8] = [
        "connect",
        "prepare",
        "begin",
        "commit",
        "rollback",
        "com_ping",
        "com_reset_connection",
        "use",
    ];

    /// More statements cannot be told apart: a name's number has two bytes.
    pub const STATEMENTS_MAX: usize = (1 << 16) - Self::FIXED.len();

    /// The names of a workload's statements, after the fixed ones.
    ///
    /// # Panics
    /// More than [`Self::STATEMENTS_MAX`] statements.
    #[must_use]
    pub fn new(statements: &[StatementSpec]) -> Self {
        let mut names: Vec<String> = Self::FIXED.iter().map(|&name| name.to_owned()).collect();
        let numbered = (0..).zip(Self::FIXED);
        let mut numbers: HashMap<&str, usize> = numbered.map(|(at, name)| (name, at)).collect();
        let by_statement = statements
            .iter()
            .map(|spec| {
                let place = *numbers.entry(&spec.name).or_insert_with(|| {
                    names.push(spec.name.clone());
                    names.len() - 1
                });
                u16::try_from(place).expect("no more statements than can be told apart")
            })
            .collect();
        Self {
            names,
            by_statement,
        }
    }

    /// The number of a statement's name.
    #[must_use]
    pub fn of(&self, id: StatementId) -> u16 {
        self.by_statement[usize::from(id.0)]
    }

    /// All names, in the order of their numbers.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.names
    }

    /// Whether a name stands for work that the user asked for, not for the making of connections and statements.
    #[must_use]
    pub fn is_work(number: u16) -> bool {
        number != Self::CONNECT && number != Self::PREPARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_statements_as_are_allowed_have_names() {
        let specs: Vec<StatementSpec> = (0..Names::STATEMENTS_MAX)
            .map(|number| StatementSpec::new(format!("s{number}"), "SELECT 1"))
            .collect();
        let names = Names::new(&specs);
        let last = StatementId(specs.len() as u16 - 1);
        assert_eq!(names.of(last), u16::MAX);
        assert_eq!(names.all().len(), 1 << 16);
    }
}
