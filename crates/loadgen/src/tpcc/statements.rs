//! Which file is taken for each statement, and how the statements are run.

use std::path::PathBuf;

use wire::{BatchWay, Cell, Done, Error, RowSink, Value};

use super::catalog::{EMBEDDED, ENTRIES, Entry, Key, SHARED_FLAVOUR};
use super::scale::LINES_MAX;
use super::template::{Slot, Template};
use crate::failure::Usage;
use crate::session::{Session, StatementId, StatementSpec};

/// Which flavour's files are taken.
#[derive(Debug, Clone)]
pub struct Choice {
    /// For all statements.
    pub flavour: String,
    /// Statement and flavour, for single ones.
    pub statements: Vec<(String, String)>,
    /// A folder with flavours of the user's own, which go before those that come with the program.
    pub folder: Option<PathBuf>,
}

impl Choice {
    fn file(&self, flavour: &str, name: &str) -> Result<Option<String>, Usage> {
        if let Some(folder) = &self.folder {
            let path = folder.join(flavour).join(format!("{name}.sql"));
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    return Err(Usage::new(message, "a statement file is UTF-8 text"));
                }
            }
        }
        let embedded = EMBEDDED
            .iter()
            .find(|file| file.flavour == flavour && file.name == name);
        Ok(embedded.map(|file| file.text.to_owned()))
    }

    /// The text of a statement's file and the flavour that it is from.
    fn text(&self, name: &str) -> Result<(String, String), Usage> {
        let switched = self
            .statements
            .iter()
            .rev()
            .find(|(switched, _)| switched == name);
        let flavours = match switched {
            Some((_, flavour)) => vec![flavour.as_str()],
            None => vec![self.flavour.as_str(), SHARED_FLAVOUR],
        };
        for flavour in &flavours {
            if let Some(text) = self.file(flavour, name)? {
                return Ok((text, (*flavour).to_owned()));
            }
        }
        let having: Vec<&str> = EMBEDDED
            .iter()
            .filter(|file| file.name == name)
            .map(|file| file.flavour)
            .collect();
        Err(Usage::new(
            format!("flavour {} lacks the statement {name}", flavours[0]),
            format!(
                "{name}.sql comes with {}; --statements-dir names a folder of flavours of your own",
                having.join(", ")
            ),
        ))
    }

    fn check_names(&self) -> Result<(), Usage> {
        for (name, _) in &self.statements {
            if !ENTRIES.iter().any(|entry| entry.name == name) {
                let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
                return Err(Usage::new(
                    format!("--statement {name}: there is no such statement"),
                    format!("there are {}", names.join(", ")),
                ));
            }
        }
        let own = self
            .folder
            .as_ref()
            .is_some_and(|folder| folder.join(&self.flavour).is_dir());
        if own || EMBEDDED.iter().any(|file| file.flavour == self.flavour) {
            return Ok(());
        }
        Err(Usage::new(
            format!("there is no flavour {}", self.flavour),
            "there are benchmarksql and tuned; --statements-dir names a folder of flavours of your own",
        ))
    }
}

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
    /// A flavour or statement that is not there, and a file that cannot be meant.
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

    /// Whether a statement neither writes nor locks.
    pub(super) fn is_plain_select(&self, key: Key) -> bool {
        let first_id = self.bound(key).first_id;
        let sql = self.specs[usize::from(first_id)].sql.to_ascii_uppercase();
        sql.starts_with("SELECT") && !sql.contains("FOR UPDATE") && !sql.contains("FOR SHARE")
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

/// What a transaction needs is not in the tables.
pub(super) fn lacking(what: &str) -> Error {
    Error::Server {
        code: 0,
        sqlstate: "02000".to_owned(),
        message: format!("{what} is not in the tables"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(flavour: &str, statements: &[(&str, &str)]) -> Choice {
        let owned = |&(name, flavour): &(&str, &str)| (name.to_owned(), flavour.to_owned());
        Choice {
            flavour: flavour.to_owned(),
            statements: statements.iter().map(owned).collect(),
            folder: None,
        }
    }

    fn sql(choice: &Choice, name: &str) -> String {
        let statements = Statements::read(choice).expect("all files");
        statements
            .specs()
            .iter()
            .find(|spec| spec.name == name)
            .expect("named")
            .sql
            .clone()
    }

    #[test]
    fn one_statement_can_be_of_another_flavour() {
        let plain = choice("benchmarksql", &[]);
        let switched = choice("benchmarksql", &[("delivery.oldest_new_order", "tuned")]);
        assert!(sql(&plain, "delivery.oldest_new_order").contains("ORDER BY"));
        assert!(sql(&switched, "delivery.oldest_new_order").contains("MIN("));
        assert_eq!(
            sql(&plain, "stock_level.low_stock"),
            sql(&switched, "stock_level.low_stock")
        );
    }

    #[test]
    fn what_is_not_there_is_told() {
        for (choice, message) in [
            (choice("fast", &[]), "no flavour fast"),
            (
                choice("tuned", &[("payment.warehouse_update", "tuned")]),
                "tuned lacks the statement payment.warehouse_update",
            ),
            (
                choice("tuned", &[("payment.x", "tuned")]),
                "no such statement",
            ),
        ] {
            let error = Statements::read(&choice).expect_err(message);
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn own_files_go_first() {
        let folder = std::env::temp_dir().join(format!("tpcc-own-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mine")).expect("a folder");
        std::fs::write(
            folder.join("mine/new_order.item_select.sql"),
            "SELECT i_price FROM item WHERE i_id = :i_id",
        )
        .expect("a file");
        let mut own = choice("mine", &[]);
        own.folder = Some(folder.clone());
        let error = Statements::read(&own).expect_err("mine has one of five");
        assert!(
            error
                .to_string()
                .contains("mine lacks the statement new_order.stock_select"),
            "{error}"
        );
        own.flavour = "tuned".to_owned();
        own.statements = vec![("new_order.item_select".to_owned(), "mine".to_owned())];
        assert_eq!(
            sql(&own, "new_order.item_select"),
            "SELECT i_price FROM item WHERE i_id = ?"
        );
        std::fs::remove_dir_all(folder).expect("gone");
    }
}
