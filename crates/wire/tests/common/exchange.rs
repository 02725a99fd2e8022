//! One connection's talk with a server, as it was captured and as the tests play it again.

use wire::{
    BatchWay, ColumnDefinition, Connection, Done, Error, Family, Fetch, RowSink, RowsWanted,
    ServerUrl, Value,
};

/// Everything that a connection can be asked for, one line for each answer.
pub fn talk(url: &ServerUrl) -> Vec<String> {
    let mut said = Vec::new();
    match wire::connect(url) {
        Err(error) => said.push(error.to_string()),
        Ok(mut connection) => {
            said.push(connection.server_version().to_owned());
            statements(&mut *connection, &mut said);
        }
    }
    said
}

struct Rows<'a>(&'a mut Vec<String>);

impl RowSink for Rows<'_> {
    fn row(&mut self, cells: &[wire::Cell<'_>]) {
        let texts = cells
            .iter()
            .map(|cell| cell.to_text().unwrap_or_else(|| "NULL".to_owned()));
        self.0.push(texts.collect::<Vec<_>>().join(" | "));
    }

    fn wants_columns(&self) -> bool {
        true
    }

    fn column(&mut self, definition: &ColumnDefinition<'_>) {
        // Which columns there are shows in the rows.
        let _ = String::from_utf8_lossy(definition.name);
    }
}

fn statements(connection: &mut dyn Connection, said: &mut Vec<String>) {
    let all = Fetch {
        size: 0,
        rows: RowsWanted::All,
    };
    let create = match connection.family() {
        Family::Mysql => {
            "CREATE TEMPORARY TABLE t (id BIGINT, price DECIMAL(9,2), words TEXT, at DATETIME(6), ratio DOUBLE, small FLOAT)"
        }
        Family::Postgres => {
            "CREATE TEMPORARY TABLE t (id bigint, price numeric(9,2), words text, at timestamp, ratio float8, small float4)"
        }
    };
    for sql in [create, "SELEC 1", "SELECT 1, NULL, 'x', 2.5"] {
        let done = connection.query(sql, all, &mut Rows(said));
        note(said, done);
    }
    let rows = [row(1), row(2), row(3)];
    if let Some(insert) = prepared(
        connection,
        said,
        "INSERT INTO t (id, price, words, at) VALUES (?, ?, ?, ?)",
    ) {
        for way in [BatchWay::Single, BatchWay::Bulk, BatchWay::Pipeline] {
            let done = connection.execute_batch(&insert, &rows, way);
            note(said, done);
        }
        let closed = connection.close(insert);
        note(said, closed.map(|()| Done::default()));
    }
    let loaded = connection.load("t", &["id", "price", "words", "at"], &mut rows.into_iter());
    said.push(format!("{loaded:?}"));
    let update = connection.query("UPDATE t SET ratio = id / 3, small = 0.1", all, &mut ());
    note(said, update);
    if let Some(select) = prepared(
        connection,
        said,
        "SELECT t.*, CAST('10:00:01' AS TIME) FROM t WHERE id > ? ORDER BY id",
    ) {
        for (size, rows) in [
            (0, RowsWanted::All),
            (2, RowsWanted::All),
            (2, RowsWanted::First),
        ] {
            let done = connection.execute(
                &select,
                &[Value::Int(1)],
                Fetch { size, rows },
                &mut Rows(said),
            );
            note(said, done);
        }
    }
}

fn row(id: i64) -> Vec<Value> {
    vec![
        Value::Int(id),
        Value::Decimal {
            unscaled: 5 - 10 * id,
            scale: 2,
        },
        if id == 2 {
            Value::Null
        } else {
            Value::Text("it's\té".to_owned())
        },
        Value::Timestamp(1_709_251_199_000_000 + id),
    ]
}

fn prepared(
    connection: &mut dyn Connection,
    said: &mut Vec<String>,
    sql: &str,
) -> Option<wire::Statement> {
    match connection.prepare(sql) {
        Ok(statement) => Some(statement),
        Err(error) => {
            said.push(error.to_string());
            None
        }
    }
}

fn note(said: &mut Vec<String>, done: Result<Done, Error>) {
    said.push(match done {
        Ok(done) => format!("{} rows, {} affected", done.rows, done.affected),
        Err(error) => error.to_string(),
    });
}
