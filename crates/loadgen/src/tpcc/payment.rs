//! Payment (clause 2.5): a customer pays; 15 in 100 at another warehouse than their own, 60 in 100 are known by last name.

use rand::RngExt;
use wire::{Error, Value};

use super::catalog::Key;
use super::random::{money, now};
use super::scale::DISTRICTS;
use super::statements::{Runner, int, lacking, text};
use super::terminal::Home;
use crate::workload::{Outcome, Random};

/// Length of `c_data`.
const DATA_LENGTH_MAX: usize = 500;

/// How a customer is named.
#[derive(Debug)]
pub(super) enum Customer {
    Id(i64),
    Last(String),
}

impl Customer {
    /// 60 of 100 by last name.
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        if random.random_range(0..100) < 60 {
            Self::Last(home.constants.last(random))
        } else {
            Self::Id(home.constants.customer(random))
        }
    }

    /// The customer's number: of those with the name, in the order of their first names, the one in the middle.
    pub(super) fn id(
        &self,
        runner: &mut Runner<'_>,
        by_last: Key,
        w_id: i64,
        d_id: i64,
    ) -> Result<i64, Error> {
        match self {
            Self::Id(c_id) => Ok(*c_id),
            Self::Last(last) => {
                let mut ids = Vec::new();
                let values = [
                    Value::Int(w_id),
                    Value::Int(d_id),
                    Value::Text(last.clone()),
                ];
                runner.rows(by_last, &values, |cells| ids.extend(int(cells, 0)))?;
                let middle = ids.len().div_ceil(2).checked_sub(1);
                middle
                    .map(|place| ids[place])
                    .ok_or_else(|| lacking("a customer of this name"))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Payment {
    w_id: i64,
    d_id: i64,
    c_w_id: i64,
    c_d_id: i64,
    customer: Customer,
    /// Cents.
    amount: i64,
}

impl Payment {
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        let d_id = random.random_range(1..=DISTRICTS);
        let (c_w_id, c_d_id) = if random.random_range(0..100) < 15 {
            (
                home.other_warehouse(random),
                random.random_range(1..=DISTRICTS),
            )
        } else {
            (home.w_id, d_id)
        };
        Self {
            w_id: home.w_id,
            d_id,
            c_w_id,
            c_d_id,
            customer: Customer::draw(home, random),
            amount: random.random_range(100..=500_000),
        }
    }

    #[cfg(test)]
    pub(super) fn is_remote(&self) -> bool {
        self.c_w_id != self.w_id
    }

    #[cfg(test)]
    pub(super) fn is_by_last(&self) -> bool {
        matches!(self.customer, Customer::Last(_))
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Outcome, Error> {
        runner.session.begin()?;
        let (w_id, d_id, amount) = (
            Value::Int(self.w_id),
            Value::Int(self.d_id),
            money(self.amount),
        );
        let (mut district, mut warehouse) = (None, None);
        runner.run(
            Key::PaymentDistrictUpdate,
            &[amount.clone(), w_id.clone(), d_id.clone()],
        )?;
        runner.rows(
            Key::PaymentDistrict,
            &[w_id.clone(), d_id.clone()],
            |cells| district = text(cells, 0),
        )?;
        runner.run(Key::PaymentWarehouseUpdate, &[amount.clone(), w_id.clone()])?;
        runner.rows(
            Key::PaymentWarehouse,
            std::slice::from_ref(&w_id),
            |cells| warehouse = text(cells, 0),
        )?;
        let c_id =
            self.customer
                .id(runner, Key::PaymentCustomerByLast, self.c_w_id, self.c_d_id)?;
        self.update_customer(runner, c_id)?;
        let warehouse = warehouse.ok_or_else(|| lacking("the warehouse"))?;
        let district = district.ok_or_else(|| lacking("the district"))?;
        let history = [
            Value::Int(c_id),
            Value::Int(self.c_d_id),
            Value::Int(self.c_w_id),
            d_id,
            w_id,
            now(),
            amount,
            Value::Text(format!("{warehouse}    {district}")),
        ];
        runner.run(Key::PaymentHistoryInsert, &history)?;
        runner.session.commit()?;
        Ok(Outcome::Committed)
    }

    /// A customer with bad credit gets the payment noted in `c_data` too.
    fn update_customer(&self, runner: &mut Runner<'_>, c_id: i64) -> Result<(), Error> {
        let customer = [self.c_w_id, self.c_d_id, c_id].map(Value::Int);
        let mut credit = None;
        runner.rows(Key::PaymentCustomer, &customer, |cells| {
            credit = text(cells, 10)
        })?;
        let credit = credit.ok_or_else(|| lacking("the customer"))?;
        let mut values = vec![money(self.amount)];
        let key = if credit == "BC" {
            let mut data = None;
            runner.rows(Key::PaymentCustomerData, &customer, |cells| {
                data = text(cells, 0)
            })?;
            values.push(Value::Text(self.data(c_id, &data.unwrap_or_default())));
            Key::PaymentCustomerDataUpdate
        } else {
            Key::PaymentCustomerUpdate
        };
        values.extend(customer);
        runner.run(key, &values)?;
        Ok(())
    }

    fn data(&self, c_id: i64, before: &str) -> String {
        let Self {
            w_id,
            d_id,
            c_w_id,
            c_d_id,
            amount,
            ..
        } = self;
        let noted = format!(
            "{c_id} {c_d_id} {c_w_id} {d_id} {w_id} {}.{:02} ",
            amount / 100,
            amount % 100
        );
        noted
            .chars()
            .chain(before.chars())
            .take(DATA_LENGTH_MAX)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_keeps_its_length() {
        let payment = Payment {
            w_id: 1,
            d_id: 2,
            c_w_id: 3,
            c_d_id: 4,
            customer: Customer::Id(5),
            amount: 1205,
        };
        assert_eq!(payment.data(5, "before"), "5 4 3 2 1 12.05 before");
        assert_eq!(payment.data(5, &"x".repeat(500)).len(), 500);
    }
}
