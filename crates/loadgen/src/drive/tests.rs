//! The honesty of the drive, against a fake server and a fake clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wire::{
    BatchWay, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, Statement, Value,
};

use super::{ArrivalProcess, Arrivals, Finished, OnDisconnect, OnError, Plan, run};
use crate::clock::Clock;
use crate::measure::Names;
use crate::session::{Knobs, Session, Shared, StatementId, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

const MS: u64 = 1_000_000;

/// Stands still but for what sleeps and statements add.
#[derive(Default)]
struct FakeClock(AtomicU64);

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, moment_ns: u64) {
        self.0.fetch_max(moment_ns, Ordering::SeqCst);
    }
}

/// Answers after 1 ms, and in the first of every ten seconds not before its end. Every `deadlock_every`-th statement is a deadlock and
/// every `lost_every`-th loses the connection (0: never).
struct FakeServer {
    clock: Arc<FakeClock>,
    stalls: bool,
    deadlock_every: u64,
    lost_every: u64,
    statements: Arc<AtomicU64>,
    counters: Counters,
}

impl FakeServer {
    fn answer(&mut self) -> Result<Done, Error> {
        self.counters.round_trips += 1;
        let now_ns = self.clock.now_ns();
        let into_ns = now_ns % (10_000 * MS);
        let stalled = self.stalls && into_ns < 1000 * MS;
        self.clock.sleep_until(if stalled {
            now_ns - into_ns + 1000 * MS
        } else {
            now_ns + MS
        });
        let number = self.statements.fetch_add(1, Ordering::SeqCst) + 1;
        if self.deadlock_every > 0 && number.is_multiple_of(self.deadlock_every) {
            return Err(Error::Server {
                code: 1213,
                sqlstate: "40001".into(),
                message: "deadlock".into(),
            });
        }
        if self.lost_every > 0 && number.is_multiple_of(self.lost_every) {
            return Err(Error::Io(std::io::ErrorKind::ConnectionReset.into()));
        }
        Ok(Done {
            rows: 1,
            affected: 0,
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
        if sql == "ROLLBACK" {
            Ok(Done::default())
        } else {
            self.answer()
        }
    }
    fn prepare(&mut self, _sql: &str) -> Result<Statement, Error> {
        Ok(Statement {
            id: 1,
            parameters: 0,
            columns: 1,
        })
    }
    fn execute(
        &mut self,
        _: &Statement,
        _: &[Value],
        _: Fetch,
        _: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        self.answer()
    }
    fn execute_batch(
        &mut self,
        _: &Statement,
        _: &[Vec<Value>],
        _: BatchWay,
    ) -> Result<Done, Error> {
        self.answer()
    }
    fn close(&mut self, _statement: Statement) -> Result<(), Error> {
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

/// One statement a transaction.
struct One(Vec<StatementSpec>);

impl Workload for One {
    fn name(&self) -> &'static str {
        "one"
    }
    fn statements(&self) -> &[StatementSpec] {
        &self.0
    }
    fn transactions(&self) -> &[&'static str] {
        &["one"]
    }
    fn check(&self, _connection: &mut dyn Connection) -> anyhow::Result<()> {
        Ok(())
    }
    fn client(&self, _number: u32, _connections: u32) -> Box<dyn Client> {
        Box::new(OneClient)
    }
}

struct OneClient;

impl Client for OneClient {
    fn draw(&mut self, _random: &mut Random) -> TransactionKind {
        TransactionKind(0)
    }
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        session.run(StatementId(0), &[]).map(|_| Outcome::Committed)
    }
}

fn drive(
    arrivals: Arrivals,
    time_s: u64,
    stalls: bool,
    deadlock_every: u64,
    lost_every: u64,
) -> Finished {
    drive_many(1, arrivals, time_s, stalls, deadlock_every, lost_every)
}

fn drive_many(
    connections: u32,
    arrivals: Arrivals,
    time_s: u64,
    stalls: bool,
    deadlock_every: u64,
    lost_every: u64,
) -> Finished {
    let clock = Arc::new(FakeClock::default());
    let workload: Arc<dyn Workload> = Arc::new(One(vec![StatementSpec::new("one", "SELECT 1")]));
    let (fake, statements) = (Arc::clone(&clock), Arc::new(AtomicU64::new(0)));
    let shared = Shared {
        connector: Arc::new(move || {
            let (clock, statements) = (Arc::clone(&fake), Arc::clone(&statements));
            Ok(Box::new(FakeServer {
                clock,
                stalls,
                deadlock_every,
                lost_every,
                statements,
                counters: Counters::default(),
            }))
        }),
        statements: workload.statements().into(),
        names: Arc::new(Names::new(workload.statements())),
        knobs: Knobs::default(),
        clock,
    };
    let plan = Plan {
        connections,
        client_threads: 2,
        time: Some(Duration::from_secs(time_s)),
        warmup: Duration::ZERO,
        transactions: None,
        arrivals,
        on_disconnect: OnDisconnect::Reconnect,
        on_error: OnError::Stop,
        seed: 1,
    };
    run(
        &workload,
        &shared,
        plan,
        &AtomicBool::new(false),
        &mut |_, _| {},
    )
    .expect("connects")
}

fn open(rate: f64) -> Arrivals {
    Arrivals::Open {
        rate,
        process: ArrivalProcess::Uniform,
    }
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_loop_hides() {
    let open = drive(open(100.0), 20, true, 0, 0);
    // 1 s in 10 stalls: a tenth of the arrivals wait up to a second for its end.
    let p99_ms = open.totals.latency.value_at_quantile(0.99) / MS;
    assert!((850..=1100).contains(&p99_ms), "{p99_ms}");
    assert!((850..=1100).contains(&(open.totals.lag.value_at_quantile(0.99) / MS)));
    assert_eq!(open.totals.latency.len(), 2000, "nothing is skipped");
    let closed = drive(Arrivals::Closed, 20, true, 0, 0);
    assert!(closed.totals.latency.value_at_quantile(0.99) / MS <= 1);
}

#[test]
fn a_rate_that_cannot_be_kept_is_told() {
    let finished = drive(open(2000.0), 5, false, 0, 0);
    assert_eq!(
        finished.totals.latency.len(),
        10_000,
        "every arrival is in the latencies"
    );
    assert!(
        (4900..=5100).contains(&finished.totals.not_begun),
        "{}",
        finished.totals.not_begun
    );
    assert!(finished.totals.latency.value_at_quantile(0.99) / MS > 2000);
}

#[test]
fn deadlocks_are_retries_and_not_errors() {
    let finished = drive(Arrivals::Closed, 1, false, 10, 0);
    let tally = finished.totals.transactions[0];
    assert_eq!(tally.errors, 0);
    assert!(tally.retries >= 99, "{tally:?}");
    assert_eq!(finished.totals.errors["1213"].count, tally.retries);
    assert!(finished.failure.is_none());
}

#[test]
fn lost_connections_are_made_again_and_counted() {
    let finished = drive(Arrivals::Closed, 1, false, 0, 100);
    let tally = finished.totals.transactions[0];
    assert!((9..=10).contains(&tally.errors), "{tally:?}");
    assert!(
        (9..=10).contains(&finished.totals.reconnects),
        "{}",
        finished.totals.reconnects
    );
    assert_eq!(finished.totals.errors["disconnect"].count, tally.errors);
}

#[test]
fn many_connections_share_the_schedule_and_lose_nothing() {
    let finished = drive_many(512, open(500.0), 4, false, 0, 0);
    assert_eq!(finished.totals.latency.len(), 2000);
    assert_eq!(finished.totals.transactions[0].errors, 0);
    assert_eq!(finished.stuck_connections, 0);
}
