//! Which connections a load has heard of when it ends.

use std::sync::mpsc::channel;

use super::*;

/// What a load is so long after its end, when so many connections have told theirs, and one more tells it with each look.
fn ended(late: Duration, wait: Duration, connections: u32, told: usize, looks: usize) -> Finished {
    let mut plan = plan(connections, Arrivals::Closed, Duration::from_secs(1));
    plan.wait = wait;
    let clock = Arc::new(FakeClock::default());
    let run = Run::new(plan, Arc::clone(&clock) as _, Collector::new(0, 0));
    run.begin();
    let now_ns = run.end_ns() + late.as_nanos() as u64;
    clock.now_ns.store(now_ns, Ordering::SeqCst);
    let (sender, inbox) = channel();
    let tell = || sender.send(Report::Done).expect("told");
    (0..told).for_each(|_| tell());
    let mut looks = 0..looks;
    let mut tick = |_: &Collector, _| {
        if looks.next().is_some() {
            tell();
        }
    };
    let nobody = AtomicBool::new(false);
    finish(&run, &Plain::one(), &inbox, &nobody, &mut tick)
}

#[test]
fn what_has_told_its_end_is_not_stuck() {
    let late = Duration::from_secs(5);
    for wait in [Duration::ZERO, Duration::from_secs(2)] {
        assert_eq!(ended(late, wait, 50, 50, 0).stuck_connections, 0);
        assert_eq!(ended(late, wait, 50, 47, 0).stuck_connections, 3);
    }
}

#[test]
fn answers_that_are_on_their_way_at_the_end_are_waited_for() {
    let late = Duration::from_millis(50);
    assert_eq!(ended(late, Duration::ZERO, 2, 1, 1).stuck_connections, 0);
}

/// A load of so many seconds whose server goes after half a second and takes no connection again.
fn gone(seconds: u64, interrupted: Option<u64>) -> Finished {
    let faults = Faults {
        lost_every: 500,
        full: u64::MAX,
        interrupted,
        ..Faults::default()
    };
    drive(Arrivals::Closed, seconds, faults)
}

#[test]
fn a_load_that_ends_without_its_server_has_failed() {
    let finished = gone(3, None);
    let failure = finished.failure.expect("the server is gone");
    assert!(
        failure.contains("could not be made again") && failure.contains("1040"),
        "{failure}"
    );
    assert!(finished.is_gone);
    assert!((2.9..3.1).contains(&finished.duration_s), "all of its time");
    // Half a second is no outage yet.
    let finished = gone(1, None);
    assert_eq!((finished.failure, finished.is_gone), (None, false));
}

#[test]
fn a_load_that_is_interrupted_while_its_server_is_gone_is_interrupted() {
    // On its clock the outage has lasted for hours when Ctrl-C is seen.
    let finished = gone(100_000_000, Some(500));
    assert_eq!((finished.interrupted, finished.failure), (true, None));
}

#[test]
fn connections_that_cannot_run_end_the_load_with_the_reason() {
    let plan = plan(2, Arrivals::Closed, Duration::from_secs(60));
    let clock = Arc::new(FakeClock::default());
    let run = Run::new(plan, clock, Collector::new(0, 0));
    run.begin();
    let (reports, inbox) = channel();
    let memory = std::io::ErrorKind::OutOfMemory;
    reports.send(Report::NoThread(memory.into())).expect("told");
    drop(reports);
    let finished = finish(
        &run,
        &Plain::one(),
        &inbox,
        &AtomicBool::new(false),
        &mut |_, _| {},
    );
    let why = finished.failure.expect("a failure");
    assert!(why.contains("out of memory"), "{why}");
}
