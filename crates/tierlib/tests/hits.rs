//! C4: what a hit costs in a program: no system call, no memory, but for the one in so many that is audited.

mod common;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::process::Command;

use common::{counter, get, open, path, preloaded, put, run_as};

workers!(no_memory_worker, no_call_worker, audit_worker);

const HITS: usize = 5000;

/// Pages of all sizes of reads, after they came in.
fn hit(fd: c_int, destination: &mut [u8; 8192], number: usize) {
    let size = [4096, 8192, 100][number % 3];
    // SAFETY: the destination has 8192 bytes.
    let answer = unsafe { libc::pread64(fd, destination.as_mut_ptr().cast(), size, 0) };
    assert_eq!(answer, size as isize);
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
}

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// In place of the C library's, for the preloaded library as well.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    // SAFETY: the caller's promise.
    unsafe { __libc_malloc(size) }
}

#[test]
fn c4_a_hit_takes_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = preloaded("no_memory_worker", &folder);
    let text = run_as(worker.env("UPSHIFT_TIER_AUDIT", "0"));
    assert!(counter(&text, "hits") >= HITS as u64, "{text}");
}

fn no_memory_worker() {
    let before = ALLOCATIONS.get();
    let fd = open(&path("memory.ibd"), libc::O_RDWR);
    assert!(
        ALLOCATIONS.get() > before,
        "what the library takes is seen: it opened the tier"
    );
    put(fd, 1, 0);
    let mut place = [0u8; 8192];
    hit(fd, &mut place, 1);
    let before = ALLOCATIONS.get();
    (0..HITS).for_each(|number| hit(fd, &mut place, number));
    assert_eq!(ALLOCATIONS.get(), before);
}

/// The mark of the trace: a call that nothing else makes.
const MARK: &str = "getpgid(";

fn mark() {
    // SAFETY: the call takes a number.
    unsafe { libc::getpgid(0) };
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn c4_a_hit_makes_no_system_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = preloaded("no_call_worker", &folder);
    worker.env("UPSHIFT_TIER_AUDIT", "0");
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).expect("a new folder");
    let mut command = Command::new("strace");
    // One file a thread: in a common file, another thread's line can cut a call into two lines.
    command
        .args(["-ff", "-qq", "-o"])
        .arg(traces.join("thread"));
    for (name, value) in worker.get_envs() {
        // strace itself must not be served.
        let mut pair = name.to_owned();
        pair.push("=");
        pair.push(value.expect("set, not removed"));
        command.arg("-E").arg(pair);
    }
    let text = run_as(command.arg(worker.get_program()));
    assert!(counter(&text, "hits") >= HITS as u64, "{text}");
    let own = std::fs::read_dir(&traces)
        .expect("the folder of the traces")
        .map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).expect("a trace"))
        .find(|calls| calls.contains(MARK))
        .expect("a thread with a mark");
    let own: Vec<&str> = own.lines().collect();
    let mut parts = own.split(|line| line.contains(MARK)).skip(1);
    assert_eq!(parts.next(), Some(&[][..]), "between the marks");
    assert!(parts.next().is_some(), "there are two");
}

fn no_call_worker() {
    let fd = open(&path("call.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    let mut place = [0u8; 8192];
    hit(fd, &mut place, 1);
    mark();
    (0..HITS).for_each(|number| hit(fd, &mut place, number));
    mark();
}

#[test]
fn c4_an_audit_finds_a_write_that_was_not_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = preloaded("audit_worker", &folder);
    let text = run_as(worker.env("UPSHIFT_TIER_AUDIT", "2"));
    assert_eq!(counter(&text, "audit_differences"), 1, "{text}");
    assert!(counter(&text, "audits") > 10, "{text}");
    let said = text.matches("upshift tier: the tier is off: the page at byte 0 of");
    assert_eq!(said.count(), 1, "{text}");
}

fn audit_worker() {
    let fd = open(&path("audit.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    (0..40).for_each(|_| assert_eq!(get(fd, 0), Ok(1)));
    // SAFETY: the array has as many bytes.
    let answer = unsafe { libc::syscall(libc::SYS_pwrite64, fd, [2u8; 4096].as_ptr(), 4096, 0) };
    assert_eq!(answer, 4096);
    let mut old = 0;
    while get(fd, 0) == Ok(1) {
        old += 1;
    }
    assert!(old <= 2, "{old} old pages");
    (0..40).for_each(|_| assert_eq!(get(fd, 0), Ok(2)));
}
