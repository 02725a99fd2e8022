//! How much memory, and how much of a disk, a process can still take.

use std::fs;
use std::io;
use std::path::Path;

/// Bytes of memory that a process can still take, None: this one. They are the kernel's estimate (MemAvailable), or what the process's
/// control groups leave when that is less; None when nobody says.
#[must_use]
pub fn memory_bytes(pid: Option<u32>) -> Option<u64> {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    memory_left(
        &text("/proc/meminfo"),
        &text(&format!("/proc/{process}/cgroup")),
        Path::new("/sys/fs/cgroup"),
    )
}

/// Bytes that this user can still write to a folder's file system.
///
/// # Errors
/// The kernel's.
pub fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let about = rustix::fs::statvfs(folder)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// `groups`: those of a process, as its /proc/PID/cgroup lists them; their files are below `root`.
fn memory_left(meminfo: &str, groups: &str, root: &Path) -> Option<u64> {
    let of_groups = groups.lines().filter_map(|line| left_in_group(line, root));
    of_groups.chain(mem_available_bytes(meminfo)).min()
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
fn left_in_group(line: &str, root: &Path) -> Option<u64> {
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
    // A group without a limit says `max`, which is no number; the root of version 2 has no such file.
    let number =
        |path: &Path| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let left = |group: &Path| {
        let limit_bytes = number(&group.join(limit))?;
        // The kernel gives its cache of files up where a program needs the memory.
        let used_bytes = number(&group.join(used))?.saturating_sub(file_cache_bytes(group));
        Some(limit_bytes.saturating_sub(used_bytes))
    };
    let own = root.join(path);
    own.ancestors()
        .take_while(|group| group.starts_with(&root))
        .filter_map(left)
        .min()
}

fn file_cache_bytes(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let values = text.lines().filter_map(|line| line.split_once(' '));
    let found = values.filter(|(name, _)| ["inactive_file", "active_file"].contains(name));
    found
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
    }

    #[test]
    fn meminfo_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       24683848 kB\nMemAvailable:   20950616 kB\nBuffers: 1 kB\n";
        assert_eq!(mem_available_bytes(text), Some(20_950_616 * 1024));
        assert_eq!(mem_available_bytes("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn the_tightest_limit_of_the_groups_above_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let stat = "anon 100\nfile 400\ninactive_file 300\nactive_file 90\n";
        put(
            root.path(),
            &[
                ("a/memory.max", "1000\n"),
                ("a/memory.current", "400\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "300\n"),
                ("a/c/memory.max", "5000\n"),
                ("a/c/memory.current", "300\n"),
                ("full/memory.max", "100\n"),
                ("full/memory.current", "200\n"),
                ("cached/memory.max", "500\n"),
                ("cached/memory.current", "500\n"),
                ("cached/memory.stat", stat),
            ],
        );
        for (line, left) in [
            ("0::/a/b", Some(600)),
            ("0::/a/c", Some(600)),
            ("0::/full", Some(0)),
            ("0::/cached", Some(390)),
            ("0::/", None),
            ("1:cpu:/a/b", None),
        ] {
            assert_eq!(left_in_group(line, root.path()), left, "{line}");
        }
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let root = tempfile::tempdir().expect("a folder");
        put(
            root.path(),
            &[
                // What version 1 says where there is no limit.
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "900\n"),
                ("memory/a/memory.limit_in_bytes", "1000\n"),
                ("memory/a/memory.usage_in_bytes", "400\n"),
                ("memory/a/memory.stat", "cache 100\nactive_file 100\n"),
            ],
        );
        let groups = "5:cpu,cpuacct:/a\n4:memory:/a\n0::/a\n";
        let left = memory_left("MemAvailable: 5 kB\n", groups, root.path());
        assert_eq!(left, Some(700));
    }

    #[test]
    fn the_groups_of_the_process_that_is_named_decide() {
        let root = tempfile::tempdir().expect("a folder");
        for (group, limit) in [("command", "9000"), ("server", "1000")] {
            put(
                &root.path().join(group),
                &[("memory.max", limit), ("memory.current", "400")],
            );
        }
        let left = |groups| memory_left("MemAvailable: 5 kB\n", groups, root.path());
        let found = ["0::/server\n", "0::/command\n", ""].map(left);
        assert_eq!(found, [Some(600), Some(5120), Some(5120)]);
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(memory_bytes(None) > Some(0));
        // A process whose groups cannot be read has the machine's limit.
        assert!(memory_bytes(Some(u32::MAX)) > Some(0));
        assert!(disk_bytes(&std::env::temp_dir()).expect("a folder") > 0);
        assert!(disk_bytes(Path::new("/no/such/folder")).is_err());
    }
}
