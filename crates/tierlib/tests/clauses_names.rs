//! Each name of a call does what the call does: programs have those with 64, those without, and the C library's own.

mod common;

use std::ffi::{c_int, c_long, c_void};
use std::ptr;

use common::{get, open, path, put, run, snapshot};
use libc::{iovec, off_t, size_t, ssize_t};
use tiercache::{Counter, Reason};

workers!(
    writes_worker,
    short_worker,
    reads_worker,
    changes_worker,
    descriptors_worker,
    nowhere_worker,
);

unsafe extern "C" {
    fn __pwrite64(fd: c_int, data: *const c_void, size: size_t, offset: off_t) -> ssize_t;
    fn __write(fd: c_int, data: *const c_void, size: size_t) -> ssize_t;
    fn __pread64(fd: c_int, data: *mut c_void, size: size_t, offset: off_t) -> ssize_t;
    fn __pread_chk(fd: c_int, data: *mut c_void, size: size_t, at: off_t, room: size_t) -> ssize_t;
    fn __pread64_chk(
        fd: c_int,
        data: *mut c_void,
        size: size_t,
        at: off_t,
        room: size_t,
    ) -> ssize_t;
    fn __read(fd: c_int, data: *mut c_void, size: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, data: *mut c_void, size: size_t, room: size_t) -> ssize_t;
    fn __close(fd: c_int) -> c_int;
    fn __dup2(fd: c_int, wanted: c_int) -> c_int;
    fn __fcntl(fd: c_int, command: c_int, ...) -> c_int;
}

const PAGE: usize = 4096;
const SIZE: usize = 2 * PAGE;

/// Two parts of a page each.
fn parts(data: *const c_void) -> [iovec; 2] {
    [0, PAGE].map(|at| iovec {
        iov_base: data.wrapping_byte_add(at).cast_mut(),
        iov_len: PAGE,
    })
}

#[test]
fn c7_every_name_of_a_write_is_the_write() {
    run("writes_worker");
}

