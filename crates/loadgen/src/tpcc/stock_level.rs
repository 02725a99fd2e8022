//! StockLevel (clause 2.8): how many items of the district's last 20 orders are low on stock.

use rand::RngExt;
use wire::{Error, Value};

use super::catalog::Key;
use super::statements::Runner;
use super::terminal::Home;
use crate::workload::{Outcome, Random};

#[derive(Debug)]
pub(super) struct StockLevel {
    w_id: i64,
    d_id: i64,
    threshold: i64,
}

impl StockLevel {
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        Self {
            w_id: home.w_id,
            d_id: home.d_id,
            threshold: random.random_range(10..=20),
        }
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Outcome, Error> {
        runner.session.begin()?;
        runner.run(
            Key::StockLevelLowStock,
            &[self.w_id, self.d_id, self.threshold].map(Value::Int),
        )?;
        runner.session.commit()?;
        Ok(Outcome::Committed)
    }
}
