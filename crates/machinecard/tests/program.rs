//! The program as it is run: all keys of its JSON, and what it refuses.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn card(folder: &Path, seconds: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_upshift-card"))
        .args(["--seconds", seconds, "--folder"])
        .arg(folder)
        .output()
        .expect("the program starts")
}

fn refused(done: &Output, code: i32, said: &str) {
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{error}");
    assert!(error.contains(said) && error.contains("hint: "), "{error}");
    assert!(done.stdout.is_empty());
}

#[test]
fn a_card_has_every_key_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = card(folder.path(), "5");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0
    );
    let found: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(found["schema_version"], 1);
    let figures = |key: &str| {
        let list = found[key].as_array().unwrap_or_else(|| panic!("{key}"));
        assert!(
            list.iter().all(|each| each.as_f64() >= Some(0.0)),
            "{key}: {list:?}"
        );
        list.len()
    };
    for key in [
        "clock_ghz",
        "system_call_ns",
        "same_cpu_round_trip_us",
        "context_switch_us",
    ] {
        assert_eq!(figures(key), 5, "{key}");
    }
    for key in [
        "fsync_us_p50",
        "fsync_us_p99",
        "fdatasync_us_p50",
        "fdatasync_us_p99",
    ] {
        assert_eq!(figures(key), 5, "{key}");
    }
    let direct = found["direct_io"].as_bool().expect("direct_io");
    for key in ["read_us_p50", "read_us_p99"] {
        assert_eq!(figures(key), if direct { 5 } else { 0 }, "{key}");
    }
    let cpus = found["cpus"].as_array().expect("cpus").len();
    assert_eq!(
        figures("two_cpus_round_trip_us"),
        if cpus > 1 { 5 } else { 0 }
    );
    let loads = found["loads"].as_array().expect("loads");
    // On a busy machine no time may be left for them.
    let left_out = found["notes"].to_string().contains("no time was left");
    assert!(loads.len() == 16 || left_out, "{loads:?}");
    for each in loads {
        assert_eq!(each["load_ns"].as_array().map(Vec::len), Some(5), "{each}");
        assert!(each["huge_bytes"].is_u64() && each["footprint_bytes"].is_u64());
    }
    let exchanges = found["exchanges"].as_array().expect("exchanges");
    assert_eq!(
        exchanges.len(),
        if cfg!(target_arch = "x86_64") { 5 } else { 0 }
    );
    for each in exchanges {
        let taken = each["exchange_ns"].as_array().expect("exchange_ns");
        assert!(
            taken.len() == 5 && taken.iter().all(|ns| ns.as_f64() > Some(0.0)),
            "{each}"
        );
        assert!(each["code_bytes"].is_u64());
    }
    for each in found["calls"].as_array().expect("calls") {
        assert_eq!(each["call_ns"].as_array().map(Vec::len), Some(5), "{each}");
    }
    for key in [
        "budget_s",
        "took_s",
        "threads_per_core",
        "numa_nodes",
        "caches",
        "transparent_huge_pages",
        "idle_poll_ns",
        "product",
        "instruction_counter",
        "instruction_counter_refusal",
        "huge_page_bytes",
        "folder",
        "file_system",
        "file_bytes",
        "reads",
        "fsyncs",
        "fdatasyncs",
        "steal_share",
        "other_cpu_share",
        "notes",
    ] {
        assert!(found.get(key).is_some(), "{key}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    refused(
        &card(Path::new("/no/such/folder"), "5"),
        2,
        "/no/such/folder is not a folder",
    );
    refused(
        &card(Path::new("/dev/null"), "5"),
        2,
        "/dev/null is not a folder",
    );
    refused(
        &card(Path::new("/tmp"), "1"),
        2,
        "from 5 to 600 seconds, not 1",
    );
    refused(&card(Path::new("/proc"), "5"), 1, "/proc");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500))
        .expect("closed");
    let mut through = Command::new("env");
    // SAFETY: the call takes nothing and touches no memory of ours.
    if unsafe { libc::geteuid() } == 0 {
        // Root may write whatever the mode says, unless these capabilities are gone.
        through.args(["setpriv", "--bounding-set=-dac_override,-dac_read_search"]);
    }
    through.args([env!("CARGO_BIN_EXE_upshift-card"), "--seconds", "5"]);
    let done = through.arg("--folder").arg(folder.path()).output();
    refused(
        &done.expect("the program starts"),
        1,
        "cannot be written to",
    );
}
