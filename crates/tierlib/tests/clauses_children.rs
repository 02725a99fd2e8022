//! Clauses C19, C21 and C22 of docs/explanation/tier-contract.md: children of the owner, and other programs.

#[path = "common/aio.rs"]
mod aio;
mod common;

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{counter, get, open, path, preloaded, put, run, run_as};
use tiercache::Mode;

workers!(
    c21_ways_worker,
    c21_append_worker,
    c21_harmless_worker,
    c21_told_worker,
    c21_aio_worker,
    c22_alone_worker,
    c19_foreign_worker,
);

const PAGE: usize = 4096;

/// A data file of two pages of `byte`, both in the tier.
fn file(name: &str, byte: u8) -> c_int {
    let fd = open(&path(name), libc::O_RDWR);
    put(fd, byte, 0);
    assert_eq!((get(fd, 0), get(fd, PAGE as i64)), (Ok(byte), Ok(byte)));
    fd
}

/// Runs `work` in a child and waits for it.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child does what `work` does, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            libc::_exit(0);
        }
        let mut status = 1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0);
    }
}

type Way = fn(c_int);

/// Ways in which a child changes a data file that it inherited.
const WAYS: [(&str, Way); 10] = [
    // SAFETY: the file has these bytes.
    ("map", |fd| unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        map.cast::<u8>().write_volatile(9);
    }),
    // SAFETY: the mode ends in a zero byte, and the data has as many bytes.
    ("stream", |fd| unsafe {
        let stream = libc::fdopen(fd, c"r+".as_ptr());
        libc::fwrite([9u8; PAGE].as_ptr().cast(), PAGE, 1, stream);
        libc::fclose(stream);
    }),
    // SAFETY: as above. The stream only reads; its descriptor may write.
    ("number of a stream", |fd| unsafe {
        assert!(!libc::fdopen(fd, c"r".as_ptr()).is_null());
        libc::pwrite64(fd, [9u8; PAGE].as_ptr().cast(), PAGE, 0);
    }),
    // SAFETY: the request and its data live until it is done.
    ("aio", |fd| unsafe {
        let data = [9u8; PAGE];
        let mut request: libc::aiocb = std::mem::zeroed();
        request.aio_fildes = fd;
        request.aio_buf = data.as_ptr().cast_mut().cast::<c_void>();
        request.aio_nbytes = PAGE;
        libc::aio_write(&raw mut request);
        while libc::aio_error(&raw const request) == libc::EINPROGRESS {
            std::thread::yield_now();
        }
    }),
    // SAFETY: our own descriptors; the data has as many bytes.
    ("duplicate", |fd| unsafe {
        let twin = libc::dup(fd);
        libc::close(fd);
        libc::pwrite64(twin, [9u8; PAGE].as_ptr().cast(), PAGE, 0);
    }),
    // SAFETY: as above.
    ("dup2", |fd| unsafe {
        libc::dup2(fd, 1);
        libc::write(1, [9u8; PAGE].as_ptr().cast(), PAGE);
    }),
    // SAFETY: names and modes end in a zero byte, and the data has as many bytes.
    ("stream by name", |_| unsafe {
        let stream = libc::fopen(path("c21.ibd").as_ptr(), c"r+".as_ptr());
        libc::fwrite([9u8; PAGE].as_ptr().cast(), PAGE, 1, stream);
        libc::fclose(stream);
    }),
    // SAFETY: as above.
    ("truncation by name", |fd| unsafe {
        assert_eq!(libc::truncate(path("c21.ibd").as_ptr(), 0), 0);
        write_unseen(fd);
    }),
    // SAFETY: as above.
    ("creat", |fd| unsafe {
        assert!(libc::creat(path("c21.ibd").as_ptr(), 0o600) >= 0);
        write_unseen(fd);
    }),
    // SAFETY: as above.
    ("removal", |fd| unsafe {
        assert_eq!(libc::unlink(path("c21.ibd").as_ptr()), 0);
        write_unseen(fd);
    }),
];

/// By its number, which the library does not look at.
fn write_unseen(fd: c_int) {
    // SAFETY: the data has as many bytes.
    let answer = unsafe { libc::syscall(libc::SYS_pwrite64, fd, [9u8; PAGE].as_ptr(), PAGE, 0) };
    assert_eq!(answer, PAGE as i64);
}

