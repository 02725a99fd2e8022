//! The clauses of docs/explanation/tier-contract.md that the oracle cannot see, each named in its test.

mod common;

use common::{counter, get, is_worker, open, path, put, run};

#[test]
fn c1_files_no_rule_names_are_untouched() {
    let text = run("c1_worker");
    assert_eq!(
        (
            counter(&text, "writes"),
            counter(&text, "misses") + counter(&text, "hits")
        ),
        (0, 0),
        "{text}"
    );
}

#[test]
#[ignore = "started by c1"]
fn c1_worker() {
    if is_worker() {
        open(&path("a.ibd"), libc::O_RDWR);
        let fd = open(&path("ib_logfile0"), libc::O_RDWR);
        put(fd, 1, 0);
        assert_eq!(get(fd, 0), Ok(1));
        common::print_counters();
    }
}

#[test]
fn c4_errors_of_reads_stay() {
    let text = run("c4_worker");
    assert!(counter(&text, "hits") >= 2, "{text}");
}

#[test]
#[ignore = "started by c4"]
fn c4_worker() {
    if !is_worker() {
        return;
    }
    let file = path("c4.ibd");
    let fd = open(&file, libc::O_RDWR);
    put(fd, 7, 0);
    assert_eq!((get(fd, 0), get(fd, 4096)), (Ok(7), Ok(7)));
    assert_eq!(
        get(open(&file, libc::O_WRONLY), 0),
        Err(libc::EBADF),
        "not served where reading is not allowed"
    );
    assert_eq!(get(fd, -1), Err(libc::EINVAL));
    // SAFETY: the kernel refuses the null pointer, and errno is this thread's.
    unsafe {
        assert_eq!(libc::pread64(fd, std::ptr::null_mut(), 4096, 0), -1);
        assert_eq!(*libc::__errno_location(), libc::EFAULT);
        *libc::__errno_location() = 77;
        get(fd, 0).expect("a hit");
        assert_eq!(*libc::__errno_location(), 77, "errno kept by a hit");
        libc::close(fd);
    }
    assert_eq!(get(fd, 0), Err(libc::EBADF));
    common::print_counters();
}

#[test]
fn c5_locks_survive() {
    run("c5_worker");
}

#[test]
#[ignore = "started by c5"]
fn c5_worker() {
    if !is_worker() {
        return;
    }
    let fd = open(&path("c5.ibd"), libc::O_RDWR);
    // SAFETY: flock is plain data; the child calls only fcntl and _exit.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        assert_eq!(libc::fcntl(fd, libc::F_SETLK, &raw mut lock), 0);
        put(fd, 1, 0);
        get(fd, 0).expect("a hit");
        libc::fdatasync(fd);
        let child = libc::fork();
        if child == 0 {
            libc::fcntl(fd, libc::F_GETLK, &raw mut lock);
            libc::_exit(i32::from(lock.l_type != libc::F_WRLCK as i16));
        }
        let mut status = 1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(
            status, 0,
            "the lock is gone: somebody opened and closed the file"
        );
    }
}

#[test]
fn c7_appends_and_late_o_append() {
    run("c7_worker");
}

#[test]
#[ignore = "started by c7"]
fn c7_worker() {
    if !is_worker() {
        return;
    }
    let fd = open(&path("c7.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    put(fd, 2, 8192);
    // SAFETY: our own descriptor.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND) }, 0);
    put(fd, 3, 0);
    assert_eq!(
        (get(fd, 0), get(fd, 8192), get(fd, 16384)),
        (Ok(1), Ok(2), Ok(3))
    );
}

#[test]
fn c16_shared_writable_mappings_end_the_caching() {
    let text = run("c16_worker");
    assert!(counter(&text, "bypass_unsupported") > 0, "{text}");
}

#[test]
#[ignore = "started by c16"]
fn c16_worker() {
    if !is_worker() {
        return;
    }
    let fd = open(&path("c16.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    get(fd, 0).expect("a read");
    // SAFETY: the file has these bytes.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(
            std::ptr::null_mut(),
            4096,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        map.cast::<u8>().write_volatile(9);
    }
    assert_eq!(get(fd, 0), Ok(9));
    common::print_counters();
}

#[test]
fn c17_streams_end_the_caching() {
    run("c17_worker");
}

#[test]
#[ignore = "started by c17"]
fn c17_worker() {
    if !is_worker() {
        return;
    }
    let file = path("c17.ibd");
    let fd = open(&file, libc::O_RDWR);
    put(fd, 1, 0);
    get(fd, 0).expect("a read");
    // SAFETY: names and data end where they should.
    unsafe {
        let stream = libc::fopen(file.as_ptr(), c"r+".as_ptr());
        assert!(!stream.is_null());
        assert_eq!(
            libc::fwrite([9u8; 4096].as_ptr().cast(), 4096, 1, stream),
            1
        );
        libc::fclose(stream);
    }
    assert_eq!(get(fd, 0), Ok(9));
}

#[test]
fn c19_io_uring_is_refused() {
    let text = run("c19_worker");
    assert!(text.contains("io_uring refused"), "{text}");
}

#[test]
#[ignore = "started by c19"]
fn c19_worker() {
    if is_worker() {
        // SAFETY: the call is refused before it reads anything; errno is this thread's.
        unsafe {
            assert_eq!(
                libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null_mut::<u8>()),
                -1
            );
            assert_eq!(*libc::__errno_location(), libc::ENOSYS);
        }
    }
}

#[test]
fn c21_a_child_that_writes_ends_the_caching() {
    let text = run("c21_worker");
    assert!(counter(&text, "bypass_forked") > 0, "{text}");
}

#[test]
#[ignore = "started by c21"]
fn c21_worker() {
    if !is_worker() {
        return;
    }
    let fd = open(&path("c21.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    // SAFETY: the child calls only pwrite and _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            put(fd, 2, 0);
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(get(fd, 0), Ok(2));
    common::print_counters();
}
