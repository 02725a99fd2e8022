//! What a folder lies on.

use std::fs;
use std::path::Path;

/// The type of the file system that holds a folder, such as `ext4`; empty when /proc does not say.
pub fn kind(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    kind_in(&mounts, &folder)
}

/// By the longest mount point above the folder; of several there the last, which hides the others.
fn kind_in(mounts: &str, folder: &Path) -> String {
    let parsed = mounts.lines().filter_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        Some((unescaped(place.split(' ').nth(4)?), rest.split(' ').next()?))
    });
    parsed
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map_or_else(String::new, |(_, kind)| kind.to_owned())
}

/// A mount point without the kernel's octal escapes.
fn unescaped(point: &str) -> String {
    point
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
25 22 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n\
26 22 0:30 / /srv/my\\040data rw - xfs /dev/vdb rw\n\
27 22 0:31 / /srv rw master:3 propagate_from:2 - btrfs /dev/vdc rw\n\
28 22 0:32 / /srv rw - zfs pool rw\n";

    #[test]
    fn the_longest_and_last_mount_point_counts() {
        for (folder, kind) in [
            ("/home/me", "ext4"),
            ("/dev/shm/x", "tmpfs"),
            ("/srv/my data/mysql", "xfs"),
            ("/srv/other", "zfs"),
            ("/srvother", "ext4"),
        ] {
            assert_eq!(kind_in(MOUNTS, Path::new(folder)), kind, "{folder}");
        }
        assert_eq!(kind_in("", Path::new("/")), "");
    }

    #[test]
    fn a_folder_of_this_machine_lies_on_something() {
        assert!(!kind(Path::new("/proc")).is_empty());
    }
}
