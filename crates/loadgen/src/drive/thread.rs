//! One thread and its connections.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rand::SeedableRng;
use wire::fibers;

use super::run::Run;
use super::worker::Worker;
use super::{Gate, Report};
use crate::measure::Recorder;
use crate::session::{Session, Shared};
use crate::sys;
use crate::workload::{Random, Workload};

/// Connections' calls run on their own stacks; a thread with a single connection that has none holds its shallow calls, in bytes.
const STACK_BYTES: usize = 256 * 1024;

/// CPU time of a thread, told once among its connections.
#[derive(Default)]
pub(super) struct CpuTime {
    told_ns: Cell<Option<u64>>,
}

impl CpuTime {
    /// Tell from here on, if no other connection has begun to.
    pub(super) fn begin(&self) {
        if self.told_ns.get().is_none() {
            self.told_ns.set(Some(sys::thread_cpu_ns()));
        }
    }

    /// What was not told yet, in nanoseconds; 0 before [`Self::begin`].
    pub(super) fn tell(&self) -> u64 {
        let now_ns = sys::thread_cpu_ns();
        let told_ns = self.told_ns.replace(self.told_ns.get().map(|_| now_ns));
        told_ns.map_or(0, |told_ns| now_ns - told_ns)
    }
}

/// What a thread needs.
pub(super) struct Thread {
    /// The numbers of its connections.
    pub(super) numbers: Vec<u32>,
    pub(super) workload: Arc<dyn Workload>,
    pub(super) shared: Shared,
    pub(super) run: Arc<Run>,
    pub(super) gate: Arc<Gate>,
    pub(super) reports: Sender<Report>,
}

impl Thread {
    /// # Errors
    /// The system's refusal of one more thread.
    pub(super) fn spawn(self) -> io::Result<()> {
        std::thread::Builder::new()
            .name("connections".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if let Err(error) = self.connect_and_work() {
                    let _ = self.reports.send(Report::NoThread(error));
                }
            })
            .map(|_| ())
    }

    fn connect_and_work(&self) -> io::Result<()> {
        // Without it sleeps end up to 50 us late, which the result then shows as lag: worse, but true.
        let _ = sys::sleep_exactly();
        let connects = self.numbers.iter().map(|_| self.connect()).collect();
        let sessions = side_by_side(connects)?;
        if !self.gate.wait() {
            return Ok(());
        }
        let cpu = Rc::new(CpuTime::default());
        let loads = self.numbers.iter().zip(sessions.into_iter().flatten());
        let loads = loads.map(|(&number, session)| self.load(number, session, &cpu));
        side_by_side(loads.collect()).map(|_| ())
    }

    fn connect(&self) -> fibers::Body<Option<Session>> {
        let (shared, reports) = (self.shared.clone(), self.reports.clone());
        let mut recorder = Recorder::new(Arc::clone(&self.run.collector));
        if self.run.plan.warmup.is_zero() {
            recorder.start();
        }
        Box::new(move || match Session::open(shared, recorder) {
            Ok(session) => {
                let _ = reports.send(Report::Connected);
                Some(session)
            }
            Err(error) => {
                let _ = reports.send(Report::Refused(error));
                None
            }
        })
    }

    fn load(&self, number: u32, session: Session, cpu: &Rc<CpuTime>) -> fibers::Body<()> {
        let reports = self.reports.clone();
        let plan = &self.run.plan;
        let mut worker = Worker {
            run: Arc::clone(&self.run),
            number,
            session,
            client: self.workload.client(number, plan.connections),
            random: Random::seed_from_u64(plan.seed.wrapping_add(u64::from(number))),
            cpu: Rc::clone(cpu),
            measured: false,
        };
        Box::new(move || {
            worker.work();
            drop(worker);
            let _ = reports.send(Report::Done);
        })
    }
}

/// Run all, each in a fiber. A single one can do without where the system has none.
fn side_by_side<T: 'static>(mut bodies: Vec<fibers::Body<T>>) -> io::Result<Vec<T>> {
    if bodies.len() == 1 && fibers::available().is_err() {
        return Ok(bodies.drain(..).map(|body| body()).collect());
    }
    fibers::run(bodies)
}
