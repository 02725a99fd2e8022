//! OrderStatus (clause 2.6): a customer asks for their last order.

use rand::RngExt;
use wire::{Error, Value};

use super::catalog::Key;
use super::payment::Customer;
use super::scale::DISTRICTS;
use super::statements::{Runner, int};
use super::terminal::Home;
use crate::workload::{Outcome, Random};

#[derive(Debug)]
pub(super) struct OrderStatus {
    w_id: i64,
    d_id: i64,
    customer: Customer,
}

impl OrderStatus {
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        Self {
            w_id: home.w_id,
            d_id: random.random_range(1..=DISTRICTS),
            customer: Customer::draw(home, random),
        }
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Outcome, Error> {
        runner.session.begin()?;
        let c_id =
            self.customer
                .id(runner, Key::OrderStatusCustomerByLast, self.w_id, self.d_id)?;
        let customer = [self.w_id, self.d_id, c_id].map(Value::Int);
        runner.run(Key::OrderStatusCustomer, &customer)?;
        let mut last = None;
        runner.rows(Key::OrderStatusLastOrder, &customer, |cells| {
            last = int(cells, 0)
        })?;
        if let Some(o_id) = last {
            runner.run(
                Key::OrderStatusLines,
                &[self.w_id, self.d_id, o_id].map(Value::Int),
            )?;
        }
        runner.session.commit()?;
        Ok(Outcome::Committed)
    }
}
