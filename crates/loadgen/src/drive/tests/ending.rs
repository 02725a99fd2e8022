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
