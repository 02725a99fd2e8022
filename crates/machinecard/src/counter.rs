//! Whether the processor's performance counters count instructions here.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The head of the kernel's `perf_event_attr`, in its first published size: what follows it is zero.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
/// `exclude_kernel` and `exclude_hv`: what an ordinary user may count.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// Count some of our own instructions.
///
/// # Errors
/// The kernel's: no such counter, or no right to it; `Unsupported` when it counts nothing, as under some hypervisors.
pub fn count_instructions() -> io::Result<u64> {
    let attributes = Attributes {
        kind: HARDWARE,
        size: size_of::<Attributes>() as u32,
        config: INSTRUCTIONS,
        flags: USER_ONLY,
        ..Attributes::default()
    };
    // SAFETY: the attributes are as long as their `size` says, valid and only read; this process on any CPU, no group, no flags.
    let made = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            -1,
            -1,
            0,
        )
    };
    let descriptor = i32::try_from(made).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else owns it.
    let mut counter = unsafe { File::from_raw_fd(descriptor) };
    let mut sum = 0_u64;
    for number in 0..10_000 {
        sum = std::hint::black_box(sum.wrapping_add(number));
    }
    let mut value = [0; 8];
    counter.read_exact(&mut value)?;
    match u64::from_ne_bytes(value) {
        0 => Err(io::ErrorKind::Unsupported.into()),
        counted => Ok(counted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_are_as_long_as_the_kernel_s_first_ones() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn instructions_are_counted_or_refused() {
        match count_instructions() {
            Ok(counted) => assert!(counted >= 10_000, "{counted}"),
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}
