//! Random statements over random tables, the same for the same seed.
//!
//! An episode begins with an empty database. Its statements are made without looking at answers: what they hit follows from values that
//! are drawn from few. Only what would make a connection wait for the other one is kept apart: the second connection reads, without
//! locks, and has no transaction open while the first one changes a definition.

mod build;
mod dice;
mod others;
mod reads;
mod schema;
mod session;
pub mod values;
mod writes;

use crate::param::Param;
use crate::step::{Step, What};
use build::Build;
use dice::Dice;
use schema::Table;
use values::Class;

/// Statements for each new connection.
pub const SESSION: [&str; 4] = [
    "SET timestamp=1700000000",
    "SET lock_wait_timeout=2, innodb_lock_wait_timeout=1",
    "SET cte_max_recursion_depth=10",
    "SET max_execution_time=0",
];

struct Slot {
    number: u32,
    parameters: Vec<Class>,
    unordered: bool,
    /// MySQL 9.7.4 crashes where a statement is executed with a cursor and then without one: each has its own way.
    by_cursor: bool,
    has_cursor: bool,
    /// What was sent last, to be sent again.
    values: Vec<Param>,
}

struct Episode {
    dice: Dice,
    tables: Vec<Table>,
    /// By connection.
    slots: [Vec<Slot>; 2],
    next: u32,
    steps: Vec<Step>,
    /// The first connection may hold locks.
    is_open: bool,
    /// It has autocommit off.
    is_manual: bool,
    is_locked: bool,
    /// The second connection has a snapshot.
    reads: bool,
    number: u32,
}

/// The steps of the episode with this seed.
#[must_use]
pub fn episode(seed: u64, length: usize) -> Vec<Step> {
    let mut episode = Episode {
        dice: Dice::new(seed),
        tables: Vec::new(),
        slots: [Vec::new(), Vec::new()],
        next: 0,
        steps: Vec::new(),
        is_open: false,
        is_manual: false,
        is_locked: false,
        reads: false,
        number: 0,
    };
    episode.schema();
    while episode.steps.len() < length {
        episode.next();
    }
    episode.steps
}

impl Episode {
    fn schema(&mut self) {
        self.query(
            "schema",
            "CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, what TEXT)",
        );
        for number in 0..2 + self.dice.index(2) {
            let (table, sql) = schema::table(&mut self.dice, &format!("t{number}"));
            self.query("schema", sql);
            for rows in [20, 12] {
                let sql = writes::fill(&mut self.dice, &table, rows);
                self.query("schema", sql);
            }
            self.tables.push(table);
        }
        if self.dice.chance(15) {
            let (table, made) = schema::long(&mut self.dice, "long0");
            for sql in made {
                self.query("schema", sql);
            }
            self.tables.push(table);
        }
        for sql in schema::hangers(&mut self.dice, &mut self.tables) {
            self.query("schema", sql);
        }
        if self.dice.chance(70) {
            for table in self.tables.clone() {
                self.query("schema", format!("ANALYZE TABLE {}", table.name));
            }
        }
    }

