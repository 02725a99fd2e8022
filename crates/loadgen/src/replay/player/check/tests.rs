//! What a server may refuse to prepare.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wire::{
    BatchWay, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, Statement, Value,
};

use super::check;
use crate::replay::tests::{Scratch, meta};
use crate::replay::writer::Ended;
use crate::replay::{RecordedStatement, Tape, Trace, TraceWriter};
use crate::session::StatementId;
use crate::workload::TransactionKind;

/// Refuses to prepare one text.
struct Refuses(&'static str, u16, &'static str);

impl Connection for Refuses {
    fn family(&self) -> Family {
        Family::Mysql
    }
    fn server_version(&self) -> &'static str {
        "fake"
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
    fn supports(&self, _: Feature) -> bool {
        false
    }
    fn query(&mut self, _: &str, _: Fetch, _: &mut dyn RowSink) -> Result<Done, Error> {
        Ok(Done::default())
    }
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        if sql == self.0 {
            return Err(Error::Server {
                code: self.1,
                sqlstate: self.2.to_owned(),
                message: "no".to_owned(),
            });
        }
        Ok(Statement {
            id: 0,
            parameters: 0,
            columns: 0,
        })
    }
    fn execute(
        &mut self,
        _: &Statement,
        _: &[Value],
        _: Fetch,
        _: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        Ok(Done::default())
    }
    fn execute_batch(
        &mut self,
        _: &Statement,
        _: &[Vec<Value>],
        _: BatchWay,
    ) -> Result<Done, Error> {
        Ok(Done::default())
    }
    fn close(&mut self, _: Statement) -> Result<(), Error> {
        Ok(())
    }
    fn load(
        &mut self,
        _: &str,
        _: &[&str],
        _: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error> {
        Ok(0)
    }
}

const FIRST: &str = "SELECT a FROM t";

/// Whether a trace passes the check of a server that refuses its first statement. The recorded server took that or not, and took another.
fn passes(name: &str, taken: bool, other: &str, (code, sqlstate): (u16, &'static str)) -> bool {
    let statement = |sql: &str| RecordedStatement {
        sql: sql.to_owned(),
        first_row: false,
        of_session: false,
        ..meta().statements[0].clone()
    };
    let mut meta = meta();
    meta.statements = vec![statement(FIRST), statement(other)];
    let file = Scratch::new(&format!("check-{name}"));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(&file.path, &meta, stop).expect("creates");
    for (number, ended) in [
        (1, Ended::Committed),
        (
            0,
            if taken {
                Ended::Committed
            } else {
                Ended::Refused
            },
        ),
    ] {
        let mut tape = Tape::default();
        tape.statement(StatementId(number), &[]);
        tape.answered(crate::replay::Counts::default());
        writer.add(0, TransactionKind(0), 0, 0, ended, &tape);
    }
    writer.finish().expect("writes");
    let trace = Trace::open(&file.path, false).expect("opens");
    let specs = trace.meta.statements.iter();
    let specs: Vec<_> = specs.map(|one| one.spec(Family::Mysql)).collect();
    let checked = check(&trace, &specs, &mut Refuses(FIRST, code, sqlstate));
    if let Err(error) = &checked {
        assert!(error.to_string().contains(FIRST), "{error}");
    }
    checked.is_ok()
}

#[test]
fn a_server_may_refuse_what_the_recorded_one_refused() {
    let syntax = (1064, "42000");
    assert!(!passes("taken", true, "SELECT 1", syntax));
    assert!(passes("refused", false, "SELECT 1", syntax));
}

#[test]
fn what_mysql_cannot_prepare_is_sent_as_text() {
    assert!(passes("1295", true, "SELECT 1", (1295, "HY000")));
}

#[test]
fn the_trace_may_make_its_tables() {
    let create = "CREATE TEMPORARY TABLE t (a INT)";
    for (number, missing) in [(1146, "42S02"), (0, "42P01")].into_iter().enumerate() {
        let name = format!("table-{number}");
        assert!(!passes(&name, true, "SELECT 1", missing));
        assert!(passes(&name, true, create, missing));
    }
    assert!(!passes("syntax", true, create, (1064, "42000")));
}
