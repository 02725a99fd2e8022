//! What an answer says besides its rows.

use testserver::{ALL, rows as texts};
use wire::{Connection, Value};

use crate::columns::Columns;

const LONGLONG: u32 = 8;
const VAR_STRING: u32 = 253;

pub fn everything(connection: &mut dyn Connection) {
    texts(
        connection,
        "CREATE TABLE numbered (id BIGINT PRIMARY KEY AUTO_INCREMENT, words VARCHAR(2)) AUTO_INCREMENT 7",
    );
    warnings_and_insert_ids(connection);
    columns(connection);
    texts(connection, "DROP TABLE numbered");
}

fn warnings_and_insert_ids(connection: &mut dyn Connection) {
    let sql = "INSERT IGNORE INTO numbered (words) VALUES (?)";
    let done = connection.query(&sql.replace('?', "'abc'"), ALL, &mut ());
    let done = done.expect("insert");
    assert_eq!((done.warnings, done.last_insert_id), (1, 7));
    let insert = connection.prepare(sql).expect("prepare");
    let fits = [Value::Text("ab".to_owned())];
    let done = connection.execute(&insert, &fits, ALL, &mut ());
    let done = done.expect("insert");
    assert_eq!((done.warnings, done.last_insert_id), (0, 8));
    let done = connection.query("SELECT 'x' + 0", ALL, &mut ());
    assert_eq!(done.expect("select").warnings, 1);
}

/// Each execution tells them, also those whose definitions are not read again; a changed table's are.
fn columns(connection: &mut dyn Connection) {
    let sql = "SELECT id, words AS other FROM numbered";
    let told = |kind| {
        Columns(vec![
            ("id".to_owned(), LONGLONG),
            ("other".to_owned(), kind),
        ])
    };
    let mut columns = Columns::default();
    connection.query(sql, ALL, &mut columns).expect("query");
    assert_eq!(columns, told(VAR_STRING));
    let select = connection.prepare(sql).expect("prepare");
    let told_of = |connection: &mut dyn Connection| {
        let mut columns = Columns::default();
        connection
            .execute(&select, &[], ALL, &mut columns)
            .expect("select");
        columns
    };
    for _ in 0..3 {
        assert_eq!(told_of(connection), told(VAR_STRING));
    }
    texts(connection, "UPDATE numbered SET words = '1'");
    texts(connection, "ALTER TABLE numbered MODIFY words BIGINT");
    for _ in 0..3 {
        assert_eq!(told_of(connection), told(LONGLONG));
    }
    connection.close(select).expect("close");
}
