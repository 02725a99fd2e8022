//! What the commands refuse: exit code 1 or 2 with a hint, and nothing is started or touched.

mod common;

use std::process::Command;

use common::{cache, text};

#[test]
fn what_cannot_be_meant_is_refused_before_a_server_starts() {
    for (arguments, said) in [
        (vec!["run", "--size", "0", "--", "sh"], "size"),
        (vec!["run", "--size", "9999999G", "--", "sh"], "size"),
        (
            vec![
                "run",
                "--size",
                "1G",
                "--mode",
                "write-sideways",
                "--",
                "sh",
            ],
            "mode",
        ),
        (
            vec!["run", "--size", "1G", "--medium", "tape", "--", "sh"],
            "medium",
        ),
        (
            vec!["run", "--size", "1G", "--", "/no/such/mysqld"],
            "no server",
        ),
        (vec!["resize", "lots"], "size"),
        (vec!["mode", "sideways"], "mode"),
        (vec!["bench", "--dir", "/no/such/folder"], "not a folder"),
        (vec!["bench", "--dir", "/etc"], "not an innodb directory"),
        (
            vec![
                "run",
                "--size",
                "1M",
                "--medium",
                "file:/no/such/x",
                "--",
                "sh",
            ],
            "medium",
        ),
        (
            vec![
                "run",
                "--size",
                "900T",
                "--page-size",
                "64K",
                "--medium",
                "file:/tmp/x",
                "--",
                "sh",
            ],
            "size",
        ),
    ] {
        let done = cache(&arguments)
            .env("UPSHIFT_TIER_LIBRARY", "/bin/sh")
            .env("XDG_RUNTIME_DIR", std::env::temp_dir())
            .output()
            .expect("upshift-cache runs");
        assert_eq!(
            done.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&done)
        );
        assert!(
            text(&done).contains("ERROR: ") && text(&done).to_lowercase().contains(said),
            "{arguments:?}: {}",
            text(&done)
        );
    }
}

#[test]
fn a_dry_run_prints_a_line_for_a_shell() {
    let done = cache(&["run", "--size", "1M", "--dry-run", "--status", "/tmp/a b"])
        .args(["--", "sh", "-c", "echo 'said '$UPSHIFT_TIER_STATUS"])
        .output()
        .expect("upshift-cache runs");
    assert!(done.status.success(), "{}", text(&done));
    let line = text(&done);
    let said = Command::new("sh").args(["-c", &line]).output().expect("sh");
    assert_eq!(text(&said).trim(), "said /tmp/a b", "{line}");
}

#[test]
fn no_server_is_a_failure_with_a_hint() {
    let done = cache(&["stat", "--pid", "1"])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("hint: "), "{}", text(&done));
}
