//! Fixed statements of every kind that clients send: sysbench's, TPC-C's, and each feature of the protocol.

pub mod clients;
mod features;

use crate::param::{Param, kind};
use crate::step::{Step, What};
use features::{errors, features};

mod tpcc {
    macro_rules! files {
        ($($name:literal),* $(,)?) => {
            [$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../loadgen/statements/", $name, ".sql")))),*]
        };
    }

    /// The statements as `upshift load` sends them, in all flavours: their files by name.
    pub const ALL: [(&str, &str); 38] = files![
        "both/new_order.customer_select",
        "both/new_order.district_select",
        "both/new_order.district_update",
        "both/new_order.order_insert",
        "both/new_order.new_order_insert",
        "tuned/new_order.item_select",
        "benchmarksql/new_order.item_select",
        "tuned/new_order.stock_select",
        "benchmarksql/new_order.stock_select",
        "both/new_order.stock_update",
        "both/new_order.stock_update_rewritten",
        "both/new_order.order_line_insert",
        "both/new_order.order_line_insert_multirow",
        "both/payment.warehouse_select",
        "both/payment.warehouse_update",
        "both/payment.district_select",
        "both/payment.district_update",
        "both/payment.customer_by_last",
        "both/payment.customer_select",
        "both/payment.customer_update",
        "both/payment.customer_data_select",
        "both/payment.customer_data_update",
        "both/payment.history_insert",
        "both/order_status.customer_by_last",
        "both/order_status.customer_select",
        "tuned/order_status.last_order",
        "benchmarksql/order_status.last_order",
        "both/order_status.order_lines",
        "tuned/delivery.oldest_new_order",
        "benchmarksql/delivery.oldest_new_order",
        "both/delivery.new_order_delete",
        "both/delivery.order_select",
        "both/delivery.order_update",
        "both/delivery.order_line_update",
        "both/delivery.amount_sum",
        "both/delivery.customer_update",
        "tuned/stock_level.low_stock",
        "benchmarksql/stock_level.low_stock",
    ];

    pub const TABLES: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../loadgen/statements/schema/mysql_tables.sql"
    ));
}

/// Sysbench's statements, with the classes of their parameters.
const SYSBENCH: [(&str, &str); 10] = [
    ("SELECT c FROM sbtest1 WHERE id=?", "i"),
    ("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", "ii"),
    ("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", "ii"),
    (
        "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
        "ii",
    ),
    (
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
        "ii",
    ),
    ("UPDATE sbtest1 SET k=k+1 WHERE id=?", "i"),
    ("UPDATE sbtest1 SET c=? WHERE id=?", "si"),
    ("DELETE FROM sbtest1 WHERE id=?", "i"),
    (
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
        "iiss",
    ),
    (
        "SELECT id, k, c, pad FROM sbtest1 WHERE k IN (?, ?, ?, ?)",
        "iiii",
    ),
];

/// All of the mix, for an empty database.
#[must_use]
pub fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    sysbench(&mut steps);
    tpcc_transactions(&mut steps);
    features(&mut steps);
    errors(&mut steps);
    steps
}

fn query(steps: &mut Vec<Step>, group: &'static str, sql: &str) {
    steps.push(Step::query(group, sql));
}

fn int(number: u64) -> Param {
    Param::Int(kind::LONGLONG, false, number)
}

fn text(text: &str) -> Param {
    Param::Bytes(kind::VAR_STRING, text.as_bytes().to_vec())
}

fn execute(slot: u32, values: Vec<Param>) -> What {
    What::Execute {
        slot,
        values,
        cursor: false,
        rebind: true,
    }
}

/// Prepare, execute with each row of values, and close.
fn prepared(steps: &mut Vec<Step>, group: &'static str, slot: u32, sql: &str, rows: &[Vec<Param>]) {
    steps.push(Step::new(group, What::Prepare(slot, sql.to_owned())));
    for row in rows {
        steps.push(Step::new(group, execute(slot, row.clone())));
    }
    steps.push(Step::new(group, What::Close(slot)));
}