fn writes_worker() {
    type Write = unsafe fn(c_int, *const c_void) -> ssize_t;
    // SAFETY: the caller gives SIZE bytes, and a descriptor whose position is 0.
    let ways: [(&str, Write); 12] = unsafe {
        [
            ("pwrite", |fd, data| libc::pwrite(fd, data, SIZE, 0)),
            ("pwrite64", |fd, data| libc::pwrite64(fd, data, SIZE, 0)),
            ("__pwrite64", |fd, data| __pwrite64(fd, data, SIZE, 0)),
            ("pwritev", |fd, data| {
                libc::pwritev(fd, parts(data).as_ptr(), 2, 0)
            }),
            ("pwritev64", |fd, data| {
                libc::pwritev64(fd, parts(data).as_ptr(), 2, 0)
            }),
            ("pwritev64 of one", |fd, data| {
                let second = libc::pwritev64(fd, parts(data)[1..].as_ptr(), 1, PAGE as i64);
                second + libc::pwritev64(fd, parts(data).as_ptr(), 1, 0)
            }),
            ("pwritev2", |fd, data| {
                libc::pwritev2(fd, parts(data).as_ptr(), 2, 0, 0)
            }),
            ("pwritev64v2", |fd, data| {
                libc::pwritev64v2(fd, parts(data).as_ptr(), 2, 0, 0)
            }),
            ("pwritev2 at its position", |fd, data| {
                libc::pwritev2(fd, parts(data).as_ptr(), 2, -1, 0)
            }),
            ("write", |fd, data| libc::write(fd, data, SIZE)),
            ("__write", |fd, data| __write(fd, data, SIZE)),
            ("writev", |fd, data| {
                libc::writev(fd, parts(data).as_ptr(), 2)
            }),
        ]
    };
    for (name, way) in ways {
        let fd = open(&path(&format!("{name}.ibd")), libc::O_RDWR);
        put(fd, 1, 0);
        assert_eq!((get(fd, 0), get(fd, 4096)), (Ok(1), Ok(1)), "hits");
        // SAFETY: the array has as many bytes.
        let answer = unsafe { way(fd, [2u8; SIZE].as_ptr().cast()) };
        assert_eq!(answer, SIZE as isize, "{name}");
        assert_eq!((get(fd, 0), get(fd, 4096)), (Ok(2), Ok(2)), "{name}");
    }
    // As the kernel counts: an append, and nothing.
    let fd = open(&path("append.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    let data = [3u8; SIZE];
    // SAFETY: the array has as many bytes.
    unsafe {
        let parts = parts(data.as_ptr().cast());
        let answer = libc::pwritev2(fd, parts.as_ptr(), 2, 0, libc::RWF_APPEND);
        assert_eq!(answer, SIZE as isize);
        assert_eq!(libc::pwritev2(fd, parts.as_ptr(), -1, 0, 0), -1);
        assert_eq!(libc::pwrite64(fd, data.as_ptr().cast(), 0, 0), 0);
        assert_eq!(libc::pwrite64(fd, ptr::null(), PAGE, 0), -1);
        assert_eq!(libc::pwrite64(fd, data.as_ptr().cast(), usize::MAX, 0), -1);
        // Pages that it does not touch stay.
        assert_eq!(get(fd, SIZE as i64), Ok(3));
        let hits = || snapshot().counter(Counter::Hits);
        let before = hits();
        assert_eq!(libc::pwritev2(fd, parts.as_ptr(), 2, 0, 0), SIZE as isize);
        assert_eq!((get(fd, SIZE as i64), hits() - before), (Ok(3), 1));
    }
    assert_eq!((get(fd, 0), get(fd, SIZE as i64)), (Ok(3), Ok(3)));
}

#[test]
fn c7_a_write_that_ends_short_brings_nothing_in() {
    run("short_worker");
}

fn short_worker() {
    let fd = open(&path("short.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    get(fd, 0).expect("a hit");
    // SAFETY: our own descriptor, plain data, and arrays with as many bytes.
    unsafe {
        assert_eq!(libc::ftruncate(fd, 0), 0);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut before: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut before);
        let mut limit = before;
        limit.rlim_cur = PAGE as u64;
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        let answer = libc::pwrite64(fd, [2u8; SIZE].as_ptr().cast(), SIZE, 0);
        assert_eq!(answer, PAGE as isize);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const before), 0);
        let mut data = [0u8; PAGE];
        let answer = libc::pread64(fd, data.as_mut_ptr().cast(), PAGE, PAGE as i64);
        assert_eq!(answer, 0, "the file has no such page");
    }
    assert_eq!(get(fd, 0), Ok(2));
}

#[test]
fn c4_every_name_of_a_read_is_the_read() {
    run("reads_worker");
}

fn reads_worker() {
    type Read = unsafe fn(c_int, *mut c_void) -> ssize_t;
    // Hits and bypasses as unsupported that each counts.
    // SAFETY: the caller gives SIZE bytes, and a descriptor whose position is 0.
    let ways: [(&str, u64, u64, Read); 13] = unsafe {
        [
            ("pread", 1, 0, |fd, data| libc::pread(fd, data, SIZE, 0)),
            ("pread64", 1, 0, |fd, data| libc::pread64(fd, data, SIZE, 0)),
            ("__pread64", 1, 0, |fd, data| __pread64(fd, data, SIZE, 0)),
            ("__pread_chk", 1, 0, |fd, data| {
                __pread_chk(fd, data, SIZE, 0, SIZE)
            }),
            ("__pread64_chk", 1, 0, |fd, data| {
                __pread64_chk(fd, data, SIZE, 0, SIZE)
            }),
            ("preadv", 1, 0, |fd, data| {
                libc::preadv(fd, parts(data).as_ptr(), 2, 0)
            }),
            ("preadv64", 1, 0, |fd, data| {
                libc::preadv64(fd, parts(data).as_ptr(), 2, 0)
            }),
            ("preadv2", 1, 0, |fd, data| {
                libc::preadv2(fd, parts(data).as_ptr(), 2, 0, libc::RWF_HIPRI)
            }),
            ("preadv2 at its position", 0, 0, |fd, data| {
                libc::preadv2(fd, parts(data).as_ptr(), 2, -1, 0)
            }),
            ("read", 0, 1, |fd, data| libc::read(fd, data, SIZE)),
            ("__read", 0, 1, |fd, data| __read(fd, data, SIZE)),
            ("__read_chk", 0, 1, |fd, data| {
                __read_chk(fd, data, SIZE, SIZE)
            }),
            ("readv", 0, 1, |fd, data| {
                libc::readv(fd, parts(data).as_ptr(), 2)
            }),
        ]
    };
    let counted = || {
        let seen = snapshot();
        let unsupported = seen.bypass(Reason::Unsupported);
        (seen.counter(Counter::Hits), unsupported)
    };
    for (name, hits, unsupported, way) in ways {
        let fd = open(&path(&format!("{name}.ibd")), libc::O_RDWR);
        put(fd, 5, 0);
        let before = counted();
        let mut data = [0u8; SIZE];
        // SAFETY: the array has as many bytes.
        let answer = unsafe { way(fd, data.as_mut_ptr().cast()) };
        assert_eq!((answer, data), (SIZE as isize, [5; SIZE]), "{name}");
        let after = counted();
        let more = (after.0 - before.0, after.1 - before.1);
        assert_eq!(more, (hits, unsupported), "{name}");
    }
    // A read of which a part is not there counts once, as what it is.
    let fd = open(&path("part.ibd"), libc::O_RDWR);
    put(fd, 5, 0);
    // SAFETY: the array has as many bytes.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, [6u8; PAGE].as_ptr(), PAGE, SIZE) };
    let before = (counted(), snapshot().counter(Counter::Misses));
    let mut data = [0u8; SIZE];
    // SAFETY: the array has as many bytes as its parts.
    let answer = unsafe {
        let parts = parts(data.as_mut_ptr().cast());
        libc::preadv(fd, parts.as_ptr(), 2, PAGE as i64)
    };
    assert_eq!(
        (answer, data[0], data[PAGE]),
        (SIZE as isize, 5, 6),
        "a page from the tier, one from the file"
    );
    let after = (counted(), snapshot().counter(Counter::Misses));
    assert_eq!(after, ((before.0.0, before.0.1 + 1), before.1));
    // What the kernel refuses, and the end of the file.
    let fd = open(&path("pread.ibd"), libc::O_RDWR);
    let mut data = [0u8; SIZE];
    let unaligned = || snapshot().bypass(Reason::Unaligned);
    let before = unaligned();
    // SAFETY: the array has as many bytes, also for each part.
    unsafe {
        let mut byte = parts(data.as_mut_ptr().cast())[0];
        byte.iov_len = 1;
        let many = [byte; 1025];
        assert_eq!(libc::preadv(fd, many.as_ptr(), 1025, 0), -1);
        let past = libc::pread64(fd, data.as_mut_ptr().cast(), SIZE, SIZE as i64);
        assert_eq!((past, unaligned()), (0, before));
    }
}

#[test]
fn c10_every_name_of_a_change_is_the_change() {
    run("changes_worker");
}

fn changes_worker() {
    type Change = unsafe fn(c_int, &str) -> c_long;
    // What the second of two pages holds afterwards: none, or a byte.
    // SAFETY: our own descriptor, and a name that ends in a zero byte.
    let ways: [(&str, Option<u8>, Change); 13] = unsafe {
        [
            ("ftruncate", None, |fd, _| libc::ftruncate(fd, 4096).into()),
            ("ftruncate64", None, |fd, _| {
                libc::ftruncate64(fd, 4096).into()
            }),
            ("truncate", None, |_, name| {
                libc::truncate(path(name).as_ptr(), 4096).into()
            }),
            ("truncate64", None, |_, name| {
                libc::truncate64(path(name).as_ptr(), 4096).into()
            }),
            ("truncate-without-descriptors", None, |_, name| {
                let file = path(name);
                without_descriptors(|| libc::truncate(file.as_ptr(), 4096)).into()
            }),
            ("fallocate", Some(0), |fd, _| {
                let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                libc::fallocate(fd, hole, 4096, 4096).into()
            }),
            ("fallocate64", Some(0), |fd, _| {
                let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                libc::fallocate64(fd, hole, 4096, 4096).into()
            }),
            ("posix_fallocate", Some(1), |fd, _| {
                libc::posix_fallocate(fd, 4096, 4096).into()
            }),
            ("posix_fallocate64", Some(1), |fd, _| {
                libc::posix_fallocate64(fd, 4096, 4096).into()
            }),
            ("sendfile", Some(2), |fd, _| {
                libc::sendfile(fd, twos(), ptr::null_mut(), SIZE) as c_long - SIZE as c_long
            }),
            ("sendfile64", Some(2), |fd, _| {
                libc::sendfile64(fd, twos(), ptr::null_mut(), SIZE) as c_long - SIZE as c_long
            }),
            ("copy_file_range", Some(2), |fd, _| {
                let (from, null) = (twos(), ptr::null_mut());
                libc::copy_file_range(from, null, fd, null, SIZE, 0) as c_long - SIZE as c_long
            }),
            ("fsync", Some(1), |fd, _| libc::fsync(fd).into()),
        ]
    };
    for (name, second, way) in ways {
        let file = format!("{name}.ibd");
        let fd = open(&path(&file), libc::O_RDWR);
        put(fd, 1, 0);
        put(fd, 4, SIZE as i64);
        let out = || snapshot().counter(Counter::Invalidations);
        assert_eq!((get(fd, 0), get(fd, 4096)), (Ok(1), Ok(1)), "hits");
        let before = out();
        // SAFETY: a descriptor and a name of the same file.
        assert_eq!(unsafe { way(fd, &file) }, 0, "{name}");
        assert_eq!(out() > before, name != "fsync", "{name}");
        let mut data = [9u8; PAGE];
        // SAFETY: the array has as many bytes.
        let answer = unsafe { libc::pread64(fd, data.as_mut_ptr().cast(), PAGE, 4096) };
        let found = (answer == PAGE as isize).then_some(data[0]);
        assert_eq!((answer >= 0, found), (true, second), "{name}");
        if name.contains("fallocate") {
            let before = snapshot().counter(Counter::Hits);
            assert_eq!(get(fd, SIZE as i64), Ok(4));
            let hits = snapshot().counter(Counter::Hits) - before;
            assert_eq!(hits, 1, "{name} touches the pages of its range only");
        }
    }
}

/// What a change answers while the process can open no file.
fn without_descriptors(change: impl FnOnce() -> c_int) -> c_int {
    let mut usual = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both structures are as the calls want them.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut usual), 0);
        let none = libc::rlimit {
            rlim_cur: 0,
            ..usual
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none), 0);
        let answer = change();
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const usual), 0);
        answer
    }
}

