//! Prepared point selects over some connections of one thread, for counting instructions and system calls a statement.
//!
//! `point_selects URL TABLE CONNECTIONS STATEMENTS`: each connection reads the row with id 1 so many times. One connection blocks,
//! several are fibers.

use wire::{Fetch, RowsWanted, ServerUrl, Value, fibers};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, table, connections, statements] = &arguments[..] else {
        eprintln!("usage: point_selects URL TABLE CONNECTIONS STATEMENTS");
        std::process::exit(2);
    };
    let url = ServerUrl::parse(url).expect("a URL");
    let statements: u32 = statements.parse().expect("a number of statements");
    let connections: usize = connections.parse().expect("a number of connections");
    let sql = format!("SELECT c FROM {table} WHERE id=?");
    let all = Fetch {
        size: 0,
        rows: RowsWanted::All,
    };
    let body = move || {
        let mut connection = wire::connect(&url).expect("login");
        let select = connection.prepare(&sql).expect("prepare");
        let before = connection.counters();
        let mut parameters = vec![Value::Int(1)];
        for _ in 0..statements {
            parameters[0] = Value::Int(1);
            let done = connection.execute(&select, &parameters, all, &mut ());
            assert_eq!(done.expect("select").rows, 1);
        }
        (connection.counters() - before).syscalls
    };
    let syscalls: u64 = if connections == 1 {
        body()
    } else {
        let bodies = (0..connections).map(|_| Box::new(body.clone()) as fibers::Body<u64>);
        fibers::run(bodies.collect())
            .expect("fibers")
            .into_iter()
            .sum()
    };
    println!("{syscalls} system calls on sockets");
}
