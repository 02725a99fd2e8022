//! A clean stop while other threads still read and write: what the next start finds in the tier is what the file has.

mod common;

use std::ffi::c_int;
use std::time::Duration;

use common::{Numbers, counter, get, open, path, preloaded_on, run_as};

workers!(load_worker, look_worker);

const PAGE: i64 = 4096;
const PAGES: u64 = 64;
const ROUNDS: u64 = 6;

#[test]
fn a_stop_under_load_leaves_nothing_stale() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut warm = 0;
    for round in 0..ROUNDS {
        let said = |worker| {
            let mut command = preloaded_on("file", worker, &folder);
            run_as(command.env("UPSHIFT_TEST_SEED", round.to_string()))
        };
        let text = said("load_worker");
        assert!(counter(&text, "hits") > 100, "{text}");
        warm += counter(&said("look_worker"), "warm_verified");
    }
    assert!(warm > 0, "nothing was taken back: nothing is shown");
}

fn file() -> c_int {
    open(&path("t.ibd"), libc::O_RDWR)
}

/// Syncs after which the writer of every other round is done; the readers go on.
const SYNCS: u64 = 20;

/// Returns while its threads go on: the process ends under them.
fn load_worker() {
    let seed: u64 = std::env::var("UPSHIFT_TEST_SEED")
        .expect("set by the test")
        .parse()
        .expect("a number");
    let fd = file();
    let ends = seed % 2 == 1;
    let writer = std::thread::spawn(move || {
        let mut numbers = Numbers(seed * 3);
        let mut syncs = 0;
        while !ends || syncs < SYNCS {
            let offset = numbers.below(PAGES) as i64 * PAGE;
            let data = [numbers.next() as u8; PAGE as usize];
            // SAFETY: data has as many bytes.
            unsafe { libc::pwrite64(fd, data.as_ptr().cast(), PAGE as usize, offset) };
            if numbers.below(50) == 0 {
                // SAFETY: our own descriptor.
                unsafe { libc::fdatasync(fd) };
                syncs += 1;
            }
        }
    });
    for thread in 1..3u64 {
        std::thread::spawn(move || {
            let mut numbers = Numbers(seed * 3 + thread);
            loop {
                let offset = numbers.below(PAGES) as i64 * PAGE;
                let mut data = [0u8; PAGE as usize];
                // SAFETY: data has as many bytes.
                unsafe { libc::pread64(fd, data.as_mut_ptr().cast(), PAGE as usize, offset) };
            }
        });
    }
    if ends {
        writer.join().expect("the writer");
    }
    std::thread::sleep(Duration::from_millis(300));
}

fn look_worker() {
    let fd = file();
    for page in 0..PAGES {
        let offset = page as i64 * PAGE;
        let mut there = [0u8; PAGE as usize];
        // SAFETY: the destination has as many bytes. By number, the call goes past the library.
        let read =
            unsafe { libc::syscall(libc::SYS_pread64, fd, there.as_mut_ptr(), PAGE, offset) };
        if read == PAGE {
            assert_eq!(get(fd, offset), Ok(there[0]), "page {page}");
        }
    }
}
