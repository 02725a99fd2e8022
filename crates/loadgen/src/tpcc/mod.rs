//! TPC-C: schema, load, and the five transactions of its specification (revision 5.11), in statements that each can be switched.
//!
//! Left out: keying and think times unless asked for, and what a terminal would show on its screen.

mod args;
mod batch;
mod catalog;
mod check;
mod choice;
mod config;
mod deck;
mod delivery;
mod new_order;
mod one;
mod order_status;
mod pace;
mod part;
mod payment;
mod prepare;
mod random;
mod rows;
mod scale;
mod statements;
mod stock_level;
mod template;
mod terminal;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use rand::SeedableRng;
use serde_json::{Map, Value, json};
use wire::{Cell, Connection, Feature};

pub use args::{TpccArgs, run};
pub use batch::BatchMode;
pub use choice::Choice;
pub use pace::Pace;

use crate::failure::Usage;
use crate::session::{Knobs, Protocol, StatementSpec};
use crate::workload::{Client, Random, TransactionKind, Workload};
use catalog::Key;
use config::Config;
use random::NurandConstants;
use statements::Statements;
pub use terminal::Warehouses;
use terminal::{Home, Terminal};

/// The five, in the order of [`Workload::transactions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Transaction {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Transaction {
    fn kind(self) -> TransactionKind {
        TransactionKind(self as u16)
    }
}

/// TPC-C on tables that are there.
pub struct Tpcc {
    choice: Choice,
    statements: Arc<Statements>,
    how: How,
    connections: u32,
    seed: u64,
    config: OnceLock<Config>,
}

/// How the terminals work.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// How an order's lines are sent.
    pub batch: BatchMode,
    /// Keying and think times.
    pub pace: Pace,
    /// Which warehouses they work for.
    pub warehouses: Warehouses,
}

impl Tpcc {
    /// The workload in these statements, on so many connections. All random numbers but the terminals' own come from `seed`.
    ///
    /// # Errors
    /// A flavour or statement that is not there.
    pub fn new(choice: &Choice, how: How, connections: u32, seed: u64) -> Result<Self, Usage> {
        Ok(Self {
            choice: choice.clone(),
            statements: Arc::new(Statements::read(choice)?),
            how,
            connections,
            seed,
            config: OnceLock::new(),
        })
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn statements(&self) -> &[StatementSpec] {
        self.statements.specs()
    }

    fn transactions(&self) -> &[&'static str] {
        &[
            "new_order",
            "payment",
            "order_status",
            "delivery",
            "stock_level",
        ]
    }

    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        let needed = match self.how.batch {
            BatchMode::Bulk => Some((Feature::Bulk, "bulk execution", "MariaDB")),
            BatchMode::Pipeline => Some((Feature::Pipeline, "a pipeline", "PostgreSQL")),
            BatchMode::None | BatchMode::Multirow | BatchMode::Rewritten => None,
        };
        if let Some((feature, what, server)) = needed
            && !connection.supports(feature)
        {
            let message = format!("{} does not offer {what}", connection.server_version());
            return Err(Usage::new(
                message,
                format!("{what} is {server}'s; --batch multirow and rewritten work everywhere"),
            )
            .into());
        }
        let config = config::read(connection)?;
        let _ = self.config.set(config);
        Ok(())
    }

    fn client(&self, number: u32, _connections: u32) -> Box<dyn Client> {
        let config = self.config.get().copied().unwrap_or_default();
        let mut random = Random::seed_from_u64(self.seed);
        let constants = NurandConstants::for_run(config.c_last, &mut random);
        let home = Home::of(number, config.warehouses, constants);
        Box::new(Terminal::new(
            home,
            self.how.warehouses,
            Arc::clone(&self.statements),
            self.how.batch,
            self.how.pace,
        ))
    }

    fn tpmc(&self) -> Option<TransactionKind> {
        Some(Transaction::NewOrder.kind())
    }

    fn options(&self) -> Map<String, Value> {
        let How {
            batch,
            pace,
            warehouses,
        } = self.how;
        let tables = self.config.get().map(|config| config.warehouses);
        let own = [
            ("warehouses", json!(warehouses)),
            ("warehouses_loaded", json!(tables)),
            ("batch", json!(batch)),
            ("keying_time", json!(pace.keying)),
            ("think_time", json!(pace.thinking)),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        own.into_iter().chain(self.choice.options()).collect()
    }

    fn statements_prepared(&self, knobs: &Knobs) -> usize {
        let all = knobs.protocol == Protocol::Prepared;
        let batch = self.how.batch;
        let sent = Key::ALL.into_iter().filter(|&key| {
            if all {
                batch.sends(key)
            } else {
                batch.prepares(key)
            }
        });
        sent.map(|key| self.statements.sizes(key)).sum()
    }

    fn notes(&self) -> Vec<String> {
        let How {
            batch,
            pace,
            warehouses,
        } = self.how;
        let loaded = self.config.get().map_or(0, |config| config.warehouses);
        let mut notes = vec![format!(
            "{loaded} warehouses, {}, batch {batch}",
            self.choice
        )];
        let connections = i64::from(self.connections);
        if warehouses == Warehouses::Any {
            notes.push("each transaction is for any warehouse: no terminal has a home, against clause 2.4.1.1".to_owned());
        } else if connections < loaded {
            notes.push(format!(
                "{connections} terminals work for the first {connections} of {loaded} warehouses; --warehouses any spreads them over all"
            ));
        }
        notes.push(pace.note().to_owned());
        notes
    }
}

/// Money of a cell, in cents.
fn cents(cell: &Cell<'_>) -> Option<i64> {
    let text = cell.to_text()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction: i64 = format!("{fraction:0<2}").get(..2)?.parse().ok()?;
    let negative = whole.starts_with('-');
    let cents = whole.parse::<i64>().ok()?.abs() * 100 + fraction;
    Some(if negative { -cents } else { cents })
}
