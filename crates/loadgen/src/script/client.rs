//! One connection's work: draws values and runs steps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use wire::{Cell, ColumnDefinition, Done, Error, Family, RowSink, Value};

use super::file::{File, Transaction};
use super::literal::whole;
use super::step::{Kind, NoRow, Repeat, Statement, Step};
use super::variable::{Drawn, Source};
use crate::session::{Session, StatementId};
use crate::workload::{Client, Outcome, Random, TransactionKind};

/// Where statements are sent: a session under load, or a connection that fills tables.
pub(super) trait Sender {
    fn family(&self) -> Family;

    fn send(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error>;
}

impl Sender for Session {
    fn family(&self) -> Family {
        Self::family(self)
    }

    fn send(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        self.rows(id, parameters, sink)
    }
}

/// Whether the steps behind one are to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    End,
}

/// The variables of one connection.
pub(super) struct Values {
    sources: Vec<Source>,
    drawn: Vec<Drawn>,
    /// Those that were drawn or given.
    now: Vec<Option<Value>>,
    random: Random,
    /// What outlives a transaction, as it was when the one at hand began: a retry has the same inputs.
    before: Vec<(usize, Source, Option<Value>)>,
    /// Parameters of the statement at hand; kept for its memory.
    parameters: Vec<Value>,
}

impl Values {
    pub(super) fn new(file: &File, number: u32, connections: u32) -> Self {
        let variables = file.variables.iter();
        Self {
            sources: variables
                .clone()
                .map(|one| one.source.of_connection(number, connections))
                .collect(),
            drawn: variables.map(|one| one.drawn).collect(),
            now: vec![None; file.variables.len()],
            random: Random::seed_from_u64(0),
            before: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.before.clear();
        for (place, source) in self.sources.iter().enumerate() {
            let is_sequence = matches!(source, Source::Sequence { .. });
            if is_sequence || self.drawn[place] == Drawn::Connection {
                let now = &mut self.now[place];
                if self.drawn[place] != Drawn::Connection {
                    *now = None;
                }
                self.before.push((place, source.clone(), now.clone()));
            }
        }
    }

    /// An attempt at the transaction begins: the same seed draws the same values.
    pub(super) fn attempt(&mut self, seed: u64) {
        self.random = Random::seed_from_u64(seed);
        self.now.fill(None);
        for (place, source, now) in &self.before {
            self.sources[*place].clone_from(source);
            self.now[*place].clone_from(now);
        }
    }

    fn get(&mut self, place: usize) -> Value {
        if self.drawn[place] == Drawn::Use {
            return self.sources[place].draw(&mut self.random);
        }
        let (source, random) = (&mut self.sources[place], &mut self.random);
        self.now[place]
            .get_or_insert_with(|| source.draw(random))
            .clone()
    }

    pub(super) fn rounds(&mut self, repeat: Repeat) -> u64 {
        match repeat {
            Repeat::Times(times) => times,
            Repeat::Variable(place) => whole(&self.get(place)).unwrap_or(0),
        }
    }

    /// Run steps, up to one that ends the transaction.
    pub(super) fn run(&mut self, steps: &[Step], to: &mut dyn Sender) -> Result<Flow, Error> {
        for step in steps {
            for _ in 0..self.rounds(step.repeat) {
                if self.round(step, to)? == Flow::End {
                    return Ok(Flow::End);
                }
            }
        }
        Ok(Flow::On)
    }

    /// Run a step once.
    pub(super) fn round(&mut self, step: &Step, to: &mut dyn Sender) -> Result<Flow, Error> {
        for place in &step.redraw {
            self.now[*place] = None;
        }
        match &step.kind {
            Kind::Group(steps) => self.run(steps, to),
            Kind::Statement(statement) => self.statement(statement, to),
        }
    }

    fn statement(&mut self, statement: &Statement, to: &mut dyn Sender) -> Result<Flow, Error> {
        let mut parameters = std::mem::take(&mut self.parameters);
        parameters.clear();
        parameters.extend(statement.parameters.iter().map(|place| self.get(*place)));
        let into = &statement.into;
        let outcome = if into.is_empty() {
            to.send(statement.id, &parameters, &mut ()).map(|_| None)
        } else {
            let mut first = FirstRow::new(to.family());
            let sent = to.send(statement.id, &parameters, &mut first);
            sent.map(|_| Some(first.values))
        };
        self.parameters = parameters;
        let Some(row) = outcome? else {
            return Ok(Flow::On);
        };
        let is_missed = row.is_none();
        if is_missed {
            statement.missed.fetch_add(1, Ordering::Relaxed);
        }
        let mut row = row.unwrap_or_default().into_iter();
        for place in into {
            self.now[*place] = Some(row.next().unwrap_or(Value::Null));
        }
        Ok(match statement.no_row {
            NoRow::End if is_missed => Flow::End,
            _ => Flow::On,
        })
    }
}

/// Keeps the first row of a result as parameters for later statements.
struct FirstRow {
    family: Family,
    kinds: Vec<u32>,
    values: Option<Vec<Value>>,
}

impl FirstRow {
    fn new(family: Family) -> Self {
        Self {
            family,
            kinds: Vec::new(),
            values: None,
        }
    }