fn sysbench(steps: &mut Vec<Step>) {
    let group = "sysbench";
    query(
        steps,
        group,
        "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT '0', c CHAR(120) NOT NULL DEFAULT '', \
         pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))",
    );
    for id in 1..=100 {
        query(
            steps,
            group,
            &format!(
                "INSERT INTO sbtest1 (id, k, c, pad) VALUES ({id}, {}, '{id:0>11}-{id:0>11}', 'pad {id}')",
                id % 17
            ),
        );
    }
    query(steps, group, "ANALYZE TABLE sbtest1");
    for (slot, (sql, classes)) in (100..).zip(SYSBENCH) {
        let row = |from: u64| -> Vec<Param> {
            let each = (from..).zip(classes.chars());
            each.map(|(number, class)| {
                if class == 'i' {
                    int(number)
                } else {
                    text(&format!("text {number}"))
                }
            })
            .collect()
        };
        let rows: Vec<_> = [1, 2, 50, 99, 101, 5000].map(row).to_vec();
        prepared(steps, group, slot, sql, &rows);
        for row in &rows {
            query(steps, group, &with_literals(sql, row));
        }
    }
    for open in ["BEGIN", "START TRANSACTION READ ONLY"] {
        query(steps, group, open);
        let rows: Vec<_> = (1..=10).map(|id| vec![int(id)]).collect();
        prepared(steps, group, 120, SYSBENCH[0].0, &rows);
        prepared(steps, group, 121, SYSBENCH[5].0, &rows);
        query(steps, group, "COMMIT");
    }
}

/// A statement with its parameters written into it.
fn with_literals(sql: &str, values: &[Param]) -> String {
    let mut values = values.iter();
    let mut out = String::new();
    for letter in sql.chars() {
        match (letter, values.as_slice().is_empty()) {
            ('?', false) => match values.next() {
                Some(Param::Int(_, _, bits)) => out.push_str(&bits.to_string()),
                Some(Param::Bytes(_, bytes)) => {
                    out.push_str(&format!("'{}'", String::from_utf8_lossy(bytes)))
                }
                _ => out.push_str("NULL"),
            },
            _ => out.push(letter),
        }
    }
    out
}

fn tpcc_transactions(steps: &mut Vec<Step>) {
    let group = "tpcc";
    for sql in tpcc::TABLES
        .split(';')
        .map(without_comments)
        .filter(|sql| !sql.is_empty())
    {
        query(steps, group, &sql);
    }
    query(
        steps,
        group,
        "INSERT INTO warehouse VALUES (1, 300000, 0.1, 'one', 's1', 's2', 'city', 'ST', '123456789'), (2, 1, 0.2, 'two', '', '', '', '', '')",
    );
    for district in 1..=2 {
        query(
            steps,
            group,
            &format!(
                "INSERT INTO district VALUES (1, {district}, 30000, 0.05, 31, 'd', 's1', 's2', 'city', 'ST', '1')"
            ),
        );
        for customer in 1..=5 {
            query(
                steps,
                group,
                &format!(
                    "INSERT INTO customer VALUES (1, {district}, {customer}, 0.1, 'GC', 'BARBARBAR', 'first{customer}', 50000, -10, 10, 1, 0, \
                     's1', 's2', 'city', 'ST', 'zip', 'phone', '2024-01-02 03:04:05', 'OE', 'data')"
                ),
            );
            query(
                steps,
                group,
                &format!(
                    "INSERT INTO oorder VALUES (1, {district}, {customer}, {customer}, NULL, 5, 1, '2024-01-01')"
                ),
            );
            query(
                steps,
                group,
                &format!("INSERT INTO new_order VALUES (1, {district}, {customer})"),
            );
            query(
                steps,
                group,
                &format!(
                    "INSERT INTO order_line VALUES (1, {district}, {customer}, 1, {customer}, NULL, 9.5, 1, 5, 'dist')"
                ),
            );
        }
    }
    for item in 1..=9 {
        query(
            steps,
            group,
            &format!("INSERT INTO item VALUES ({item}, 'item {item}', {item}.5, 'ORIGINAL', 1)"),
        );
        query(
            steps,
            group,
            &format!(
                "INSERT INTO stock VALUES (1, {item}, 50, 0, 0, 0, 'data', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j')"
            ),
        );
    }
    for round in 0..3 {
        query(
            steps,
            group,
            if round == 2 {
                "SET autocommit=0"
            } else {
                "START TRANSACTION"
            },
        );
        for (slot, (_, file)) in (200..).zip(tpcc::ALL) {
            let (sql, values) = tpcc_statement(file, round);
            let other = values.iter().map(|value| match value {
                Param::Int(kind, sign, number) => Param::Int(*kind, *sign, number + 1),
                same => same.clone(),
            });
            let rows = [values.clone(), other.collect(), values.clone()];
            prepared(steps, group, slot, &sql, &rows);
            query(steps, group, &with_literals(&sql, &values));
        }
        query(steps, group, if round == 1 { "ROLLBACK" } else { "COMMIT" });
    }
    query(steps, group, "SET autocommit=1");
}

