//! The statements of a choice, and how they are run.

use wire::{BatchWay, Cell, Done, Error, RowSink, Value};

use super::catalog::{ENTRIES, Entry, Key};
use super::choice::Choice;
use super::scale::LINES_MAX;
use super::template::{Slot, Template};
use crate::failure::Usage;
use crate::session::{Session, StatementId, StatementSpec};

/// All statements of one choice.
#[derive(Debug)]
pub(super) struct Statements {
    specs: Vec<StatementSpec>,
    bound: Vec<Bound>,
}

/// One entry of the catalog as statements for batches of 1, 2, ... rows; a single one if it takes no batch.
#[derive(Debug)]
struct Bound {
    takes_batch: bool,
    first_id: u16,
    slots: Vec<Slots>,
}

#[derive(Debug)]
enum Slots {
    /// The values in the order of the names.
    AsNamed,
    Picked(Vec<Slot>),
}

impl Statements {
    /// Read all files.
    ///
    /// # Errors
    /// An unknown flavour or statement, and an invalid file.
    pub(super) fn read(choice: &Choice) -> Result<Self, Usage> {
        choice.check_names()?;
        let mut statements = Self {
            specs: Vec::new(),
            bound: Vec::new(),
        };
        for entry in &ENTRIES {
            let (text, flavour) = choice.text(entry.name)?;
            let template = Template::parse(&text, entry.parameters).map_err(|message| {
                Usage::new(
                    format!("{flavour}/{}.sql: {message}", entry.name),
                    "docs/reference/tpcc.md says what the files hold",
                )
            })?;
            statements.bind(entry, &template);
        }
        Ok(statements)
    }

    fn bind(&mut self, entry: &Entry, template: &Template) {
        let takes_batch = template.takes_batch();
        let rows_max = if takes_batch { LINES_MAX as usize } else { 1 };
        let first_id = self.specs.len() as u16;
        let mut all_slots = Vec::with_capacity(rows_max);
        for rows in 1..=rows_max {
            let (sql, slots) = template.statement(rows);
            let spec = StatementSpec::new(entry.name, sql);
            self.specs.push(if entry.first_row {
                spec.first_row()
            } else {
                spec
            });
            let names = slots.iter().map(|slot| slot.name);
            let as_named = rows == 1 && names.eq(0..entry.parameters.len());
            all_slots.push(if as_named {
                Slots::AsNamed
            } else {
                Slots::Picked(slots)
            });
        }
        self.bound.push(Bound {
            takes_batch,
            first_id,
            slots: all_slots,
        });
    }

    /// The statements as the workload names them.
    pub(super) fn specs(&self) -> &[StatementSpec] {
        &self.specs
    }

    /// Whether a statement's file takes a whole batch at once.
    pub(super) fn takes_batch(&self, key: Key) -> bool {
        self.bound(key).takes_batch
    }

    /// How many statements one entry is: one for each size of a batch that it takes.
    pub(super) fn sizes(&self, key: Key) -> usize {
        self.bound(key).slots.len()
    }

    /// Whether a statement writes nothing: it may lock.
    pub(super) fn is_select(&self, key: Key) -> bool {
        self.upper(key).starts_with("SELECT")
    }

    /// Whether a statement neither writes nor locks.
    pub(super) fn is_plain_select(&self, key: Key) -> bool {
        let sql = self.upper(key);
        self.is_select(key) && !sql.contains("FOR UPDATE") && !sql.contains("FOR SHARE")
    }

    fn upper(&self, key: Key) -> String {
        let first_id = self.bound(key).first_id;
        self.specs[usize::from(first_id)].sql.to_ascii_uppercase()
    }

    fn bound(&self, key: Key) -> &Bound {
        &self.bound[key as usize]
    }
}

/// A session that runs these statements.
pub(super) struct Runner<'a> {
    pub(super) session: &'a mut Session,
    pub(super) statements: &'a Statements,
}

