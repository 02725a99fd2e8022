//! Random tables, with what hangs on them.

use super::dice::Dice;
use super::values::{Class, INTEGERS, KEYS, OTHERS, TEXTS, Type, fitting, literal};

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub class: Class,
    /// As DDL has the type.
    pub sql: &'static str,
    /// No value may be given.
    pub generated: bool,
}

/// An index that names its columns.
#[derive(Debug, Clone)]
pub struct Key {
    /// As `PRIMARY`.
    pub name: String,
    /// Indexes of columns.
    pub columns: Vec<usize>,
}

/// A base table, or a view on one.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// All columns; those of the primary key first.
    pub columns: Vec<Column>,
    /// The primary key.
    pub primary: Key,
    /// Unique keys.
    pub uniques: Vec<Key>,
    /// Other indexes.
    pub indexes: Vec<Key>,
    /// Not a base table.
    pub is_view: bool,
    /// A part of a key is a prefix.
    pub has_prefix: bool,
}

impl Table {
    /// The columns of ORDER BY that leave nothing open.
    pub fn order(&self, alias: &str, descending: bool) -> String {
        let way = if descending { " DESC" } else { "" };
        let parts = self
            .primary
            .columns
            .iter()
            .map(|&at| format!("{alias}{}{way}", self.columns[at].name));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// A column that may be given a value; not of the primary key when there is another.
    pub fn other(&self, dice: &mut Dice) -> &Column {
        let keys = self.primary.columns.len();
        let free: Vec<&Column> = self.columns[keys..]
            .iter()
            .filter(|each| !each.generated)
            .collect();
        if free.is_empty() {
            &self.columns[0]
        } else {
            free[dice.index(free.len())]
        }
    }
}

/// A base table and the statement that makes it.
pub fn table(dice: &mut Dice, name: &str) -> (Table, String) {
    let parts = [1, 1, 1, 2, 2, 3][dice.index(6)];
    let mut columns = Vec::new();
    let mut lines = Vec::new();
    let auto = parts == 1 && dice.chance(15);
    for at in 0..parts {
        let kind = if auto {
            KEYS[dice.index(6)]
        } else {
            key_type(dice)
        };
        let more = if auto { " AUTO_INCREMENT" } else { "" };
        lines.push(format!("k{at} {} NOT NULL{more}", kind.0));
        columns.push(column(format!("k{at}"), kind));
    }
    for at in 0..2 + dice.index(5) {
        let kind = if dice.chance(70) {
            KEYS[dice.index(KEYS.len())]
        } else {
            OTHERS[dice.index(OTHERS.len())]
        };
        let mut line = format!("c{at} {}", kind.0);
        if dice.chance(30) {
            line.push_str(" NOT NULL");
        } else if kind.0 == "TIMESTAMP" {
            line.push_str(" NULL");
        }
        if dice.chance(20) && can_default(kind) {
            let value = fitting(dice, kind.1);
            line.push_str(&format!(" DEFAULT {}", literal(dice, &value)));
        }
        lines.push(line);
        columns.push(column(format!("c{at}"), kind));
    }
    if dice.chance(25) {
        let stored = if dice.chance(50) { "STORED" } else { "VIRTUAL" };
        let (first, last) = ("k0", columns[columns.len() - 1].name.clone());
        lines.push(format!(
            "g0 VARCHAR(80) AS (LEFT(CONCAT_WS('-', CAST({first} AS CHAR), LENGTH({last})), 80)) {stored}"
        ));
        columns.push(Column {
            name: "g0".to_owned(),
            class: Class::Text,
            sql: "VARCHAR(80)",
            generated: true,
        });
    }
    let has_partitions = dice.chance(12);
    let mut has_prefix = false;
    let mut key = |dice: &mut Dice, at: usize, columns: &[Column], may: bool| {
        let column: &Column = &columns[at];
        let long =
            column.sql == "TEXT" || column.sql == "BLOB" || column.sql.starts_with("VARCHAR(300)");
        let prefix =
            long || (may && column.sql.contains("VAR") && !column.generated && dice.chance(15));
        has_prefix |= prefix;
        let way = if dice.chance(8) { " DESC" } else { "" };
        format!("{}{}{way}", column.name, if prefix { "(3)" } else { "" })
    };
    let primary: Vec<usize> = (0..parts).collect();
    let listed: Vec<String> = primary
        .iter()
        .map(|&at| key(dice, at, &columns, !has_partitions && !auto))
        .collect();
    lines.push(format!("PRIMARY KEY ({})", listed.join(", ")));
    let (mut uniques, mut indexes) = (Vec::new(), Vec::new());
    let free: Vec<usize> = (parts..columns.len())
        .filter(|&at| columns[at].class != Class::Json)
        .collect();
    for number in 0..if free.is_empty() { 0 } else { dice.below(3) } {
        let mut wanted = vec![*dice.pick(&free)];
        if dice.chance(35) {
            let second = dice.index(parts);
            wanted.push(second);
        }
        let listed: Vec<String> = wanted
            .iter()
            .map(|&at| key(dice, at, &columns, true))
            .collect();
        let unique = !has_partitions && dice.chance(55);
        let (word, name) = if unique {
            ("UNIQUE KEY", format!("u{number}"))
        } else {
            ("KEY", format!("i{number}"))
        };
        lines.push(format!("{word} {name} ({})", listed.join(", ")));
        let found = Key {
            name,
            columns: wanted,
        };
        if unique {
            uniques.push(found)
        } else {
            indexes.push(found)
        }
    }
    if dice.chance(5) {
        lines.push("KEY f0 ((CAST(k0 AS CHAR(20))))".to_owned());
    }
    let engine = if has_partitions {
        "InnoDB"
    } else {
        *dice.weighted(&[(94, "InnoDB"), (4, "MyISAM"), (2, "MEMORY")])
    };
    let mut sql = format!("CREATE TABLE {name} ({}) ENGINE={engine}", lines.join(", "));
    if dice.chance(15) && engine == "InnoDB" && !has_partitions {
        sql.push_str(
            [
                "",
                " ROW_FORMAT=COMPACT",
                " ROW_FORMAT=REDUNDANT",
                " STATS_PERSISTENT=0",
            ][dice.index(4)],
        );
    }
    if has_partitions {
        let by_hash = matches!(columns[0].class, Class::Int(..)) && dice.chance(40);
        sql.push_str(if by_hash {
            " PARTITION BY HASH (k0) PARTITIONS 3"
        } else {
            " PARTITION BY KEY (k0) PARTITIONS 3"
        });
    }
    let primary = Key {
        name: "PRIMARY".to_owned(),
        columns: primary,
    };
    let name = name.to_owned();
    (
        Table {
            name,
            columns,
            primary,
            uniques,
            indexes,
            is_view: false,
            has_prefix,
        },
        sql,
    )
}

/// A table of 500 rows whose only index is an integer key, and the statements that make and fill it.
///
/// The optimizer scans a shorter table whatever a range on its key says.
pub fn long(dice: &mut Dice, name: &str) -> (Table, [String; 3]) {
    let kind = KEYS[[0, 1, 2, 3, 5][dice.index(5)]];
    let columns = vec![
        column("k0".to_owned(), kind),
        column("c0".to_owned(), KEYS[0]),
        column("c1".to_owned(), KEYS[10]),
    ];
    let defined: Vec<String> = columns
        .iter()
        .map(|each| format!("{} {}", each.name, each.sql))
        .collect();
    let numbers = |count: u32| {
        let each: Vec<String> = (0..count).map(|n| format!("SELECT {n} AS n")).collect();
        each.join(" UNION ALL ")
    };
    let made = [
        format!(
            "CREATE TABLE {name} ({}, PRIMARY KEY (k0)) ENGINE=InnoDB",
            defined.join(", ")
        ),
        format!(
            "INSERT INTO {name} SELECT a.n * 25 + b.n, a.n, CHAR(97 + b.n) FROM ({}) a, ({}) b",
            numbers(20),
            numbers(25)
        ),
        format!("ANALYZE TABLE {name}"),
    ];
    let primary = Key {
        name: "PRIMARY".to_owned(),
        columns: vec![0],
    };
    let table = Table {
        name: name.to_owned(),
        columns,
        primary,
        uniques: Vec::new(),
        indexes: Vec::new(),
        is_view: false,
        has_prefix: false,
    };
    (table, made)
}

fn key_type(dice: &mut Dice) -> Type {
    match dice.below(10) {
        0..=4 => KEYS[dice.index(INTEGERS)],
        5..=7 => KEYS[INTEGERS + dice.index(TEXTS)],
        _ => KEYS[dice.index(KEYS.len())],
    }
}

fn can_default(kind: Type) -> bool {
    !matches!(kind.1, Class::Json) && !matches!(kind.0, "TEXT" | "BLOB")
}

fn column(name: String, kind: Type) -> Column {
    Column {
        name,
        class: kind.1,
        sql: kind.0,
        generated: false,
    }
}

/// Views, triggers, procedures and a child table on base tables.
pub fn hangers(dice: &mut Dice, tables: &mut Vec<Table>) -> Vec<String> {
    let mut made = Vec::new();
    let base: Vec<Table> = tables.clone();
    if dice.chance(60) {
        let on = dice.pick(&base).clone();
        let more = match dice.below(4) {
            0 => format!(
                " WHERE {} IS NOT NULL WITH CHECK OPTION",
                on.columns[0].name
            ),
            1 => format!(
                " WHERE {} IS NOT NULL",
                on.columns[on.columns.len() - 1].name
            ),
            _ => String::new(),
        };
        let how = [
            "",
            "ALGORITHM=MERGE ",
            "ALGORITHM=TEMPTABLE ",
            "SQL SECURITY INVOKER ",
        ][dice.index(4)];
        made.push(format!(
            "CREATE {how}VIEW v0 AS SELECT * FROM {}{more}",
            on.name
        ));
        tables.push(Table {
            name: "v0".to_owned(),
            is_view: true,
            ..on
        });
    }
    if dice.chance(50) {
        let on = dice.pick(&base);
        let column = on.other(dice).name.clone();
        made.push(match dice.below(4) {
            0 => format!("CREATE TRIGGER g_bi BEFORE INSERT ON {} FOR EACH ROW SET NEW.{column} = IFNULL(NEW.{column}, 1)", on.name),
            1 => format!("CREATE TRIGGER g_au AFTER UPDATE ON {} FOR EACH ROW SET @seen = CONCAT_WS(',', @seen, OLD.k0)", on.name),
            2 => format!("CREATE TRIGGER g_ad AFTER DELETE ON {} FOR EACH ROW INSERT INTO log (what) VALUES (OLD.k0)", on.name),
            _ => format!("CREATE TRIGGER g_bu BEFORE UPDATE ON {} FOR EACH ROW SET NEW.{column} = OLD.{column}", on.name),
        });
    }
    let on = dice.pick(&base);
    let key = &on.columns[0];
    if dice.chance(40) {
        made.push(format!(
            "CREATE PROCEDURE p0(a {}) SELECT * FROM {} WHERE k0 = a ORDER BY {}",
            key.sql,
            on.name,
            on.order("", false)
        ));
        made.push(format!("CREATE FUNCTION f0(a {}) RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM {} WHERE k0 = a)", key.sql, on.name));
    }
    if dice.chance(35) && on.primary.columns.len() == 1 {
        let action = ["CASCADE", "SET NULL", "RESTRICT", "NO ACTION"][dice.index(4)];
        made.push(format!(
            "CREATE TABLE child (id INT PRIMARY KEY, ref {} NULL, FOREIGN KEY (ref) REFERENCES {} (k0) ON DELETE {action} ON UPDATE {action})",
            key.sql, on.name
        ));
        let id = Column {
            name: "id".to_owned(),
            class: Class::Int(32, false),
            sql: "INT",
            generated: false,
        };
        let reference = Column {
            name: "ref".to_owned(),
            ..key.clone()
        };
        tables.push(Table {
            name: "child".to_owned(),
            columns: vec![id, reference],
            primary: Key {
                name: "PRIMARY".to_owned(),
                columns: vec![0],
            },
            uniques: Vec::new(),
            indexes: vec![Key {
                name: "ref".to_owned(),
                columns: vec![1],
            }],
            is_view: false,
            has_prefix: false,
        });
    }
    made
}
