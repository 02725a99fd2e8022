//! The steps of a file: statements, and groups of them that are repeated.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use toml::de::DeValue;
use wire::Dialect;

use super::keys::{Found, Keys, integer, wrong_type};
use super::problem::{Problems, suggestion};
use super::variable::{Drawn, Source, Variable};
use crate::measure::Names;
use crate::session::{StatementId, StatementSpec};

/// Rounds of one repeat.
const ROUNDS_MAX: i64 = 1 << 32;

/// What is run, so many times.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) repeat: Repeat,
    /// Variables that are drawn anew before each round.
    pub(super) redraw: Vec<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Statement(Statement),
    Group(Vec<Step>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Times(u64),
    /// As often as this variable says.
    Variable(usize),
}

/// A use of a statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) id: StatementId,
    /// The variables of its parameters, in order.
    pub(super) parameters: Vec<usize>,
    /// The variables that take the columns of its first row.
    pub(super) into: Vec<usize>,
    pub(super) no_row: NoRow,
    /// How often it returned no row for `into`.
    pub(super) missed: AtomicU64,
}

/// What becomes of the variables of `into` without a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRow {
    /// They are NULL.
    Null,
    /// The transaction ends here.
    End,
}

/// Statements by their ids, and where they stand in the file, in bytes.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) specs: Vec<StatementSpec>,
    pub(super) places: Vec<Place>,
}

#[derive(Debug)]
pub(super) struct Place {
    /// `statement 2 of transaction pay`.
    pub(super) what: String,
    pub(super) at: usize,
    /// How many columns its `into` takes.
    pub(super) into: usize,
}

/// What all lists of steps of a file are read with.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) dialect: Dialect,
    pub(super) variables: Vec<Variable>,
    /// By variable.
    pub(super) used: BTreeSet<usize>,
    pub(super) problems: Problems,
    pub(super) statements: Statements,
}

/// The list of steps that is being read.
struct List<'l> {
    /// `transaction pay`, `prepare`.
    what: &'l str,
    /// What the statements' names begin with.
    name: &'l str,
    /// Statements so far.
    count: usize,
    /// Variables that have a value from a row by now.
    given: BTreeSet<usize>,
    /// BEGIN and COMMIT are the file's keys, not statements.
    bounded: bool,
}

