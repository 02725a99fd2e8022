//! What the processor's clock, a system call, a wake-up and a context switch take.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::cpus::stay_on;
use crate::stopwatch::{cpu_ns_each, latencies_us, percentile};

/// Operations between two looks at the clock.
const ADDS: u64 = 1 << 14;
const CALLS: u64 = 1 << 8;
/// Trips of a repetition however short it is.
const LEAST_TRIPS: usize = 32;
/// What an event counter takes and gives.
const ONE: [u8; 8] = 1_u64.to_ne_bytes();
const STOP: [u8; 8] = 2_u64.to_ne_bytes();

/// Dependent additions a nanosecond, one a cycle on every processor of today: its clock in GHz.
pub fn clock_ghz(length: Duration) -> f64 {
    let (add, flip) = (black_box(3_u64), black_box(5_u64));
    let mut sum = black_box(1_u64);
    1.0 / cpu_ns_each(length, || {
        // Additions and exclusive-ors in turn: no compiler or processor has a shortcut, as there is for additions alone.
        for _ in 0..ADDS / 2 {
            sum = sum.wrapping_add(add) ^ flip;
        }
        sum = black_box(sum);
        ADDS
    })
}

/// CPU time of getppid, a system call that does next to nothing, in nanoseconds.
pub fn system_call_ns(length: Duration) -> f64 {
    cpu_ns_each(length, || {
        for _ in 0..CALLS {
            // SAFETY: the call takes nothing and touches no memory of ours.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        CALLS
    })
}

/// Wall time in microseconds for one thread to wake another and to be woken by it. The threads stay on these CPUs.
///
/// # Errors
/// The kernel gives no event counter, or a thread may not stay on its CPU.
pub fn round_trip_us(cpus: (usize, usize), length: Duration) -> io::Result<f64> {
    let (mut there, mut back) = (event()?, event()?);
    let (mut there_again, mut back_again) = (there.try_clone()?, back.try_clone()?);
    std::thread::scope(|scope| {
        // Each answers wherever it is, until the end: the other one waits for it without a limit.
        let answering = scope.spawn(move || -> io::Result<()> {
            let placed = stay_on(cpus.1);
            while take(&mut there_again)? != STOP {
                back_again.write_all(&ONE)?;
            }
            placed
        });
        let asking = scope.spawn(move || -> io::Result<f64> {
            let placed = stay_on(cpus.0);
            // The median of the trips: other programs that have their turn meanwhile lengthen some of them a hundredfold.
            let trips_us = latencies_us(length, LEAST_TRIPS, || {
                there.write_all(&ONE)?;
                take(&mut back).map(drop)
            });
            there.write_all(&STOP)?;
            placed?;
            Ok(percentile(&trips_us?, 50.0))
        });
        let joined = |result: std::thread::Result<io::Result<()>>| {
            result.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        };
        let took = asking
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        joined(answering.join())?;
        took
    })
}

/// Microseconds of a context switch: half of a round trip on one CPU, less the system calls that it consists of.
///
/// # Errors
/// As `round_trip_us`.
pub fn context_switch_us(same_cpu_round_trip_us: f64, length: Duration) -> io::Result<f64> {
    let mut own = event()?;
    let mut failed = None;
    let calls_ns = cpu_ns_each(length, || {
        for _ in 0..CALLS {
            if let Err(error) = own.write_all(&ONE).and_then(|()| take(&mut own)) {
                failed = Some(error);
            }
        }
        CALLS
    });
    let switch_us = same_cpu_round_trip_us / 2.0 - calls_ns / 1e3;
    failed.map_or(Ok(switch_us.max(0.0)), Err)
}

/// A counter that a reader waits for.
fn event() -> io::Result<File> {
    // SAFETY: the call takes two numbers, and touches no memory of ours.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and nobody else owns it.
        made => Ok(unsafe { OwnedFd::from_raw_fd(made) }.into()),
    }
}

fn take(event: &mut File) -> io::Result<[u8; 8]> {
    debug_assert!(event.as_raw_fd() >= 0);
    let mut value = [0; 8];
    event.read_exact(&mut value)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::allowed;

    #[test]
    fn figures_are_positive() {
        assert!(clock_ghz(Duration::ZERO) > 0.0);
        assert!(system_call_ns(Duration::ZERO) > 0.0);
    }

    #[test]
    fn two_threads_wake_each_other_on_one_cpu_and_on_two() {
        let cpus = allowed().expect("/proc");
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        for pair in [(first, first), (first, last)] {
            assert!(round_trip_us(pair, Duration::ZERO).expect("woken") > 0.0);
        }
    }

    #[test]
    fn a_thread_that_cannot_stay_ends_the_measurement() {
        let (cpu, none) = (allowed().expect("/proc")[0], 1 << 20);
        for pair in [(none, cpu), (cpu, none), (none, none)] {
            let (said, heard) = std::sync::mpsc::channel();
            std::thread::spawn(move || said.send(round_trip_us(pair, Duration::ZERO).is_err()));
            let ended = heard.recv_timeout(Duration::from_secs(20));
            assert_eq!(ended, Ok(true), "{pair:?}");
        }
    }

    #[test]
    fn an_event_is_taken_once_with_its_value() {
        let mut event = event().expect("an event");
        event.write_all(&ONE).expect("written");
        event.write_all(&ONE).expect("written");
        assert_eq!(take(&mut event).expect("read"), STOP);
    }

    #[test]
    fn a_switch_is_half_a_round_trip_less_its_calls_and_never_negative() {
        assert_eq!(
            context_switch_us(0.0, Duration::ZERO).expect("an event"),
            0.0
        );
        let slow = context_switch_us(1e9, Duration::ZERO).expect("an event");
        assert!(slow < 0.5e9 && slow > 0.4e9, "{slow}");
    }
}
