//! Random statements that change rows.

use super::build::Build;
use super::dice::Dice;
use super::reads::any_key;
use super::schema::Table;
use super::values::fitting;

/// One change of a table's rows.
pub fn change(dice: &mut Dice, table: &Table, other: &Table, build: &mut Build) {
    match dice.below(20) {
        0..=6 => update(dice, table, build),
        7..=9 => delete(dice, table, build),
        10..=13 => insert(dice, table, build, false),
        14..=15 => {
            insert(dice, table, build, false);
            let column = table.other(dice);
            let (name, class) = (column.name.clone(), column.class);
            build.text(&format!(" ON DUPLICATE KEY UPDATE {name} = "));
            if dice.chance(40) {
                build.text(&format!("VALUES({name})"));
            } else {
                build.value(dice, class);
            }
        }
        16..=17 => insert(dice, table, build, true),
        18 => several(dice, table, build),
        _ => two(dice, table, other, build),
    }
}

fn update(dice: &mut Dice, table: &Table, build: &mut Build) {
    build
        .text(if dice.chance(8) {
            "UPDATE IGNORE "
        } else {
            "UPDATE "
        })
        .text(&table.name)
        .text(" SET ");
    let key = dice.chance(6);
    for number in 0..1 + dice.below(2) {
        let column = if key {
            &table.columns[0]
        } else {
            table.other(dice)
        };
        let (name, class) = (column.name.clone(), column.class);
        build
            .text(if number > 0 { ", " } else { "" })
            .text(&name)
            .text(" = ");
        match dice.below(8) {
            0 => build.text(&name).text(" + 1"),
            1 => build.text("DEFAULT"),
            2 => build.text(&name),
            _ => build.value(dice, class),
        };
    }
    build.text(" WHERE ");
    if dice.chance(80) {
        let key = any_key(dice, table);
        build.key(dice, table, &key, "");
        if dice.chance(10) {
            build.text(" AND ").condition(dice, table, "");
        }
    } else {
        build.condition(dice, table, "");
        if !table.has_prefix {
            build
                .text(" ORDER BY ")
                .text(&table.order("", dice.chance(30)))
                .text(" LIMIT ")
                .number(dice, 4);
        }
    }
}

fn delete(dice: &mut Dice, table: &Table, build: &mut Build) {
    build
        .text(if dice.chance(8) {
            "DELETE IGNORE FROM "
        } else {
            "DELETE FROM "
        })
        .text(&table.name)
        .text(" WHERE ");
    if dice.chance(90) {
        let key = any_key(dice, table);
        build.key(dice, table, &key, "");
        if dice.chance(8) {
            build.text(" LIMIT 1");
        }
    } else {
        build
            .condition(dice, table, "")
            .text(" ORDER BY ")
            .text(&table.order("", false))
            .text(" LIMIT 1");
    }
}

fn insert(dice: &mut Dice, table: &Table, build: &mut Build, replace: bool) {
    let word = if replace {
        "REPLACE INTO "
    } else if dice.chance(25) {
        "INSERT IGNORE INTO "
    } else {
        "INSERT INTO "
    };
    build.text(word).text(&table.name).text(" (");
    let columns: Vec<_> = table
        .columns
        .iter()
        .filter(|each| !each.generated && !dice.chance(6))
        .cloned()
        .collect();
    let names: Vec<&str> = columns.iter().map(|each| each.name.as_str()).collect();
    build.text(&names.join(", ")).text(") VALUES ");
    for row in 0..if dice.chance(15) {
        2 + dice.below(2)
    } else {
        1
    } {
        build.text(if row > 0 { ", (" } else { "(" });
        for (number, column) in columns.iter().enumerate() {
            build.text(if number > 0 { ", " } else { "" });
            if dice.chance(3) {
                build.text("DEFAULT");
            } else {
                build.value(dice, column.class);
            }
        }
        build.text(")");
    }
}

/// Rows to begin with.
pub fn fill(dice: &mut Dice, table: &Table, rows: u32) -> String {
    let columns: Vec<_> = table
        .columns
        .iter()
        .filter(|each| !each.generated)
        .collect();
    let names: Vec<&str> = columns.iter().map(|each| each.name.as_str()).collect();
    let mut build = Build::new(false);
    build.text(&format!(
        "INSERT IGNORE INTO {} ({}) VALUES ",
        table.name,
        names.join(", ")
    ));
    for row in 0..rows {
        build.text(if row > 0 { ", (" } else { "(" });
        for (number, column) in columns.iter().enumerate() {
            build.text(if number > 0 { ", " } else { "" });
            if number >= table.primary.columns.len() && dice.chance(12) {
                build.text("NULL");
            } else {
                let value = fitting(dice, column.class);
                build.text(&super::values::literal(dice, &value));
            }
        }
        build.text(")");
    }
    build.sql
}

fn several(dice: &mut Dice, table: &Table, build: &mut Build) {
    let columns: Vec<_> = table
        .columns
        .iter()
        .filter(|each| !each.generated)
        .map(|each| each.name.as_str())
        .collect();
    let list = columns.join(", ");
    build.text(&format!(
        "INSERT IGNORE INTO {0} ({list}) SELECT {list} FROM {0} WHERE ",
        table.name
    ));
    let key = table.primary.clone();
    build.key(dice, table, &key, "");
}

fn two(dice: &mut Dice, table: &Table, other: &Table, build: &mut Build) {
    let column = table.other(dice);
    let (name, class) = (column.name.clone(), column.class);
    build
        .text(&format!(
            "UPDATE {} a, {} b SET a.{name} = ",
            table.name, other.name
        ))
        .value(dice, class)
        .text(" WHERE ");
    let key = table.primary.clone();
    build.key(dice, table, &key, "a.").text(" AND ");
    let key = other.primary.clone();
    build.key(dice, other, &key, "b.");
}
