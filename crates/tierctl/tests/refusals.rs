//! What the commands refuse: exit code 1 or 2 with a hint, and nothing is started or touched.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
        (
            vec![
                "run",
                "--size",
                "1G",
                "--medium",
                "direct:/dev/null",
                "--format",
                "--print-systemd",
                "--library",
                "/bin/sh",
                "--",
                "sh",
            ],
            "--format once",
        ),
        (vec!["resize", "lots"], "size"),
        (vec!["resize", "0"], "size 0"),
        (vec!["mode", "sideways"], "mode"),
        (vec!["sync", "--wait-seconds=-1"], "--wait-seconds"),
        (vec!["sync", "--wait-seconds", "inf"], "--wait-seconds"),
        (vec!["clear", "--wait-seconds=1e18"], "--wait-seconds"),
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
            ["ERROR: ", "hint: ", said]
                .iter()
                .all(|word| text(&done).to_lowercase().contains(&word.to_lowercase())),
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
fn relative_paths_are_those_of_the_command_not_of_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder
        .path()
        .canonicalize()
        .expect("a folder")
        .display()
        .to_string();
    let line = |medium: &str| {
        let done = cache(&["run", "--size", "1M", "--dry-run", "--medium", medium])
            .args(["--status", "page", "--", "sh"])
            .current_dir(folder.path())
            .output()
            .expect("upshift-cache runs");
        assert!(done.status.success(), "{}", text(&done));
        text(&done)
    };
    for medium in ["file", "direct"] {
        let line = line(&format!("{medium}:tier"));
        for said in [
            format!("UPSHIFT_TIER_MEDIUM={medium}:{here}/tier "),
            format!("UPSHIFT_TIER_STATUS={here}/page "),
        ] {
            assert!(line.contains(&said), "{said}: {line}");
        }
    }
    assert!(line("memory-lz4").contains("UPSHIFT_TIER_MEDIUM=memory-lz4 "));
    assert!(line("file:/tmp/tier").contains("UPSHIFT_TIER_MEDIUM=file:/tmp/tier "));
}

#[test]
fn what_is_not_said_is_not_the_callers_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = cache(&["run", "--size", "1M", "--status"])
        .arg(folder.path().join("page"))
        .args(["--", "sh", "-c"])
        .arg("echo $UPSHIFT_TIER_FORMAT/$UPSHIFT_TIER_RULES")
        .envs([
            ("UPSHIFT_TIER_FORMAT", "on"),
            ("UPSHIFT_TIER_RULES", "skip=*.ibd"),
        ])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(text(&done), "off/\n");
}

#[test]
fn the_line_of_a_dry_run_makes_the_folder_of_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = cache(&["run", "--size", "1M", "--dry-run", "--"])
        .args(["sh", "-c", "dirname \"$UPSHIFT_TIER_STATUS\""])
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .expect("upshift-cache runs");
    assert!(done.status.success(), "{}", text(&done));
    let line = text(&done);
    let said = Command::new("sh").args(["-c", &line]).output().expect("sh");
    let made = PathBuf::from(text(&said).trim());
    let about = made
        .symlink_metadata()
        .unwrap_or_else(|error| panic!("{error}: {line}"));
    assert!(about.is_dir() && about.mode() & 0o777 == 0o700, "{line}");
}

