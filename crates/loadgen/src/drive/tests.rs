//! The honesty of the drive, against a fake server and a fake clock.

mod ending;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::{Connection, Error};

use super::fakes::{Asked, FakeClock, Faults, MS, against as on_fakes, plan};
use super::run::Run;
use super::{ArrivalProcess, Arrivals, Finished, Plan, Report, all_connected, finish, refused};
use crate::clock::{Clock, MonotonicClock};
use crate::measure::{Collector, Names};
use crate::session::{Isolation, Knobs, Protocol, Session, StatementId, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

/// Statements that a transaction sends one after the other, and how long it is typed.
struct Plain(Vec<StatementSpec>, Duration);

impl Plain {
    fn one() -> Self {
        Self(vec![StatementSpec::new("one", "SELECT 1")], Duration::ZERO)
    }
}

impl Workload for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
    fn statements(&self) -> &[StatementSpec] {
        &self.0
    }
    fn transactions(&self) -> &[&'static str] {
        &["plain"]
    }
    fn check(&self, _connection: &mut dyn Connection) -> anyhow::Result<()> {
        Ok(())
    }
    fn client(&self, _number: u32, _connections: u32) -> Box<dyn Client> {
        Box::new(PlainClient(self.0.len() as u16, self.1))
    }
}

struct PlainClient(u16, Duration);

impl Client for PlainClient {
    fn draw(&mut self, _random: &mut Random) -> Option<TransactionKind> {
        Some(TransactionKind(0))
    }
    fn keying(&mut self) -> Duration {
        self.1
    }
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        for number in 0..self.0 {
            session.run(StatementId(number), &[])?;
        }
        Ok(Outcome::Committed)
    }
}

fn against(
    workload: Plain,
    faults: Faults,
    knobs: Knobs,
    plan: Plan,
    clock: Arc<dyn Clock>,
) -> (Finished, Arc<Asked>) {
    on_fakes(Arc::new(workload), faults, knobs, plan, clock)
}

fn drive(arrivals: Arrivals, time_s: u64, faults: Faults) -> Finished {
    drive_many(1, arrivals, time_s, faults)
}

fn drive_many(connections: u32, arrivals: Arrivals, time_s: u64, faults: Faults) -> Finished {
    let plan = plan(connections, arrivals, Duration::from_secs(time_s));
    let clock = Arc::new(FakeClock::default());
    against(Plain::one(), faults, Knobs::default(), plan, clock).0
}

const STALLS: Faults = Faults {
    stalls: true,
    deadlock_every: 0,
    lost_every: 0,
    silent_after: None,
    hangs_up: false,
    full: 0,
    interrupted: None,
};

fn deadlocks(deadlock_every: u64) -> Faults {
    Faults {
        deadlock_every,
        ..Faults::default()
    }
}

fn losses(lost_every: u64) -> Faults {
    Faults {
        lost_every,
        ..Faults::default()
    }
}

