//! Values written into statements, and numbers written by the server.

use testserver::{ALL, Texts, one, rows as texts};
use wire::{Connection, Value, render};

pub fn everything(connection: &mut dyn Connection) {
    numbers(connection);
    zeros_before_numbers(connection);
    strings(connection);
    comments(connection);
    numbers_as_parameters(connection);
}

/// A parameter, and the same in the text, are of the type that is meant: a text compared with a text is another thing.
fn numbers_as_parameters(connection: &mut dyn Connection) {
    for (sql, values, expected) in [
        ("SELECT '10.0' = ?", vec![Value::Double(10.0)], "1"),
        ("SELECT '10.0' = ?", vec![Value::Text("10".into())], "0"),
        (
            "SELECT CAST(0.1 AS FLOAT) = ?",
            vec![Value::Double(f64::from(0.1_f32))],
            "1",
        ),
        ("SELECT ? / 4", vec![Value::Double(-1e300)], "-2.5e299"),
        (
            "SELECT ? - 1",
            vec![Value::UInt(u64::MAX)],
            "18446744073709551614",
        ),
        (
            "SELECT '18446744073709551615.0' = ?",
            vec![Value::UInt(u64::MAX)],
            "1",
        ),
        (
            "SELECT ? = ?",
            vec![Value::Double(0.5), Value::Double(0.5)],
            "1",
        ),
    ] {
        let rendered = render(connection.dialect(), sql, &values);
        assert_eq!(one(connection, &rendered), expected, "{rendered}");
        let statement = connection.prepare(sql).expect(sql);
        let mut rows = Texts::default();
        let done = connection.execute(&statement, &values, ALL, &mut rows);
        done.expect(sql);
        assert_eq!(rows.0[0][0].as_deref(), Some(expected), "{sql} {values:?}");
        connection.close(statement).expect("close");
    }
    let statement = connection.prepare("SELECT ? + 0").expect("prepare");
    // The server is told of each change of the type.
    for (value, expected) in [
        (Value::Int(-10), "-10"),
        (Value::UInt(u64::MAX), "18446744073709551615"),
        (Value::Double(0.5), "0.5"),
        (Value::Int(-1), "-1"),
    ] {
        let mut rows = Texts::default();
        let done = connection.execute(&statement, std::slice::from_ref(&value), ALL, &mut rows);
        done.expect("executes");
        assert_eq!(rows.0[0][0].as_deref(), Some(expected), "{value:?}");
    }
    connection.close(statement).expect("close");
}

/// Both encodings of a result tell the same text.
fn same_by_both(connection: &mut dyn Connection, sql: &str) {
    let expected = texts(connection, sql);
    let select = connection.prepare(sql).expect(sql);
    let mut rows = Texts::default();
    connection.execute(&select, &[], ALL, &mut rows).expect(sql);
    for (row, expected) in rows.0.iter().zip(&expected) {
        assert_eq!(row, expected);
    }
    assert_eq!(rows.0.len(), expected.len());
    connection.close(select).expect("close");
}

fn numbers(connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE TABLE numbers (d DOUBLE, f FLOAT, e DOUBLE(20, 3), g FLOAT(9, 2))",
    );
    let mut exact: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut rows = vec![
        "0",
        "-0e0",
        "0.1",
        "-1.5",
        "1e14",
        "1e15",
        "1e16",
        "123456789012345",
        "1234567890123456.8",
        "1e-14",
        "1e-15",
        "1e-16",
        "16777216",
        "0.001",
        "-0.001",
        "3.4e38",
        "-1.2345678e-30",
        "2.5e-45",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    for _ in 0..300 {
        // Any bits of a float, in its 17 digits.
        exact = exact
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = f32::from_bits((exact >> 32) as u32);
        if number.is_finite() {
            rows.push(format!("{:.17e}", f64::from(number)));
        }
    }
    for number in rows {
        let narrow = number.parse::<f64>().is_ok_and(|number| number.abs() < 1e6);
        let fixed = if narrow { number.as_str() } else { "1" };
        let sql = format!("INSERT INTO numbers VALUES ({number}, {number}, {fixed}, {fixed})");
        connection.query(&sql, ALL, &mut ()).expect(&sql);
    }
    same_by_both(
        connection,
        "SELECT d, f, e, g, -d, d / 3, f * 1, SQRT(ABS(d)) FROM numbers",
    );
    let large = "SELECT 1e308, -1.7976931348623157e308, 2.2250738585072014e-308, 1e200 / 7";
    same_by_both(connection, large);
}

fn zeros_before_numbers(connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE TABLE filled (t TINYINT(3) ZEROFILL, i INT(8) ZEROFILL, l BIGINT ZEROFILL, d DOUBLE(9, 2) ZEROFILL, y YEAR)",
    );
    texts(
        connection,
        "INSERT INTO filled VALUES (7, 7, 18446744073709551615, 7, 0), (255, 4294967295, 0, 0.5, 2026)",
    );
    same_by_both(connection, "SELECT * FROM filled");
    assert_eq!(one(connection, "SELECT i FROM filled LIMIT 1"), "00000007");
}

fn strings(connection: &mut dyn Connection) {
    let value = Value::Text("it's a \\ \\' \n \"?\" é".to_owned());
    for mode in ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"] {
        texts(connection, &format!("SET sql_mode = '{mode}'"));
        let dialect = connection.dialect();
        assert_eq!(dialect.backslash_escapes, mode != "NO_BACKSLASH_ESCAPES");
        let sql = render(
            dialect,
            "SELECT ?, '\\\\', ?",
            &[value.clone(), Value::Int(-1)],
        );
        let row = texts(connection, &sql).remove(0);
        assert_eq!(row[0], Some("it's a \\ \\' \n \"?\" é".to_owned()));
        assert_eq!(
            row[1].as_deref(),
            Some(if dialect.backslash_escapes {
                "\\"
            } else {
                "\\\\"
            })
        );
        assert_eq!(row[2].as_deref(), Some("-1"));
        texts(connection, "DROP TABLE IF EXISTS strings");
        texts(connection, "CREATE TABLE strings (words VARCHAR(99))");
        texts(connection, "SET GLOBAL local_infile = 1");
        let mut rows = std::iter::once(vec![value.clone()]);
        assert_eq!(
            connection
                .load("strings", &["words"], &mut rows)
                .expect("load"),
            1
        );
        assert_eq!(
            one(connection, "SELECT words FROM strings"),
            "it's a \\ \\' \n \"?\" é"
        );
    }
    texts(connection, "SET sql_mode = DEFAULT");
    assert!(connection.dialect().backslash_escapes);
}

/// What this crate takes for a parameter is what the server takes for one.
fn comments(connection: &mut dyn Connection) {
    for (sql, parameters) in [
        ("SELECT ? -- ?\n + ?", 2),
        ("SELECT 1--?", 1),
        ("SELECT ? # ?", 1),
        ("SELECT ? /* /* ? */, ?", 2),
        ("SELECT ? /*!50000 , ? */", 2),
        ("SELECT '?', \"?\", `?`.n, ? FROM (SELECT 1 AS n) AS `?`", 1),
        ("SELECT '\\'?', 'a''?', ?", 1),
    ] {
        let statement = connection.prepare(sql).expect(sql);
        assert_eq!(statement.parameters, parameters, "{sql}");
        connection.close(statement).expect("close");
        let values = vec![Value::Int(1); parameters.into()];
        let sql = render(connection.dialect(), sql, &values);
        assert_eq!(texts(connection, &sql).len(), 1);
    }
}
