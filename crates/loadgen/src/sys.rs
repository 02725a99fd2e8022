//! The two things asked of Linux that the standard library does not offer.

use std::io;

/// CPU time of the calling thread, user and system, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Let the calling thread's sleeps end when they should: Linux otherwise adds up to 50 us to each, which an open loop would show as lag.
///
/// # Errors
/// The system's refusal.
pub fn sleep_exactly() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allow as many open files as the system lets this process have: each connection is one.
///
/// # Errors
/// The system's refusal.
pub fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is only read, and is valid.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work_and_not_with_sleep() {
        let before_ns = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept_ns = thread_cpu_ns() - before_ns;
        assert!(slept_ns < 20_000_000, "{slept_ns}");
        let mut sum = 0_u64;
        while thread_cpu_ns() - before_ns < slept_ns + 2_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }

    #[test]
    fn the_system_grants_exact_sleep_and_files() {
        sleep_exactly().expect("prctl");
        assert!(raise_file_limit().expect("rlimit") > 0);
    }
}
