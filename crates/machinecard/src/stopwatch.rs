//! Time spent on many equal operations: CPU time for what the processor does, wall time for what is waited for.

use std::time::{Duration, Instant};

/// CPU time of an operation in nanoseconds, over as many batches as fit into `length` of wall time. A thread that has to wait for
/// its CPU is not charged for that; what the hypervisor steals is. `batch` does some operations and says how many.
pub fn cpu_ns_each(length: Duration, mut batch: impl FnMut() -> u64) -> f64 {
    let (started, before_ns) = (Instant::now(), thread_cpu_ns());
    let mut operations = batch();
    while started.elapsed() < length {
        operations += batch();
    }
    (thread_cpu_ns() - before_ns) as f64 / operations as f64
}

/// The microseconds of each operation that fits into `length`, at least `least` operations, sorted.
///
/// # Errors
/// The first error of an operation.
pub fn latencies_us<E>(
    length: Duration,
    least: usize,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let started = Instant::now();
    let mut taken_us = Vec::new();
    while taken_us.len() < least || started.elapsed() < length {
        let at = Instant::now();
        operation()?;
        taken_us.push(at.elapsed().as_nanos() as f64 / 1e3);
    }
    taken_us.sort_by(f64::total_cmp);
    Ok(taken_us)
}

/// A percentile of sorted values by nearest rank; 0 of none.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.max(1) - 1)
        .or(sorted.last())
        .copied()
        .unwrap_or(0.0)
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_no_cpu_time() {
        let wait = || {
            std::thread::sleep(Duration::from_millis(20));
            1
        };
        assert!(cpu_ns_each(Duration::ZERO, wait) < 15e6);
    }

    #[test]
    fn batches_go_on_until_the_time_is_over_and_one_is_always_done() {
        let mut done = 0;
        let mut batch = || {
            done += 1;
            1
        };
        cpu_ns_each(Duration::ZERO, &mut batch);
        let (started, length) = (Instant::now(), Duration::from_millis(20));
        cpu_ns_each(length, &mut batch);
        assert!(started.elapsed() >= length);
        assert!(done >= 2);
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), 100.0);
        assert_eq!(percentile(&values, 99.0), 198.0);
        assert_eq!(percentile(&[7.0], 99.0), 7.0);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }

    #[test]
    fn the_least_number_of_operations_is_done_and_an_error_ends_them() {
        let done = latencies_us(Duration::ZERO, 5, || Ok::<(), ()>(()));
        assert_eq!(done.map(|each| each.len()), Ok(5));
        assert_eq!(latencies_us(Duration::ZERO, 5, || Err(3)), Err(3));
    }
}
