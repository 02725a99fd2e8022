//! Random statements that read.

use super::build::Build;
use super::dice::Dice;
use super::schema::{Key, Table};
use super::values::Class;

/// A point select by a whole unique key: what the series treats apart, with all that must keep it from doing so.
pub fn point(dice: &mut Dice, table: &Table, locks: bool, build: &mut Build) {
    if dice.chance(40) {
        return plain(dice, table, build);
    }
    let alias = ["", "", "", "a."][dice.index(4)];
    build.text("SELECT ");
    if dice.chance(4) {
        build.text(
            [
                "DISTINCT ",
                "SQL_NO_CACHE ",
                "/*+ NO_INDEX_MERGE() */ ",
                "HIGH_PRIORITY ",
                "SQL_CALC_FOUND_ROWS ",
            ][dice.index(5)],
        );
    }
    list(dice, table, alias, build);
    build.text(" FROM ").text(&table.name);
    if !alias.is_empty() {
        build.text(" a");
    }
    if dice.chance(3) && !table.is_view {
        build.text(
            [
                " FORCE INDEX (PRIMARY)",
                " IGNORE INDEX (PRIMARY)",
                " USE INDEX ()",
            ][dice.index(3)],
        );
    }
    build.text(" WHERE ");
    let key = any_key(dice, table);
    build.key(dice, table, &key, alias);
    // By a prefix, or by a unique key that may be NULL, there may be several rows.
    build.unordered = true;
    if dice.chance(6) {
        build.text(" AND ").condition(dice, table, alias);
    }
    tail(dice, table, alias, build);
    if locks && dice.chance(8) {
        build.text(
            [
                " FOR UPDATE",
                " FOR SHARE",
                " LOCK IN SHARE MODE",
                " FOR UPDATE NOWAIT",
                " FOR UPDATE SKIP LOCKED",
            ][dice.index(5)],
        );
    }
}

/// Columns and a key, and nothing else.
fn plain(dice: &mut Dice, table: &Table, build: &mut Build) {
    let columns = match dice.below(3) {
        0 => "*".to_owned(),
        1 => dice.pick(&table.columns).name.clone(),
        _ => format!("{}, k0", dice.pick(&table.columns).name),
    };
    build.text(&format!("SELECT {columns} FROM {} WHERE ", table.name));
    let key = any_key(dice, table);
    build.key(dice, table, &key, "");
    build.unordered = true;
}

fn tail(dice: &mut Dice, table: &Table, alias: &str, build: &mut Build) {
    match dice.below(25) {
        0 => {
            build
                .text(" ORDER BY ")
                .text(&table.order(alias, false))
                .text(" LIMIT ")
                .number(dice, 3);
            build.unordered = false;
        }
        1 => {
            build.text(" ORDER BY ").text(&table.order(alias, true));
            build.unordered = false;
        }
        2 => {
            build.text(" LIMIT 100");
        }
        3 => {
            build.text(" GROUP BY ").text(&table.order(alias, false));
        }
        4 => {
            build.text(" HAVING ").text("1 = 1");
        }
        _ => {}
    }
}

/// One of the unique keys; the primary one in most cases.
pub fn any_key(dice: &mut Dice, table: &Table) -> Key {
    if table.uniques.is_empty() || dice.chance(65) {
        return table.primary.clone();
    }
    dice.pick(&table.uniques).clone()
}

fn list(dice: &mut Dice, table: &Table, alias: &str, build: &mut Build) {
    match dice.below(10) {
        0..=2 => {
            build.text(if alias.is_empty() { "*" } else { "a.*" });
        }
        3 => {
            build.text("COUNT(*)");
        }
        4 => {
            let column = dice.pick(&table.columns).name.clone();
            let function = ["COUNT", "MIN", "MAX", "HEX", "LENGTH", "QUOTE"][dice.index(6)];
            build.text(&format!("{function}({alias}{column})"));
        }
        5 => {
            build
                .value(dice, Class::Int(8, false))
                .text(" AS one, ")
                .text(&format!("{alias}{}", dice.pick(&table.columns).name));
        }
        _ => {
            for number in 0..1 + dice.index(4) {
                let column = dice.pick(&table.columns).name.clone();
                build
                    .text(if number > 0 { ", " } else { "" })
                    .text(&format!("{alias}{column}"));
                if dice.chance(5) {
                    build.text(" AS named");
                }
            }
        }
    }
}

