//! What the tables hold at first (clause 4.3.3), each table of each warehouse from random numbers of its own, so that they can be filled
//! in any order.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use wire::Value;

use super::part::Part;
use super::random::{NurandConstants, data, digits, last_name, letters, money, rate, zip};
use super::scale::{CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ITEMS, LINES_MAX, LINES_MIN};
use crate::workload::Random;

/// Rows on their way to a table.
pub(super) type Rows = Box<dyn Iterator<Item = Vec<Value>>>;

/// When all rows were made, as they say: 2026-01-01 00:00:00. Always the same, so that the same seed makes the same tables on every
/// server and on every day.
const MADE: Value = Value::Timestamp(1_767_225_600_000_000);

/// All that is random in a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    seed: u64,
    pub(super) constants: NurandConstants,
}

/// A loaded order, as `oorder` and `order_line` both need it.
#[derive(Debug, Clone, Copy)]
struct Order {
    d_id: i64,
    o_id: i64,
    c_id: i64,
    lines: i64,
}

impl Order {
    fn is_delivered(&self) -> bool {
        self.o_id < FIRST_NEW_ORDER
    }
}

impl Load {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            constants: NurandConstants::for_load(&mut Random::seed_from_u64(seed)),
        }
    }

    /// The rows of a part, in the order of its primary key.
    pub(super) fn rows(&self, part: Part) -> Rows {
        match part {
            Part::Item => self.items(),
            Part::Warehouse(w_id) => self.warehouse(w_id),
            Part::District(w_id) => self.districts(w_id),
            Part::Stock(w_id) => self.stock(w_id),
            Part::Customer(w_id) => self.customers(w_id),
            Part::History(w_id) => self.history(w_id),
            Part::Order(w_id) => self.orders(w_id),
            Part::NewOrder(w_id) => new_orders(w_id),
            Part::OrderLine(w_id) => self.order_lines(w_id),
        }
    }

    fn random(&self, stream: u64, w_id: i64) -> Random {
        Random::seed_from_u64(
            self.seed
                .wrapping_add(stream << 56)
                .wrapping_add((w_id as u64) << 16),
        )
    }

    fn items(&self) -> Rows {
        let mut random = self.random(1, 0);
        Box::new((1..=ITEMS).map(move |i_id| {
            vec![
                Value::Int(i_id),
                Value::Int(random.random_range(1..=10_000)),
                Value::Text(letters(14, 24, &mut random)),
                money(random.random_range(100..=10_000)),
                Value::Text(data(&mut random)),
            ]
        }))
    }

    fn warehouse(&self, w_id: i64) -> Rows {
        let mut random = self.random(2, w_id);
        let mut row = vec![Value::Int(w_id)];
        row.push(Value::Text(letters(6, 10, &mut random)));
        row.extend(address(&mut random));
        row.extend([rate(2000, &mut random), money(30_000_000)]);
        Box::new(std::iter::once(row))
    }

    fn districts(&self, w_id: i64) -> Rows {
        let mut random = self.random(3, w_id);
        Box::new((1..=DISTRICTS).map(move |d_id| {
            let mut row = vec![Value::Int(w_id), Value::Int(d_id)];
            row.push(Value::Text(letters(6, 10, &mut random)));
            row.extend(address(&mut random));
            row.extend([
                rate(2000, &mut random),
                money(3_000_000),
                Value::Int(CUSTOMERS + 1),
            ]);
            row
        }))
    }

    fn stock(&self, w_id: i64) -> Rows {
        let mut random = self.random(4, w_id);
        Box::new((1..=ITEMS).map(move |i_id| {
            let quantity = random.random_range(10..=100);
            let mut row = [w_id, i_id, quantity, 0, 0, 0].map(Value::Int).to_vec();
            row.push(Value::Text(data(&mut random)));
            row.extend((0..DISTRICTS).map(|_| Value::Text(letters(24, 24, &mut random))));
            row
        }))
    }

    fn customers(&self, w_id: i64) -> Rows {
        let mut random = self.random(5, w_id);
        let constants = self.constants;
        Box::new(pairs(DISTRICTS, CUSTOMERS).map(move |(d_id, c_id)| {
            let last = if c_id <= 1000 {
                last_name(c_id - 1)
            } else {
                constants.last(&mut random)
            };
            let mut row = [w_id, d_id, c_id].map(Value::Int).to_vec();
            row.extend([last, "OE".to_owned(), letters(8, 16, &mut random)].map(Value::Text));
            row.extend(address(&mut random));
            row.push(Value::Text(digits(16, &mut random)));
            row.push(MADE);
            let credit = if random.random_range(0..10) == 0 {
                "BC"
            } else {
                "GC"
            };
            row.push(Value::Text(credit.to_owned()));
            row.extend([
                money(5_000_000),
                rate(5000, &mut random),
                money(-1000),
                money(1000),
            ]);
            row.extend([Value::Int(1), Value::Int(0)]);
            row.push(Value::Text(letters(300, 500, &mut random)));
            row
        }))
    }

    fn history(&self, w_id: i64) -> Rows {
        let mut random = self.random(6, w_id);
        let mut hist_id = (w_id - 1) * DISTRICTS * CUSTOMERS;
        Box::new(pairs(DISTRICTS, CUSTOMERS).map(move |(d_id, c_id)| {
            hist_id += 1;
            let mut row = [hist_id, c_id, d_id, w_id, d_id, w_id]
                .map(Value::Int)
                .to_vec();
            row.extend([MADE, money(1000), Value::Text(letters(12, 24, &mut random))]);
            row
        }))
    }

    /// The loaded orders of a warehouse: each customer has one, in random order.
    fn heads(&self, w_id: i64) -> impl Iterator<Item = Order> + use<> {
        let mut random = self.random(7, w_id);
        let of_district = move |d_id| {
            let mut customers: Vec<i64> = (1..=CUSTOMERS).collect();
            customers.shuffle(&mut random);
            let head = |(place, &c_id): (usize, &i64)| Order {
                d_id,
                o_id: place as i64 + 1,
                c_id,
                lines: random.random_range(LINES_MIN..=LINES_MAX),
            };
            customers
                .iter()
                .enumerate()
                .map(head)
                .collect::<Vec<Order>>()
        };
        (1..=DISTRICTS).flat_map(of_district)
    }

    fn orders(&self, w_id: i64) -> Rows {
        let mut random = self.random(8, w_id);
        Box::new(self.heads(w_id).map(move |order| {
            let carrier_id = if order.is_delivered() {
                Value::Int(random.random_range(1..=10))
            } else {
                Value::Null
            };
            let mut row = [w_id, order.d_id, order.o_id, order.c_id]
                .map(Value::Int)
                .to_vec();
            row.extend([MADE, carrier_id, Value::Int(order.lines), Value::Int(1)]);
            row
        }))
    }

    fn order_lines(&self, w_id: i64) -> Rows {
        let mut random = self.random(9, w_id);
        let numbered = |order: Order| (1..=order.lines).map(move |number| (order, number));
        Box::new(
            self.heads(w_id)
                .flat_map(numbered)
                .map(move |(order, number)| {
                    let (delivery_d, amount) = if order.is_delivered() {
                        (MADE, 0)
                    } else {
                        (Value::Null, random.random_range(1..=999_999))
                    };
                    let i_id = random.random_range(1..=ITEMS);
                    let mut row = [w_id, order.d_id, order.o_id, number, i_id, w_id]
                        .map(Value::Int)
                        .to_vec();
                    row.extend([
                        delivery_d,
                        Value::Int(5),
                        money(amount),
                        Value::Text(letters(24, 24, &mut random)),
                    ]);
                    row
                }),
        )
    }
}

