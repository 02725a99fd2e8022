//! NewOrder (clause 2.4): a customer orders 5 to 15 items; one in a hundred orders has an item that does not exist and is rolled back.

use rand::RngExt;
use wire::{BatchWay, Cell, Error, Value};

use super::batch::BatchMode;
use super::catalog::Key;
use super::random::{money, now};
use super::scale::{DISTRICTS, ITEM_UNUSED, LINES_MAX, LINES_MIN};
use super::statements::{Runner, cents, int, lacking, text};
use super::terminal::Home;
use crate::workload::{Outcome, Random};

/// What is ordered, drawn before the transaction begins.
#[derive(Debug)]
pub(super) struct NewOrder {
    w_id: i64,
    d_id: i64,
    c_id: i64,
    /// By warehouse and item, so that all terminals lock stock in the same order.
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    supply_w_id: i64,
    i_id: i64,
    quantity: i64,
}

/// A row of stock that the order needs.
struct Stock {
    supply_w_id: i64,
    i_id: i64,
    /// Cents; none if there is no such item.
    price: Option<i64>,
    /// On stock; none until it is read.
    quantity: Option<i64>,
    dist_info: String,
}

impl NewOrder {
    pub(super) fn draw(home: &Home, random: &mut Random) -> Self {
        let count = random.random_range(LINES_MIN..=LINES_MAX);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                supply_w_id: if random.random_range(0..100) == 0 {
                    home.other_warehouse(random)
                } else {
                    home.w_id
                },
                i_id: home.constants.item(random),
                quantity: random.random_range(1..=10),
            })
            .collect();
        if random.random_range(0..100) == 0 {
            lines.last_mut().expect("at least five lines").i_id = ITEM_UNUSED;
        }
        lines.sort_by_key(Line::key);
        Self {
            w_id: home.w_id,
            d_id: random.random_range(1..=DISTRICTS),
            c_id: home.constants.customer(random),
            lines,
        }
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> (usize, usize) {
        (
            self.lines.len(),
            self.lines
                .iter()
                .filter(|line| line.supply_w_id != self.w_id)
                .count(),
        )
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>, batch: BatchMode) -> Result<Outcome, Error> {
        runner.session.begin()?;
        let o_id = self.insert_order(runner)?;
        let mut stock = self.stock();
        select_items(runner, &mut stock)?;
        self.select_stock(runner, &mut stock)?;
        // Clause 2.4.2.3: the order is rolled back at its end, and only the work of the item that does not exist is left out.
        let found = stock.len();
        stock.retain(|row| row.i_id != ITEM_UNUSED);
        let unused = stock.len() < found;
        let updates = self.updates(&stock)?;
        match batch {
            BatchMode::None | BatchMode::Multirow => {
                runner.each(Key::NewOrderStockUpdate, &updates, |_, _| {})?
            }
            BatchMode::Rewritten => {
                runner.each(Key::NewOrderStockUpdateRewritten, &updates, |_, _| {})?
            }
            BatchMode::Bulk => runner.batch(Key::NewOrderStockUpdate, &updates, BatchWay::Bulk)?,
            BatchMode::Pipeline => {
                runner.batch(Key::NewOrderStockUpdate, &updates, BatchWay::Pipeline)?
            }
        };
        let inserts = self.inserts(&stock, o_id);
        match batch {
            BatchMode::None => runner.each(Key::NewOrderLineInsert, &inserts, |_, _| {})?,
            BatchMode::Multirow | BatchMode::Rewritten => {
                runner.each(Key::NewOrderLineInsertMultirow, &inserts, |_, _| {})?
            }
            BatchMode::Bulk => runner.batch(Key::NewOrderLineInsert, &inserts, BatchWay::Bulk)?,
            BatchMode::Pipeline => {
                runner.batch(Key::NewOrderLineInsert, &inserts, BatchWay::Pipeline)?
            }
        };
        if unused {
            runner.session.rollback()?;
            return Ok(Outcome::RolledBack);
        }
        runner.session.commit()?;
        Ok(Outcome::Committed)
    }

    /// Everything but the lines; returns the order's number.
    fn insert_order(&self, runner: &mut Runner<'_>) -> Result<i64, Error> {
        let [w_id, d_id, c_id] = [self.w_id, self.d_id, self.c_id].map(Value::Int);
        runner.run(
            Key::NewOrderCustomer,
            &[w_id.clone(), d_id.clone(), c_id.clone()],
        )?;
        let district = [w_id.clone(), d_id.clone()];
        let mut next_o_id = None;
        runner.rows(Key::NewOrderDistrict, &district, |cells| {
            next_o_id = int(cells, 1)
        })?;
        let o_id = next_o_id.ok_or_else(|| lacking("the district"))?;
        runner.run(Key::NewOrderDistrictUpdate, &district)?;
        let all_local = self.lines.iter().all(|line| line.supply_w_id == self.w_id);
        let order = [
            Value::Int(o_id),
            d_id.clone(),
            w_id.clone(),
            c_id,
            now(),
            Value::Int(self.lines.len() as i64),
            Value::Int(i64::from(all_local)),
        ];
        runner.run(Key::NewOrderOrderInsert, &order)?;
        runner.run(Key::NewOrderNewOrderInsert, &[Value::Int(o_id), d_id, w_id])?;
        Ok(o_id)
    }

    /// Each row of stock once: an order may name an item twice.
    fn stock(&self) -> Vec<Stock> {
        let mut stock: Vec<Stock> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            if stock.last().is_none_or(|last| !last.is_for(line)) {
                stock.push(Stock {
                    supply_w_id: line.supply_w_id,
                    i_id: line.i_id,
                    price: None,
                    quantity: None,
                    dist_info: String::new(),
                });
            }
        }
        stock
    }

    fn select_stock(&self, runner: &mut Runner<'_>, stock: &mut [Stock]) -> Result<(), Error> {
        let there: Vec<usize> = (0..stock.len())
            .filter(|&place| stock[place].price.is_some())
            .collect();
        let key = |place: &usize| {
            vec![
                Value::Int(stock[*place].supply_w_id),
                Value::Int(stock[*place].i_id),
            ]
        };
        let keys: Vec<Vec<Value>> = there.iter().map(key).collect();
        let dist = 1 + self.d_id as usize;
        runner.each(Key::NewOrderStock, &keys, |row, cells| {
            let found = match row {
                Some(row) => Some(&mut stock[there[row]]),
                None => match cells {
                    [.., w_id, i_id] => {
                        let key = (w_id.as_int(), i_id.as_int());
                        let is = |one: &Stock| key == (Some(one.supply_w_id), Some(one.i_id));
                        stock.iter_mut().find(|one| is(one))
                    }
                    _ => None,
                },
            };
            if let (Some(one), Some(dist_info)) = (found, text(cells, dist)) {
                one.quantity = int(cells, 0);
                one.dist_info = dist_info;
            }
        })?;
        Ok(())
    }

    /// What is left of each row of stock (clause 2.4.2.2): never below 10, as if new goods had come.
    fn updates(&self, stock: &[Stock]) -> Result<Vec<Vec<Value>>, Error> {
        let mut updates = Vec::with_capacity(stock.len());
        for row in stock {
            let mut quantity = row
                .quantity
                .ok_or_else(|| lacking("the price or the stock of an item"))?;
            let (mut ordered, mut orders) = (0, 0);
            for line in self.lines.iter().filter(|line| row.is_for(line)) {
                quantity -= line.quantity;
                quantity += if quantity < 10 { 91 } else { 0 };
                ordered += line.quantity;
                orders += 1;
            }
            let remote = if row.supply_w_id == self.w_id {
                0
            } else {
                orders
            };
            updates.push(
                [row.supply_w_id, row.i_id, quantity, ordered, orders, remote]
                    .map(Value::Int)
                    .to_vec(),
            );
        }
        Ok(updates)
    }

    fn inserts(&self, stock: &[Stock], o_id: i64) -> Vec<Vec<Value>> {
        let mut rows = stock.iter().peekable();
        let mut number = 0;
        let insert = |line: &Line| {
            // The lines are in the order of their rows of stock; the item that does not exist has none.
            while rows.next_if(|row| row.key() < line.key()).is_some() {}
            let row = rows.peek().filter(|row| row.is_for(line))?;
            number += 1;
            Some(vec![
                Value::Int(o_id),
                Value::Int(self.d_id),
                Value::Int(self.w_id),
                Value::Int(number),
                Value::Int(line.i_id),
                Value::Int(line.supply_w_id),
                Value::Int(line.quantity),
                money(row.price.unwrap_or(0) * line.quantity),
                Value::Text(row.dist_info.clone()),
            ])
        };
        self.lines.iter().filter_map(insert).collect()
    }
}