#[test]
fn c21_a_child_that_changes_a_file_in_any_way_ends_the_caching() {
    for (name, _) in WAYS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = preloaded("c21_ways_worker", &folder);
        let text = run_as(command.env("UPSHIFT_TEST_WAY", name));
        assert!(counter(&text, "bypass_forked") > 0, "{name}: {text}");
    }
}

fn c21_ways_worker() {
    let chosen = std::env::var("UPSHIFT_TEST_WAY").expect("set by the test");
    let fd = file("c21.ibd", 1);
    let (_, way) = WAYS
        .iter()
        .find(|(name, _)| *name == chosen)
        .expect("a way");
    in_child(|| way(fd));
    assert_eq!(get(fd, 0), Ok(9), "{chosen}");
}

#[test]
fn c21_a_child_that_makes_a_descriptor_append_ends_the_caching() {
    let text = run("c21_append_worker");
    assert!(counter(&text, "bypass_forked") > 0, "{text}");
}

fn c21_append_worker() {
    let fd = file("c21a.ibd", 1);
    // SAFETY: our own descriptor. Parent and child share its flags.
    in_child(|| unsafe { assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND), 0) });
    put(fd, 2, 0);
    assert_eq!((get(fd, 0), get(fd, 2 * PAGE as i64)), (Ok(1), Ok(2)));
}

#[test]
fn c21_a_child_that_changes_other_files_ends_nothing() {
    let text = run("c21_harmless_worker");
    assert_eq!(counter(&text, "bypass_forked"), 0, "{text}");
    assert!(!text.contains("forked by the server"), "{text}");
}

fn c21_harmless_worker() {
    let fd = file("c21h.ibd", 1);
    let plain = path("plain");
    // The number of the data file becomes another file's; a file that no rule names is cut.
    in_child(|| {
        // SAFETY: our own descriptor and path.
        unsafe { libc::close(fd) };
        let other = open(&plain, libc::O_RDWR);
        assert_eq!(other, fd);
        put(other, 3, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::truncate(plain.as_ptr(), 0) }, 0);
    });
    // A sync changes nothing.
    // SAFETY: our own descriptor.
    in_child(|| unsafe { assert_eq!((libc::fsync(fd), libc::fdatasync(fd)), (0, 0)) });
    let before = common::snapshot().counter(tiercache::Counter::Hits);
    assert_eq!(get(fd, 0), Ok(1));
    assert_eq!(
        common::snapshot().counter(tiercache::Counter::Hits),
        before + 1
    );
}

#[test]
fn c21_a_tier_that_a_child_has_spoilt_says_that_it_is_off() {
    let text = run("c21_told_worker");
    assert_eq!(text.matches("upshift tier:").count(), 1, "{text}");
}

