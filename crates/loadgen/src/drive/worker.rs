//! What one connection does.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::Error;

use super::plan::{OnDisconnect, OnError};
use super::run::{Run, nanoseconds};
use super::thread::CpuTime;
use crate::measure::TransactionRecord;
use crate::session::Session;
use crate::workload::{Client, Outcome, Random, TransactionKind};

/// So often is one transaction run again before it is given up as an error.
const RETRIES_MAX: u64 = 100;
/// So long does a connection wait before it tries to connect again.
const RECONNECT_NS: u64 = 50_000_000;
/// So long does it try in a run that has no end of its own: a server that restarts is there again by then.
const GONE_NS: u64 = 60_000_000_000;
/// A load fails where it ends with a connection that was lost so long before: a shorter gap may be about to close.
const OUTAGE_NS: u64 = 1_000_000_000;
/// A client that cannot draw yet is asked again after so long at first, then after twice as long each time ...
const READY_NS: u64 = 10_000;
/// ... up to this.
const READY_NS_MAX: u64 = 1_000_000;
/// A connection that sleeps longer hands over what it has measured first, so that nobody has to wait for it at the end.
const PARKED_NS: u64 = 50_000_000;

/// One connection, its client and its random numbers.
pub(super) struct Worker {
    pub(super) run: Arc<Run>,
    pub(super) number: u32,
    pub(super) session: Session,
    pub(super) client: Box<dyn Client>,
    pub(super) random: Random,
    pub(super) cpu: Rc<CpuTime>,
    pub(super) measured: bool,
}

impl Worker {
    /// Run transactions until the load or the workload ends.
    pub(super) fn work(&mut self) {
        while let Some(arrival_ns) = self.arrival() {
            let Some(arrival_ns) = self.ready(arrival_ns) else {
                break;
            };
            // One that has nothing left to draw takes no turn from the others.
            let Some(kind) = self.client.draw(&mut self.random) else {
                break;
            };
            if !self.run.take_turn() {
                break;
            }
            let Some(scheduled_ns) = self.typed(arrival_ns) else {
                break;
            };
            self.transaction(kind, scheduled_ns);
        }
        self.hand_over();
    }

    /// When the transaction that arrived at `arrival_ns` can begin: in a closed loop not before the client can draw it. None if the load
    /// ends before that, or the other connections have begun all of its transactions.
    fn ready(&mut self, arrival_ns: u64) -> Option<u64> {
        if self.client.is_ready() {
            return Some(arrival_ns);
        }
        let mut pause_ns = READY_NS;
        loop {
            let again_ns = self.run.clock.now_ns() + pause_ns;
            if self.run.has_begun_all() || !self.wait_until(again_ns) {
                return None;
            }
            if self.client.is_ready() {
                break;
            }
            pause_ns = READY_NS_MAX.min(2 * pause_ns);
        }
        match self.run.schedule {
            None => Some(self.run.clock.now_ns()),
            Some(_) => Some(arrival_ns),
        }
    }

    fn hand_over(&mut self) {
        self.session.recorder().cpu(self.cpu.tell());
        self.session.recorder().flush();
    }

    /// Wait until the next transaction may begin, by the open loop's schedule if there is one; none if the load ends first.
    fn arrival(&mut self) -> Option<u64> {
        let run = Arc::clone(&self.run);
        let Some(schedule) = &run.schedule else {
            let now_ns = run.clock.now_ns();
            return (now_ns < run.end_ns()).then_some(now_ns);
        };
        let arrival_ns = run.arrival_ns(schedule);
        if self.wait_until(arrival_ns) {
            return Some(arrival_ns);
        }
        if !run.has_begun_all()
            && let Some(waited_ns) = run.waited_in_vain_ns(arrival_ns)
        {
            self.session.recorder().not_begun(waited_ns);
        }
        None
    }

    /// When the transaction that was drawn is to begin, once it is due or has been typed; none if the load ends first.
    fn typed(&mut self, arrival_ns: u64) -> Option<u64> {
        let keying = self.client.keying();
        let scheduled_ns = match self.client.due() {
            Some(due) => self.run.due_ns(due),
            None if keying.is_zero() => return Some(arrival_ns),
            None => self.run.clock.now_ns() + nanoseconds(keying),
        };
        if self.wait_until(scheduled_ns) {
            return Some(scheduled_ns);
        }
        if self.client.due().is_some()
            && let Some(waited_ns) = self.run.waited_in_vain_ns(scheduled_ns)
        {
            self.session.recorder().not_begun(waited_ns);
        }
        None
    }

