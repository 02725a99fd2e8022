//! The clauses of docs/explanation/tier-contract.md about files that are closed when the server stops.

mod common;

use std::process::Command;
use std::time::Duration;

use common::{counter, get, open, path, preloaded, put, run_as};

workers!(stop_worker, changed_worker, again_worker);

/// Longer than the tick of the kernel, by which times are as coarse.
const TICK: Duration = Duration::from_millis(30);

/// One worker after the other with the same tier, the first of which stops cleanly; what the second printed.
fn restarted(first: &str, medium: &str) -> String {
    let said = |worker: &str| {
        let name = format!("{first}-{medium}");
        let mut command = preloaded(worker, &name);
        let file =
            std::env::temp_dir().join(format!("tierlib-{name}-{}/medium", std::process::id()));
        command.env(
            "UPSHIFT_TIER_MEDIUM",
            format!("{medium}:{}", file.display()),
        );
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

fn stop_worker() {
    let fd = open(&path("x.ibd"), libc::O_RDWR);
    put(fd, 1, 0);
    assert_eq!(get(fd, 0), Ok(1));
    // SAFETY: our own descriptor.
    unsafe { assert_eq!((libc::fsync(fd), libc::close(fd)), (0, 0)) };
}

fn changed_worker() {
    stop_worker();
    std::thread::sleep(TICK);
    let mut other = Command::new("sh");
    other.args([
        "-c",
        r#"printf 'c%.0s' $(seq 8192) | dd of="$1" conv=notrunc status=none"#,
        "sh",
    ]);
    other.env_remove("LD_PRELOAD");
    other.arg(path("x.ibd").to_str().expect("UTF-8"));
    assert!(other.status().expect("sh runs").success());
}

fn again_worker() {
    let fd = open(&path("x.ibd"), libc::O_RDWR);
    eprintln!("page of {}", get(fd, 0).expect("a page"));
}
