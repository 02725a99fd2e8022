//! Room for pages beside the caller's. It comes from a pool: a server's threads have small stacks, and a hit allocates
//! nothing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Region;
use crate::config::PAGE_SIZE_BYTES_MAX;
use crate::thread;

/// More than threads that use the medium at once; one that finds none free waits.
const LEASES: usize = 64;
const LEASE_BYTES: usize = 2 * PAGE_SIZE_BYTES_MAX;

/// The pool.
pub struct Scratch {
    region: Region,
    taken: [AtomicBool; LEASES],
}

/// Room for two pages, aligned for direct I/O; goes back when dropped.
pub struct Lease<'a> {
    scratch: &'a Scratch,
    number: usize,
}

impl Scratch {
    /// Reserves the addresses; memory comes with the first use.
    pub fn new() -> io::Result<Self> {
        let region = Region::anonymous(LEASES * LEASE_BYTES)?;
        region.keep_out_of_dumps();
        Ok(Self {
            region,
            taken: [const { AtomicBool::new(false) }; LEASES],
        })
    }

    /// Room that is this caller's alone. Whoever holds one takes no second.
    pub fn take(&self) -> Lease<'_> {
        let start = thread::number();
        for at in 0.. {
            let number = (start + at) % LEASES;
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let claimed = self.taken[number].compare_exchange(false, true, success, failure);
            if claimed.is_ok() {
                return Lease {
                    scratch: self,
                    number,
                };
            }
            if number == start % LEASES && at > 0 {
                // Held for the time of an access, which is long on a medium that hangs.
                match at / LEASES {
                    ..64 => std::thread::yield_now(),
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        unreachable!("the loop has no end")
    }
}

impl Lease<'_> {
    /// All of it.
    pub fn room(&mut self) -> &mut [u8] {
        let start = self.number * LEASE_BYTES;
        // SAFETY: inside the region, which is memory from its start on; the flag says that nobody else has this part.
        unsafe {
            let address = self.scratch.region.address().add(start);
            std::slice::from_raw_parts_mut(address, LEASE_BYTES)
        }
    }

    /// The two pages, each of the largest size.
    pub fn pages(&mut self) -> (&mut [u8], &mut [u8]) {
        self.room().split_at_mut(PAGE_SIZE_BYTES_MAX)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.scratch.taken[self.number].store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{LEASES, Scratch};

    #[test]
    fn rooms_do_not_overlap_and_come_back() {
        let scratch = Scratch::new().expect("memory");
        let mut leases: Vec<_> = (0..LEASES).map(|_| scratch.take()).collect();
        for (number, lease) in leases.iter_mut().enumerate() {
            let (first, second) = lease.pages();
            assert_eq!(first.as_ptr() as usize % 4096, 0);
            first.fill(number as u8);
            second.fill(number as u8 ^ 0xff);
        }
        for (number, lease) in leases.iter_mut().enumerate() {
            let (first, second) = lease.pages();
            assert!(first.iter().all(|byte| *byte == number as u8));
            assert!(second.iter().all(|byte| *byte == number as u8 ^ 0xff));
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(scratch.take()));
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!waits.is_finished());
            leases.pop();
        });
    }
}
