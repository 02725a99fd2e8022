//! The clauses of docs/explanation/tier-contract.md that the oracle cannot see, each named in its test.

mod common;

use common::{counter, get, open, path, put, run};

workers!(
    c1_worker, c2_worker, c4_worker, c5_worker, c7_worker, c16_worker, c17_worker, c21_worker,
);

#[test]
fn c1_files_no_rule_names_are_untouched() {
    let text = run("c1_worker");
    // Those of the data file beside it.
    assert_eq!(
        (counter(&text, "writes"), counter(&text, "hits")),
        (1, 1),
        "{text}"
    );
}

fn c1_worker() {
    let data = open(&path("a.ibd"), libc::O_RDWR);
    put(data, 2, 0);
    let fd = open(&path("ib_logfile0"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!((get(fd, 0), get(data, 0)), (Ok(1), Ok(2)));
}

#[test]
fn c2_a_failed_close_of_a_range_ends_the_caching_of_its_files() {
    let text = run("c2_worker");
    assert!(counter(&text, "bypass_unsupported") > 0, "{text}");
    assert!(counter(&text, "bypass_forked") > 0, "{text}");
}

fn c2_worker() {
    let others = open(&path("c2other.ibd"), libc::O_RDWR);
    put(others, 5, 0);
    assert_eq!(get(others, 0), Ok(5));
    let fd = open(&path("c2.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1), "a hit");
    // SAFETY: our own descriptors. No kernel knows this flag.
    unsafe {
        let (twin, unknown) = (libc::dup2(fd, 50), 1 << 7);
        assert_eq!(libc::close_range(40, 60, unknown), -1);
        assert_eq!(*libc::__errno_location(), libc::EINVAL);
        put(twin, 2, 0);
        assert_eq!(get(fd, 0), Ok(2), "what the open descriptor wrote");
        assert_eq!(get(others, 0), Ok(5));
        let twin = libc::dup2(others, 50);
        let child = libc::fork();
        if child == 0 {
            let answer = libc::close_range(40, 60, unknown);
            put(twin, 6, 0);
            libc::_exit(i32::from(answer == 0));
        }
        let mut status = 1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0);
        assert_eq!(get(others, 0), Ok(6), "what the child wrote");
    }
}

#[test]
fn c4_errors_of_reads_stay() {
    let text = run("c4_worker");
    assert!(counter(&text, "hits") >= 2, "{text}");
}

fn c4_worker() {
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
}

#[test]
fn c5_locks_survive() {
    run("c5_worker");
}

fn c5_worker() {
    let fd = open(&path("c5.ibd"), libc::O_RDWR);
    let twin = path("c5twin.ibd");
    // SAFETY: flock is plain data; the child calls only fcntl and _exit.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        assert_eq!(libc::fcntl(fd, libc::F_SETLK, &raw mut lock), 0);
        put(fd, 1, 0);
        get(fd, 0).expect("a hit");
        libc::fdatasync(fd);
        assert_eq!(libc::link(path("c5.ibd").as_ptr(), twin.as_ptr()), 0);
        assert_eq!(libc::unlink(twin.as_ptr()), 0);
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

fn c7_worker() {
    let fd = open(&path("c7.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    put(fd, 2, 8192);
    assert_eq!((get(fd, 0), get(fd, 8192)), (Ok(1), Ok(2)), "hits");
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

fn c16_worker() {
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
}

#[test]
fn c17_streams_end_the_caching() {
    run("c17_worker");
}

fn c17_worker() {
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
fn c21_a_child_that_writes_ends_the_caching() {
    let text = run("c21_worker");
    assert!(counter(&text, "bypass_forked") > 0, "{text}");
    assert_eq!(
        text.matches("forked by the server, changes").count(),
        1,
        "said once: {text}"
    );
}

fn c21_worker() {
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
}
