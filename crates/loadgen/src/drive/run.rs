//! What all connections of a run share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wire::Error;

use super::plan::{Arrivals, Plan};
use super::schedule::Schedule;
use super::unconnected;
use crate::clock::Clock;
use crate::measure::Collector;
use crate::workload::Workload;

/// No transaction is at hand.
const NOTHING: u64 = u64::MAX;

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// The plan, and how far it has come.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) schedule: Option<Schedule>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) collector: Arc<Collector>,
    /// Connections that sleep and have handed over all that they have measured.
    pub(super) parked: AtomicU32,
    begin_ns: AtomicU64,
    /// Transactions begun.
    begun: AtomicU64,
    /// Transactions ended.
    ended: AtomicU64,
    /// By connection: the scheduled start of the transaction that waits for its answers.
    in_flight: Vec<AtomicU64>,
    /// Ctrl-C ended it.
    interrupted: AtomicBool,
    /// Why the run ended early, and whether because no connection can be made.
    failure: Mutex<Option<(String, bool)>>,
}

impl Run {
    pub(super) fn new(plan: Plan, clock: Arc<dyn Clock>, collector: Arc<Collector>) -> Self {
        let schedule = match plan.arrivals {
            Arrivals::Open { rate, process } => Schedule::new(rate, process, plan.seed),
            Arrivals::Closed => None,
        };
        Self {
            schedule,
            clock,
            collector,
            parked: AtomicU32::new(0),
            begin_ns: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            in_flight: (0..plan.connections)
                .map(|_| AtomicU64::new(NOTHING))
                .collect(),
            interrupted: AtomicBool::new(false),
            failure: Mutex::new(None),
            plan,
        }
    }

    /// The load begins now.
    pub(super) fn begin(&self) {
        let now_ns = self.clock.now_ns();
        self.begin_ns.store(now_ns, Ordering::SeqCst);
        let measure_ns = now_ns + self.plan.warmup.as_nanos() as u64;
        let end_ns = self
            .plan
            .time
            .map_or(u64::MAX, |time| measure_ns + time.as_nanos() as u64);
        self.collector.measure(measure_ns, end_ns);
    }

    /// When the load began.
    pub(super) fn begin_ns(&self) -> u64 {
        self.begin_ns.load(Ordering::SeqCst)
    }

    /// When the measured part begins.
    pub(super) fn measure_ns(&self) -> u64 {
        self.collector.window().begin_ns.load(Ordering::SeqCst)
    }

    /// When the load ends.
    pub(super) fn end_ns(&self) -> u64 {
        self.collector.window().end_ns.load(Ordering::SeqCst)
    }

    /// End now.
    pub(super) fn end(&self) {
        let window = self.collector.window();
        window
            .end_ns
            .fetch_min(self.clock.now_ns(), Ordering::SeqCst);
    }

    /// End now: Ctrl-C.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.end();
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// End now, and say why.
    pub(super) fn fail(&self, why: String) {
        self.stop(why, false);
    }

    /// End now: no connection can be made in place of a lost one.
    pub(super) fn give_up(&self, error: &Error) {
        let why = unconnected(error);
        let why = format!("the connection was lost and could not be made again: {why}");
        self.stop(why, true);
    }

    fn stop(&self, why: String, is_gone: bool) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert((why, is_gone));
        drop(failure);
        self.end();
    }

    /// Why the run ended early, and whether because no connection can be made.
    pub(super) fn take_failure(&self) -> Option<(String, bool)> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.clock.now_ns() >= self.end_ns()
    }

    /// Whether one more transaction may begin.
    pub(super) fn take_turn(&self) -> bool {
        let limit = self.plan.transactions;
        limit.is_none_or(|limit| self.begun.fetch_add(1, Ordering::Relaxed) < limit)
    }

    /// Whether no further transaction may begin.
    pub(super) fn has_begun_all(&self) -> bool {
        let limit = self.plan.transactions;
        limit.is_some_and(|limit| self.begun.load(Ordering::Relaxed) >= limit)
    }

    /// One more transaction has ended. With the last one the load does, whoever still waits to begin another.
    pub(super) fn end_of_transaction(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if self.plan.transactions.is_some_and(|limit| ended >= limit) {
            self.end();
        }
    }

    /// Say which scheduled start connection `number` is busy with.
    pub(super) fn in_flight(&self, number: u32, scheduled_ns: Option<u64>) {
        self.in_flight[number as usize].store(scheduled_ns.unwrap_or(NOTHING), Ordering::SeqCst);
    }

    /// The next scheduled start.
    pub(super) fn arrival_ns(&self, schedule: &Schedule) -> u64 {
        self.begin_ns().saturating_add(schedule.next_ns())
    }

    /// When something that is due so long after the beginning of the load is.
    pub(super) fn due_ns(&self, due: Duration) -> u64 {
        self.begin_ns().saturating_add(nanoseconds(due))
    }

    /// How long an arrival of the measured part that was never begun had waited at the end; none if it was not due before.
    pub(super) fn waited_in_vain_ns(&self, arrival_ns: u64) -> Option<u64> {
        let end_ns = self.end_ns();
        (arrival_ns >= self.measure_ns() && arrival_ns < end_ns).then(|| end_ns - arrival_ns)
    }

    /// Count what no connection came to: arrivals that were due before the end, and transactions whose answers never came.
    pub(super) fn drain(&self, workload: &dyn Workload) {
        self.collector.gather();
        let now_ns = self.clock.now_ns();
        let measured_ns = self.measure_ns();
        for scheduled_ns in &self.in_flight {
            let scheduled_ns = scheduled_ns.load(Ordering::SeqCst);
            if scheduled_ns != NOTHING && scheduled_ns >= measured_ns {
                self.collector
                    .unanswered(now_ns.saturating_sub(scheduled_ns));
            }
        }
        if self.has_begun_all() {
            return;
        }
        let end_ns = self.end_ns();
        let not_begun = |arrivals: &mut dyn Iterator<Item = u64>| {
            let waited = arrivals.filter_map(|arrival_ns| self.waited_in_vain_ns(arrival_ns));
            self.collector.not_begun(waited);
        };
        if let Some(schedule) = &self.schedule {
            let arrivals = std::iter::repeat_with(|| self.arrival_ns(schedule));
            not_begun(&mut arrivals.take_while(|&arrival_ns| arrival_ns < end_ns));
        }
        let missed = workload.missed(Duration::from_nanos(end_ns.saturating_sub(self.begin_ns())));
        not_begun(&mut missed.map(|due| self.due_ns(due)));
    }
}