impl Reader<'_> {
    /// Read a list of steps.
    pub(super) fn steps(
        &mut self,
        listed: &[Found<'_>],
        what: &str,
        name: &str,
        bounded: bool,
    ) -> Vec<Step> {
        let mut list = List {
            what,
            name,
            count: 0,
            given: BTreeSet::new(),
            bounded,
        };
        self.all(listed, &mut list)
    }

    fn all(&mut self, listed: &[Found<'_>], list: &mut List<'_>) -> Vec<Step> {
        let steps = listed.iter().map(|value| self.step(value, list));
        steps.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn step(&mut self, value: Found<'_>, list: &mut List<'_>) -> Option<Step> {
        if let DeValue::String(sql) = value.get_ref() {
            let kind = Kind::Statement(self.statement(value, sql, None, list)?);
            return Some(Step {
                kind,
                repeat: Repeat::Times(1),
                redraw: Vec::new(),
            });
        }
        let DeValue::Table(table) = value.get_ref() else {
            let wanted = "a statement in quotes, or { sql = \"...\" } with more keys";
            wrong_type(
                value,
                "a statement",
                wanted,
                value.get_ref(),
                &mut self.problems,
            );
            return None;
        };
        let mut keys = Keys::new(table, value.span().start);
        let repeat = self.repeat(&mut keys, list);
        let redraw = self.redraw(&mut keys);
        let (sql, group) = (keys.get("sql"), keys.list("statements", &mut self.problems));
        let kind = match (sql, group) {
            (Some(sql), None) => match sql.get_ref() {
                DeValue::String(words) => self
                    .statement(sql, words, Some(&mut keys), list)
                    .map(Kind::Statement),
                other => {
                    wrong_type(sql, "sql", "text in quotes", other, &mut self.problems);
                    None
                }
            },
            (None, Some((place, group))) => {
                if group.is_empty() {
                    let at = place.span().start;
                    let hint = "write them, or leave the group out";
                    self.problems.error(at, "a group has no statements", hint);
                }
                Some(Kind::Group(self.all(&group, list)))
            }
            _ => {
                let hint = "sql is one statement, statements a list that is repeated as a whole";
                let message = "a step has either sql or statements";
                self.problems.error(keys.at, message, hint);
                // Its other keys may be right.
                return None;
            }
        };
        keys.end(&mut self.problems);
        Some(Step {
            kind: kind?,
            repeat,
            redraw,
        })
    }

    fn statement(
        &mut self,
        value: Found<'_>,
        sql: &str,
        keys: Option<&mut Keys<'_>>,
        list: &mut List<'_>,
    ) -> Option<Statement> {
        list.count += 1;
        let at = value.span().start;
        let mut spec = StatementSpec::new(format!("{}.{}", list.name, list.count), "");
        let (mut into, mut no_row) = (Vec::new(), NoRow::Null);
        let (parameters, text) = self.parameters(value, sql, list);
        spec.sql = text;
        self.check_words(at, sql, list.bounded);
        if let Some(keys) = keys {
            if let Some(name) = keys.text("name", &mut self.problems) {
                if name.is_empty() || Names::FIXED.contains(&name) {
                    let hint = format!("{} have them", Names::FIXED.join(", "));
                    self.problems
                        .error(at, format!("no statement can be named {name:?}"), hint);
                }
                name.clone_into(&mut spec.name);
            }
            let rows = [("all", false), ("first", true)];
            if keys.word("rows", &rows, &mut self.problems) {
                spec = spec.first_row();
            }
            let words = [("null", NoRow::Null), ("end", NoRow::End)];
            no_row = keys.word("no_row", &words, &mut self.problems);
            into = self.into(keys, list);
        }
        let count = self.statements.specs.len();
        let id = u16::try_from(count).ok();
        let id = id.filter(|_| count < Names::STATEMENTS_MAX);
        if id.is_none() {
            let message = format!("there are more than {} statements", Names::STATEMENTS_MAX);
            let hint = "use fewer; a file is one load";
            self.problems.error(at, message, hint);
        }
        self.statements.specs.push(spec);
        self.statements.places.push(Place {
            what: format!("statement {} of {}", list.count, list.what),
            at,
            into: into.len(),
        });
        Some(Statement {
            id: StatementId(id?),
            parameters,
            into,
            no_row,
            missed: AtomicU64::new(0),
        })
    }

    /// The variables of a statement's parameters, and its text with a `?` for each.
    fn parameters(&mut self, value: Found<'_>, sql: &str, list: &List<'_>) -> (Vec<usize>, String) {
        let mut ranges = Vec::new();
        self.dialect.parameters(sql, |range| ranges.push(range));
        // Its characters stand in the file as they are, unless some are escaped.
        let span = value.span();
        let written = self.text.get(span.clone()).unwrap_or_default();
        let begin = written.find(sql).map(|skipped| span.start + skipped);
        let (mut parameters, mut text, mut copied) = (Vec::new(), String::new(), 0);
        for range in ranges {
            let at = begin.map_or(span.start, |begin| begin + range.start);
            text.push_str(&sql[copied..range.start]);
            text.push('?');
            copied = range.end;
            match sql[range].strip_prefix(':') {
                Some(name) => parameters.extend(self.variable(name, at, list)),
                None => self.problems.error(
                    at,
                    "a ? stands for no variable",
                    "write :name; operators with a question mark cannot be used here",
                ),
            }
        }
        text.push_str(&sql[copied..]);
        (parameters, text)
    }

    /// A variable whose value is used.
    fn variable(&mut self, name: &str, at: usize, list: &List<'_>) -> Option<usize> {
        let Some(place) = self.named(name) else {
            let all = self.variables.iter().map(|variable| variable.name.as_str());
            let hint = suggestion(name, all);
            let message = format!("there is no variable {name}");
            self.problems.error(at, message, hint);
            return None;
        };
        let variable = &self.variables[place];
        if variable.source == Source::Rows && !list.given.contains(&place) {
            let message = format!("{name} has no value: no statement before this one gives it");
            let hint = "the statement whose into gives it stands before, in the same transaction; \
                        or give it a first value in [variables]";
            self.problems.error(at, message, hint);
        }
        self.used.insert(place);
        Some(place)
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|known| known.name == name)
    }

    /// `into = ["owner"]`: a variable of the file, or a new one.
    fn into(&mut self, keys: &mut Keys<'_>, list: &mut List<'_>) -> Vec<usize> {
        let mut into = Vec::new();
        for (name, at) in self.names(keys, "into") {
            let place = self.named(&name).unwrap_or_else(|| {
                self.variables.push(Variable {
                    name: name.clone(),
                    at,
                    source: Source::Rows,
                    drawn: Drawn::Transaction,
                });
                self.variables.len() - 1
            });
            if self.variables[place].drawn == Drawn::Use {
                let message = format!("{name} keeps no value: it is drawn anew at each use");
                let hint = "leave draw = \"use\" out, or name another variable";
                self.problems.error(at, message, hint);
            }
            list.given.insert(place);
            into.push(place);
        }
        into
    }

    fn redraw(&mut self, keys: &mut Keys<'_>) -> Vec<usize> {
        let mut redraw = Vec::new();
        for (name, at) in self.names(keys, "redraw") {
            let place = self.named(&name);
            let source = place.map(|place| &self.variables[place].source);
            match (place, source) {
                (Some(place), Some(source))
                    if !matches!(source, Source::Rows | Source::Constant(_)) =>
                {
                    redraw.push(place);
                }
                _ => {
                    let drawn = self.variables.iter();
                    let drawn = drawn
                        .filter(|one| !matches!(one.source, Source::Rows | Source::Constant(_)))
                        .map(|one| one.name.as_str());
                    let hint = suggestion(&name, drawn);
                    let message = format!("no variable {name} is drawn");
                    self.problems.error(at, message, hint);
                }
            }
        }
        redraw
    }

    /// A list of names, with their places.
    fn names(&mut self, keys: &mut Keys<'_>, key: &'static str) -> Vec<(String, usize)> {
        let listed = keys.list(key, &mut self.problems);
        let mut names = Vec::new();
        for value in listed.map_or_else(Vec::new, |(_, listed)| listed) {
            match value.get_ref().as_str() {
                Some(name) => names.push((name.to_owned(), value.span().start)),
                None => wrong_type(
                    value,
                    key,
                    "a list of variables' names in quotes",
                    value.get_ref(),
                    &mut self.problems,
                ),
            }
        }
        names
    }

    /// `repeat = 3` or `repeat = "lines"`.
    fn repeat(&mut self, keys: &mut Keys<'_>, list: &List<'_>) -> Repeat {
        let Some(value) = keys.get("repeat") else {
            return Repeat::Times(1);
        };
        let at = value.span().start;
        if let Some(name) = value.get_ref().as_str() {
            let variable = self.variable(name, at, list);
            if let Some(place) = variable {
                self.check_count(place, at, list);
            }
            return variable.map_or(Repeat::Times(1), Repeat::Variable);
        }
        let times = integer(value.get_ref()).filter(|times| (1..=ROUNDS_MAX).contains(times));
        if times.is_none() {
            let hint =
                format!("it is a number from 1 to {ROUNDS_MAX}, or a variable's name in quotes");
            self.problems
                .error(at, "the value of repeat is invalid", hint);
        }
        Repeat::Times(times.unwrap_or(1) as u64)
    }

    /// A variable that no row gives has to be a number of rounds.
    fn check_count(&mut self, place: usize, at: usize, list: &List<'_>) {
        let Variable {
            name,
            source,
            drawn,
            ..
        } = &self.variables[place];
        // A row may give it later, and a connection keeps that.
        let is_given = list.given.contains(&place) || *drawn == Drawn::Connection;
        if !is_given && !source.can_count() {
            let message = format!("{name} is no number of rounds for repeat");
            let hint =
                "draw it from whole numbers, such as { uniform = [1, 3] } or { one_of = [1, 2] }";
            self.problems.error(at, message, hint);
        }
    }

    fn check_words(&mut self, at: usize, sql: &str, bounded: bool) {
        let mut words = sql.split(|letter: char| !letter.is_ascii_alphanumeric());
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default().to_uppercase();
        let second = words.next().unwrap_or_default().to_uppercase();
        if sql.trim().is_empty() {
            let hint = "write one, or leave it out";
            self.problems.error(at, "a statement has no text", hint);
        }
        let ends = matches!(first.as_str(), "COMMIT" | "END" | "ABORT")
            || (first == "ROLLBACK" && second != "TO");
        let begins = first == "BEGIN" || (first == "START" && second == "TRANSACTION");
        if bounded && (begins || ends) {
            let message = format!("{first} cannot be a statement of a transaction");
            let hint = "begin = true sends BEGIN before a transaction's statements and COMMIT behind them; \
                        rollback = 0.01 rolls so many of them back";
            self.problems.error(at, message, hint);
        }
    }
}
