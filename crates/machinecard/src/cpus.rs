//! CPUs: which ones this process may use, and threads that stay on one.

use std::fs;
use std::io;
use std::path::Path;

/// The numbers in a kernel's list such as `0-3,8`; what cannot be read is left out.
pub fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// The CPUs that this process may run on.
///
/// # Errors
/// /proc cannot be read.
pub fn allowed() -> io::Result<Vec<usize>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let online = fs::read_to_string("/sys/devices/system/cpu/online");
    Ok(allowed_of(&status, online.ok().as_deref()))
}

/// Of those that the kernel allows, the ones that are `online`: a machine that could get more CPUs allows these, too.
fn allowed_of(status: &str, online: Option<&str>) -> Vec<usize> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut allowed = numbers(list.unwrap_or_default());
    if let Some(online) = online.map(numbers) {
        allowed.retain(|cpu| online.contains(cpu));
    }
    allowed
}

/// Two of these CPUs on different cores, of one core if there is no other, none when there is one CPU only. `system` is
/// /sys/devices/system.
pub fn two(allowed: &[usize], system: &Path) -> Option<(usize, usize)> {
    let (&first, others) = allowed.split_first()?;
    let siblings = siblings(first, system);
    let apart = others.iter().find(|cpu| !siblings.contains(cpu));
    Some((first, *apart.or(others.first())?))
}

/// The hardware threads of a CPU's core, itself among them.
pub fn siblings(cpu: usize, system: &Path) -> Vec<usize> {
    let file = system.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
    fs::read_to_string(file).map_or_else(|_| vec![cpu], |list| numbers(&list))
}

/// Keep the calling thread on one CPU.
///
/// # Errors
/// The kernel's refusal, or a CPU beyond those that its call takes.
pub fn stay_on(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of bits, for which zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is less than the set's size, which was checked.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid, of the size named, and only read; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(numbers(" 3 "), [3]);
        assert_eq!(numbers(""), [0_usize; 0]);
    }

    #[test]
    fn cpus_that_the_machine_has_not_are_not_allowed() {
        let status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t1-127\n";
        assert_eq!(allowed_of(status, Some("0-3\n")), [1, 2, 3]);
        assert_eq!(allowed_of(status, None).len(), 127);
    }

    #[test]
    fn the_second_cpu_is_on_another_core_where_there_is_one() {
        let system = tempfile::tempdir().expect("a folder");
        let system = system.path();
        let topology = system.join("cpu/cpu0/topology");
        fs::create_dir_all(&topology).expect("a folder");
        fs::write(topology.join("thread_siblings_list"), "0-1\n").expect("a file");
        assert_eq!(two(&[0, 1, 2, 3], system), Some((0, 2)));
        assert_eq!(two(&[0, 1], system), Some((0, 1)));
        assert_eq!(two(&[0], system), None);
        assert_eq!(two(&[], system), None);
    }

    #[test]
    fn a_thread_stays_where_it_was_put() {
        let cpu = *allowed().expect("/proc").last().expect("a CPU");
        std::thread::spawn(move || {
            stay_on(cpu).expect("allowed");
            // SAFETY: the call takes nothing and touches no memory of ours.
            assert_eq!(unsafe { libc::sched_getcpu() }, cpu as i32);
        })
        .join()
        .expect("the thread ends");
        assert!(stay_on(1 << 20).is_err());
    }
}
