//! What episodes do besides reading and writing: HANDLER, LOCK TABLES, PREPARE in SQL, routines, the protocol's commands, EXPLAIN.

use super::{Build, Episode, SESSION, values};
use crate::step::{Step, What};

impl Episode {
    pub(super) fn handler(&mut self) {
        let table = self.table();
        let name = table.name.clone();
        self.query("handler", format!("HANDLER {name} OPEN AS h"));
        for _ in 0..1 + self.dice.below(4) {
            let mut build = Build::new(false);
            match self.dice.below(4) {
                0 => build
                    .text("HANDLER h READ `PRIMARY` = (")
                    .value(&mut self.dice, table.columns[0].class)
                    .text(")"),
                1 => build.text("HANDLER h READ `PRIMARY` NEXT"),
                2 => build.text("HANDLER h READ `PRIMARY` FIRST"),
                _ => build
                    .text("HANDLER h READ `PRIMARY` >= (")
                    .value(&mut self.dice, table.columns[0].class)
                    .text(") LIMIT 2"),
            };
            self.query("handler", build.sql);
            if self.dice.chance(30) {
                self.execute(0);
            }
        }
        self.query("handler", "HANDLER h CLOSE");
    }

    /// What the first connection's statements are, sent before the answers to those before them are read.
    pub(super) fn ahead(&mut self) {
        let begin = self.steps.len();
        for _ in 0..2 + self.dice.below(5) {
            if self.dice.chance(80) {
                self.execute(0);
            } else {
                self.read(0, false);
            }
        }
        // What is prepared is executed by the number that the answer brings.
        let is_known = |step: &Step| !matches!(step.what, What::Prepare(..));
        if !self.steps[begin..].iter().all(is_known) {
            return;
        }
        let mut all = self.steps.drain(begin..);
        let Some(mut first) = all.next() else {
            return;
        };
        for step in all {
            first.unordered |= step.unordered;
            first.ahead.push(step.what);
        }
        (first.group, first.diagnose) = ("ahead".into(), false);
        self.push(first);
    }

    pub(super) fn lock(&mut self) {
        self.end_reads();
        let (table, how) = (
            self.table(),
            ["READ", "WRITE", "READ LOCAL"][self.dice.index(3)],
        );
        self.query("lock", format!("LOCK TABLES {} {how}", table.name));
        self.is_locked = true;
        for _ in 0..2 + self.dice.below(5) {
            if self.dice.chance(70) {
                self.execute(0);
            } else {
                self.write();
            }
        }
        self.query("lock", "UNLOCK TABLES");
        self.is_locked = false;
    }

    /// PREPARE and EXECUTE as SQL, with user variables.
    pub(super) fn sql_prepared(&mut self) {
        let (group, build) = if self.dice.chance(25) {
            ("write", self.changing(true))
        } else {
            self.reading(true, true)
        };
        self.query(
            "user variables",
            format!("PREPARE p FROM {}", values::quoted(&build.sql)),
        );
        for _ in 0..1 + self.dice.below(3) {
            let mut names = Vec::new();
            for (at, class) in build.parameters.iter().enumerate() {
                let value = values::value(&mut self.dice, *class);
                let literal = values::literal(&mut self.dice, &value);
                self.query("user variables", format!("SET @v{at} = {literal}"));
                names.push(format!("@v{at}"));
            }
            let using = if names.is_empty() {
                String::new()
            } else {
                format!(" USING {}", names.join(", "))
            };
            let mut step = Step::query(group, format!("EXECUTE p{using}"));
            step.unordered = build.unordered;
            self.push(step);
        }
        if self.dice.chance(50) {
            self.query("user variables", "DEALLOCATE PREPARE p");
        }
    }

    pub(super) fn routine(&mut self) {
        let mut build = Build::new(false);
        let class = self.tables[0].columns[0].class;
        match self.dice.below(3) {
            0 => build
                .text("CALL p0(")
                .value(&mut self.dice, class)
                .text(")"),
            1 => build
                .text("SELECT f0(")
                .value(&mut self.dice, class)
                .text(")"),
            _ => {
                let table = self.table();
                build
                    .text("SELECT k0 INTO @got FROM ")
                    .text(&table.name)
                    .text(" WHERE ");
                let key = table.primary.clone();
                build.key(&mut self.dice, &table, &key, "")
            }
        };
        self.query("routine", build.sql);
    }

    pub(super) fn control(&mut self) {
        let what = match self.dice.below(8) {
            0 => What::Ping,
            1 => What::MultiStatements(true),
            2 => What::Query("SELECT 1; SELECT k0 FROM t0 WHERE k0 = 1; DO 1".to_owned()),
            3 => What::Fetch(self.dice.below(3), 1),
            4 => What::Query(String::new()),
            5 => What::Query("RESET PERSIST no_such".to_owned()),
            6 => What::ResetStatement(99_999),
            _ => {
                // What was prepared goes; what a new session has comes back.
                self.quiesce();
                self.slots[0].clear();
                self.push(Step::new("protocol", What::ResetConnection));
                (self.is_manual, self.is_open) = (false, false);
                for sql in SESSION {
                    self.query("session", sql);
                }
                return;
            }
        };
        self.push(Step::new("protocol", what));
    }

    /// The plan of a look-up by a whole key does not depend on statistics.
    pub(super) fn explain(&mut self) {
        let table = self.table();
        let mut build = Build::new(false);
        build
            .text("EXPLAIN SELECT * FROM ")
            .text(&table.name)
            .text(" WHERE ");
        for (number, column) in table.columns[..table.primary.columns.len()]
            .iter()
            .enumerate()
        {
            build
                .text(if number > 0 { " AND " } else { "" })
                .text(&column.name)
                .text(" = ")
                .value(&mut self.dice, column.class);
        }
        self.query("explain", build.sql);
    }
}
