//! A server and a clock that are none, and a run against them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wire::{
    BatchWay, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, Statement, Value,
};

use super::{Arrivals, Finished, OnDisconnect, OnError, Plan, run};
use crate::clock::Clock;
use crate::measure::Names;
use crate::session::{Knobs, Shared};
use crate::workload::Workload;

pub(crate) const MS: u64 = 1_000_000;

/// Stands still but for what sleeps and statements add.
#[derive(Default)]
pub(crate) struct FakeClock {
    pub(crate) now_ns: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) reads: AtomicU64,
}

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, moment_ns: u64) {
        self.now_ns.fetch_max(moment_ns, Ordering::SeqCst);
        self.sleeps.fetch_add(1, Ordering::SeqCst);
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// In the first of every ten seconds it does not answer before its end.
    pub(crate) stalls: bool,
    /// Every so-manieth statement is a deadlock (0: never) ...
    pub(crate) deadlock_every: u64,
    /// ... or loses the connection.
    pub(crate) lost_every: u64,
    /// After so many statements it never answers again.
    pub(crate) silent_after: Option<u64>,
    /// A refused statement cannot be closed: the server has hung up.
    pub(crate) hangs_up: bool,
    /// So many logins after the first are refused: too many connections.
    pub(crate) full: u64,
    /// Ctrl-C is pressed when it was asked so many statements.
    pub(crate) interrupted: Option<u64>,
}

/// What a server was asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) logins: AtomicU64,
    pub(crate) statements: AtomicU64,
    pub(crate) first_statements: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// What each connection sent beside SET, in order: a text, or `execute` for any prepared statement.
    pub(crate) texts: Mutex<Vec<String>>,
    /// Everything that was set, of all connections.
    pub(crate) sets: Mutex<Vec<String>>,
    /// When each statement came.
    pub(crate) moments_ns: Mutex<Vec<u64>>,
    ctrl_c: AtomicBool,
}

/// Answers after 1 ms.
pub(crate) struct FakeServer {
    clock: Arc<dyn Clock>,
    faults: Faults,
    asked: Arc<Asked>,
    counters: Counters,
    /// The last statement was a deadlock.
    refused: bool,
}

impl FakeServer {
    fn answer(&mut self) -> Result<Done, Error> {
        self.counters.round_trips += 1;
        let now_ns = self.clock.now_ns();
        self.asked.moments_ns.lock().expect("whole").push(now_ns);
        let into_ns = now_ns % (10_000 * MS);
        let stalled = self.faults.stalls && into_ns < 1000 * MS;
        self.clock.sleep_until(if stalled {
            now_ns - into_ns + 1000 * MS
        } else {
            now_ns + MS
        });
        let number = self.asked.statements.fetch_add(1, Ordering::SeqCst) + 1;
        if self.faults.interrupted == Some(number) {
            self.asked.ctrl_c.store(true, Ordering::SeqCst);
        }
        while self.faults.silent_after.is_some_and(|last| number > last) {
            std::thread::park();
        }
        let every = |times: u64| times > 0 && number.is_multiple_of(times);
        self.refused = every(self.faults.deadlock_every);
        if self.refused {
            return Err(Error::Server {
                code: 1213,
                sqlstate: "40001".into(),
                message: "deadlock".into(),
            });
        }
        if every(self.faults.lost_every) {
            return Err(Error::Io(std::io::ErrorKind::ConnectionReset.into()));
        }
        Ok(Done {
            rows: 1,
            ..Done::default()
        })
    }
}

impl Connection for FakeServer {
    fn family(&self) -> Family {
        Family::Mysql
    }
    fn server_version(&self) -> &'static str {
        "fake"
    }
    fn counters(&self) -> Counters {
        self.counters
    }
    fn supports(&self, _feature: Feature) -> bool {
        false
    }
    fn query(&mut self, sql: &str, _fetch: Fetch, _rows: &mut dyn RowSink) -> Result<Done, Error> {
        if !sql.starts_with("SET ") {
            self.asked.texts.lock().expect("whole").push(sql.to_owned());
        }
        match sql {
            "COMMIT" => self.asked.commits.fetch_add(1, Ordering::SeqCst),
            "ROLLBACK" => 0,
            _ if sql.starts_with("SET ") => {
                self.counters.round_trips += 1;
                self.asked.sets.lock().expect("whole").push(sql.to_owned());
                0
            }
            _ => return self.answer(),
        };
        Ok(Done::default())
    }
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        Ok(Statement {
            id: u32::from(sql == "SELECT 1"),
            parameters: 0,
            columns: 1,
        })
    }
    fn execute(
        &mut self,
        statement: &Statement,
        _: &[Value],
        _: Fetch,
        _: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        let mut texts = self.asked.texts.lock().expect("whole");
        texts.push("execute".to_owned());
        drop(texts);
        let first = &self.asked.first_statements;
        first.fetch_add(u64::from(statement.id), Ordering::SeqCst);
        self.answer()
    }
    fn execute_batch(
        &mut self,
        _: &Statement,
        _: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        if way != BatchWay::Single {
            return Err(Error::Unsupported("a batch".into()));
        }
        self.answer()
    }
    fn close(&mut self, _statement: Statement) -> Result<(), Error> {
        if self.faults.hangs_up && self.refused {
            return Err(Error::Io(std::io::ErrorKind::ConnectionReset.into()));
        }
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

pub(crate) fn plan(connections: u32, arrivals: Arrivals, time: Duration) -> Plan {
    Plan {
        connections,
        client_threads: 2,
        time: Some(time),
        warmup: Duration::ZERO,
        wait: Duration::from_secs(30),
        transactions: None,
        arrivals,
        on_disconnect: OnDisconnect::Reconnect,
        on_error: OnError::Stop,
        seed: 1,
    }
}

/// Run a workload against a server with faults, on any clock.
pub(crate) fn against(
    workload: Arc<dyn Workload>,
    faults: Faults,
    knobs: Knobs,
    plan: Plan,
    clock: Arc<dyn Clock>,
) -> (Finished, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    let (servers_clock, server_asked) = (Arc::clone(&clock), Arc::clone(&asked));
    let shared = Shared {
        connector: Arc::new(move || {
            let asked = Arc::clone(&server_asked);
            let login = asked.logins.fetch_add(1, Ordering::SeqCst);
            if (1..=faults.full).contains(&login) {
                return Err(Error::Server {
                    code: 1040,
                    sqlstate: "08004".into(),
                    message: "Too many connections".into(),
                });
            }
            Ok(Box::new(FakeServer {
                clock: Arc::clone(&servers_clock),
                faults,
                asked,
                counters: Counters::default(),
                refused: false,
            }))
        }),
        statements: workload.statements().into(),
        names: Arc::new(Names::new(workload.statements())),
        knobs,
        clock,
    };
    if faults.interrupted == Some(0) {
        asked.ctrl_c.store(true, Ordering::SeqCst);
    }
    let finished = run(&workload, &shared, plan, &asked.ctrl_c, &mut |_, _| {});
    (finished.expect("connects"), asked)
}