impl Stock {
    fn key(&self) -> (i64, i64) {
        (self.supply_w_id, self.i_id)
    }

    fn is_for(&self, line: &Line) -> bool {
        self.key() == line.key()
    }
}

impl Line {
    fn key(&self) -> (i64, i64) {
        (self.supply_w_id, self.i_id)
    }
}

fn select_items(runner: &mut Runner<'_>, stock: &mut [Stock]) -> Result<(), Error> {
    let keys: Vec<Vec<Value>> = stock.iter().map(|row| vec![Value::Int(row.i_id)]).collect();
    runner.each(Key::NewOrderItem, &keys, |row, cells| {
        let price = cents(cells, 0);
        match row {
            Some(row) => stock[row].price = price,
            None => {
                let i_id = cells.last().and_then(Cell::as_int);
                for one in stock.iter_mut().filter(|one| Some(one.i_id) == i_id) {
                    one.price = price;
                }
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lines: &[(i64, i64, i64)]) -> (NewOrder, Vec<Stock>) {
        let line = |&(supply_w_id, i_id, quantity): &(i64, i64, i64)| Line {
            supply_w_id,
            i_id,
            quantity,
        };
        let order = NewOrder {
            w_id: 1,
            d_id: 2,
            c_id: 3,
            lines: lines.iter().map(line).collect(),
        };
        let mut stock = order.stock();
        for row in &mut stock {
            (row.price, row.quantity) = (Some(150), Some(20));
        }
        (order, stock)
    }

    #[test]
    fn an_item_that_is_named_twice_is_updated_once() {
        let (order, stock) = order(&[(1, 7, 6), (1, 7, 5), (2, 7, 1)]);
        assert_eq!(stock.len(), 2);
        let updates = order.updates(&stock).expect("all stock is there");
        // 20 - 6 = 14; 14 - 5 = 9 is below 10, so 100.
        assert_eq!(updates[0], [1, 7, 100, 11, 2, 0].map(Value::Int));
        assert_eq!(updates[1], [2, 7, 19, 1, 1, 1].map(Value::Int));
    }

    #[test]
    fn an_item_that_does_not_exist_is_left_out_and_nothing_else() {
        let (order, mut stock) = order(&[(1, 7, 6), (1, ITEM_UNUSED, 5), (2, 7, 1)]);
        stock.retain(|row| row.i_id != ITEM_UNUSED);
        assert_eq!(order.updates(&stock).expect("all stock is there").len(), 2);
        let inserts = order.inserts(&stock, 3001);
        let lines: Vec<(&Value, &Value)> = inserts.iter().map(|row| (&row[3], &row[5])).collect();
        let [one, two] = [1, 2].map(Value::Int);
        assert_eq!(lines, [(&one, &one), (&two, &two)]);
    }

    #[test]
    fn lines_are_numbered_and_priced() {
        let (order, stock) = order(&[(1, 7, 6), (1, 7, 5), (2, 7, 1)]);
        let inserts = order.inserts(&stock, 3001);
        let numbers: Vec<&Value> = inserts.iter().map(|row| &row[3]).collect();
        assert_eq!(numbers, [&Value::Int(1), &Value::Int(2), &Value::Int(3)]);
        assert_eq!(inserts[1][7], money(750));
        assert_eq!(inserts[2][5], Value::Int(2));
    }
}