impl Runner<'_> {
    /// Run a statement and look at its rows. `values` are in the order of the entry's parameters.
    pub(super) fn rows(
        &mut self,
        key: Key,
        values: &[Value],
        look: impl FnMut(&[Cell<'_>]),
    ) -> Result<Done, Error> {
        let bound = self.statements.bound(key);
        let id = StatementId(bound.first_id);
        match &bound.slots[0] {
            Slots::AsNamed => self.session.rows(id, values, &mut Look(look)),
            Slots::Picked(slots) => {
                let picked = pick(slots, std::slice::from_ref(&values));
                self.session.rows(id, &picked, &mut Look(look))
            }
        }
    }

    /// Run a statement that returns nothing.
    pub(super) fn run(&mut self, key: Key, values: &[Value]) -> Result<Done, Error> {
        self.rows(key, values, |_| {})
    }

    /// Run a statement for each row of values: all at once if its file can, one after the other if not. `look` is told to which row
    /// of values a row belongs, in the second case.
    pub(super) fn each(
        &mut self,
        key: Key,
        rows: &[Vec<Value>],
        mut look: impl FnMut(Option<usize>, &[Cell<'_>]),
    ) -> Result<Done, Error> {
        let bound = self.statements.bound(key);
        let mut done = Done::default();
        if !bound.takes_batch {
            for (number, values) in rows.iter().enumerate() {
                let one = self.rows(key, values, |cells| look(Some(number), cells))?;
                done.rows += one.rows;
                done.affected += one.affected;
            }
            return Ok(done);
        }
        for chunk in rows.chunks(bound.slots.len()) {
            let place = chunk.len() - 1;
            let picked = match &bound.slots[place] {
                Slots::AsNamed => chunk[0].clone(),
                Slots::Picked(slots) => pick(slots, chunk),
            };
            let id = StatementId(bound.first_id + place as u16);
            let one = self.session.rows(
                id,
                &picked,
                &mut Look(|cells: &[Cell<'_>]| look(None, cells)),
            )?;
            done.rows += one.rows;
            done.affected += one.affected;
        }
        Ok(done)
    }

    /// Run a prepared statement for all rows by a batch of the protocol.
    pub(super) fn batch(
        &mut self,
        key: Key,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        let bound = self.statements.bound(key);
        let id = StatementId(bound.first_id);
        match &bound.slots[0] {
            Slots::AsNamed => self.session.batch(id, rows, way),
            Slots::Picked(slots) => {
                let picked: Vec<Vec<Value>> = rows
                    .iter()
                    .map(|values| pick(slots, std::slice::from_ref(values)))
                    .collect();
                self.session.batch(id, &picked, way)
            }
        }
    }
}

fn pick<R: AsRef<[Value]>>(slots: &[Slot], rows: &[R]) -> Vec<Value> {
    slots
        .iter()
        .map(|slot| rows[slot.row].as_ref()[slot.name].clone())
        .collect()
}

struct Look<F>(F);

impl<F: FnMut(&[Cell<'_>])> RowSink for Look<F> {
    fn row(&mut self, cells: &[Cell<'_>]) {
        (self.0)(cells);
    }
}

/// A cell as a number; none where a file of the user's asks for fewer columns.
pub(super) fn int(cells: &[Cell<'_>], place: usize) -> Option<i64> {
    cells.get(place)?.as_int()
}

/// The same as text.
pub(super) fn text(cells: &[Cell<'_>], place: usize) -> Option<String> {
    cells.get(place)?.to_text()
}

/// The same as money, in cents.
pub(super) fn cents(cells: &[Cell<'_>], place: usize) -> Option<i64> {
    super::cents(cells.get(place)?)
}

/// What a transaction needs is not in the tables, or not in the columns of its statement.
pub(super) fn lacking(what: &str) -> Error {
    Error::Server {
        code: 0,
        sqlstate: "02000".to_owned(),
        message: format!(
            "{what} is not in the tables, or its statement has fewer columns than the shipped file"
        ),
    }
}
