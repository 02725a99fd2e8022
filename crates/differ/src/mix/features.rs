//! Each feature of the protocol, and errors.

use super::{execute, int, prepared, query, text};
use crate::param::{Param, kind};
use crate::step::{Step, What};

pub(super) fn features(steps: &mut Vec<Step>) {
    let group = "protocol";
    query(
        steps,
        group,
        "CREATE TABLE wide (id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d FLOAT, e DOUBLE, f DECIMAL(30,10), \
         g DATE, h TIME(6), i DATETIME(6), j TIMESTAMP NULL, k YEAR, l CHAR(10), m VARCHAR(400), n TEXT, o LONGBLOB, p BIT(9), \
         q ENUM('x','y'), r SET('x','y'), s JSON, UNIQUE KEY one (b), UNIQUE KEY two (l, a))",
    );
    query(
        steps,
        group,
        "INSERT INTO wide VALUES (1, -1, 65535, -8388608, 1.5, 1e300, 12345678901234567890.0123456789, '2024-02-29', '-838:59:58.999999', \
         '2024-01-01 00:00:00.000001', '2024-01-01', 2024, 'ten', REPEAT('m', 400), REPEAT('n', 70000), REPEAT('o', 300), b'101', 'x', 'x,y', '{\"a\": 1}'), \
         (2, NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
         (18446744073709551615, 127, 3, 0, 0, -0.0, 0, '0001-01-01', '00:00:00', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', 1901, '', '', '', '', 0, 'y', '', '[]')",
    );
    for sql in [
        "SELECT * FROM wide ORDER BY id",
        "SELECT * FROM wide WHERE id = 77",
        "SELECT REPEAT('x', 70000), REPEAT('y', 250), REPEAT('z', 251)",
    ] {
        query(steps, group, sql);
        prepared(steps, group, 300, sql, &[vec![], vec![]]);
    }
    // One statement, its parameter of every type.
    let every = [
        Param::Int(kind::LONGLONG, false, 1),
        Param::Int(kind::LONGLONG, true, u64::MAX),
        Param::Int(kind::LONGLONG, false, u64::MAX),
        Param::Int(kind::TINY, false, 2),
        Param::Int(kind::SHORT, true, 1),
        Param::Int(kind::LONG, false, 2),
        Param::Null(kind::LONGLONG),
        Param::Double(1.0),
        Param::Double(1.5),
        Param::Float(2.0),
        text("1"),
        text("1x"),
        text(" 2 "),
        text(""),
        Param::Bytes(kind::BLOB, b"2".to_vec()),
        Param::Bytes(kind::NEWDECIMAL, b"2.0".to_vec()),
        Param::Bytes(kind::NEWDECIMAL, b"18446744073709551615".to_vec()),
        Param::Temporal(kind::DATE, vec![0xE8, 7, 2, 29]),
        Param::Temporal(kind::DATETIME, vec![0xE8, 7, 1, 1, 0, 0, 0, 1, 0, 0, 0]),
        Param::Temporal(kind::TIME, vec![0, 0, 0, 0, 0, 1, 2, 3]),
        Param::Int(kind::LONGLONG, false, 1),
    ];
    let columns = [
        "id", "a", "b", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "p", "q",
    ];
    for column in columns {
        let rows: Vec<_> = every.iter().map(|value| vec![value.clone()]).collect();
        prepared(
            steps,
            group,
            301,
            &format!("SELECT id, {column} FROM wide WHERE {column} = ? ORDER BY id"),
            &rows,
        );
    }
    let rows: Vec<_> = every
        .iter()
        .map(|value| vec![value.clone(), int(1)])
        .collect();
    prepared(
        steps,
        group,
        302,
        "SELECT ?, id FROM wide WHERE id = ?",
        &rows,
    );
    prepared(
        steps,
        group,
        303,
        "SELECT a FROM wide WHERE l = ? AND a = ?",
        &[
            vec![text("ten"), int(u64::MAX)],
            vec![text("TEN "), text("-1")],
        ],
    );
    cursors(steps);
    long_keys(steps);
    results(steps);
    ahead(steps);
}

/// Requests that are sent before the answers to those before them are read.
fn ahead(steps: &mut Vec<Step>) {
    let group = "ahead";
    let sql = "SELECT id, a, m FROM wide WHERE id = ?";
    steps.push(Step::new(group, What::Prepare(340, sql.to_owned())));
    let text = |sql: &str| What::Query(sql.to_owned());
    let batches = [
        vec![
            execute(340, vec![int(1)]),
            execute(340, vec![int(77)]),
            execute(340, vec![int(2)]),
        ],
        vec![
            text("SELECT * FROM wide WHERE id = 1"),
            text("SELECT nothing FROM wide"),
            text("UPDATE wide SET a = 3 WHERE id = 2"),
            execute(340, vec![int(2)]),
            What::Ping,
            text("CALL several(1)"),
            text("SELECT 1; SELECT 2; SELEC"),
        ],
        // More than a server keeps.
        vec![
            text("SELECT REPEAT('x', 9000)"),
            text("SELECT REPEAT('y', 9000)"),
            text("SELECT REPEAT('z', 70000)"),
            execute(340, vec![int(1)]),
        ],
        vec![
            text("START TRANSACTION"),
            text("UPDATE wide SET a = 4 WHERE id = 2"),
            text("ROLLBACK"),
            execute(340, vec![int(2)]),
            What::ResetStatement(340),
            What::Close(340),
            execute(340, vec![int(2)]),
        ],
    ];
    for mut requests in batches {
        let mut step = Step::new(group, requests.remove(0));
        (step.ahead, step.diagnose) = (requests, false);
        steps.push(step);
    }
}

fn cursors(steps: &mut Vec<Step>) {
    let group = "cursor";
    steps.push(Step::new(
        group,
        What::Prepare(
            310,
            "SELECT id, b, m FROM wide WHERE id > ? ORDER BY id".to_owned(),
        ),
    ));
    for (first, fetches) in [
        (0, [1, 1, 5].as_slice()),
        (5, &[100]),
        (u64::MAX, &[1]),
        (0, &[0, 2, 1, 1]),
    ] {
        let what = What::Execute {
            slot: 310,
            values: vec![Param::Int(kind::LONGLONG, true, first)],
            cursor: true,
            rebind: true,
        };
        steps.push(Step::new(group, what));
        for &rows in fetches {
            steps.push(Step::new(group, What::Fetch(310, rows)));
        }
    }
    steps.push(Step::new(group, What::ResetStatement(310)));
    steps.push(Step::new(group, What::Fetch(310, 1)));
    steps.push(Step::new(group, What::Close(310)));
    // Long data in two pieces.
    steps.push(Step::new(
        "long data",
        What::Prepare(311, "UPDATE wide SET n = ? WHERE id = ?".to_owned()),
    ));
    steps.push(Step::new(
        "long data",
        What::LongData(311, 0, vec![b'p'; 40_000]),
    ));
    steps.push(Step::new(
        "long data",
        What::LongData(311, 0, vec![b'q'; 40_000]),
    ));
    steps.push(Step::new(
        "long data",
        execute(311, vec![Param::Long, int(2)]),
    ));
    steps.push(Step::new(
        "long data",
        execute(311, vec![text("short"), int(2)]),
    ));
    query(
        steps,
        "long data",
        "SELECT LENGTH(n), n FROM wide WHERE id = 2",
    );
}

/// Primary keys in which an integer stands far behind the key's beginning.
fn long_keys(steps: &mut Vec<Step>) {
    let group = "long keys";
    for (table, kind, number) in [
        ("behind_char", "CHAR(90) CHARACTER SET utf8mb4", "INT"),
        ("behind_varchar", "VARCHAR(255)", "BIGINT"),
        ("behind_bytes", "VARBINARY(130)", "BIGINT UNSIGNED"),
    ] {
        for sql in [
            format!("CREATE TABLE {table} (s {kind}, n {number}, v INT, PRIMARY KEY (s, n))"),
            format!("INSERT INTO {table} VALUES ('k', 7, 1), ('k', 8, 1), ('l', 7, 1)"),
            format!("UPDATE {table} SET v = 2 WHERE n = 1094795585"),
            format!("UPDATE {table} SET v = 3 WHERE s = 'k' AND n = 7"),
            format!("UPDATE {table} SET v = 4 WHERE n = 8 AND s = 'k'"),
            format!("DELETE FROM {table} WHERE n = 1094795585"),
        ] {
            query(steps, group, &sql);
        }
        let rows = [
            vec![int(1_094_795_585), text("k")],
            vec![int(7), text("l")],
            vec![text("8"), text("k")],
        ];
        let change = format!("UPDATE {table} SET v = v + 1 WHERE n = ? AND s = ?");
        prepared(steps, group, 330, &change, &rows);
        let delete = format!("DELETE FROM {table} WHERE s <=> 'l' AND n = ?");
        prepared(steps, group, 331, &delete, &[vec![int(7)], vec![int(9)]]);
        query(steps, group, &format!("SELECT * FROM {table}"));
    }
}

fn results(steps: &mut Vec<Step>) {
    let group = "results";
    for sql in [
        "CREATE PROCEDURE several(a BIGINT) BEGIN SELECT * FROM wide WHERE id = a; SELECT COUNT(*) FROM wide; UPDATE wide SET a = a WHERE id = 1; SELECT 1 WHERE 0; END",
        "CALL several(1)",
        "CALL several(77)",
        "CALL several('x')",
        "SELECT 1; SELECT 2, 3; DO 1; SELECT * FROM wide WHERE id = 1; SELEC",
        "CREATE VIEW narrow AS SELECT id, b FROM wide",
        "SELECT * FROM narrow ORDER BY id",
        "SELECT CAST('1x' AS SIGNED), 1/0, CAST(300 AS UNSIGNED)",
        "SHOW WARNINGS",
        "INSERT IGNORE INTO wide (id, a, b) VALUES (10, 1000, 70000), (1, 1, 1)",
        "INSERT INTO wide (id) VALUES (1)",
        "UPDATE wide SET a = 1 WHERE id IN (1, 2)",
        "UPDATE wide SET a = 1 WHERE id IN (1, 2)",
        "DELETE FROM wide WHERE id = 10",
        "SHOW COLUMNS FROM wide",
        "SHOW CREATE TABLE wide",
        "EXPLAIN SELECT * FROM wide WHERE id = 1",
        "SELECT @@sql_mode, @@autocommit, DATABASE()",
        "SET @u = 1, @v = 'text'",
        "SELECT * FROM wide WHERE id = @u",
        "PREPARE p FROM 'SELECT id, b FROM wide WHERE id = ?'",
        "EXECUTE p USING @u",
        "EXECUTE p USING @v",
        "DEALLOCATE PREPARE p",
        "HANDLER wide OPEN",
        "HANDLER wide READ `PRIMARY` = (1)",
        "HANDLER wide CLOSE",
        "LOCK TABLES wide READ",
        "SELECT id FROM wide WHERE id = 1",
        "SELECT * FROM warehouse",
        "UPDATE wide SET a = 2 WHERE id = 1",
        "UNLOCK TABLES",
        "LOAD DATA LOCAL INFILE 'none' INTO TABLE wide",
    ] {
        query(steps, group, sql);
    }
    prepared(
        steps,
        group,
        320,
        "CALL several(?)",
        &[vec![int(1)], vec![int(77)], vec![text("1")]],
    );
    for sql in [
        "ALTER TABLE wide ADD COLUMN more INT DEFAULT 5",
        "FLUSH TABLES wide",
        "ALTER TABLE wide ALTER INDEX one INVISIBLE",
        "ANALYZE TABLE wide",
        "CHECK TABLE wide",
        "SET sql_select_limit=1",
        "SET sql_select_limit=DEFAULT",
    ] {
        // Prepared before, executed before and after.
        steps.push(Step::new(
            group,
            What::Prepare(321, "SELECT * FROM wide WHERE b = ?".to_owned()),
        ));
        steps.push(Step::new(group, execute(321, vec![int(2)])));
        query(steps, group, sql);
        steps.push(Step::new(group, execute(321, vec![int(2)])));
        steps.push(Step::new(group, execute(321, vec![text("2")])));
    }
}

pub(super) fn errors(steps: &mut Vec<Step>) {
    let group = "errors";
    for sql in [
        "",
        ";",
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM wide",
        "INSERT INTO wide (id) VALUES (NULL)",
        "SELECT * FROM wide WHERE id = (SELECT id FROM wide)",
        "COMMIT",
        "SET no_such=1",
        "CALL nobody()",
        "USE nowhere",
    ] {
        query(steps, group, sql);
        steps.push(Step::new(group, What::Prepare(330, sql.to_owned())));
        steps.push(Step::new(group, execute(330, vec![])));
    }
    steps.push(Step::new(group, execute(999, vec![])));
    steps.push(Step::new(group, What::Fetch(999, 1)));
    steps.push(Step::new(group, What::Database("nowhere".to_owned())));
    steps.push(Step::new(group, What::Ping));
    steps.push(Step::new(group, What::MultiStatements(false)));
    query(steps, group, "SELECT 1; SELECT 2");
    steps.push(Step::new(group, What::MultiStatements(true)));
    steps.push(Step::new(group, What::ResetConnection));
    query(steps, group, "SELECT @u, @@autocommit");
}