#[test]
fn a_unit_preloads_only_what_root_alone_can_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libupshift_tier.so");
    std::fs::copy("/bin/sh", &library).expect("a file");
    let print = |library: &str| {
        let done = cache(&[
            "run",
            "--size",
            "1G",
            "--print-systemd",
            "--library",
            library,
        ])
        .args(["--rule", "skip=a b%", "--", "sh"])
        .output()
        .expect("upshift-cache runs");
        (done.status.code(), text(&done))
    };
    let built = common::library();
    for (path, said) in [
        (&built, "must not preload it"),
        (&library, "must not preload it"),
    ] {
        if path == &library {
            // Anybody could put another library in its place.
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777))
                .expect("a mode");
        }
        let (code, text) = print(&path.display().to_string());
        assert_eq!(code, Some(2), "{text}");
        assert!(
            text.contains(said) && text.contains("sudo install -m 644"),
            "{text}"
        );
    }
    let (code, text) = print("/bin/sh");
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "[Service]",
        "Environment=\"UPSHIFT_TIER_SIZE=1G\"",
        "Environment=\"UPSHIFT_TIER_OWNER=systemd\"",
        "Environment=\"UPSHIFT_TIER_RULES=skip=a b%%\"",
        "RuntimeDirectory=upshift-mysql",
        "Environment=\"UPSHIFT_TIER_STATUS=/run/upshift-mysql/tier.status\"",
    ] {
        assert!(text.lines().any(|each| each == line), "{line}: {text}");
    }
    assert!(text.contains("Environment=\"LD_PRELOAD=/"), "{text}");
    assert!(!text.contains("UPSHIFT_TIER_FORMAT"), "{text}");
    // They hold for every folder of the unit: others would no longer reach the server's socket.
    let others = ["RuntimeDirectoryMode", "RuntimeDirectoryPreserve"];
    assert!(!others.iter().any(|name| text.contains(name)), "{text}");
}

#[test]
fn old_names_and_options_that_exclude_each_other_are_refused() {
    for arguments in [
        vec!["flush"],
        vec!["drop"],
        vec!["check"],
        vec!["run", "--size", "1M", "--read-ahead=on", "--", "sh"],
        // Two servers.
        vec!["stat", "--pid", "1", "--status", "/no/such/page"],
    ] {
        let done = cache(&arguments).output().expect("upshift-cache runs");
        assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    }
    let line = |switches: &[&str]| {
        let done = cache(&["run", "--size", "1M", "--dry-run"])
            .args(switches)
            .args(["--", "sh"])
            .output();
        text(&done.expect("upshift-cache runs"))
    };
    assert!(
        line(&["--read-ahead", "--audit", "50"])
            .contains("UPSHIFT_TIER_READ_AHEAD=on UPSHIFT_TIER_AUDIT=50")
    );
    assert!(line(&["--read-ahead", "--no-read-ahead"]).contains("UPSHIFT_TIER_READ_AHEAD=off"));
}