    /// A cell as the type of its column, so that a statement gets what the table holds.
    fn value(&self, place: usize, cell: &Cell<'_>) -> Value {
        let text = match cell {
            Cell::Null => return Value::Null,
            Cell::Int(number) => number.to_string(),
            Cell::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                // Of a BINARY or BLOB.
                Err(_) => return Value::Bytes(bytes.to_vec()),
            },
        };
        let family = self.family;
        // MySQL's DECIMAL, tiny, short, long, long long, medium, YEAR, NEWDECIMAL; PostgreSQL's int8, int2, int4, oid, numeric.
        let is_number = match (family, self.kinds.get(place)) {
            (Family::Mysql, Some(kind)) => matches!(kind, 0..=3 | 8 | 9 | 13 | 246),
            (Family::Postgres, Some(kind)) => matches!(kind, 20 | 21 | 23 | 26 | 1700),
            // No column was defined: a number is what reads as one.
            (_, None) => true,
        };
        if !is_number {
            return Value::Text(text);
        }
        let whole = text.parse().ok().map(Value::Int);
        // Of a BIGINT UNSIGNED.
        let whole = whole.or_else(|| text.parse().ok().map(Value::UInt));
        let whole = whole.filter(|_| !text.starts_with(['+', '0']) || text == "0");
        let number = whole.or_else(|| decimal(&text));
        number.unwrap_or(Value::Text(text))
    }
}

fn decimal(text: &str) -> Option<Value> {
    let (whole, fraction) = text.split_once('.')?;
    let unscaled = format!("{whole}{fraction}").parse().ok()?;
    let scale = u8::try_from(fraction.len()).ok()?;
    Some(Value::Decimal { unscaled, scale })
}

impl RowSink for FirstRow {
    fn wants_columns(&self) -> bool {
        true
    }

    fn column(&mut self, definition: &ColumnDefinition<'_>) {
        self.kinds.push(definition.kind);
    }

    fn row(&mut self, cells: &[Cell<'_>]) {
        if self.values.is_none() {
            let cells = cells.iter().enumerate();
            let values = cells.map(|(place, cell)| self.value(place, cell)).collect();
            self.values = Some(values);
        }
    }
}

/// A connection that runs a file's transactions.
pub(super) struct ScriptClient {
    file: Arc<File>,
    values: Values,
    kind: usize,
    seed: u64,
}

impl ScriptClient {
    pub(super) fn new(file: &Arc<File>, number: u32, connections: u32) -> Self {
        Self {
            file: Arc::clone(file),
            values: Values::new(file, number, connections),
            kind: 0,
            seed: 0,
        }
    }

    fn transaction(&self) -> &Transaction {
        &self.file.transactions[self.kind]
    }
}

impl Client for ScriptClient {
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        let transactions = &self.file.transactions;
        let drawn = random.random_range(0..transactions.last()?.up_to);
        self.kind = transactions.partition_point(|one| one.up_to <= drawn);
        self.seed = random.random();
        self.values.begin();
        Some(TransactionKind(self.kind as u16))
    }

    fn thinking(&mut self, random: &mut Random) -> Duration {
        let (shortest, longest) = self.transaction().think_ms;
        if longest == 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(random.random_range(shortest..=longest) / 1e3)
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        let file = Arc::clone(&self.file);
        let transaction = &file.transactions[self.kind];
        self.values.attempt(self.seed);
        let rolls_back = self.values.random.random_bool(transaction.rollback);
        if transaction.begin {
            session.begin()?;
        }
        self.values.run(&transaction.steps, session)?;
        if !transaction.begin {
            return Ok(Outcome::Committed);
        }
        if rolls_back {
            session.rollback()?;
            return Ok(Outcome::RolledBack);
        }
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_row_stay_bytes() {
        let mut row = FirstRow::new(Family::Mysql);
        row.row(&[
            Cell::Bytes(b"\xC3\x28"),
            Cell::Bytes("\u{fc}".as_bytes()),
            Cell::Null,
        ]);
        let expected = [
            Value::Bytes(b"\xC3\x28".to_vec()),
            Value::Text("\u{fc}".to_owned()),
            Value::Null,
        ];
        assert_eq!(row.values.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn a_whole_number_of_a_row_stays_one() {
        // As a BIGINT, and of no known type.
        for kinds in [&[8_u32; 6][..], &[]] {
            let mut row = FirstRow::new(Family::Mysql);
            row.kinds = kinds.to_vec();
            let texts = [
                "18446744073709551615",
                "-9223372036854775808",
                "0",
                "00000000018446744073",
                "+1",
                "18446744073709551616",
            ];
            row.row(&texts.map(|text| Cell::Bytes(text.as_bytes())));
            let as_text = |place: usize| Value::Text(texts[place].to_owned());
            let expected = [
                Value::UInt(u64::MAX),
                Value::Int(i64::MIN),
                Value::Int(0),
                as_text(3),
                as_text(4),
                as_text(5),
            ];
            assert_eq!(row.values.as_deref(), Some(&expected[..]), "{kinds:?}");
        }
    }
}
