//! The descriptors that a tier keeps open, out of the way of the program that it lives in.
//!
//! A program that closes "all" descriptors would close these too, and its next file would get the number. So they move
//! to high numbers, and whoever intercepts the program's calls can ask which they are.

use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Numbers that are known at once; a tier has at most four. One that finds no room works, but is not protected.
const COUNT: usize = 16;
/// Highest number asked for: the kernel's table of descriptors is as long as the highest, and fork copies it.
const HIGHEST: u64 = 1 << 14;

static NUMBERS: [AtomicI32; COUNT] = [const { AtomicI32::new(-1) }; COUNT];

/// An open file under a high number that `is_own` knows.
#[derive(Debug)]
pub struct OwnFile(File);

impl OwnFile {
    /// Moves the file to a high number; it keeps the one it has when no other is free.
    pub fn new(file: File) -> Self {
        let file = raised(&file).unwrap_or(file);
        for number in &NUMBERS {
            let free =
                number.compare_exchange(-1, file.as_raw_fd(), Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                break;
            }
        }
        Self(file)
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // Before the close: nobody may take the next file of that number for ours.
        for number in &NUMBERS {
            let fd = self.0.as_raw_fd();
            let _ = number.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// A duplicate with a number just below the limit; it shares locks and flags with the original.
fn raised(file: &File) -> Option<File> {
    // SAFETY: rlimit is plain data with room for the answer.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return None;
        }
        limit.rlim_cur.min(HIGHEST)
    };
    let least = limit.checked_sub(COUNT as u64)? as RawFd;
    // SAFETY: takes no memory. The new descriptor is nobody else's.
    unsafe {
        let fd = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least);
        (fd >= 0).then(|| File::from_raw_fd(fd))
    }
}

/// Whether the number is one of a tier of this process.
#[inline]
pub fn is_own(fd: RawFd) -> bool {
    fd >= 0
        && NUMBERS
            .iter()
            .any(|number| number.load(Ordering::Acquire) == fd)
}

/// The lowest such number from `first` on.
pub fn lowest_from(first: u32) -> Option<u32> {
    let numbers = NUMBERS.iter().map(|number| number.load(Ordering::Acquire));
    let own = numbers.filter_map(|number| u32::try_from(number).ok());
    own.filter(|number| *number >= first).min()
}

#[cfg(test)]
mod tests {
    use super::{OwnFile, is_own, lowest_from};
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_moves_up_and_is_known_until_it_closes() {
        let low = File::open("/dev/zero").expect("the device");
        let number = low.as_raw_fd();
        let own = OwnFile::new(low);
        let raised = own.as_raw_fd();
        assert!(raised > number && is_own(raised) && !is_own(number));
        assert!(lowest_from(0).is_some_and(|lowest| lowest <= raised as u32));
        let mut byte = [1u8];
        (&*own).read_exact(&mut byte).expect("a read");
        assert_eq!(byte, [0]);
        drop(own);
        assert!(!is_own(raised) && !is_own(-1));
    }
}
