//! What makes a file this file and no other.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file as the file system knows it. The first three fields are the identity; the others say whether it
/// changed while the tier was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Time of birth in nanoseconds since 1970; 0 where the file system has none.
    pub birth_ns: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Time of the last change of content, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// Time of the last change of the inode, in nanoseconds since 1970.
    pub changed_ns: u64,
}

impl Identity {
    /// Of an open file; one system call, nothing opened.
    pub fn of(fd: RawFd) -> io::Result<Self> {
        Self::statx(fd, c"", libc::AT_EMPTY_PATH)
    }

    /// Of the file at this path now.
    pub fn of_path(path: &std::ffi::CStr) -> io::Result<Self> {
        Self::statx(libc::AT_FDCWD, path, 0)
    }

    /// Whether both are the same file, changed or not.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.birth_ns) == (other.device, other.inode, other.birth_ns)
    }

    /// Whether a change from now on would show in the times. Right after a change it need not: the next one may get the
    /// same time, which is as coarse as the kernel's tick, or a second on some file systems (ext3, old NFS).
    pub fn is_settled(&self) -> bool {
        self.settles_in().is_zero()
    }

    /// How long until that is so; no longer than times are coarse, whatever a file server's clock says.
    pub fn settles_in(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Duration::from_nanos(self.settles_in_ns(now.map_or(0, |now| now.as_nanos() as u64)))
    }

    fn settles_in_ns(&self, now_ns: u64) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        let times = [self.modified_ns, self.changed_ns];
        let coarse = times.iter().all(|time| time % SECOND == 0);
        let granule_ns = if coarse { 2 * SECOND } else { SECOND / 50 };
        (self.changed_ns + granule_ns)
            .saturating_sub(now_ns)
            .min(granule_ns)
    }

    fn statx(fd: RawFd, path: &std::ffi::CStr, flags: i32) -> io::Result<Self> {
        // SAFETY: the path ends in a zero byte.
        unsafe { Self::behind(fd, path.as_ptr(), flags) }
    }

    /// The file behind a path, as statx(2) takes it with the folder's descriptor and the flags. It needs no descriptor of its own.
    ///
    /// # Safety
    /// As for statx: the path ends in a zero byte, or the kernel refuses it.
    ///
    /// # Errors
    /// What the kernel says.
    pub unsafe fn behind(folder: RawFd, path: *const libc::c_char, flags: i32) -> io::Result<Self> {
        // SAFETY: statx is plain data, for which zeroes are a value.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
        // SAFETY: the caller's promise, and the answer has room.
        if unsafe { libc::statx(folder, path, flags, mask, &raw mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let ns = |time: libc::statx_timestamp| {
            (time.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(time.tv_nsec)
        };
        let has_birth = found.stx_mask & libc::STATX_BTIME != 0;
        Ok(Self {
            device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            inode: found.stx_ino,
            birth_ns: if has_birth { ns(found.stx_btime) } else { 0 },
            size_bytes: found.stx_size,
            modified_ns: ns(found.stx_mtime),
            changed_ns: ns(found.stx_ctime),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn a_file_is_settled_once_the_next_change_gets_another_time() {
        let at = |modified_ns, changed_ns| Identity {
            modified_ns,
            changed_ns,
            ..Identity::default()
        };
        let fine = at(5_000_000_001, 5_000_000_001);
        assert_eq!(fine.settles_in_ns(5_010_000_001), 10_000_000);
        assert_eq!(fine.settles_in_ns(5_030_000_000), 0);
        let coarse = at(5_000_000_000, 5_000_000_000);
        assert_eq!(coarse.settles_in_ns(6_900_000_000), 100_000_000);
        assert_eq!(coarse.settles_in_ns(7_100_000_000), 0);
        // The clock of a file server may be ahead.
        assert_eq!(fine.settles_in_ns(4_000_000_000), 20_000_000);
        assert!(!at(u64::MAX / 2, u64::MAX / 2).is_settled());
        assert!(at(1, 1).is_settled());
    }

    #[test]
    fn an_identity_is_what_the_file_system_says() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        use std::time::UNIX_EPOCH;

        let folder = crate::testing::Folder::new();
        let path = folder.path("file");
        std::fs::write(&path, [1; 5000]).expect("a file");
        let file = std::fs::File::open(&path).expect("the file");
        let told = file.metadata().expect("its metadata");
        let found = Identity::of(file.as_raw_fd()).expect("its identity");
        let ns = |seconds: i64, ns: i64| (seconds * 1_000_000_000 + ns) as u64;
        let born = told
            .created()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let (major, minor) = (libc::major(told.dev()), libc::minor(told.dev()));
        let expected = Identity {
            device: u64::from(major) << 32 | u64::from(minor),
            inode: told.ino(),
            birth_ns: born.map_or(0, |at| at.as_nanos() as u64),
            size_bytes: 5000,
            modified_ns: ns(told.mtime(), told.mtime_nsec()),
            changed_ns: ns(told.ctime(), told.ctime_nsec()),
        };
        assert_eq!(found, expected);
        let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
        assert_eq!(Identity::of_path(&name).expect("its identity"), expected);
        std::fs::remove_file(&path).expect("our file");
        assert!(Identity::of_path(&name).is_err());
        for (device, inode, birth_ns) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
            let other = Identity {
                device,
                inode,
                birth_ns,
                ..Identity::default()
            };
            assert!(!other.same_file(&Identity::default()));
        }
    }
}
