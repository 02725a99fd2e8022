//! What others took of the CPUs while the card was measured.

use std::fs;
use std::io;

/// Time of some CPUs in the kernel's ticks since it started, and this process's own in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    all: f64,
    busy: f64,
    stolen: f64,
    own: f64,
}

/// Shares of the CPUs' time between two looks.
#[derive(Debug, PartialEq)]
pub struct Shares {
    /// The hypervisor gave it to other machines.
    pub steal: f64,
    /// Other processes and the kernel used it.
    pub other: f64,
}

impl Usage {
    /// As of now.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn now(cpus: &[usize]) -> io::Result<Self> {
        let usage = Self::read(&fs::read_to_string("/proc/stat")?, cpus);
        // SAFETY: sysconf takes a number and touches no memory of ours.
        let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        Ok(Self {
            own: own_cpu_s() * ticks_a_second,
            ..usage
        })
    }

    fn read(stat: &str, cpus: &[usize]) -> Self {
        let mut usage = Self::default();
        for line in stat.lines() {
            let mut fields = line.split_whitespace();
            let cpu = fields.next().and_then(|name| name.strip_prefix("cpu"));
            if !cpu.is_some_and(|cpu| cpu.parse().is_ok_and(|cpu| cpus.contains(&cpu))) {
                continue;
            }
            // user nice system idle iowait irq softirq steal; what follows is part of the first two.
            let ticks: Vec<f64> = fields
                .take(8)
                .filter_map(|text| text.parse().ok())
                .collect();
            if let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] {
                let busy = user + nice + system + irq + softirq;
                usage.busy += busy;
                usage.stolen += steal;
                usage.all += busy + idle + iowait + steal;
            }
        }
        usage
    }

    /// From `before` until this look.
    pub fn since(&self, before: &Self) -> Shares {
        let all = (self.all - before.all).max(1.0);
        let own = self.own - before.own;
        let share = |ticks: f64| (ticks / all).clamp(0.0, 1.0);
        Shares {
            steal: share(self.stolen - before.stolen),
            other: share(self.busy - before.busy - own),
        }
    }
}

/// CPU time of all threads of this process, user and system.
fn own_cpu_s() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call, and every process has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 100 0 0 0 0 0 0\ncpu1 5 0 5 50 0 0 0 5 0 0\n";
    const AFTER: &str =
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 50 0 20 150 0 0 0 0 0 0\ncpu1 5 0 5 130 0 0 0 25 0 0\n";

    #[test]
    fn shares_are_those_of_the_cpus_asked_for() {
        let (before, after) = (Usage::read(BEFORE, &[0, 1]), Usage::read(AFTER, &[0, 1]));
        let after = Usage { own: 30.0, ..after };
        let expected = Shares {
            steal: 0.1,
            other: 0.1,
        };
        assert_eq!(after.since(&before), expected);
        let one = Usage::read(AFTER, &[0]).since(&Usage::read(BEFORE, &[0]));
        assert_eq!((one.steal, one.other), (0.0, 0.5));
    }

    #[test]
    fn own_work_is_no_other_s() {
        let before = Usage::default();
        let after = Usage {
            all: 100.0,
            busy: 10.0,
            own: 30.0,
            stolen: 0.0,
        };
        assert_eq!(after.since(&before).other, 0.0);
    }

    #[test]
    fn this_machine_can_be_read() {
        let usage = Usage::now(&crate::cpus::allowed().expect("/proc")).expect("/proc");
        assert!(usage.all > 0.0 && usage.own > 0.0);
    }
}