fn open(rate: f64) -> Arrivals {
    Arrivals::Open {
        rate,
        process: ArrivalProcess::Uniform,
    }
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_loop_hides() {
    let open = drive(open(100.0), 20, STALLS);
    // 1 s in 10 stalls: a tenth of the arrivals wait up to a second for its end.
    let p99_ms = open.totals.latency.value_at_quantile(0.99) / MS;
    assert!((850..=1100).contains(&p99_ms), "{p99_ms}");
    assert!((850..=1100).contains(&(open.totals.lag.value_at_quantile(0.99) / MS)));
    assert_eq!(open.totals.latency.len(), 2000, "nothing is skipped");
    let closed = drive(Arrivals::Closed, 20, STALLS);
    assert!(closed.totals.latency.value_at_quantile(0.99) / MS <= 1);
}

#[test]
fn a_rate_that_cannot_be_kept_is_told() {
    let finished = drive(open(2000.0), 5, Faults::default());
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
fn a_rate_may_be_lower_than_any_load_is_long() {
    let plan = plan(1, open(1e-300), Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    clock.now_ns.store(MS, Ordering::SeqCst);
    let (finished, _) = against(
        Plain::one(),
        Faults::default(),
        Knobs::default(),
        plan,
        clock,
    );
    assert_eq!(finished.totals.latency.len(), 1, "the first begins at once");
    assert_eq!(finished.totals.not_begun, 0);
}

#[test]
fn deadlocks_are_retries_and_not_errors() {
    let finished = drive(Arrivals::Closed, 1, deadlocks(10));
    let tally = finished.totals.transactions[0];
    assert_eq!(tally.errors, 0);
    assert!(tally.retries >= 99, "{tally:?}");
    assert_eq!(finished.totals.errors["1213"].count, tally.retries);
    assert!(finished.failure.is_none());
}

#[test]
fn a_refusal_is_told_although_the_close_behind_it_fails() {
    let faults = Faults {
        hangs_up: true,
        ..deadlocks(10)
    };
    let knobs = Knobs {
        protocol: Protocol::PreparePerRequest,
        ..Knobs::default()
    };
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    let (finished, _) = against(Plain::one(), faults, knobs, plan, clock);
    let errors = finished.totals.errors;
    assert!(errors["1213"].count >= 99, "{errors:?}");
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn lost_connections_are_made_again_and_counted() {
    let finished = drive(Arrivals::Closed, 1, losses(100));
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
    let finished = drive_many(512, open(500.0), 4, Faults::default());
    assert_eq!(finished.totals.latency.len(), 2000);
    assert_eq!(finished.totals.transactions[0].errors, 0);
    assert_eq!(finished.stuck_connections, 0);
}

#[test]
fn a_server_that_never_answers_again_is_told_in_full() {
    let faults = Faults {
        silent_after: Some(5),
        ..Faults::default()
    };
    let mut plan = plan(2, open(100.0), Duration::from_millis(300));
    plan.wait = Duration::from_millis(200);
    let clock = Arc::new(MonotonicClock::start());
    let (finished, _) = against(Plain::one(), faults, Knobs::default(), plan, clock);
    assert_eq!(finished.stuck_connections, 2);
    let totals = finished.totals;
    // 30 were due: 5 answered, 2 without an answer, the others never begun.
    assert_eq!((totals.latency.len(), totals.not_begun), (30, 23));
    assert_eq!((totals.lag.len(), totals.unanswered), (5 + 23, 2));
    assert!(totals.latency.max() >= 300 * MS, "{}", totals.latency.max());
}

#[test]
fn what_the_url_does_not_allow_is_not_in_the_servers_log() {
    let error = Error::Unsupported("login by mysql_clear_password".into());
    let failure = refused(&error, 0, 1);
    assert!(failure.hint.contains("--server"), "{}", failure.hint);
}

#[test]
fn a_refusal_that_is_told_first_does_not_hide_who_logged_in() {
    let plan = plan(4, Arrivals::Closed, Duration::from_secs(60));
    let run = Run::new(plan, Arc::new(FakeClock::default()), Collector::new(0, 0));
    let full = || Error::Server {
        code: 1040,
        sqlstate: "08004".into(),
        message: "Too many connections".into(),
    };
    let (reports, inbox) = std::sync::mpsc::channel();
    for report in [
        Report::Refused(full()),
        Report::Connected,
        Report::Refused(full()),
        Report::Connected,
    ] {
        reports.send(report).expect("told");
    }
    let refused = all_connected(&inbox, &run).expect_err("refused");
    assert!(refused.to_string().contains("after 2 of 4"), "{refused}");
}

#[test]
fn a_typed_transaction_counts_where_it_ends() {
    let workload = Plain(Plain::one().0, Duration::from_secs(18));
    let mut plan = plan(1, Arrivals::Closed, Duration::from_secs(60));
    plan.warmup = Duration::from_secs(20);
    let clock = Arc::new(FakeClock::default());
    let seen = Arc::clone(&clock);
    let (finished, _) = against(workload, Faults::default(), Knobs::default(), plan, clock);
    // Four whole transactions are typed, one timer each, and answered; the fifth is cut short by the end.
    assert_eq!(seen.sleeps.load(Ordering::SeqCst), 2 * 4 + 1);
    // They end every 18.001 s: the first within the warm-up, the next three within the minute after it.
    assert_eq!(finished.totals.completed, [3]);
    assert_eq!(finished.totals.transactions[0].count, 3);
}

#[test]
fn what_autocommit_made_permanent_is_not_run_again() {
    // Without BEGIN around them statements commit by themselves, also where nobody asked for autocommit.
    for autocommit in [Some(true), None] {
        let two = ["SELECT 1", "SELECT 2"].map(|sql| StatementSpec::new(sql, sql));
        let knobs = Knobs {
            autocommit,
            ..Knobs::default()
        };
        let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
        let clock = Arc::new(FakeClock::default());
        let workload = Plain(two.to_vec(), Duration::ZERO);
        // The second statement of every second transaction.
        let (finished, asked) = against(workload, deadlocks(4), knobs, plan, clock);
        let tally = finished.totals.transactions[0];
        assert!(tally.errors > 200 && tally.retries == 0, "{tally:?}");
        let begun = asked.first_statements.load(Ordering::SeqCst);
        assert_eq!(begun, tally.count + tally.errors, "none was run twice");
        assert!(finished.failure.is_none());
    }
}

#[test]
fn a_statement_alone_is_committed_where_autocommit_is_off() {
    let knobs = Knobs {
        autocommit: Some(false),
        ..Knobs::default()
    };
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    let (finished, asked) = against(Plain::one(), Faults::default(), knobs, plan, clock);
    let count = finished.totals.transactions[0].count;
    assert!(count > 900);
    assert_eq!(asked.commits.load(Ordering::SeqCst), count);
}

#[test]
fn the_clock_is_read_three_times_a_statement_alone() {
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    let seen = Arc::clone(&clock);
    let knobs = Knobs::default();
    let (finished, _) = against(Plain::one(), Faults::default(), knobs, plan, clock);
    let count = finished.totals.transactions[0].count;
    let reads = seen.reads.load(Ordering::SeqCst);
    // The server reads it once. What the whole run does is little beside a thousand transactions.
    assert!(
        count > 900 && reads < (3 + 1) * count + 500,
        "{reads} of {count}"
    );
}

#[test]
fn every_login_is_told_isolation_and_autocommit_and_counts_once() {
    let knobs = Knobs {
        isolation: Isolation::Serializable,
        autocommit: Some(false),
        ..Knobs::default()
    };
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    let (finished, asked) = against(Plain::one(), losses(400), knobs, plan, clock);
    let logins = asked.logins.load(Ordering::SeqCst);
    assert_eq!((logins, finished.totals.reconnects), (3, 2));
    let told = [
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET autocommit=0",
    ];
    assert_eq!(*asked.sets.lock().expect("whole"), told.repeat(3));
    let connects = finished.totals.statements[usize::from(Names::CONNECT)];
    assert_eq!((connects.count, connects.wire.round_trips), (3, 6));
}

#[test]
fn a_server_that_is_full_for_a_moment_does_not_end_the_run() {
    let faults = Faults {
        lost_every: 500,
        full: 3,
        ..Faults::default()
    };
    let finished = drive(Arrivals::Closed, 1, faults);
    assert_eq!(finished.failure, None);
    assert_eq!(finished.totals.reconnects, 1);
    assert_eq!(finished.totals.errors["1040"].count, 3);
}

#[test]
fn a_run_without_an_end_gives_up_a_server_that_stays_away() {
    let faults = Faults {
        lost_every: 500,
        full: u64::MAX,
        ..Faults::default()
    };
    let plan = Plan {
        time: None,
        transactions: Some(10_000),
        ..plan(1, Arrivals::Closed, Duration::ZERO)
    };
    let clock = Arc::new(FakeClock::default());
    let (finished, asked) = against(Plain::one(), faults, Knobs::default(), plan, clock);
    let failure = finished.failure.expect("the server is gone");
    assert!(failure.contains("1040"), "{failure}");
    // A minute, at 20 logins a second.
    let logins = asked.logins.load(Ordering::SeqCst);
    assert!((1_000..1_300).contains(&logins), "{logins}");
}

#[test]
fn nobody_waits_for_terminals_that_type_when_the_run_is_interrupted() {
    let workload = Plain(Plain::one().0, Duration::from_secs(3600));
    let faults = Faults {
        interrupted: Some(0),
        ..Faults::default()
    };
    let plan = plan(50, Arrivals::Closed, Duration::from_secs(3600));
    let clock = Arc::new(MonotonicClock::start());
    let (finished, _) = against(workload, faults, Knobs::default(), plan, clock);
    assert!(finished.interrupted);
    assert_eq!(finished.stuck_connections, 0);
}

/// Of its connections the first can draw after it was asked so often, the others never.
struct Waiting(Plain, u32);

impl Workload for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }
    fn statements(&self) -> &[StatementSpec] {
        self.0.statements()
    }
    fn transactions(&self) -> &[&'static str] {
        self.0.transactions()
    }
    fn check(&self, _connection: &mut dyn Connection) -> anyhow::Result<()> {
        Ok(())
    }
    fn client(&self, number: u32, _connections: u32) -> Box<dyn Client> {
        let asks = if number == 0 { self.1 } else { u32::MAX };
        Box::new(WaitingClient(PlainClient(1, Duration::ZERO), asks, 0))
    }
}

struct WaitingClient(PlainClient, u32, u32);

impl Client for WaitingClient {
    fn is_ready(&mut self) -> bool {
        self.2 += 1;
        self.2 > self.1
    }
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        self.2 = 0;
        self.0.draw(random)
    }
    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        self.0.run(session)
    }
}