/// The loader ignores it, and the server would run without a tier.
#[test]
fn a_library_that_the_loader_cannot_preload_is_refused() {
    let folder = tempfile::Builder::new()
        .prefix("a path:of parts")
        .tempdir()
        .expect("a folder");
    let library = folder.path().join("libupshift_tier.so");
    let run = || {
        cache(&["run", "--size", "1M", "--library"])
            .arg(&library)
            .args(["--", "sh", "-c", "echo started"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .output()
            .expect("upshift-cache runs")
    };
    let missing = run();
    std::fs::copy("/bin/sh", &library).expect("a file");
    for (done, said) in [
        (
            missing,
            format!("there is no library {}", library.display()),
        ),
        (run(), "takes spaces and colons".into()),
    ] {
        let text = text(&done);
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert!(text.contains(&said) && !text.contains("started"), "{text}");
    }
}

#[test]
fn no_server_is_a_failure_with_a_hint() {
    let done = cache(&["stat", "--pid", "1"])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("hint: "), "{}", text(&done));
}

#[test]
fn what_this_user_may_not_write_or_run_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = [
        ("readable", 0o400),
        ("closed", 0o000),
        ("mysqld", 0o600),
        ("fast", 0o500),
    ];
    std::fs::create_dir(folder.path().join("fast")).expect("a folder");
    for (name, mode) in own {
        let path = folder.path().join(name);
        if !path.is_dir() {
            std::fs::write(&path, [0; 8192]).expect("a file");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |medium: &str| ["run", "--size=1M", medium, "--", "sh"].map(str::to_owned);
    let no_server = ["run", "--size=1M", "--", &path("mysqld")].map(str::to_owned);
    for (arguments, exit_code, said) in [
        (
            &run(&format!("--medium=file:{}", path("readable")))[..],
            2,
            "denied",
        ),
        (
            &run(&format!("--medium=direct:{}", path("fast/new"))),
            2,
            "denied",
        ),
        (&no_server, 2, "no server"),
        (
            &["stat".into(), "--status".into(), path("closed")],
            1,
            "denied",
        ),
        (
            &["clear".into(), "--status".into(), path("closed")],
            1,
            "denied",
        ),
        (
            &["export".into(), "--status".into(), path("readable")],
            1,
            "readable",
        ),
    ] {
        let done = without_the_rights_of_root(arguments);
        let text = text(&done);
        assert_eq!(done.status.code(), Some(exit_code), "{arguments:?}: {text}");
        assert!(
            text.contains("ERROR: ") && text.contains("hint: ") && text.contains(said),
            "{arguments:?}: {text}"
        );
    }
    assert_eq!(
        std::fs::read_dir(folder.path().join("fast"))
            .expect("the folder")
            .count(),
        0
    );
}

#[test]
fn a_folder_that_is_not_innodbs_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = folder.path().join("mysqld");
    std::fs::copy("/bin/sh", &server).expect("a program");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let done = cache(&["run", "--size", "1M", "--"])
        .arg(&server)
        .args(["--no-defaults", &format!("--datadir={}", data.display())])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    assert!(
        text(&done).contains("not an InnoDB directory") && text(&done).contains("hint: "),
        "{}",
        text(&done)
    );
    assert_eq!(std::fs::read_dir(&data).expect("the folder").count(), 0);
}

/// The tier takes none of them, and the server would run without it.
#[test]
fn a_mediums_file_that_others_may_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for (name, mode) in [("own", 0o600), ("open", 0o644), ("twice", 0o600)] {
        std::fs::write(path(name), []).expect("a file");
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).expect("a mode");
    }
    std::fs::hard_link(path("twice"), path("again")).expect("a link");
    std::os::unix::fs::symlink(path("own"), path("link")).expect("a link");
    std::os::unix::fs::symlink(path("nothing"), path("dangling")).expect("a link");
    for (name, exit_code, said) in [
        ("own", 0, "LD_PRELOAD="),
        ("open", 2, "others may use it"),
        ("twice", 2, "second name"),
        ("link", 2, "symbolic link"),
        ("dangling", 2, "symbolic link"),
    ] {
        let done = cache(&["run", "--size", "1M", "--dry-run", "--medium"])
            .arg(format!("file:{}", path(name).display()))
            .args(["--", "sh"])
            .output()
            .expect("upshift-cache runs");
        let text = text(&done);
        assert_eq!(done.status.code(), Some(exit_code), "{name}: {text}");
        assert!(text.contains(said), "{name}: {text}");
    }
}

/// The command for a service is printed by somebody who may not look into its data.
#[test]
fn of_data_that_this_user_may_not_see_nothing_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = folder.path().join("mysqld");
    std::fs::copy("/bin/sh", &server).expect("a program");
    let data = folder.path().join("data");
    std::fs::create_dir_all(data.join("shop")).expect("a folder");
    std::fs::write(data.join("ibdata1"), [0; 4096]).expect("a file");
    let run = [
        "run",
        "--size=1G",
        "--dry-run",
        "--",
        &server.display().to_string(),
        "--no-defaults",
        &format!("--datadir={}", data.display()),
    ]
    .map(str::to_owned);
    for (closed, mode, said) in [
        (&data, 0o755, true),
        (&data.join("shop"), 0o000, false),
        (&data, 0o000, false),
    ] {
        std::fs::set_permissions(closed, PermissionsExt::from_mode(mode)).expect("a mode");
        let done = without_the_rights_of_root(&run);
        let text = text(&done);
        assert_eq!(done.status.code(), Some(0), "{text}");
        assert!(text.contains("LD_PRELOAD="), "{text}");
        assert_eq!(text.contains("holds all data"), said, "{text}");
    }
    for opened in [&data, &data.join("shop")] {
        std::fs::set_permissions(opened, PermissionsExt::from_mode(0o755)).expect("a mode");
    }
}

/// Root may write whatever the mode says, unless these capabilities are gone.
fn without_the_rights_of_root(arguments: &[String]) -> Output {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let command = cache(&arguments);
    let is_root = Path::new("/proc/self").metadata().expect("Linux").uid() == 0;
    let mut through = Command::new("env");
    if is_root {
        through.args(["setpriv", "--bounding-set=-dac_override,-dac_read_search"]);
    }
    through.arg(command.get_program()).args(command.get_args());
    through.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    through.output().expect("upshift-cache runs")
}
