//! `run --print-systemd` and `--dry-run`: what depends on the user and the moment is a warning, because neither is the server's.

mod common;

use std::os::unix::fs::{PermissionsExt, chown};

use common::{cache, text};

/// Exit code, stdout and stderr of `run` with these options.
fn run(options: &[&str]) -> (Option<i32>, String, String) {
    let done = cache(&["run", "--page-size", "64K"])
        .args(options)
        .args(["--", "sh", "-c", "printf start; echo ed"])
        .env("XDG_RUNTIME_DIR", std::env::temp_dir())
        .output()
        .expect("upshift-cache runs");
    assert!(!text(&done).contains("started"), "{}", text(&done));
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code(), part(&done.stdout), part(&done.stderr))
}

const UNIT: [&str; 3] = ["--print-systemd", "--library", "/bin/sh"];

/// Prints both ways; what is expected in a warning.
fn prints_with_a_warning(options: &[&str], said: &str) {
    for (more, first) in [
        (&UNIT[..], "[Service]"),
        (&["--dry-run"][..], "LD_PRELOAD="),
    ] {
        let (code, out, errors) = run(&[options, more].concat());
        assert_eq!(code, Some(0), "{more:?}: {errors}");
        assert!(out.contains(first) && !out.contains("WARNING"), "{out}");
        assert!(errors.starts_with("WARNING: "), "{errors}");
        assert!(errors.contains(said), "{errors}");
        // It would take the medium away from the server that has it.
        assert!(!errors.contains("chown"), "{errors}");
    }
}

#[test]
fn the_memory_that_is_free_now_is_not_that_of_the_servers_start() {
    let options = ["--size", "4T"];
    prints_with_a_warning(&options, "needs more memory than is available");
    let (code, out, errors) = run(&options);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{errors}");
}

#[test]
fn the_user_who_prints_is_not_the_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let medium = folder.path().join("tier");
    std::fs::write(&medium, []).expect("a file");
    std::fs::set_permissions(&medium, PermissionsExt::from_mode(0o600)).expect("a mode");
    if chown(&medium, Some(65534), None).is_err() {
        eprintln!("NOT RUN: only root gives a file to another user");
        return;
    }
    let option = format!("--medium=direct:{}", medium.display());
    let options = ["--size=1M", option.as_str()];
    prints_with_a_warning(&options, "another user owns it");
    let (code, out, errors) = run(&options);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.contains("chown 0"), "{errors}");
    // What no user may use is refused.
    std::fs::remove_file(&medium).expect("our file");
    std::os::unix::fs::symlink("/dev/null", &medium).expect("a link");
    for more in [&UNIT[..], &["--dry-run"]] {
        let (code, out, errors) = run(&[&options[..], more].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{errors}");
    }
}