#[test]
fn waiting_for_others_is_no_part_of_the_latency_in_a_closed_loop() {
    let workload = Arc::new(Waiting(Plain::one(), 20));
    let plan = plan(1, Arrivals::Closed, Duration::from_secs(1));
    let clock = Arc::new(FakeClock::default());
    let (finished, _) = on_fakes(workload, Faults::default(), Knobs::default(), plan, clock);
    let latency = &finished.totals.latency;
    // It waits for 14 ms, and the server answers after 1 ms.
    assert!((60..=70).contains(&latency.len()), "{}", latency.len());
    assert!(latency.max() < 11 * MS / 10, "{}", latency.max());
}

#[test]
fn a_connection_that_waits_for_others_takes_no_transaction_from_them() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let workload = Arc::new(Waiting(Plain::one(), 3));
        let mut plan = plan(2, Arrivals::Closed, Duration::ZERO);
        (plan.time, plan.transactions) = (None, Some(10));
        let clock = Arc::new(MonotonicClock::start());
        let (finished, _) = on_fakes(workload, Faults::default(), Knobs::default(), plan, clock);
        let _ = tell.send(finished.totals.transactions[0].count);
    });
    let count = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(count, Ok(10), "the other one never can");
}

#[test]
fn the_last_transaction_ends_the_load_of_those_that_wait_for_their_own() {
    let mut plan = plan(64, open(10.0), Duration::from_secs(60));
    plan.transactions = Some(3);
    let clock = Arc::new(MonotonicClock::start());
    let (finished, _) = against(
        Plain::one(),
        Faults::default(),
        Knobs::default(),
        plan,
        clock,
    );
    // The third begins after 0.2 s; the last of the others would wait for 6.3 s.
    assert!(finished.duration_s < 3.0, "{}", finished.duration_s);
    assert_eq!(finished.totals.transactions[0].count, 3);
    assert_eq!(
        (finished.totals.not_begun, finished.stuck_connections),
        (0, 0)
    );
}
