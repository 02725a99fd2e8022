//! A file as a whole: from its text to what can be run, with all that is wrong with it.

use toml::de::{DeTable, DeValue};
use wire::Dialect;

use super::keys::{Found, Keys, entries, number};
use super::problem::Problems;
use super::step::{Kind, Reader, Repeat, Statements, Step};
use super::variable::{Source, Variable, variables};

/// What a file says.
#[derive(Debug)]
pub(super) struct File {
    pub(super) variables: Vec<Variable>,
    pub(super) transactions: Vec<Transaction>,
    /// Of all transactions.
    pub(super) statements: Statements,
    pub(super) prepare: Setup,
    pub(super) cleanup: Setup,
}

/// Statements that are run once.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub(super) steps: Vec<Step>,
    pub(super) statements: Statements,
}

/// A kind of transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) name: String,
    /// The sum of the weights up to it.
    pub(super) up_to: u64,
    /// BEGIN before its steps, and COMMIT behind them.
    pub(super) begin: bool,
    pub(super) steps: Vec<Step>,
    /// Share that is rolled back instead of committed.
    pub(super) rollback: f64,
    /// Shortest and longest time before the next transaction.
    pub(super) think_ms: (f64, f64),
}

/// Read a file as a server of a dialect would read its statements.
pub(super) fn read(text: &str, dialect: Dialect) -> (File, Problems) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems::default();
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.error(at, error.message().trim(), "TOML's rules: https://toml.io");
    }
    let mut keys = Keys::new(table.get_ref(), 0);
    let mut file = File {
        variables: Vec::new(),
        transactions: Vec::new(),
        statements: Statements::default(),
        prepare: Setup::default(),
        cleanup: Setup::default(),
    };
    // What was no TOML may have taken any of the file with it.
    if problems.has_errors() {
        return (file, problems);
    }
    keys.text("description", &mut problems);
    let known = keys
        .get("variables")
        .map_or_else(Vec::new, |value| variables(value, &mut problems));
    let mut reader = Reader {
        text,
        dialect,
        variables: known,
        used: Default::default(),
        problems,
        statements: Statements::default(),
    };
    file.prepare = setup(&mut keys, "prepare", &mut reader);
    file.cleanup = setup(&mut keys, "cleanup", &mut reader);
    file.transactions = transactions(&mut keys, &mut reader);
    file.statements = std::mem::take(&mut reader.statements);
    keys.end(&mut reader.problems);
    unused(&mut reader);
    file.variables = reader.variables;
    (file, reader.problems)
}

fn setup(keys: &mut Keys<'_>, name: &'static str, reader: &mut Reader<'_>) -> Setup {
    let Some((_, listed)) = keys.list(name, &mut reader.problems) else {
        return Setup::default();
    };
    Setup {
        steps: reader.steps(&listed, name, name, false),
        statements: std::mem::take(&mut reader.statements),
    }
}

fn transactions(keys: &mut Keys<'_>, reader: &mut Reader<'_>) -> Vec<Transaction> {
    let example = "for example [transactions.look] with statements = [\"SELECT 1\"]";
    let value = keys.get("transactions");
    let Some(DeValue::Table(table)) = value.map(|value| value.get_ref()) else {
        let at = value.map_or(0, |value| value.span().start);
        reader
            .problems
            .error(at, "there are no transactions", example);
        return Vec::new();
    };
    let (mut all, mut up_to) = (Vec::new(), 0);
    for (name, span, value) in entries(table) {
        let transaction = transaction(name, span.start, value, up_to, reader);
        up_to = transaction.as_ref().map_or(up_to, |one| one.up_to);
        all.extend(transaction);
    }
    if up_to == 0 {
        let at = value.map_or(0, |value| value.span().start);
        let (message, hint) = match entries(table).len() {
            0 => ("there are no transactions", example),
            _ => (
                "the weight of every transaction is 0",
                "give one of them a weight above 0, or leave it out: it is 1",
            ),
        };
        if !reader.problems.has_errors() {
            reader.problems.error(at, message, hint);
        }
    }
    all
}

fn transaction(
    name: &str,
    at: usize,
    value: Found<'_>,
    up_to: u64,
    reader: &mut Reader<'_>,
) -> Option<Transaction> {
    let mut keys = Keys::of(value, "a transaction", &mut reader.problems)?;
    let weight = keys.integer("weight", 0..=1 << 32, &mut reader.problems);
    let begin = keys.truth("begin", &mut reader.problems);
    let rollback = keys.number("rollback", 0.0..=1.0, &mut reader.problems);
    let rollback = rollback.unwrap_or(0.0);
    let think_ms = think_ms(&mut keys, &mut reader.problems);
    let listed = keys.list("statements", &mut reader.problems);
    let listed = listed.map_or_else(Vec::new, |(_, listed)| listed);
    keys.end(&mut reader.problems);
    let what = format!("transaction {name}");
    let steps = reader.steps(&listed, &what, name, true);
    if listed.is_empty() {
        let message = format!("{what} has no statements");
        let hint = "for example statements = [\"SELECT 1\"]";
        reader.problems.error(at, message, hint);
    }
    let begin = begin.unwrap_or_else(|| is_several(&steps));
    if rollback > 0.0 && !begin {
        let message = format!("{what} has nothing to roll back: each statement commits by itself");
        let hint = "say begin = true, or leave rollback out";
        reader.problems.error(at, message, hint);
    }
    Some(Transaction {
        name: name.to_owned(),
        up_to: up_to + weight.unwrap_or(1) as u64,
        begin,
        steps,
        rollback,
        think_ms,
    })
}

/// Whether steps may send more than one statement.
fn is_several(steps: &[Step]) -> bool {
    match steps {
        [] => false,
        [one] => {
            one.repeat != Repeat::Times(1)
                || matches!(&one.kind, Kind::Group(steps) if is_several(steps))
        }
        _ => true,
    }
}

/// A time, or `[SHORTEST, LONGEST]`.
fn think_ms(keys: &mut Keys<'_>, problems: &mut Problems) -> (f64, f64) {
    let Some(value) = keys.get("think_ms") else {
        return (0.0, 0.0);
    };
    let ends = match value.get_ref() {
        DeValue::Array(ends) if ends.len() == 2 => {
            number(ends[0].get_ref()).zip(number(ends[1].get_ref()))
        }
        one => number(one).map(|ms| (ms, ms)),
    };
    let hour_ms = 3_600_000.0;
    let right = ends.filter(|(low, high)| 0.0 <= *low && low <= high && *high <= hour_ms);
    if right.is_none() {
        problems.error(
            value.span().start,
            "the time of think_ms is invalid",
            "it is milliseconds, up to an hour of them, or [SHORTEST, LONGEST]",
        );
    }
    right.unwrap_or((0.0, 0.0))
}

fn unused(reader: &mut Reader<'_>) {
    for (place, variable) in reader.variables.iter().enumerate() {
        if reader.used.contains(&place) {
            continue;
        }
        let Variable {
            name, at, source, ..
        } = variable;
        let message = format!("no statement uses the variable {name}");
        let hint = if *source == Source::Rows {
            "leave it out of into if it stands last there"
        } else {
            "write it into a statement as :NAME, or leave it out"
        };
        reader.problems.note(*at, message, hint);
    }
}
