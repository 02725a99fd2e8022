//! A user's own statements as a load: a file of transactions with weights and variables.
//!
//! The way of a file: its text -> [`file`] (variables, steps, and every problem with its place) -> [`Script`], a workload as any other ->
//! [`client`], which draws values and runs steps. docs/reference/load-script.md explains the keys.

mod client;
mod file;
mod keys;
mod literal;
mod problem;
mod setup;
mod step;
#[cfg(test)]
mod tests;
mod variable;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value as Json};
use wire::passive::Verb;
use wire::{Connection, Error, Family};

use crate::failure::Failure;
use crate::session::{Knobs, StatementSpec};
use crate::workload::{Client, Workload};
use client::ScriptClient;
use file::File;
use step::{Kind, Step};
use variable::Source;

/// A file that can be run.
pub struct Script {
    name: String,
    path: PathBuf,
    text: String,
    file: Arc<File>,
    kinds: Vec<&'static str>,
    /// What a user may want to know of it: a line each.
    notes: Vec<String>,
}

impl Script {
    /// Read a file. Its statements are taken apart as servers of `family` do; none: whatever servers of either find wrong is an error.
    ///
    /// # Errors
    /// A file that cannot be read, and one with errors: all of them, each with line, column and a hint.
    pub fn open(path: &Path, family: Option<Family>) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let hint =
                "name a file of your statements; docs/reference/load-script.md has an example";
            Failure::new(format!("cannot read {}: {error}", path.display()), hint)
        })?;
        let (file, mut problems) = file::read(&text, family.unwrap_or(Family::Mysql).into());
        if family.is_none() {
            let (_, others) = file::read(&text, Family::Postgres.into());
            problems.0.retain(|problem| others.0.contains(problem));
        }
        if let Some(failure) = problems.failure(path, &text) {
            return Err(failure.into());
        }
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let names = file.transactions.iter().map(|one| one.name.clone());
        Ok(Self {
            name: format!("script {}", stem.to_string_lossy()),
            path: path.to_owned(),
            notes: problems.lines(path, &text, true),
            // A handful of names, once a process.
            kinds: names.map(|name| &*name.leak()).collect(),
            file: Arc::new(file),
            text,
        })
    }

    /// Remarks on the file, such as variables that no statement uses.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.notes
    }

    /// What the file holds, in a sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let File {
            variables,
            transactions,
            statements,
            ..
        } = &*self.file;
        format!(
            "{}: {} transactions, {} statements, {} variables, no errors",
            self.path.display(),
            transactions.len(),
            statements.specs.len(),
            variables.len()
        )
    }

    /// Whether every connection has values of its own where a variable is partitioned.
    ///
    /// # Errors
    /// A range with fewer values than there are connections.
    pub fn check_connections(&self, connections: u32) -> Result<(), Failure> {
        for variable in &self.file.variables {
            if let Source::Range(range) = &variable.source
                && range.partition
                && range.count < u64::from(connections)
            {
                let message = format!(
                    "{} ({}) has {} values for {connections} connections, each of which draws from a part of its own",
                    variable.name,
                    self.place(variable.at),
                    range.count
                );
                let hint = "use fewer --connections, widen the range, or leave partition out";
                return Err(Failure::new(message, hint));
            }
        }
        Ok(())
    }

    /// Whether the knobs let every transaction end as the file says.
    ///
    /// # Errors
    /// A share to be rolled back where each statement commits by itself.
    pub fn check_knobs(&self, knobs: &Knobs) -> Result<(), Failure> {
        let mut transactions = self.file.transactions.iter();
        match transactions.find(|one| one.rollback > 0.0) {
            Some(one) if knobs.autocommit == Some(true) => Err(Failure::new(
                format!(
                    "--autocommit commits each statement by itself, and transaction {} has a rollback share",
                    one.name
                ),
                "leave --autocommit out, or rollback in the file",
            )),
            _ => Ok(()),
        }
    }

    /// Whether arrivals on a schedule find connections that do not think.
    ///
    /// # Errors
    /// A time to think: what arrives during it would wait, and its latency would count that.
    pub fn check_rate(&self, rate: Option<f64>) -> Result<(), Failure> {
        let mut transactions = self.file.transactions.iter();
        match transactions.find(|one| one.think_ms.1 > 0.0) {
            Some(one) if rate.is_some() => Err(Failure::new(
                format!(
                    "--rate does not go with think_ms of transaction {}: the think times set the rate",
                    one.name
                ),
                "leave --rate out, or think_ms in the file",
            )),
            _ => Ok(()),
        }
    }

    /// `FILE:LINE:COLUMN`.
    fn place(&self, at: usize) -> String {
        let (line, column) = problem::place(&self.text, at);
        format!("{}:{line}:{column}", self.path.display())
    }

    /// Why the server refuses a statement, or why it does not do for the file; none if it does.
    fn refusal(
        &self,
        place: &step::Place,
        outcome: Result<wire::Statement, Error>,
        may_return: bool,
    ) -> Result<Option<(String, String)>, Error> {
        let (why, hint) = match outcome {
            Ok(statement) if statement.columns == 0 && may_return => return Ok(None),
            Ok(statement) if usize::from(statement.columns) < place.into => (
                format!(
                    "it returns {} columns, and into names {} variables",
                    statement.columns, place.into
                ),
                "select as many columns as into names variables".to_owned(),
            ),
            Ok(_) => return Ok(None),
            // MySQL's protocol of prepared statements does not have it; --protocol text has.
            Err(Error::Server { code: 1295, .. }) => return Ok(None),
            Err(Error::Server {
                code,
                sqlstate,
                message,
            }) => {
                let hint = match (code, sqlstate.as_str()) {
                    (0, "42P18" | "42P08" | "42725") => {
                        "the server cannot tell a parameter's type: write CAST(:name AS bigint), or :name::bigint"
                            .to_owned()
                    }
                    (1146, _) | (0, "42P01") => self.hint_for_tables(),
                    _ => "try the statement in the server's own client".to_owned(),
                };
                (message, hint)
            }
            Err(error) => return Err(error),
        };
        let message = format!("{} ({}): {why}", place.what, self.place(place.at));
        Ok(Some((message, hint)))
    }

    fn hint_for_tables(&self) -> String {
        if self.file.prepare.steps.is_empty() {
            "make the tables first; the file can do so: prepare = [\"CREATE TABLE ...\"]".to_owned()
        } else {
            format!(
                "run the file's own statements first: upshift load script {} prepare",
                self.path.display()
            )
        }
    }
}