/// Without comments, except for what a batch repeats, which stands once.
fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find("/*") {
        out.push_str(&rest[..begin]);
        rest = rest[begin..]
            .find("*/")
            .map_or("", |end| &rest[begin + end + 2..]);
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// A file's statement with `?`, and values by the names of its parameters.
fn tpcc_statement(file: &str, round: u64) -> (String, Vec<Param>) {
    let text_of = without_comments(file);
    let (mut sql, mut values) = (String::new(), Vec::new());
    let mut rest = text_of.as_str();
    while let Some(at) = rest.find(':') {
        sql.push_str(&rest[..at]);
        let name: String = rest[at + 1..]
            .chars()
            .take_while(|each| each.is_alphanumeric() || *each == '_')
            .collect();
        rest = &rest[at + 1 + name.len()..];
        sql.push('?');
        values.push(match name.as_str() {
            "amount" => Param::Bytes(kind::NEWDECIMAL, b"12.34".to_vec()),
            "c_last" => text("BARBARBAR"),
            "dist_info" | "h_data" | "c_data" => text("some text"),
            "date" | "entry_d" | "delivery_d" => {
                Param::Temporal(kind::DATETIME, vec![0xE8, 7, 2, 3, 4, 5, 6])
            }
            "number" | "o_id" => int(40 + round),
            "w_id" | "c_w_id" | "supply_w_id" | "d_id" | "c_d_id" => int(1),
            _ => int(1 + round),
        });
    }
    sql.push_str(rest);
    (sql, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_of_tpcc_has_a_value_for_each_name() {
        for (_, file) in tpcc::ALL {
            let (sql, values) = tpcc_statement(file, 0);
            assert_eq!(sql.matches('?').count(), values.len(), "{sql}");
            assert!(
                !sql.contains(':') && !sql.contains("/*") && !values.is_empty(),
                "{sql}"
            );
        }
    }

    #[test]
    fn every_statement_of_tpcc_is_sent() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/statements");
        let mut files = Vec::new();
        for flavour in ["both", "benchmarksql", "tuned"] {
            let all = std::fs::read_dir(folder.join(flavour)).expect("a flavour's folder");
            files.extend(all.map(|file| {
                let name = file.expect("a file").file_name();
                format!("{flavour}/{}", name.to_string_lossy().replace(".sql", ""))
            }));
        }
        files.sort();
        let mut sent = tpcc::ALL.map(|(name, _)| name);
        sent.sort_unstable();
        assert_eq!(files, sent);
    }
}
