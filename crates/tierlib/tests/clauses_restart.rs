//! The clauses of docs/explanation/tier-contract.md about files that are closed when the server stops.

mod common;

use std::time::Duration;

use common::{counter, get, open, overwrite, path, preloaded_on, put, run_as, snapshot};
use tiercache::Counter;

workers!(
    stop_worker,
    changed_worker,
    renamed_worker,
    renamed_changed_worker,
    again_worker,
);

/// Longer than the tick of the kernel, by which times are as coarse.
const TICK: Duration = Duration::from_millis(30);

/// One worker after the other with the same tier, the first of which stops cleanly; what the second printed.
fn restarted(first: &str, medium: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |worker: &str| {
        let mut command = preloaded_on(medium, worker, &folder);
        // It would correct a wrong page before the worker sees it.
        run_as(command.env("UPSHIFT_TIER_AUDIT", "0"))
    };
    let text = said(first);
    assert!(counter(&text, "hits") > 0, "{text}");
    said("again_worker")
}

#[test]
fn c2_a_stop_keeps_the_files_that_were_closed_right_after_a_write() {
    for medium in ["file", "direct"] {
        let text = restarted("stop_worker", medium);
        assert!(text.contains("page of 1"), "{text}");
        assert_eq!(counter(&text, "warm_verified"), 1, "{text}");
    }
}

#[test]
fn c2_a_stop_keeps_no_file_that_was_changed_since_its_last_close() {
    for medium in ["file", "direct"] {
        let text = restarted("changed_worker", medium);
        assert!(text.contains("page of 99"), "{text}");
        assert_eq!(counter(&text, "warm_verified"), 0, "{text}");
    }
}

#[test]
fn c14_a_file_that_is_renamed_while_it_is_closed_keeps_its_pages() {
    let text = restarted("renamed_worker", "file");
    assert!(text.contains("page of 1"), "{text}");
    assert_eq!(counter(&text, "warm_verified"), 1, "{text}");
}

#[test]
fn c14_a_rename_hides_no_change_from_outside() {
    let text = restarted("renamed_changed_worker", "file");
    assert!(text.contains("page of 99"), "{text}");
    assert_eq!(counter(&text, "warm_verified"), 0, "{text}");
}

fn write_and_close(name: &str, wait: Duration) {
    let fd = open(&path(name), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    std::thread::sleep(wait);
    // SAFETY: our own descriptor.
    unsafe { assert_eq!((libc::fsync(fd), libc::close(fd)), (0, 0)) };
}

fn stop_worker() {
    write_and_close("x.ibd", Duration::ZERO);
}

fn rename(old: &str, new: &str) {
    // SAFETY: the paths end in zero bytes.
    unsafe { assert_eq!(libc::rename(path(old).as_ptr(), path(new).as_ptr()), 0) };
}

fn renamed_worker() {
    write_and_close("#sql-ib1.ibd", TICK);
    rename("#sql-ib1.ibd", "b.ibd");
    let hits = || snapshot().counter(Counter::Hits);
    let (before, fd) = (hits(), open(&path("b.ibd"), libc::O_RDWR));
    assert_eq!((get(fd, 0), hits() - before), (Ok(1), 1));
    // SAFETY: our own descriptor.
    unsafe { assert_eq!(libc::close(fd), 0) };
    rename("b.ibd", "x.ibd");
}

fn renamed_changed_worker() {
    write_and_close("a.ibd", TICK);
    overwrite("a.ibd");
    rename("a.ibd", "x.ibd");
}

fn changed_worker() {
    stop_worker();
    std::thread::sleep(TICK);
    overwrite("x.ibd");
}

fn again_worker() {
    let fd = open(&path("x.ibd"), libc::O_RDWR);
    eprintln!("page of {}", get(fd, 0).expect("a page"));
}
