//! Constructors of other libraries run before this library's own: for them, each call does what it did.

mod common;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{get, open, path, put, run};

workers!(early_worker);

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
