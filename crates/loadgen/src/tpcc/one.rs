//! One statement of a transaction alone, with parameters as the transactions would give it.
//!
//! Statements that write or lock are rolled back, each use, so that the tables stay as they are.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::Args;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value as Json};
use wire::{Cell, Connection, Error, Fetch, RowSink, Value};

use super::Choice;
use super::args::ChoiceOptions;
use super::catalog::{ENTRIES, Entry, Key};
use super::config::{self, Config};
use super::random::{NurandConstants, letters, money, now};
use super::scale::{DISTRICTS, LINES_MAX, LINES_MIN};
use super::statements::{Runner, Statements};
use crate::cli::{LoadOptions, run_workload};
use crate::failure::Usage;
use crate::session::{Knobs, Protocol, Session, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

/// Orders that a statement inserts get numbers from here on, one for each connection.
const FREE_O_ID: i64 = 1_000_000_000;

/// `upshift load tpcc one`.
#[derive(Args)]
pub struct OneArgs {
    /// Which statement, for example `new_order.stock_update`.
    #[arg(value_name = "STATEMENT")]
    name: String,
    #[command(flatten)]
    choice: ChoiceOptions,
    #[command(flatten)]
    load: LoadOptions,
}

/// Run it.
///
/// # Errors
/// A statement that is not there, and what stops the load.
pub fn run(args: &OneArgs) -> anyhow::Result<ExitCode> {
    let workload = One::new(args)?;
    if args.load.knobs.autocommit && !workload.statements.is_select(workload.key) {
        let message = format!(
            "--autocommit would commit each {}, and the tables would change",
            args.name
        );
        let hint = "leave --autocommit out: each use is rolled back";
        return Err(Usage::new(message, hint).into());
    }
    run_workload(Arc::new(workload), &args.load)
}

struct One {
    name: String,
    key: Key,
    choice: Choice,
    statements: Arc<Statements>,
    seed: u64,
    tables: OnceLock<Arc<Tables>>,
}

/// What valid parameters depend on.
struct Tables {
    config: Config,
    /// Orders that wait for their delivery, for each district that has some.
    new_orders: Vec<NewOrders>,
}

struct NewOrders {
    w_id: i64,
    d_id: i64,
    first: i64,
    last: i64,
}

impl One {
    fn new(args: &OneArgs) -> Result<Self, Usage> {
        let place = ENTRIES.iter().position(|entry| entry.name == args.name);
        let key = place.map(|place| Key::ALL[place]).ok_or_else(|| {
            let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
            Usage::new(
                format!("there is no statement {}", args.name),
                format!("there are {}", names.join(", ")),
            )
        })?;
        Ok(Self {
            name: format!("tpcc one {}", args.name),
            key,
            statements: Arc::new(Statements::read(&args.choice.choice())?),
            choice: args.choice.choice(),
            seed: args.load.seed,
            tables: OnceLock::new(),
        })
    }
}

impl Workload for One {
    fn name(&self) -> &str {
        &self.name
    }

    fn statements(&self) -> &[StatementSpec] {
        self.statements.specs()
    }

    fn transactions(&self) -> &[&'static str] {
        &["one"]
    }

    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        let tables = Tables::read(connection)?;
        let _ = self.tables.set(Arc::new(tables));
        Ok(())
    }

    fn client(&self, number: u32, _connections: u32) -> Box<dyn Client> {
        let tables = self.tables.get().expect("checked before it is run");
        let mut random = Random::seed_from_u64(self.seed);
        Box::new(OneClient {
            key: self.key,
            statements: Arc::clone(&self.statements),
            constants: NurandConstants::for_run(tables.config.c_last, &mut random),
            tables: Arc::clone(tables),
            free_o_id: FREE_O_ID + i64::from(number),
            rows: Vec::new(),
        })
    }

    fn options(&self) -> Map<String, Json> {
        let statement = (
            "statement_alone".to_owned(),
            ENTRIES[self.key as usize].name.into(),
        );
        std::iter::once(statement)
            .chain(self.choice.options())
            .collect()
    }

    /// Only this one: for each number of rows, if it takes a batch.
    fn statements_prepared(&self, knobs: &Knobs) -> usize {
        if knobs.protocol == Protocol::Prepared {
            self.statements.sizes(self.key)
        } else {
            0
        }
    }

    fn notes(&self) -> Vec<String> {
        if self.statements.is_plain_select(self.key) {
            return Vec::new();
        }
        vec!["each use is rolled back: the tables stay as they are".to_owned()]
    }
}

impl Tables {
    fn read(connection: &mut dyn Connection) -> anyhow::Result<Self> {
        let config = config::read(connection)?;
        let sql = "SELECT no_w_id, no_d_id, MIN(no_o_id), MAX(no_o_id) FROM new_order GROUP BY no_w_id, no_d_id";
        let mut tables = Self {
            config,
            new_orders: Vec::new(),
        };
        connection.query(sql, Fetch::ALL, &mut tables)?;
        Ok(tables)
    }
}