impl Workload for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn statements(&self) -> &[StatementSpec] {
        &self.file.statements.specs
    }

    fn transactions(&self) -> &[&'static str] {
        &self.kinds
    }

    /// Whether the server takes every statement; all that it refuses are told.
    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        let mut refused = Vec::new();
        let statements = &self.file.statements;
        for (spec, place) in statements.specs.iter().zip(&statements.places) {
            let outcome = connection.prepare(&spec.sql);
            let prepared = outcome.as_ref().ok().cloned();
            let may_return = may_return(connection.family(), &spec.sql);
            refused.extend(self.refusal(place, outcome, may_return)?);
            if let Some(statement) = prepared {
                connection.close(statement)?;
            }
        }
        let Some((_, hint)) = refused.first() else {
            return Ok(());
        };
        let lines: Vec<&str> = refused
            .iter()
            .map(|(message, _)| message.as_str())
            .collect();
        let message = format!("the server refuses {}", lines.join("\nand "));
        Err(Failure::new(message, hint.clone()).into())
    }

    fn client(&self, number: u32, connections: u32) -> Box<dyn Client> {
        Box::new(ScriptClient::new(&self.file, number, connections))
    }

    fn options(&self) -> Map<String, Json> {
        let path = self.path.display().to_string();
        Map::from_iter([("file".to_owned(), path.into())])
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for transaction in &self.file.transactions {
            missed(&transaction.steps, &self.file, &mut notes);
        }
        notes
    }
}

/// Whether a statement may return columns where its preparation tells of none: MySQL tells those of queries, and of a part of SHOW.
fn may_return(family: Family, sql: &str) -> bool {
    let verb = wire::sql::verb(family, sql.as_bytes());
    let is_untold = matches!(verb, Verb::Call | Verb::Explain | Verb::Show | Verb::Other);
    family == Family::Mysql && is_untold
}

/// Statements that returned no row where variables wait for one.
fn missed(steps: &[Step], file: &File, notes: &mut Vec<String>) {
    for step in steps {
        match &step.kind {
            Kind::Group(steps) => missed(steps, file, notes),
            Kind::Statement(statement) => {
                let count = statement.missed.load(Ordering::Relaxed);
                let place = usize::from(statement.id.0);
                if count > 0 {
                    notes.push(format!(
                        "{} returned no row for its into {count} times",
                        file.statements.specs[place].name
                    ));
                }
            }
        }
    }
}
