//! Delivery (clause 2.7): the oldest order of each district is delivered, in one transaction for the warehouse.

use rand::RngExt;
use wire::{Error, Value};

use super::catalog::Key;
use super::random::{money, now};
use super::scale::DISTRICTS;
use super::statements::{Runner, cents, int, lacking};
use super::terminal::Home;
use crate::workload::{Outcome, Random};

#[derive(Debug)]
pub(super) struct Delivery {
    w_id: i64,
    carrier_id: i64,
}

impl Delivery {
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        Self {
            w_id: home.w_id,
            carrier_id: random.random_range(1..=10),
        }
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Outcome, Error> {
        runner.session.begin()?;
        for d_id in 1..=DISTRICTS {
            self.deliver(runner, d_id)?;
        }
        runner.session.commit()?;
        Ok(Outcome::Committed)
    }

    /// A district without a new order is skipped.
    fn deliver(&self, runner: &mut Runner<'_>, d_id: i64) -> Result<(), Error> {
        let district = [self.w_id, d_id].map(Value::Int);
        let mut oldest = None;
        runner.rows(Key::DeliveryOldestNewOrder, &district, |cells| {
            oldest = oldest.or(int(cells, 0));
        })?;
        let Some(o_id) = oldest else {
            return Ok(());
        };
        let order = [self.w_id, d_id, o_id].map(Value::Int);
        if runner.run(Key::DeliveryNewOrderDelete, &order)?.affected == 0 {
            return Err(taken(o_id));
        }
        let (mut c_id, mut amount) = (None, None);
        runner.rows(Key::DeliveryOrder, &order, |cells| c_id = int(cells, 0))?;
        let c_id = c_id.ok_or_else(|| lacking("the order"))?;
        let with_order = |value: Value| [vec![value], order.to_vec()].concat();
        runner.run(
            Key::DeliveryOrderUpdate,
            &with_order(Value::Int(self.carrier_id)),
        )?;
        runner.run(Key::DeliveryLineUpdate, &with_order(now()))?;
        runner.rows(Key::DeliveryAmountSum, &order, |cells| {
            amount = cents(cells, 0)
        })?;
        let amount = amount.ok_or_else(|| lacking("a line of the order"))?;
        let customer = [
            money(amount),
            Value::Int(self.w_id),
            Value::Int(d_id),
            Value::Int(c_id),
        ];
        runner.run(Key::DeliveryCustomerUpdate, &customer)?;
        Ok(())
    }
}

/// Another Delivery was faster: what a serializable server would refuse, the client finds itself, and the transaction is run again.
fn taken(o_id: i64) -> Error {
    Error::Server {
        code: 0,
        sqlstate: "40001".to_owned(),
        message: format!("order {o_id} was delivered by another transaction"),
    }
}