fn new_orders(w_id: i64) -> Rows {
    let new = CUSTOMERS - FIRST_NEW_ORDER + 1;
    Box::new(pairs(DISTRICTS, new).map(move |(d_id, number)| {
        [w_id, d_id, FIRST_NEW_ORDER - 1 + number]
            .map(Value::Int)
            .to_vec()
    }))
}

/// (1, 1), (1, 2), ...
fn pairs(outer: i64, inner: i64) -> impl Iterator<Item = (i64, i64)> {
    (1..=outer).flat_map(move |first| (1..=inner).map(move |second| (first, second)))
}

/// Two streets, city, state and zip.
fn address(random: &mut Random) -> [Value; 5] {
    let state: String = letters(2, 2, random).to_uppercase();
    [
        letters(10, 20, random),
        letters(10, 20, random),
        letters(10, 20, random),
        state,
        zip(random),
    ]
    .map(Value::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_columns_of_its_table() {
        let load = Load::new(1);
        for part in Part::all(2) {
            let (table, columns) = part.table();
            for row in load.rows(part).take(10) {
                assert_eq!(row.len(), columns.len(), "{table}");
            }
        }
    }

    #[test]
    fn orders_and_lines_agree() {
        let load = Load::new(1);
        let counts = |row: Vec<Value>| match &row[6] {
            Value::Int(lines) => *lines as usize,
            other => panic!("{other:?}"),
        };
        let lines: usize = load.rows(Part::Order(1)).map(counts).sum();
        assert_eq!(load.rows(Part::OrderLine(1)).count(), lines);
        assert_eq!(load.rows(Part::Order(1)).count(), 30_000);
        assert_eq!(load.rows(Part::NewOrder(1)).count(), 9000);
    }

    #[test]
    fn each_customer_has_one_order() {
        let mut customers: Vec<i64> = Load::new(1)
            .heads(1)
            .filter(|order| order.d_id == 3)
            .map(|order| order.c_id)
            .collect();
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=CUSTOMERS));
    }
}
