//! The statements of each script, as sysbench 1.0.20 sends them.

use wire::Value;

use super::distribution::Draw;
use super::{Script, rows};
use crate::session::StatementSpec;
use crate::workload::Random;

/// Point selects in a transaction.
const POINT_SELECTS: u32 = 10;
/// Values or ranges in the statements of `select_random_*`.
const RANDOM_COUNT: usize = 10;
/// Width of a range of `select_random_ranges`.
const RANDOM_RANGE: i64 = 5;

/// One statement of a script, on each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    PointSelect {
        times: u32,
    },
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    IndexUpdate,
    NonIndexUpdate,
    Delete,
    /// Of the row that the delete before it took.
    InsertBack,
    InsertNew,
    RandomPoints,
    RandomRanges,
}

use Step::{
    Delete, DistinctRange, IndexUpdate, InsertBack, InsertNew, NonIndexUpdate, OrderRange,
    PointSelect, RandomPoints, RandomRanges, SimpleRange, SumRange,
};

/// A script's statements, and whether they stand between BEGIN and COMMIT.
pub(super) fn steps(script: Script) -> (Vec<Step>, bool) {
    let reads = vec![
        PointSelect {
            times: POINT_SELECTS,
        },
        SimpleRange,
        SumRange,
        OrderRange,
        DistinctRange,
    ];
    let writes = vec![IndexUpdate, NonIndexUpdate, Delete, InsertBack];
    match script {
        Script::PointSelect => (vec![PointSelect { times: 1 }], false),
        Script::ReadOnly => (reads, true),
        Script::ReadWrite => ([reads, writes].concat(), true),
        Script::WriteOnly => (writes, true),
        Script::UpdateIndex => (vec![IndexUpdate], false),
        Script::UpdateNonIndex => (vec![NonIndexUpdate], false),
        Script::Insert => (vec![InsertNew], false),
        Script::Delete => (vec![Delete], false),
        Script::SelectRandomPoints => (vec![RandomPoints], false),
        Script::SelectRandomRanges => (vec![RandomRanges], false),
    }
}

/// The name of a script's transactions.
pub(super) fn kind(script: Script) -> &'static str {
    match script {
        Script::PointSelect => "point_select",
        Script::ReadOnly => "read_only",
        Script::ReadWrite => "read_write",
        Script::WriteOnly => "write_only",
        Script::UpdateIndex => "update_index",
        Script::UpdateNonIndex => "update_non_index",
        Script::Insert => "insert",
        Script::Delete => "delete",
        Script::SelectRandomPoints => "select_random_points",
        Script::SelectRandomRanges => "select_random_ranges",
    }
}

impl Step {
    /// How often it stands in one transaction.
    pub(super) fn times(self) -> u32 {
        match self {
            PointSelect { times } => times,
            _ => 1,
        }
    }

    /// Whether it takes its table and id from the delete before it.
    pub(super) fn follows_delete(self) -> bool {
        self == InsertBack
    }

    /// Whether it hits all tables; sysbench's `select_random_*` know only the first.
    pub(super) fn is_any_table(self) -> bool {
        !matches!(self, RandomPoints | RandomRanges)
    }

    /// On how many of the tables it has a statement.
    pub(super) fn tables(self, tables: u32) -> u32 {
        if self.is_any_table() { tables } else { 1 }
    }

    /// Its statement on each table.
    pub(super) fn statements(self, tables: u32) -> Vec<StatementSpec> {
        let (name, sql) = self.sql();
        (1..=self.tables(tables))
            .map(|table| StatementSpec::new(name, sql.replace('#', &table.to_string())))
            .collect()
    }

    fn sql(self) -> (&'static str, String) {
        let range = "FROM sbtest# WHERE id BETWEEN ? AND ?";
        match self {
            PointSelect { .. } => ("point_select", "SELECT c FROM sbtest# WHERE id=?".into()),
            SimpleRange => ("simple_range", format!("SELECT c {range}")),
            SumRange => ("sum_range", format!("SELECT SUM(k) {range}")),
            OrderRange => ("order_range", format!("SELECT c {range} ORDER BY c")),
            DistinctRange => (
                "distinct_range",
                format!("SELECT DISTINCT c {range} ORDER BY c"),
            ),
            IndexUpdate => ("index_update", "UPDATE sbtest# SET k=k+1 WHERE id=?".into()),
            NonIndexUpdate => (
                "non_index_update",
                "UPDATE sbtest# SET c=? WHERE id=?".into(),
            ),
            Delete => ("delete", "DELETE FROM sbtest# WHERE id=?".into()),
            InsertBack => (
                "insert",
                "INSERT INTO sbtest# (id, k, c, pad) VALUES (?, ?, ?, ?)".into(),
            ),
            InsertNew => (
                "insert",
                "INSERT INTO sbtest# (k, c, pad) VALUES (?, ?, ?)".into(),
            ),
            RandomPoints => {
                let values = ["?"; RANDOM_COUNT].join(", ");
                (
                    "random_points",
                    format!("SELECT id, k, c, pad FROM sbtest# WHERE k IN ({values})"),
                )
            }
            RandomRanges => {
                let ranges = ["k BETWEEN ? AND ?"; RANDOM_COUNT].join(" OR ");
                (
                    "random_ranges",
                    format!("SELECT COUNT(k) FROM sbtest# WHERE {ranges}"),
                )
            }
        }
    }

    /// Draw its parameters into a list that keeps its memory. `deleted` carries the id of a delete to the insert that puts it back.
    pub(super) fn draw(
        self,
        ids: &Draw,
        range_size: u32,
        deleted: &mut i64,
        random: &mut Random,
        into: &mut Vec<Value>,
    ) {
        into.clear();
        let id = ids.one(random);
        match self {
            PointSelect { .. } | IndexUpdate => into.push(Value::Int(id)),
            SimpleRange | SumRange | OrderRange | DistinctRange => {
                into.extend([id, id + i64::from(range_size) - 1].map(Value::Int));
            }
            NonIndexUpdate => into.extend([rows::c(random), Value::Int(id)]),
            Delete => {
                *deleted = id;
                into.push(Value::Int(id));
            }
            InsertBack => {
                let numbers = [*deleted, id].map(Value::Int);
                into.extend(numbers);
                into.extend([rows::c(random), rows::pad(random)]);
            }
            InsertNew => into.extend([Value::Int(id), rows::c(random), rows::pad(random)]),
            RandomPoints => into.extend((0..RANDOM_COUNT).map(|_| Value::Int(ids.one(random)))),
            RandomRanges => into.extend(
                (0..RANDOM_COUNT)
                    .map(|_| ids.one(random))
                    .flat_map(|from| [from, from + RANDOM_RANGE].map(Value::Int)),
            ),
        }
    }
}
