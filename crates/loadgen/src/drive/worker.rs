//! What one connection does.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wire::Error;

use super::plan::{OnDisconnect, OnError, Plan};
use super::schedule::Schedule;
use super::thread::CpuTime;
use crate::clock::Clock;
use crate::measure::TransactionRecord;
use crate::session::Session;
use crate::workload::{Client, Random};

/// So often is one transaction run again before it is given up as an error.
const RETRIES_MAX: u64 = 100;
/// A connection that waits looks so often whether the load has ended.
const LOOK_NS: u64 = 50_000_000;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// What all connections of a run share.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) schedule: Option<Schedule>,
    pub(super) clock: Arc<dyn Clock>,
    /// When the load begins.
    pub(super) begin_ns: AtomicU64,
    /// When the measured part begins.
    pub(super) measure_ns: AtomicU64,
    /// When it ends; moved back to now by Ctrl-C and by a failure.
    pub(super) end_ns: AtomicU64,
    /// Transactions begun.
    pub(super) begun: AtomicU64,
    /// Why the run ended early.
    pub(super) failure: Mutex<Option<String>>,
}

impl Run {
    /// End now.
    pub(super) fn end(&self) {
        self.end_ns.fetch_min(self.clock.now_ns(), Ordering::SeqCst);
    }

    fn fail(&self, error: &Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| error.to_string());
        drop(failure);
        self.end();
    }

    fn ended_at(&self, moment_ns: u64) -> bool {
        moment_ns >= self.end_ns.load(Ordering::Relaxed)
    }

    /// Wait for a moment; false if the load ends first.
    fn wait_until(&self, moment_ns: u64) -> bool {
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= moment_ns {
                return true;
            }
            if self.ended_at(now_ns) {
                return false;
            }
            self.clock.sleep_until(moment_ns.min(now_ns + LOOK_NS));
        }
    }
}

/// One connection, its client and its random numbers.
pub(super) struct Worker {
    pub(super) run: Arc<Run>,
    pub(super) session: Session,
    pub(super) client: Box<dyn Client>,
    pub(super) random: Random,
    pub(super) cpu: Rc<CpuTime>,
}

impl Worker {
    /// Run transactions until the load ends.
    pub(super) fn work(&mut self) {
        let run = Arc::clone(&self.run);
        let begin_ns = run.begin_ns.load(Ordering::SeqCst);
        let measure_ns = run.measure_ns.load(Ordering::SeqCst);
        let mut measured = false;
        while let Some(scheduled_ns) = self.next_start(begin_ns) {
            if !measured && scheduled_ns >= measure_ns {
                measured = true;
                self.session.recorder().start();
                self.cpu.begin();
            }
            if !run.wait_until(scheduled_ns) {
                break;
            }
            if run.schedule.is_some() && run.ended_at(run.clock.now_ns()) {
                // Due before the end, but every connection was busy: it has waited so long at least.
                let end_ns = run.end_ns.load(Ordering::Relaxed);
                self.session
                    .recorder()
                    .not_begun(end_ns.saturating_sub(scheduled_ns));
                continue;
            }
            if run
                .plan
                .transactions
                .is_some_and(|limit| run.begun.fetch_add(1, Ordering::Relaxed) >= limit)
            {
                break;
            }
            self.transaction(scheduled_ns);
        }
        self.session.recorder().cpu(self.cpu.tell());
        self.session.recorder().flush();
    }

    /// When the next transaction should begin; none if that is after the end.
    fn next_start(&self, begin_ns: u64) -> Option<u64> {
        let start_ns = match &self.run.schedule {
            Some(schedule) => begin_ns + schedule.next_ns(),
            None => self.run.clock.now_ns(),
        };
        (!self.run.ended_at(start_ns)).then_some(start_ns)
    }

    fn transaction(&mut self, scheduled_ns: u64) {
        let kind = self.client.draw(&mut self.random);
        let Some(scheduled_ns) = self.typed(scheduled_ns) else {
            return;
        };
        let began_ns = match self.run.schedule {
            Some(_) => self.run.clock.now_ns(),
            None => scheduled_ns,
        };
        let mut retries = 0;
        let outcome = loop {
            match self.client.run(&mut self.session) {
                Err(error) if self.client.retries(&error) && retries < RETRIES_MAX => {
                    match self.session.rollback() {
                        Ok(()) => retries += 1,
                        Err(error) => break Err(error),
                    }
                }
                outcome => break outcome,
            }
        };
        let ended_ns = self.run.clock.now_ns();
        let record = TransactionRecord {
            kind,
            scheduled_ns,
            began_ns,
            ended_ns,
            outcome: outcome.as_ref().ok().copied(),
            retries,
        };
        self.session.recorder().transaction(record);
        if let Err(error) = outcome {
            self.recover(&error);
        }
        let thinking = self.client.thinking(&mut self.random);
        if !thinking.is_zero() {
            self.run.wait_until(ended_ns + nanoseconds(thinking));
        }
    }

    /// When the transaction that was drawn is to begin, once it has been typed; none if the load ends first.
    fn typed(&mut self, scheduled_ns: u64) -> Option<u64> {
        let keying = self.client.keying();
        if keying.is_zero() {
            return Some(scheduled_ns);
        }
        let sent_ns = self.run.clock.now_ns() + nanoseconds(keying);
        self.run.wait_until(sent_ns).then_some(sent_ns)
    }

    /// After a transaction that failed: undo it, connect again, or end the run.
    fn recover(&mut self, error: &Error) {
        if !error.is_disconnect() {
            if self.run.plan.on_error == OnError::Stop && !self.client.retries(error) {
                self.run.fail(error);
            }
            match self.session.rollback() {
                Err(lost) if lost.is_disconnect() => return self.recover(&lost),
                _ => return,
            }
        }
        if self.run.plan.on_disconnect == OnDisconnect::Stop {
            return self.run.fail(error);
        }
        while !self.run.ended_at(self.run.clock.now_ns()) {
            match self.session.reconnect() {
                Ok(()) => return self.session.recorder().reconnected(),
                // A refused login will be refused again; a server that restarts refuses as well, with 57P03.
                Err(error) if !error.is_disconnect() => return self.run.fail(&error),
                Err(_) => self
                    .run
                    .clock
                    .sleep_until(self.run.clock.now_ns() + LOOK_NS),
            }
        }
    }
}
