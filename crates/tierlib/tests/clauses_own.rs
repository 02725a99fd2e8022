//! Clause C23 of docs/explanation/tier-contract.md: programs that close every descriptor leave the tier its own.

mod common;

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

use common::{counter, get, open, path, put, run_on};
use tiercache::Counter;

workers!(c23_worker,);

#[test]
fn c23_a_direct_medium_survives_programs_that_close_everything() {
    assert_eq!(counter(&run_on("direct", "c23_worker"), "own"), 3);
}

#[test]
fn c23_a_buffered_medium_survives_programs_that_close_everything() {
    assert_eq!(counter(&run_on("file", "c23_worker"), "own"), 2);
}

/// Descriptors of this process from 3 on, but for the one of the listing.
fn listed() -> Vec<RawFd> {
    let names = std::fs::read_dir("/proc/self/fd").expect("this process is listed");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let numbers = names.map(|name| name.to_string_lossy().parse().expect("a number"));
    let all: Vec<RawFd> = numbers.filter(|number| *number > 2).collect();
    // SAFETY: the call reads nothing but the table.
    let is_open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
    all.into_iter().filter(is_open).collect()
}

unsafe extern "C" {
    fn closefrom(first: c_int);
}

/// Ways to close whatever is open from 3 on.
const SWEEPS: [(&str, fn()); 7] = [
    ("close, one after the other", || {
        (3..20_000).for_each(|fd| {
            // SAFETY: nothing in this process needs them.
            unsafe { libc::close(fd) };
        });
    }),
    ("/proc/self/fd", || {
        listed().into_iter().for_each(|fd| {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        });
    }),
    // SAFETY: as above.
    ("close_range", || unsafe {
        assert_eq!(libc::close_range(3, u32::MAX, 0), 0);
    }),
    // SAFETY: as above.
    ("close_range by number", || unsafe {
        assert_eq!(libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0), 0);
    }),
    // SAFETY: as above.
    ("closefrom", || unsafe { closefrom(3) }),
    // SAFETY: as above.
    ("close by number", || unsafe {
        (3..20_000).for_each(|fd| {
            libc::syscall(libc::SYS_close, fd);
        });
    }),
    ("dup2 and dup3 onto them", || {
        let other = File::open("/dev/zero").expect("the device");
        // A data file whose descriptor is replaced starts without pages when it is opened again.
        for fd in listed().into_iter().filter(|fd| *fd > 100) {
            // SAFETY: as above.
            unsafe {
                libc::dup2(other.as_raw_fd(), fd);
                libc::dup3(other.as_raw_fd(), fd, 0);
            }
        }
    }),
];

fn c23_worker() {
    // What the test program inherited.
    SWEEPS[2].1();
    let file = path("c23.ibd");
    let mut fd = open(&file, libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    // A file that is closed right after a change starts without pages.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let own: Vec<RawFd> = listed().into_iter().filter(|each| *each != fd).collect();
    assert!(
        own.iter().all(|each| *each > 100),
        "out of the way: {own:?}"
    );
    eprintln!("own={}", own.len());
    for (name, sweep) in SWEEPS {
        sweep();
        for each in &own {
            // SAFETY: the descriptor is not the program's.
            unsafe {
                assert_eq!(libc::close(*each), -1);
                assert_eq!(*libc::__errno_location(), libc::EBADF, "{name}");
            }
        }
        // SAFETY: a last one of this program, or one that is closed.
        unsafe { libc::close(fd) };
        fd = open(&file, libc::O_RDWR);
        assert!(fd < 10, "{name}: everything else is closed");
        let before = common::snapshot();
        assert_eq!((get(fd, 0), get(fd, 4096)), (Ok(1), Ok(1)), "{name}");
        let after = common::snapshot();
        let more = |counter| after.counter(counter) - before.counter(counter);
        assert_eq!(
            (more(Counter::Hits), more(Counter::MediumReadErrors)),
            (2, 0),
            "{name}: served"
        );
    }
    // A child's table is its own: it may close what it inherited.
    // SAFETY: the child calls only close and _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(own.iter().map(|each| libc::close(*each)).sum());
        }
        let mut status = 1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0, "closed in the child");
    }
    assert_eq!(get(fd, 0), Ok(1));
}
