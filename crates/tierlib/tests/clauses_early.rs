//! What comes before the library is ready (constructors of other libraries run before its own), and before the tier opens.

mod common;

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{counter, get, open, path, put, run};

workers!(early_worker, unseen_worker);

/// Which of the calls failed in the function that ran before all constructors.
static WRONG: [AtomicBool; CALLS.len()] = [const { AtomicBool::new(false) }; CALLS.len()];

type Call = fn() -> bool;

/// A number that is not open.
const CLOSED: c_int = 900;

const CALLS: [(&str, Call); 7] = [
    // SAFETY: the texts end in zero bytes.
    ("fopen", || unsafe {
        let stream = libc::fopen(c"/proc/self/status".as_ptr(), c"r".as_ptr());
        !stream.is_null() && libc::fgetc(stream) == c_int::from(b'N') && libc::fclose(stream) == 0
    }),
    // SAFETY: as above.
    ("fopen of nothing", || unsafe {
        libc::fopen(c"/no/such/file".as_ptr(), c"r".as_ptr()).is_null() && errno() == libc::ENOENT
    }),
    // SAFETY: as above.
    ("fdopen", || unsafe {
        let fd = libc::open64(c"/dev/zero".as_ptr(), libc::O_RDONLY);
        let stream = libc::fdopen(fd, c"r".as_ptr());
        !stream.is_null() && libc::fgetc(stream) == 0 && libc::fclose(stream) == 0
    }),
    // SAFETY: as above.
    ("freopen", || unsafe {
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
        !stream.is_null() && {
            let stream = libc::freopen(c"/dev/zero".as_ptr(), c"r".as_ptr(), stream);
            !stream.is_null() && libc::fgetc(stream) == 0 && libc::fclose(stream) == 0
        }
    }),
    // SAFETY: the template is writable and ends in a zero byte.
    ("mkstemp", || unsafe {
        let mut name = *b"/tmp/tierlib-early-XXXXXX\0";
        let fd = libc::mkstemp(name.as_mut_ptr().cast());
        fd >= 0 && libc::unlink(name.as_ptr().cast()) == 0 && libc::close(fd) == 0
    }),
    // SAFETY: the calls take numbers.
    ("dup2", || unsafe {
        libc::dup2(2, CLOSED) == CLOSED
            && libc::dup2(CLOSED, CLOSED) == CLOSED
            && libc::close(CLOSED) == 0
    }),
    // SAFETY: as above.
    ("dup2 of a number that is not open", || unsafe {
        libc::dup2(CLOSED, CLOSED) == -1 && errno() == libc::EBADF
    }),
];

/// errno of this thread.
fn errno() -> c_int {
    // SAFETY: the address is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Not even the C library's own constructor ran: there is no environment yet.
extern "C" fn before_all() {
    for (wrong, (_, call)) in WRONG.iter().zip(CALLS) {
        wrong.store(!call(), Ordering::Relaxed);
    }
}
#[used]
#[unsafe(link_section = ".preinit_array")]
static BEFORE_ALL: extern "C" fn() = before_all;

#[test]
fn c1_calls_before_the_library_is_ready_do_what_they_did() {
    run("early_worker");
}

fn early_worker() {
    for (wrong, (name, _)) in WRONG.iter().zip(CALLS) {
        assert!(!wrong.load(Ordering::Relaxed), "{name}");
    }
    // And the same afterwards; then a data file, to see that the library is there.
    for (name, call) in CALLS {
        assert!(call(), "{name}, later");
    }
    let fd = open(&path("early.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
}

#[test]
fn c17_ways_past_the_tier_from_before_it_opened_are_not_forgotten() {
    let text = run("unseen_worker");
    // Those of the file that has no such way.
    assert_eq!(counter(&text, "hits"), 1, "{text}");
}

/// A way to write to a data file that the library does not watch.
type Way = fn(&CStr, &CStr) -> c_int;

const WAYS: [(&str, Way); 4] = [
    // SAFETY: the texts end in zero bytes. The stream stays open.
    ("stream.ibd", |name, _| unsafe {
        let stream = libc::fopen(name.as_ptr(), c"w".as_ptr());
        assert!(!stream.is_null());
        libc::fileno(stream)
    }),
    // SAFETY: as above.
    ("renamed.ibd", |name, plain| unsafe {
        let fd = open(plain, libc::O_RDWR);
        assert_eq!(libc::rename(plain.as_ptr(), name.as_ptr()), 0);
        fd
    }),
    // SAFETY: as above.
    ("linked.ibd", |name, plain| unsafe {
        let fd = open(plain, libc::O_RDWR);
        assert_eq!(libc::link(plain.as_ptr(), name.as_ptr()), 0);
        fd
    }),
    // SAFETY: as above. By its number, the call is not seen.
    ("reopened.ibd", |name, _| unsafe {
        let (here, flags) = (libc::AT_FDCWD, libc::O_RDWR | libc::O_CREAT);
        assert!(libc::syscall(libc::SYS_openat, here, name.as_ptr(), flags, 0o600) >= 0);
        let stream = libc::fopen(name.as_ptr(), c"r".as_ptr());
        let stream = libc::freopen(std::ptr::null(), c"r+".as_ptr(), stream);
        assert!(!stream.is_null());
        libc::fileno(stream)
    }),
];

fn unseen_worker() {
    let ways = WAYS.map(|(name, way)| {
        let fd = way(&path(name), &path(&format!("{name}.plain")));
        (name, fd)
    });
    let watched = open(&path("watched.ibd"), libc::O_RDWR);
    put(watched, 1, 0);
    assert_eq!(get(watched, 0), Ok(1));
    for (name, unseen) in ways {
        put(unseen, 2, 0);
        let fd = open(&path(name), libc::O_RDWR);
        for byte in [2, 3] {
            put(unseen, byte, 0);
            assert_eq!((get(fd, 0), get(fd, 0)), (Ok(byte), Ok(byte)), "{name}");
        }
    }
}
