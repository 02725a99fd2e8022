//! How much memory this process may still take.

use std::fs;
use std::path::Path;

/// What the kernel has to give, or less where a control group, such as a container's, has a limit; None when nobody says.
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| available(&text));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = left_in_group(Path::new("/sys/fs/cgroup"), &own);
    machine.into_iter().chain(group).min()
}

/// MemAvailable of /proc/meminfo.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib = line.trim().trim_end_matches("kB").trim();
    Some(kib.parse::<u64>().ok()? * 1024)
}

/// The least that is left below a limit of the process's group or of one above it; `own` is /proc/self/cgroup, of version 2.
fn left_in_group(root: &Path, own: &str) -> Option<u64> {
    let below = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = root.join(below.trim());
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    // A group without a limit says `max`, which is no number; the root has no such file.
    let left = |group: &Path| {
        let most = number(&group.join("memory.max"))?;
        let used = number(&group.join("memory.current"))?;
        // The kernel gives its cache of files up where a program needs the memory.
        Some(most.saturating_sub(used.saturating_sub(file_cache_bytes(group))))
    };
    let groups = group.ancestors().take_while(|each| each.starts_with(root));
    groups.filter_map(left).min()
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

    #[test]
    fn meminfo_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       24683848 kB\nMemAvailable:   20950616 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(20_950_616 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert!(available_bytes() > Some(0));
    }

    #[test]
    fn the_tightest_limit_of_the_groups_above_counts() {
        let root = std::env::temp_dir().join(format!("upshift-card-groups-{}", std::process::id()));
        let put = |group: &str, most: &str, current: &str| {
            let folder = root.join(group);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("memory.max"), most).expect("a file");
            fs::write(folder.join("memory.current"), current).expect("a file");
        };
        put("a", "1000\n", "400\n");
        put("a/b", "max\n", "300\n");
        put("a/c", "5000\n", "300\n");
        put("full", "100\n", "200\n");
        put("cached", "500\n", "500\n");
        let stat = "anon 100\nfile 400\ninactive_file 300\nactive_file 90\n";
        fs::write(root.join("cached/memory.stat"), stat).expect("a file");
        assert_eq!(left_in_group(&root, "0::/a/b\n"), Some(600));
        assert_eq!(left_in_group(&root, "0::/a/c\n"), Some(600));
        assert_eq!(left_in_group(&root, "0::/full\n"), Some(0));
        assert_eq!(left_in_group(&root, "0::/cached\n"), Some(390));
        assert_eq!(left_in_group(&root, "0::/\n"), None);
        assert_eq!(left_in_group(&root, "4:memory:/a\n"), None);
        fs::remove_dir_all(root).expect("removed");
    }
}
