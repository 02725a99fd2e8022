//! MariaDB's bulk execution, and its absence.

use testserver::{one, rows as texts};
use wire::{BatchWay, Connection, Error, Feature, Value};

pub fn everything(connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE TABLE bulk (id BIGINT PRIMARY KEY, words TEXT)",
    );
    let insert = connection
        .prepare("INSERT INTO bulk VALUES (?, ?)")
        .expect("prepare");
    let row = |id: i64| {
        let words = match id % 3 {
            0 => Value::Null,
            _ => Value::Text(format!("{id}é").repeat(200)),
        };
        vec![Value::Int(id), words]
    };
    let rows: Vec<Vec<Value>> = (1..=5000).map(row).collect();
    let before = connection.counters();
    let done = connection.execute_batch(&insert, &rows, BatchWay::Bulk);
    let is_mariadb = connection.server_version().contains("MariaDB");
    assert_eq!(connection.supports(Feature::Bulk), is_mariadb);
    if !is_mariadb {
        let refused = done.expect_err("no bulk");
        assert!(
            matches!(&refused, Error::Unsupported(words) if words.contains("no MariaDB")),
            "{refused}"
        );
        assert_eq!(connection.counters(), before);
        return;
    }
    assert_eq!(done.expect("bulk").affected, 5000);
    // 3.6 MB, in executions of 1 MiB.
    assert_eq!((connection.counters() - before).round_trips, 4);
    assert_eq!(one(connection, "SELECT COUNT(words) FROM bulk"), "3334");
    assert_eq!(
        one(connection, "SELECT words FROM bulk WHERE id = 4999"),
        "4999é".repeat(200)
    );
    let update = connection
        .prepare("UPDATE bulk SET words = ? WHERE id = ?")
        .expect("prepare");
    // Types that differ from row to row.
    let updates = [
        vec![Value::Text("one".to_owned()), Value::Int(1)],
        vec![Value::Int(2), Value::Int(2)],
        vec![Value::Null, Value::Text("4".to_owned())],
    ];
    let before = connection.counters();
    let done = connection.execute_batch(&update, &updates, BatchWay::Bulk);
    assert_eq!(done.expect("updates").affected, 3);
    assert_eq!((connection.counters() - before).round_trips, 3);
    let changed = texts(
        connection,
        "SELECT words FROM bulk WHERE id IN (1, 2, 4) ORDER BY id",
    );
    assert_eq!(
        changed,
        [[Some("one".to_owned())], [Some("2".to_owned())], [None]]
    );
    // The same statement alone afterwards, and after a refusal.
    let single = [vec![Value::Int(5001), Value::Null]];
    for way in [BatchWay::Single, BatchWay::Bulk] {
        let done = connection.execute_batch(&insert, &single, way);
        assert_eq!(done.is_ok(), way == BatchWay::Single);
    }
    let done = connection.execute_batch(&insert, &[row(5002)], BatchWay::Single);
    assert_eq!(done.expect("single").affected, 1);
    let returning = connection
        .prepare("INSERT INTO bulk VALUES (?, ?) RETURNING id")
        .expect("prepare");
    let done = connection.execute_batch(&returning, &[row(6001), row(6002)], BatchWay::Bulk);
    assert_eq!(done.expect("returning").rows, 2);
    assert_eq!(one(connection, "SELECT COUNT(*) FROM bulk"), "5004");
}