/// A file that is no data file, with two pages.
fn twos() -> c_int {
    let fd = open(&path("twos"), libc::O_RDWR);
    put(fd, 2, 0);
    fd
}

#[test]
fn c2_every_name_of_a_descriptors_call_is_the_call() {
    run("descriptors_worker");
}

fn descriptors_worker() {
    let fd = open(&path("a.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    // SAFETY: our own descriptors.
    unsafe {
        assert_eq!(__close(fd), 0);
        assert_eq!(get(fd, 0), Err(libc::EBADF));
        let other = open(&path("b.ibd"), libc::O_RDWR);
        assert_eq!(other, fd, "the lowest number is free again");
        put(other, 2, 0);
        let first = open(&path("a.ibd"), libc::O_RDWR);
        assert_eq!((get(other, 0), get(first, 0)), (Ok(2), Ok(1)));
        assert_eq!(__dup2(other, first), first);
        assert_eq!(get(first, 0), Ok(2));
        let hits = || snapshot().counter(Counter::Hits);
        for duplicate in [
            __fcntl(other, libc::F_DUPFD, 50),
            libc::fcntl(other, libc::F_DUPFD_CLOEXEC, 50),
            libc::dup(other),
            libc::dup3(other, 70, libc::O_CLOEXEC),
        ] {
            let before = hits();
            assert_eq!((get(duplicate, 0), hits() - before), (Ok(2), 1));
        }
        // A flag that is no O_APPEND: writes take out their own pages only.
        put(other, 3, SIZE as i64);
        assert_eq!(libc::fcntl(other, libc::F_SETFL, libc::O_NONBLOCK), 0);
        put(other, 4, 0);
        let before = hits();
        assert_eq!((get(other, SIZE as i64), hits() - before), (Ok(3), 1));
    }
    // A call that makes no descriptor makes none of the number that it answers with.
    // SAFETY: our own descriptors; the array has as many bytes.
    unsafe {
        let null = open(c"/dev/null", libc::O_RDWR);
        assert_eq!(libc::dup2(null, 0), 0);
        let fd = open(&path("b.ibd"), libc::O_RDWR);
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, 0), 0);
        let mut data = [0u8; PAGE];
        assert_eq!(libc::pread64(0, data.as_mut_ptr().cast(), PAGE, 0), 0);
    }
    for create in [libc::creat, libc::creat64] {
        // SAFETY: the path ends in a zero byte.
        let fd = unsafe { create(path("created.ibd").as_ptr(), 0o600) };
        put(fd, 3, 0);
        assert_eq!(get(fd, 0), Err(libc::EBADF), "it only writes");
    }
    let mut name = path("XXXXXX.ibd").into_bytes_with_nul();
    // SAFETY: the path ends in a zero byte; the file has the bytes that are mapped.
    unsafe {
        let fd = libc::mkstemps(name.as_mut_ptr().cast(), 4);
        put(fd, 3, 0);
        assert_eq!(get(fd, 0), Ok(3));
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap64(ptr::null_mut(), PAGE, both, libc::MAP_SHARED, fd, 0);
        map.cast::<u8>().write_volatile(4);
        assert_eq!(get(fd, 0), Ok(4), "it writes, too");
    }
}