    fn next(&mut self) {
        match *self.dice.weighted(&[
            (520, 0),
            (90, 1),
            (60, 2),
            (110, 3),
            (40, 4),
            (35, 5),
            (30, 6),
            (16, 7),
            (60, 8),
            (12, 9),
            (8, 10),
            (25, 11),
            (14, 12),
            (6, 13),
            (6, 14),
            (12, 15),
        ]) {
            0 => self.execute(0),
            1 => self.read(0, false),
            2 => self.prepare(0),
            3 => self.write(),
            4 => self.transaction(),
            5 => self.setting(),
            6 => {
                let sql = session::asking(&mut self.dice);
                self.query("session", sql);
            }
            7 => self.definition(),
            8 => self.second(),
            9 => self.handler(),
            10 => self.lock(),
            11 => self.sql_prepared(),
            12 => self.routine(),
            13 => self.control(),
            14 => self.explain(),
            _ => self.ahead(),
        }
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn query(&mut self, group: &'static str, sql: impl Into<String>) {
        let mut step = Step::query(group, sql);
        step.diagnose = self.dice.chance(40);
        self.push(step);
    }

    fn table(&mut self) -> Table {
        self.dice.pick(&self.tables).clone()
    }

    /// A statement that reads, and the group that it is counted under.
    fn reading(&mut self, prepared: bool, locks: bool) -> (&'static str, Build) {
        let (table, other) = (self.table(), self.table());
        let mut build = Build::new(prepared);
        let dice = &mut self.dice;
        let group = match dice.below(20) {
            0..=11 => {
                reads::point(dice, &table, locks, &mut build);
                "point select"
            }
            12..=14 => {
                reads::range(dice, &table, locks, &mut build);
                "range"
            }
            15..=17 => {
                reads::aggregate(dice, &table, &mut build);
                "aggregate"
            }
            _ => {
                reads::nested(dice, &table, &other, &mut build);
                "nested"
            }
        };
        (group, build)
    }

    fn read(&mut self, on: usize, only_plain: bool) {
        let (group, build) = self.reading(false, !only_plain);
        let mut step = Step::query(group, build.sql);
        (step.on, step.unordered) = (on, build.unordered);
        self.push(step);
    }

    fn changing(&mut self, prepared: bool) -> Build {
        let (table, other) = (self.table(), self.table());
        let mut build = Build::new(prepared);
        writes::change(&mut self.dice, &table, &other, &mut build);
        build
    }

    fn write(&mut self) {
        let build = self.changing(false);
        let mut step = Step::query("write", build.sql);
        step.diagnose = self.dice.chance(50);
        self.end_reads_sometimes();
        self.push(step);
    }

    fn prepare(&mut self, on: usize) {
        // Not too many live at once, so that each is executed often.
        if self.slots[on].len() > 10 {
            let at = self.dice.index(self.slots[on].len());
            let slot = self.slots[on].swap_remove(at);
            if self.dice.chance(80) {
                let mut step = Step::new("protocol", What::Close(slot.number));
                step.on = on;
                self.push(step);
            }
        }
        let writes = on == 0 && self.dice.chance(28);
        let build = if writes {
            self.changing(true)
        } else {
            self.reading(true, on == 0).1
        };
        let number = self.next;
        self.next += 1;
        let mut step = Step::new("prepare", What::Prepare(number, build.sql));
        step.on = on;
        self.push(step);
        let (parameters, unordered) = (build.parameters, build.unordered);
        let by_cursor = !writes && self.dice.chance(6);
        self.slots[on].push(Slot {
            number,
            parameters,
            unordered,
            by_cursor,
            has_cursor: false,
            values: Vec::new(),
        });
        for _ in 0..1 + self.dice.below(3) {
            self.execute_at(on, self.slots[on].len() - 1);
        }
    }

    fn execute(&mut self, on: usize) {
        if self.slots[on].is_empty() {
            return self.prepare(on);
        }
        let at = self.dice.index(self.slots[on].len());
        self.execute_at(on, at);
    }

    fn execute_at(&mut self, on: usize, at: usize) {
        let dice = &mut self.dice;
        let slot = &mut self.slots[on][at];
        if slot.has_cursor && dice.chance(70) {
            let rows = [0, 1, 2, 5, 100][dice.index(5)];
            let mut step = Step::new("cursor", What::Fetch(slot.number, rows));
            step.on = on;
            slot.has_cursor = dice.chance(70);
            return self.push(step);
        }
        let classes = slot.parameters.clone();
        if slot.values.len() != classes.len() || !dice.chance(15) {
            let values = classes.iter().map(|&class| {
                let value = values::value(dice, class);
                values::param(dice, &value)
            });
            slot.values = values.collect();
        }
        let mut before = Vec::new();
        let mut values = slot.values.clone();
        if !values.is_empty() && dice.chance(2) {
            let at = dice.index(values.len());
            let data = match &values[at] {
                Param::Bytes(_, bytes) => bytes.clone(),
                _ => b"1".to_vec(),
            };
            before.push(What::LongData(slot.number, at as u16, data));
            values[at] = Param::Long;
        }
        if dice.chance(1) {
            before.push(What::ResetStatement(slot.number));
        }
        let cursor = slot.by_cursor;
        slot.has_cursor = cursor;
        let what = What::Execute {
            slot: slot.number,
            values,
            cursor,
            rebind: dice.chance(50),
        };
        let mut step = Step::new("execute", what);
        // The rows of a cursor come in an order of their own, fetch by fetch: those of one table by a key are the same.
        (step.on, step.unordered) = (on, slot.unordered);
        step.diagnose = dice.chance(30);
        for what in before {
            let mut step = Step::new("protocol", what);
            step.on = on;
            self.push(step);
        }
        self.push(step);
    }

    fn transaction(&mut self) {
        let sql = *self.dice.weighted(&[
            (30, "START TRANSACTION"),
            (25, "COMMIT"),
            (15, "ROLLBACK"),
            (6, "START TRANSACTION READ ONLY"),
            (6, "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
            (4, "SAVEPOINT s"),
            (4, "ROLLBACK TO SAVEPOINT s"),
            (2, "RELEASE SAVEPOINT s"),
            (2, "COMMIT AND CHAIN"),
            (6, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
            (3, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
            (5, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            (
                3,
                "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            ),
            (8, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
            (2, "SET SESSION TRANSACTION READ ONLY"),
            (4, "SET SESSION TRANSACTION READ WRITE"),
        ]);
        self.is_open = match sql {
            "COMMIT" | "ROLLBACK" => self.is_manual,
            _ => true,
        };
        self.query("transaction", sql);
    }

    fn setting(&mut self) {
        let sql = session::setting(&mut self.dice);
        if sql.contains("autocommit=0") {
            (self.is_manual, self.is_open) = (true, true);
        }
        if sql.contains("autocommit=1") {
            self.is_manual = false;
        }
        if sql.contains("CHAIN") || sql.contains("read_only") {
            self.is_open = true;
        }
        self.query("session", sql);
    }

    /// Nothing of the first connection's is locked, and nothing of the second's is read.
    fn quiesce(&mut self) {
        if self.is_open {
            self.query("transaction", "COMMIT");
            self.is_open = self.is_manual;
        }
        if self.is_locked {
            self.query("lock", "UNLOCK TABLES");
            self.is_locked = false;
        }
        self.end_reads();
    }

    fn end_reads(&mut self) {
        if self.reads {
            let mut step = Step::query("second", "COMMIT");
            step.on = 1;
            self.push(step);
            self.reads = false;
        }
    }

    fn end_reads_sometimes(&mut self) {
        if self.dice.chance(3) {
            self.end_reads();
        }
    }

    fn definition(&mut self) {
        if self.dice.chance(60) {
            self.quiesce();
        }
        self.end_reads();
        let table = self.table();
        self.number += 1;
        for sql in session::definition(&mut self.dice, &table, self.number) {
            self.query("definition", sql);
        }
    }

    /// The second connection reads; what it sees depends on isolation levels and on what the first one has committed.
    fn second(&mut self) {
        if self.is_locked {
            return self.execute(0);
        }
        match self.dice.below(20) {
            0 => {
                let sql = [
                    "START TRANSACTION READ ONLY",
                    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                    "START TRANSACTION",
                ][self.dice.index(3)];
                let mut step = Step::query("second", sql);
                step.on = 1;
                self.push(step);
                self.reads = true;
            }
            1 => {
                self.reads = true;
                self.end_reads();
            }
            2 => {
                let level =
                    ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ"][self.dice.index(3)];
                let mut step = Step::query(
                    "second",
                    format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
                );
                step.on = 1;
                self.push(step);
            }
            3..=7 => self.read_plain(),
            8 => self.prepare_plain(),
            _ => {
                if self.slots[1].is_empty() {
                    self.prepare_plain();
                } else {
                    self.execute(1);
                }
            }
        }
    }

    fn read_plain(&mut self) {
        self.read(1, true);
    }

    fn prepare_plain(&mut self) {
        self.prepare(1);
    }
}

#[cfg(test)]
mod tests;