fn c21_told_worker() {
    let fd = file("c21t.ibd", 1);
    assert_eq!(common::snapshot().off, "");
    in_child(|| put(fd, 2, 0));
    let end = Instant::now() + Duration::from_secs(30);
    let off = loop {
        let seen = common::snapshot();
        if seen.mode == Some(Mode::PassThrough) {
            break seen.off;
        }
        assert!(Instant::now() < end, "{:?}", seen.mode);
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(off.contains("forked changed a data file"), "{off}");
    assert_eq!(get(fd, 0), Ok(2));
}

#[test]
fn c21_a_child_may_use_libaio_whatever_the_owners_threads_do() {
    let text = run("c21_aio_worker");
    assert_eq!(counter(&text, "bypass_forked"), 0, "{text}");
}

fn c21_aio_worker() {
    type Submit = unsafe extern "C" fn(usize, c_long, *mut *mut aio::Block) -> c_int;
    type Reap =
        unsafe extern "C" fn(usize, c_long, c_long, *mut aio::Event, *mut libc::timespec) -> c_int;
    let (fd, other) = (file("c21aio.ibd", 1), file("c21busy.ibd", 2));
    // Looked up before the fork, which may happen while another thread looks something up.
    let submit = aio::found::<Submit>(c"io_submit");
    let reap = aio::found::<Reap>(c"io_getevents");
    let destroy = aio::found::<unsafe extern "C" fn(usize) -> c_int>(c"io_destroy");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (context, mut data) = (aio::context(4), vec![2u8; PAGE]);
            let mut write = aio::block(aio::WRITE, other, data.as_mut_ptr(), PAGE, 0);
            // A child that hangs fails the other thread.
            let end = Instant::now() + Duration::from_secs(60);
            while !done.load(Ordering::Relaxed) && Instant::now() < end {
                // SAFETY: block and buffer live until the completion.
                assert_eq!(unsafe { aio::submit(context, &mut [&raw mut write]) }, 1);
                aio::reap(context);
            }
        });
        // So that there is always one in flight.
        let (waiting, mut data) = (aio::context(4), vec![2u8; PAGE]);
        let mut write = aio::block(aio::WRITE, other, data.as_mut_ptr(), PAGE, PAGE as u64);
        // SAFETY: block and buffer live until the completion.
        assert_eq!(unsafe { aio::submit(waiting, &mut [&raw mut write]) }, 1);
        for _ in 0..200 {
            let mut place = [0u8; PAGE];
            // SAFETY: the child makes system calls only; SIGALRM ends one that waits for ever. What it reads into is there.
            in_child(|| unsafe {
                libc::alarm(20);
                let (mut context, mut event) = (0usize, aio::Event::default());
                let null = std::ptr::null_mut();
                let made = libc::syscall(libc::SYS_io_setup, 4, &raw mut context);
                let mut read = aio::block(aio::READ, fd, place.as_mut_ptr(), PAGE, 0);
                let submitted = submit(context, 1, &mut &raw mut read);
                let reaped = reap(context, 1, 1, &raw mut event, null);
                let ended = destroy(context);
                let right = (made, submitted, reaped, ended) == (0, 1, 1, 0) && place[0] == 1;
                libc::_exit(i32::from(!right));
            });
        }
        aio::reap(waiting);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn c22_only_the_process_that_was_started_with_the_tier_opens_one() {
    let new_folder = || tempfile::tempdir().expect("a folder");
    let folder = new_folder();
    let text = run_as(&mut preloaded("c22_alone_worker", &folder));
    assert!(counter(&text, "hits") > 0, "nobody is named");
    assert!(text.contains("io_uring refused"), "{text}");
    let folder = new_folder();
    let mut without_page = preloaded("c22_alone_worker", &folder);
    let text = run_as(without_page.env_remove("UPSHIFT_TIER_STATUS"));
    assert!(
        text.contains("names no file for the statistics page"),
        "{text}"
    );
    for (owner, started) in [("1", None), ("systemd", Some("1"))] {
        let folder = new_folder();
        let mut other = preloaded("c22_alone_worker", &folder);
        other.env("UPSHIFT_TIER_OWNER", owner);
        if let Some(pid) = started {
            other.env("SYSTEMD_EXEC_PID", pid);
        }
        let text = run_as(&mut other);
        // No tier, so no counters, and nothing to say.
        assert!(
            !text.contains("upshift tier") && !text.contains("hits="),
            "{text}"
        );
    }
}

fn c22_alone_worker() {
    file("c22.ibd", 1);
    type Ring = unsafe extern "C" fn(u32, *mut c_void) -> c_int;
    // SAFETY: the library refuses it before it looks at anything.
    let answer = unsafe { aio::found::<Ring>(c"io_uring_setup")(1, std::ptr::null_mut()) };
    assert_eq!(answer, -libc::ENOSYS);
}

#[test]
fn c19_the_calls_of_32_bit_programs_are_refused_too() {
    run("c19_foreign_worker");
}

fn c19_foreign_worker() {
    file("c19.ibd", 1);
    #[cfg(target_arch = "x86_64")]
    for number in [248, 425] {
        // In a child: a kernel without 32-bit programs ends whoever makes such a call.
        // SAFETY: the child makes one call, of numbers, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let answer: i32;
                std::arch::asm!("push rbx", "xor ebx, ebx", "int 0x80", "pop rbx",
                    inlateout("eax") number => answer, in("ecx") 0, in("edx") 0);
                libc::_exit(i32::from(answer != -libc::ENOSYS));
            }
            let mut status = 1;
            libc::waitpid(child, &raw mut status, 0);
            let ended = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
            assert!(status == 0 || ended, "call {number}: {status}");
        }
    }
}