#[test]
fn c13_paths_that_lead_nowhere_are_the_kernels_to_refuse() {
    run("nowhere_worker");
}

fn nowhere_worker() {
    let fd = open(&path("nowhere.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    type Call = unsafe fn(*const libc::c_char) -> bool;
    let file = path("nowhere.ibd");
    // SAFETY: the kernel refuses the address.
    let calls: [(&str, Call); 8] = unsafe {
        [
            ("unlink", |at| libc::unlink(at) == 0),
            ("remove", |at| libc::remove(at) == 0),
            ("rename", |at| libc::rename(at, c"/".as_ptr()) == 0),
            ("rename to", |at| libc::rename(c"/".as_ptr(), at) == 0),
            ("link", |at| libc::link(at, c"/".as_ptr()) == 0),
            ("truncate", |at| libc::truncate(at, 0) == 0),
            ("open", |at| {
                libc::open(at, libc::O_RDWR | libc::O_TRUNC) >= 0
            }),
            ("fopen", |at| !libc::fopen(at, c"w".as_ptr()).is_null()),
        ]
    };
    let refused = |(name, call): &(&str, Call)| {
        // SAFETY: as above, and errno is this thread's.
        let (done, errno) = unsafe { (call(8 as *const libc::c_char), *libc::__errno_location()) };
        assert!(!done && errno == libc::EFAULT, "{name}: {errno}");
    };
    calls.iter().for_each(refused);
    // SAFETY: the child does nothing but these calls; what it says it says by its end.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            calls.iter().for_each(refused);
            libc::_exit(0);
        }
        let mut status = 1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0);
        assert_eq!(get(fd, 0), Ok(1), "served");
        assert_eq!(libc::unlink(file.as_ptr()), 0);
    }
}