impl RowSink for Tables {
    fn row(&mut self, cells: &[Cell<'_>]) {
        let number = |place: usize| cells[place].as_int();
        if let (Some(w_id), Some(d_id), Some(first), Some(last)) =
            (number(0), number(1), number(2), number(3))
        {
            self.new_orders.push(NewOrders {
                w_id,
                d_id,
                first,
                last,
            });
        }
    }
}

struct OneClient {
    key: Key,
    statements: Arc<Statements>,
    constants: NurandConstants,
    tables: Arc<Tables>,
    free_o_id: i64,
    rows: Vec<Vec<Value>>,
}

impl Client for OneClient {
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        let entry = &ENTRIES[self.key as usize];
        let count = match self.statements.takes_batch(self.key) {
            true => random.random_range(LINES_MIN..=LINES_MAX),
            false => 1,
        };
        let order = self.order(entry, random);
        self.rows = (1..=count)
            .map(|number| {
                let value = |name: &&str| self.value(name, &order, number, random);
                entry.parameters.iter().map(value).collect()
            })
            .collect();
        Some(TransactionKind(0))
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        let mut runner = Runner {
            session,
            statements: &self.statements,
        };
        if self.statements.is_plain_select(self.key) {
            runner.each(self.key, &self.rows, |_, _| {})?;
            return Ok(Outcome::Committed);
        }
        runner.session.begin()?;
        runner.each(self.key, &self.rows, |_, _| {})?;
        runner.session.rollback()?;
        Ok(Outcome::Committed)
    }
}

impl OneClient {
    /// The order that a statement is about: one to be inserted, or one that waits for its delivery if there is any.
    fn order(&self, entry: &Entry, random: &mut Random) -> [i64; 3] {
        let somewhere = [
            random.random_range(1..=self.tables.config.warehouses),
            random.random_range(1..=DISTRICTS),
        ];
        let inserts = entry.name.contains("_insert");
        if inserts || self.tables.new_orders.is_empty() {
            return [somewhere[0], somewhere[1], self.free_o_id];
        }
        let place = random.random_range(0..self.tables.new_orders.len());
        let orders = &self.tables.new_orders[place];
        [
            orders.w_id,
            orders.d_id,
            random.random_range(orders.first..=orders.last),
        ]
    }

    /// A value for a parameter; `number` counts the rows of a batch.
    fn value(&self, name: &str, order: &[i64; 3], number: i64, random: &mut Random) -> Value {
        let [w_id, d_id, o_id] = *order;
        Value::Int(match name {
            "w_id" | "c_w_id" | "supply_w_id" => w_id,
            "d_id" | "c_d_id" => d_id,
            "o_id" => o_id,
            "number" => number,
            "c_id" => self.constants.customer(random),
            "i_id" => self.constants.item(random),
            "quantity" => random.random_range(10..=100),
            "ordered" | "carrier_id" => random.random_range(1..=10),
            "orders" | "all_local" => 1,
            "remote" => 0,
            "ol_cnt" => random.random_range(LINES_MIN..=LINES_MAX),
            "threshold" => random.random_range(10..=20),
            "amount" => return money(random.random_range(100..=500_000)),
            "entry_d" | "delivery_d" | "date" => return now(),
            "c_last" => return Value::Text(self.constants.last(random)),
            "dist_info" => return Value::Text(letters(24, 24, random)),
            "c_data" => return Value::Text(letters(300, 500, random)),
            "h_data" => return Value::Text(letters(12, 24, random)),
            other => unreachable!("no statement has the parameter {other}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_statement_has_a_value() {
        let choice = Choice {
            flavour: "tuned".to_owned(),
            statements: Vec::new(),
            folder: None,
        };
        let statements = Arc::new(Statements::read(&choice).expect("all files"));
        let tables = Arc::new(Tables {
            config: Config::default(),
            new_orders: vec![NewOrders {
                w_id: 1,
                d_id: 2,
                first: 2101,
                last: 2110,
            }],
        });
        let mut random = Random::seed_from_u64(1);
        for (key, entry) in Key::ALL.into_iter().zip(&ENTRIES) {
            let mut client = OneClient {
                key,
                statements: Arc::clone(&statements),
                constants: NurandConstants::for_load(&mut random),
                tables: Arc::clone(&tables),
                free_o_id: FREE_O_ID,
                rows: Vec::new(),
            };
            client.draw(&mut random);
            assert_eq!(
                client.rows[0].len(),
                entry.parameters.len(),
                "{}",
                entry.name
            );
            assert_eq!(
                client.rows.len() > 1,
                statements.takes_batch(key),
                "{}",
                entry.name
            );
        }
    }
}
