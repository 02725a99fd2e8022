//! How much memory, and how much of a file system, can still be had.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::Failure;

/// Refuses a size that memory cannot hold now, under the limit of the control groups of a process too; None: of this one.
pub fn refuse_more_than_available(size_bytes: u64, pid: Option<u32>) -> Result<(), Failure> {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let available_bytes = available_bytes(
        &text("/proc/meminfo"),
        &text(&format!("/proc/{process}/cgroup")),
        Path::new("/sys/fs/cgroup"),
    );
    if size_bytes <= available_bytes {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "a tier of {} MiB needs more memory than is available ({} MiB)",
            size_bytes >> 20,
            available_bytes >> 20
        ),
        "choose a smaller size, or a file as the medium",
    ))
}

/// Bytes of memory that can be had: the kernel's estimate (MemAvailable), or what a control group leaves when that is less.
/// `groups`: those of a process, as its /proc/PID/cgroup lists them; their files are below `root`.
fn available_bytes(meminfo: &str, groups: &str, root: &Path) -> u64 {
    let of_machine = mem_available_bytes(meminfo).unwrap_or(u64::MAX);
    let of_groups = groups
        .lines()
        .filter_map(|line| group_room_bytes(line, root))
        .min();
    of_machine.min(of_groups.unwrap_or(u64::MAX))
}

fn mem_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes left in the control group of a line of /proc/PID/cgroup (number:controllers:path) and in those above it.
/// Version 2 has no controllers in its line; version 1 has its own folder for memory.
fn group_room_bytes(line: &str, root: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let (root, limit, used) = match controllers {
        "" => (root.to_path_buf(), "memory.max", "memory.current"),
        "memory" => (
            root.join("memory"),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        _ => return None,
    };
    let number =
        |path: &Path| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let room = |group: &Path| {
        let limit_bytes = number(&group.join(limit))?;
        // The group's page cache counts as used and can be given up; a limit is refused only when even that does not help.
        let cache_bytes = file_cache_bytes(group);
        let used_bytes = number(&group.join(used))?.saturating_sub(cache_bytes);
        Some(limit_bytes.saturating_sub(used_bytes))
    };
    let own = root.join(path);
    own.ancestors()
        .take_while(|group| group.starts_with(&root))
        .filter_map(room)
        .min()
}

fn file_cache_bytes(group: &Path) -> u64 {
    let text = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let values = text.lines().filter_map(|line| line.split_once(' '));
    let found = values.filter(|(name, _)| ["inactive_file", "active_file"].contains(name));
    found
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

/// Bytes of a folder's file system that this user can still write.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: statvfs is plain numbers, for which zeroes are a value.
    let mut about: libc::statvfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in NUL, and `about` is writable.
    if unsafe { libc::statvfs64(path.as_ptr(), &raw mut about) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(about.f_bavail * about.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_decides() {
        let root = std::env::temp_dir().join(format!("tierctl-group-{}", std::process::id()));
        let own = root.join("a/b");
        std::fs::create_dir_all(&own).expect("folder");
        for (file, text) in [
            ("memory.max", "1000"),
            ("memory.current", "400"),
            (
                "memory.stat",
                "anon 300\ninactive_file 60\nactive_file 40\n",
            ),
            ("a/memory.max", "max"),
            ("a/b/memory.max", "5000"),
            ("a/b/memory.current", "100"),
        ] {
            std::fs::write(root.join(file), text).expect("file");
        }
        let found = (
            group_room_bytes("0::/a/b", &root),
            group_room_bytes("1:cpu:/a/b", &root),
        );
        std::fs::remove_dir_all(&root).expect("remove");
        assert_eq!(found, (Some(700), None));
    }

    #[test]
    fn the_groups_of_the_process_that_is_named_decide() {
        let root = std::env::temp_dir().join(format!("tierctl-groups-{}", std::process::id()));
        for (group, limit) in [("command", "9000"), ("server", "1000")] {
            let own = root.join(group);
            std::fs::create_dir_all(&own).expect("folder");
            std::fs::write(own.join("memory.max"), limit).expect("file");
            std::fs::write(own.join("memory.current"), "400").expect("file");
        }
        let available = |groups| available_bytes("MemAvailable: 5 kB\n", groups, &root);
        let found = ["0::/server\n", "0::/command\n", ""].map(available);
        std::fs::remove_dir_all(&root).expect("remove");
        assert_eq!(found, [600, 5120, 5120]);
        // A process whose groups cannot be read has the machine's limit.
        assert!(refuse_more_than_available(1, Some(u32::MAX)).is_ok());
        assert!(refuse_more_than_available(u64::MAX, None).is_err());
    }

    #[test]
    fn memory_and_disk_are_read_from_the_system() {
        assert!(refuse_more_than_available(1 << 20, None).is_ok());
        assert!(free_bytes(Path::new("/")).is_ok_and(|bytes| bytes > 0));
        assert_eq!(
            mem_available_bytes("MemFree: 1 kB\nMemAvailable:   7 kB\n"),
            Some(7168)
        );
    }
}