    /// Wait for a moment; false if the load has ended by then.
    fn wait_until(&mut self, moment_ns: u64) -> bool {
        let run = Arc::clone(&self.run);
        let now_ns = run.clock.now_ns();
        let until_ns = moment_ns.min(run.end_ns());
        if until_ns.saturating_sub(now_ns) >= PARKED_NS {
            self.hand_over();
            run.parked.fetch_add(1, Ordering::SeqCst);
            run.clock.sleep_until(until_ns);
            run.parked.fetch_sub(1, Ordering::SeqCst);
        } else if until_ns > now_ns {
            run.clock.sleep_until(until_ns);
        }
        !run.has_ended()
    }

    fn transaction(&mut self, kind: TransactionKind, scheduled_ns: u64) {
        if !self.measured && scheduled_ns >= self.run.measure_ns() {
            self.measured = true;
            self.session.recorder().start();
            self.cpu.begin();
        }
        let began_ns = match self.run.schedule {
            None if self.client.due().is_none() => scheduled_ns,
            _ => self.run.clock.now_ns(),
        };
        self.run.in_flight(self.number, Some(scheduled_ns));
        let (outcome, retries) = self.attempts();
        let ended_ns = self.session.answered_ns().max(began_ns);
        let record = TransactionRecord {
            kind,
            scheduled_ns,
            began_ns,
            ended_ns,
            outcome: outcome.as_ref().ok().copied(),
            retries,
        };
        self.session.recorder().transaction(record);
        self.run.in_flight(self.number, None);
        self.run.end_of_transaction();
        self.client.ended(&outcome, &mut self.session);
        if let Err(error) = outcome {
            self.recover(&error);
        }
        let thinking = self.client.thinking(&mut self.random);
        // After the last transaction nobody thinks about the next one: the load ends with its answer.
        if !thinking.is_zero() && !self.run.has_begun_all() {
            self.wait_until(ended_ns + nanoseconds(thinking));
        }
    }

    /// Run the transaction until it succeeds or must be given up; how often it was run again.
    fn attempts(&mut self) -> (Result<Outcome, Error>, u64) {
        let mut retries = 0;
        loop {
            self.session.start();
            let outcome = self.client.run(&mut self.session);
            let outcome = outcome.and_then(|outcome| self.session.settle().map(|()| outcome));
            match outcome {
                Err(error)
                    if retries < RETRIES_MAX
                        && self.client.retries(&error)
                        && !self.session.is_partly_committed() =>
                {
                    match self.session.rollback() {
                        Ok(()) => retries += 1,
                        Err(error) => return (Err(error), retries),
                    }
                }
                outcome => return (outcome, retries),
            }
        }
    }

    /// After a transaction that failed: undo it, connect again, or end the run.
    fn recover(&mut self, error: &Error) {
        if !error.is_disconnect() {
            if self.run.plan.on_error == OnError::Stop && !self.client.retries(error) {
                self.run.fail(error.to_string());
            }
            match self.session.rollback() {
                Err(lost) if lost.is_disconnect() => return self.recover(&lost),
                _ => return,
            }
        }
        if self.run.plan.on_disconnect == OnDisconnect::Stop {
            return self.run.fail(error.to_string());
        }
        let lost_ns = self.run.clock.now_ns();
        let mut last = None;
        while !self.run.has_ended() {
            let is_gone =
                self.run.plan.time.is_none() && self.run.clock.now_ns() - lost_ns >= GONE_NS;
            match self.session.reconnect() {
                Ok(()) => return self.session.recorder().reconnected(),
                // A wrong password will be refused again; a server that restarts, or that has not noticed yet that the old connection
                // is gone, will not.
                Err(error) if is_gone || (!error.is_disconnect() && !is_full(&error)) => {
                    return self.run.give_up(&error);
                }
                Err(error) => last = Some(error),
            }
            self.run
                .clock
                .sleep_until(self.run.clock.now_ns() + RECONNECT_NS);
        }
        let gone_ns = self.run.end_ns().saturating_sub(lost_ns);
        if let Some(error) = last
            && gone_ns >= OUTAGE_NS
            && !self.run.is_interrupted()
        {
            self.run.give_up(&error);
        }
    }
}

/// Whether a login was refused because the server has as many connections as it takes.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Server { code, sqlstate, .. }
        if matches!(code, 1040 | 1203 | 1226) || sqlstate == "53300")
}