/// Several rows of one table.
pub fn range(dice: &mut Dice, table: &Table, locks: bool, build: &mut Build) {
    build.text("SELECT ");
    if dice.chance(15) {
        build.text("DISTINCT ");
    }
    let all = dice.chance(60);
    if all {
        build.text("*");
    } else {
        build
            .text(&table.columns[0].name)
            .text(", ")
            .text(&dice.pick(&table.columns).name.clone());
    }
    build.text(" FROM ").text(&table.name).text(" WHERE ");
    if dice.chance(30) {
        let key = &table.columns[0];
        build.between(dice, &key.name, key.class);
    } else {
        build.condition(dice, table, "");
    }
    if dice.chance(30) {
        build.text(" AND ").condition(dice, table, "");
    }
    if all && dice.chance(60) {
        build
            .text(" ORDER BY ")
            .text(&table.order("", dice.chance(40)));
        if dice.chance(40) {
            build.text(" LIMIT ").number(dice, 6);
        }
    } else {
        build.unordered = true;
    }
    if locks && dice.chance(6) {
        build.text([" FOR UPDATE", " FOR SHARE"][dice.index(2)]);
    }
}

/// Aggregates, with and without WHERE and GROUP BY.
pub fn aggregate(dice: &mut Dice, table: &Table, build: &mut Build) {
    let column = dice.pick(&table.columns);
    let name = &column.name;
    // The sum of floating point numbers depends on their order.
    let exact = column.class != Class::Real
        && !matches!(
            column.class,
            Class::Text | Class::Bytes | Class::Json | Class::Enum
        );
    let what = match dice.below(9) {
        0 | 1 => "COUNT(*)".to_owned(),
        2 | 3 => format!("COUNT({name})"),
        4 => format!("COUNT(DISTINCT {name})"),
        5 if exact => format!("SUM({name}), AVG({name})"),
        6 if exact => format!("BIT_XOR({name}), COUNT(0)"),
        7 => format!("COUNT(*), COUNT({name}), MIN({name}), MAX({name})"),
        _ => format!("MAX({name})"),
    };
    build.text("SELECT ");
    let group = dice
        .chance(20)
        .then(|| dice.pick(&table.columns).name.clone());
    if let Some(group) = &group {
        build.text(group).text(", ");
    }
    build.text(&what).text(" FROM ").text(&table.name);
    if dice.chance(50) {
        build.text(" WHERE ").condition(dice, table, "");
    }
    if let Some(group) = &group {
        build.text(" GROUP BY ").text(group);
        if dice.chance(20) {
            build.text(" WITH ROLLUP");
        }
    }
    build.unordered = true;
}

/// Two tables, or one within another.
pub fn nested(dice: &mut Dice, outer: &Table, inner: &Table, build: &mut Build) {
    let column = dice.pick(&inner.columns).name.clone();
    build.unordered = true;
    match dice.below(9) {
        0 => build
            .text(&format!(
                "SELECT a.*, b.{column} FROM {} a JOIN {} b ON a.k0 = b.{column} WHERE ",
                outer.name, inner.name
            ))
            .condition(dice, outer, "a."),
        1 => build
            .text(&format!(
                "SELECT a.k0, b.* FROM {} a LEFT JOIN {} b ON b.k0 = a.k0 WHERE ",
                outer.name, inner.name
            ))
            .condition(dice, outer, "a."),
        2 => build
            .text(&format!(
                "SELECT * FROM {} WHERE k0 IN (SELECT {column} FROM {} WHERE ",
                outer.name, inner.name
            ))
            .condition(dice, inner, "")
            .text(")"),
        3 => {
            let key = inner.primary.clone();
            build
                .text(&format!(
                    "SELECT k0, (SELECT {column} FROM {} WHERE ",
                    inner.name
                ))
                .key(dice, inner, &key, "");
            build.text(&format!(" LIMIT 1) AS found FROM {}", outer.name))
        }
        4 => {
            let key = outer.primary.clone();
            build
                .text(&format!(
                    "SELECT * FROM (SELECT * FROM {} WHERE ",
                    outer.name
                ))
                .key(dice, outer, &key, "")
                .text(") d")
        }
        5 => {
            let key = outer.primary.clone();
            build
                .text(&format!("WITH w AS (SELECT * FROM {} WHERE ", outer.name))
                .key(dice, outer, &key, "")
                .text(") SELECT COUNT(*) FROM w")
        }
        6 => {
            let key = outer.primary.clone();
            build
                .text(&format!("SELECT k0 FROM {} WHERE ", outer.name))
                .key(dice, outer, &key, "");
            build
                .text(&format!(
                    " UNION ALL SELECT {column} FROM {} WHERE ",
                    inner.name
                ))
                .condition(dice, inner, "")
        }
        7 => {
            let key = outer.primary.clone();
            build
                .text(&format!("SELECT k0 FROM {} a WHERE ", outer.name))
                .key(dice, outer, &key, "a.");
            build.text(&format!(
                " AND EXISTS (SELECT 1 FROM {} b WHERE b.k0 = a.k0)",
                inner.name
            ))
        }
        _ => {
            let key = outer.primary.clone();
            build
                .text(&format!(
                    "SELECT a.*, b.k0 FROM {} a, {} b WHERE ",
                    outer.name, inner.name
                ))
                .key(dice, outer, &key, "a.")
                .text(" AND ");
            let key = inner.primary.clone();
            build.key(dice, inner, &key, "b.")
        }
    };
}
