//! A statement under construction: with values as literals, or with `?` for them.

use super::dice::Dice;
use super::schema::{Key, Table};
use super::values::{Class, literal, value};

/// The text so far.
#[derive(Debug, Clone, Default)]
pub struct Build {
    /// The SQL.
    pub sql: String,
    /// Of each `?`.
    pub parameters: Vec<Class>,
    /// `?` in place of literals.
    pub prepared: bool,
    /// The order of its rows is left open.
    pub unordered: bool,
}

impl Build {
    /// Nothing yet.
    #[must_use]
    pub fn new(prepared: bool) -> Self {
        Self {
            prepared,
            ..Self::default()
        }
    }

    /// Add text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.sql.push_str(text);
        self
    }

    /// Add a value for a column of this class.
    pub fn value(&mut self, dice: &mut Dice, class: Class) -> &mut Self {
        if self.prepared && !dice.chance(6) {
            self.sql.push('?');
            self.parameters.push(class);
        } else {
            let value = value(dice, class);
            self.sql.push_str(&literal(dice, &value));
        }
        self
    }

    /// Add a number such as that of LIMIT.
    pub fn number(&mut self, dice: &mut Dice, end: u32) -> &mut Self {
        if self.prepared && dice.chance(50) {
            self.sql.push('?');
            self.parameters.push(Class::Int(3, true));
        } else {
            self.sql.push_str(&dice.below(end).to_string());
        }
        self
    }

    /// Add an equality of each part of a key, in most cases just that.
    pub fn key(&mut self, dice: &mut Dice, table: &Table, key: &Key, alias: &str) -> &mut Self {
        let mut parts = key.columns.clone();
        if dice.chance(20) {
            parts.reverse();
        }
        // Sometimes only a part of the key, or a part twice.
        if parts.len() > 1 && dice.chance(8) {
            parts.remove(dice.index(parts.len()));
        }
        if dice.chance(3) {
            parts.push(parts[0]);
        }
        for (number, &at) in parts.iter().enumerate() {
            if number > 0 {
                self.text(" AND ");
            }
            let column = &table.columns[at];
            let name = format!("{alias}{}", column.name);
            match dice.below(30) {
                0 => self.value(dice, column.class).text(" = ").text(&name),
                1 => self.text(&name).text(" <=> ").value(dice, column.class),
                2 => self
                    .text(&name)
                    .text(" IN (")
                    .value(dice, column.class)
                    .text(")"),
                3 => self
                    .text("(")
                    .text(&name)
                    .text(" = ")
                    .value(dice, column.class)
                    .text(")"),
                _ => self.text(&name).text(" = ").value(dice, column.class),
            };
        }
        self
    }

    /// Add a range with two ends.
    pub fn between(&mut self, dice: &mut Dice, name: &str, class: Class) -> &mut Self {
        self.text(name)
            .text(" BETWEEN ")
            .value(dice, class)
            .text(" AND ")
            .value(dice, class)
    }

    /// Add a condition of any other kind.
    pub fn condition(&mut self, dice: &mut Dice, table: &Table, alias: &str) -> &mut Self {
        let column = if dice.chance(50) {
            &table.columns[0]
        } else {
            dice.pick(&table.columns)
        };
        let (name, class) = (format!("{alias}{}", column.name), column.class);
        match dice.below(12) {
            0 | 1 => self.between(dice, &name, class),
            2 | 3 => {
                self.text(&name).text(" IN (");
                for number in 0..1 + dice.below(5) {
                    self.text(if number > 0 { ", " } else { "" })
                        .value(dice, class);
                }
                self.text(")")
            }
            4 => self.text(&name).text(" >= ").value(dice, class),
            5 => self.text(&name).text(" < ").value(dice, class),
            6 => self
                .text(&name)
                .text([" IS NULL", " IS NOT NULL"][dice.index(2)]),
            7 => self.text(&name).text(" <> ").value(dice, class),
            8 if class == Class::Text => self
                .text(&name)
                .text(" LIKE ")
                .text(["'a%'", "'%b'", "'_'", "''"][dice.index(4)]),
            9 => {
                let key = table.primary.clone();
                self.text("(")
                    .key(dice, table, &key, alias)
                    .text(" OR ")
                    .text(&name)
                    .text(" = ")
                    .value(dice, class)
                    .text(")")
            }
            10 => {
                let key = table.primary.clone();
                self.key(dice, table, &key, alias)
                    .text(" AND ")
                    .text(&name)
                    .text(" = ")
                    .value(dice, class)
            }
            _ => self.text(&name).text(" = ").value(dice, class),
        }
    }
}
