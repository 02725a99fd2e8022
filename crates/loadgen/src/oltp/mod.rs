//! sysbench's OLTP workloads: its tables, statements and transactions, so that figures can be compared.

mod distribution;
mod prepare;
mod rows;
mod statements;

use std::sync::Arc;

use clap::ValueEnum;
use rand::RngExt;
use serde_json::{Map, Value as Json, json};
use wire::{Connection, Error, Value};

pub use distribution::Distribution;
pub use prepare::{cleanup, prepare};

use crate::failure::Failure;
use crate::session::{Session, StatementId, StatementSpec};
use crate::sql;
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};
use distribution::Draw;
use statements::{Step, steps};

/// Which of sysbench's scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Script {
    /// One row by its primary key.
    PointSelect,
    /// 10 point selects and 4 range selects in a transaction.
    ReadOnly,
    /// As `read_only`, then 2 updates, a delete and an insert.
    ReadWrite,
    /// 2 updates, a delete and an insert in a transaction.
    WriteOnly,
    /// An update of an indexed column.
    UpdateIndex,
    /// An update of a column without an index.
    UpdateNonIndex,
    /// An insert.
    Insert,
    /// A delete.
    Delete,
    /// Ten values of a secondary index.
    SelectRandomPoints,
    /// Ten ranges of a secondary index.
    SelectRandomRanges,
}

/// The tables and how they are hit.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tables sbtest1, sbtest2, ...
    pub tables: u32,
    /// Rows in each.
    pub table_size: u64,
    /// Ids in a range.
    pub range_size: u32,
    /// Which ids are hot.
    pub distribution: Distribution,
}

/// One of sysbench's scripts as a workload.
pub struct Oltp {
    name: String,
    kind: &'static str,
    options: Options,
    steps: Arc<[Step]>,
    in_transaction: bool,
    statements: Vec<StatementSpec>,
}

impl Oltp {
    /// A script on tables.
    #[must_use]
    pub fn new(script: Script, options: Options) -> Self {
        let value = script.to_possible_value().expect("no script is hidden");
        let (steps, in_transaction) = steps(script);
        let statements = steps
            .iter()
            .flat_map(|step| step.statements(options.tables))
            .collect();
        let kind = statements::kind(script);
        Self {
            name: format!("oltp {}", value.get_name()),
            kind,
            options,
            steps: steps.into(),
            in_transaction,
            statements,
        }
    }
}

impl Workload for Oltp {
    fn name(&self) -> &str {
        &self.name
    }

    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn transactions(&self) -> &[&'static str] {
        std::slice::from_ref(&self.kind)
    }

    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        let hint = format!(
            "fill the tables: upshift load {} prepare --tables {} --table-size {}",
            self.name, self.options.tables, self.options.table_size
        );
        for table in 1..=self.options.tables {
            let last = match sql::one(connection, &format!("SELECT MAX(id) FROM sbtest{table}")) {
                Err(Error::Server { message, .. }) => {
                    return Err(Failure::new(message, hint).into());
                }
                last => last?,
            };
            let rows = last.number().unwrap_or(0);
            if rows < self.options.table_size as i64 {
                let message = format!(
                    "the ids in sbtest{table} end at {rows}, not at {}",
                    self.options.table_size
                );
                return Err(
                    Failure::new(message, format!("use --table-size {rows}, or {hint}")).into(),
                );
            }
        }
        Ok(())
    }

    fn options(&self) -> Map<String, Json> {
        let Options {
            tables,
            table_size,
            range_size,
            distribution,
        } = self.options;
        let all = [
            ("tables", json!(tables)),
            ("table_size", json!(table_size)),
            ("range_size", json!(range_size)),
            ("distribution", json!(distribution)),
        ];
        all.map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    fn client(&self, _number: u32, _connections: u32) -> Box<dyn Client> {
        Box::new(OltpClient {
            steps: Arc::clone(&self.steps),
            in_transaction: self.in_transaction,
            options: self.options,
            ids: Draw::new(self.options.distribution, self.options.table_size),
            drawn: Vec::new(),
        })
    }
}

/// One connection's work: the statements of the drawn transaction with their parameters.
struct OltpClient {
    steps: Arc<[Step]>,
    in_transaction: bool,
    options: Options,
    ids: Draw,
    drawn: Vec<(StatementId, Vec<Value>)>,
}

impl Client for OltpClient {
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        let mut place = 0;
        let mut first_id = 0;
        let mut table = 0;
        let mut deleted = 0;
        for step in self.steps.iter() {
            // An insert puts back what the delete before it took.
            if !step.follows_delete() {
                table =
                    random.random_range(0..self.options.tables) * u32::from(step.is_any_table());
            }
            for _ in 0..step.times() {
                // A script's statements are always the same: the lists of the transaction before are taken again.
                if place == self.drawn.len() {
                    self.drawn.push((StatementId(0), Vec::new()));
                }
                let (id, parameters) = &mut self.drawn[place];
                *id = StatementId((first_id + table) as u16);
                let range_size = self.options.range_size;
                step.draw(&self.ids, range_size, &mut deleted, random, parameters);
                place += 1;
            }
            first_id += step.tables(self.options.tables);
        }
        Some(TransactionKind(0))
    }

    /// A delete that waited for another connection's delete and insert of its row finds neither row under READ COMMITTED
    /// (PostgreSQL), and the insert after it a duplicate: sysbench tries again too. Where every statement commits by itself, that
    /// happens on every server, and the transaction is given up.
    fn retries(&self, error: &Error) -> bool {
        let duplicate = matches!(error, Error::Server { code, sqlstate, .. } if *code == 1062 || sqlstate == "23505");
        duplicate || error.is_retryable()
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        if self.in_transaction {
            session.begin()?;
        }
        for (id, parameters) in &self.drawn {
            session.run(*id, parameters)?;
        }
        if self.in_transaction {
            session.commit()?;
        }
        Ok(Outcome::Committed)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_draw_takes_the_memory_of_the_one_before() {
        let script = Oltp::new(
            Script::ReadOnly,
            Options {
                tables: 3,
                table_size: 100,
                range_size: 10,
                distribution: Distribution::Uniform,
            },
        );
        let mut client = OltpClient {
            steps: Arc::clone(&script.steps),
            in_transaction: true,
            options: script.options,
            ids: Draw::new(Distribution::Uniform, 100),
            drawn: Vec::new(),
        };
        let mut random = Random::seed_from_u64(1);
        let mut draw = || {
            client.draw(&mut random);
            let lists = client.drawn.iter();
            let places: Vec<_> = lists.map(|(_, list)| (list.as_ptr(), list.len())).collect();
            (places, format!("{:?}", client.drawn))
        };
        let (one, other) = (draw(), draw());
        assert_eq!(one.0.len(), 14);
        assert_eq!(one.0, other.0);
        assert_ne!(one.1, other.1);
    }
}
