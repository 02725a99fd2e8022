//! `audit` and `bench` with the real strace and fio.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{cache, text};
use serde_json::Value;
use tempfile::TempDir;

/// Writes a data file, and reads it by call number, which the library lets through unseen.
const READER: &str = "
import ctypes, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
number = {'x86_64': 17, 'aarch64': 67}[os.uname().machine]
place = ctypes.create_string_buffer(16384)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    os.pwrite(fd, bytes(16384), 32768)
    ctypes.CDLL(None).syscall(number, fd, place, 16384, ctypes.c_long(16384))
    time.sleep(0.02)
";

/// The interpreter itself: `python3` on PATH may be a script that finds it.
fn python() -> String {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("python3 is installed");
    String::from_utf8_lossy(&asked.stdout).trim().to_owned()
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("reader.py"), READER).expect("a file");
        std::fs::write(folder.path().join("x.ibd"), vec![1; 1 << 20]).expect("a file");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The reader under the tier, started through `first`.
    fn reader(&self, first: &[&str], arguments: &[&str]) -> Command {
        let own = cache(&[]);
        let mut words: Vec<&str> = first.to_vec();
        let (program, status) = (
            own.get_program().to_str().expect("text"),
            self.path("status"),
        );
        let python = python();
        words.extend([
            program, "run", "--size", "16M", "--status", &status, "--", &python,
        ]);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args([self.path("reader.py"), self.path("x.ibd")])
            .args(arguments);
        for (name, value) in own.get_envs() {
            command.env(name, value.expect("set"));
        }
        command
    }
}

fn json(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(done)))
}

#[test]
#[ignore = "needs strace and python3: run by ./upshift test"]
fn a_call_that_the_library_does_not_see_is_found() {
    let folder = Folder::new();
    let status = folder.path("status");
    let mut reader = folder
        .reader(&[], &["60"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the reader starts");
    let until = Instant::now() + Duration::from_secs(30);
    while !cache(&["stat", "--status", &status])
        .output()
        .expect("stat")
        .status
        .success()
    {
        assert!(Instant::now() < until, "the reader opens no tier");
        std::thread::sleep(Duration::from_millis(50));
    }
    let checked = cache(&["audit", "--json", "--seconds", "2", "--status", &status])
        .output()
        .expect("audit runs");
    let found = json(&checked);
    assert_eq!(checked.status.code(), Some(1), "{found}");
    assert!(found["escaped_total"].as_u64() > Some(0), "{found}");
    let first = &found["escaped"][0];
    assert_eq!(
        (&first["call"], &first["offset_bytes"]),
        (&"pread64".into(), &16384.into())
    );
    assert!(
        first["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("x.ibd")),
        "{found}"
    );
    assert!(
        found["calls_through_tier"]["pwrite64"].as_u64() > Some(0),
        "{found}"
    );

    // Another process with the file open shows without a trace.
    let held = std::fs::File::open(Path::new(&folder.path("x.ibd"))).expect("open");
    let looked = cache(&["audit", "--json", "--seconds", "0", "--status", &status])
        .output()
        .expect("audit runs");
    std::mem::drop(held);
    let found = json(&looked);
    assert_eq!(found["findings"][0]["kind"], "open_elsewhere", "{found}");
    assert!(reader.try_wait().expect("a child").is_none());
    reader.kill().expect("it runs");
    reader.wait().expect("the reader ends");
}

#[test]
#[ignore = "needs fio: run by ./upshift test"]
fn the_bench_measures_warm_data_and_leaves_nothing() {
    let folder = Folder::new();
    let (disk, plot) = (folder.path("disk"), folder.path("plot.svg"));
    std::fs::create_dir(&disk).expect("a folder");
    let done = cache(&["bench", "--dir", &disk, "--plot", &plot, "--json"])
        .args(["--sizes", "4K,64K", "--file-size", "16M", "--seconds", "1"])
        .args(["--medium", "memory,memory-lz4"])
        .output()
        .expect("bench runs");
    assert!(done.status.success(), "{}", text(&done));
    let said = json(&done);
    assert_eq!(said["schema_version"], 1);
    let rows = said["rows"].as_array().expect("rows");
    let of = |medium: &str| {
        rows.iter()
            .filter(|row| row["medium"] == medium)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("none").len(), of("memory").len(), of("memory-lz4").len()),
        (2, 2, 4)
    );
    for row in rows {
        for figure in [
            "iops",
            "bandwidth_bytes_per_s",
            "latency_us_p50",
            "latency_us_p99",
            "latency_us_mean",
        ] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
        let warm = row["hit_ratio"].as_f64().is_none_or(|ratio| ratio >= 0.99);
        assert!(warm && row["cached"] == row["hit_ratio"].is_f64(), "{row}");
    }
    for row in of("memory-lz4").iter().filter(|row| row["data"] == "half") {
        assert!(row["capacity_ratio"].as_f64() > Some(1.3), "{row}");
    }
    assert!(
        std::fs::read_to_string(&plot)
            .expect("the plot")
            .contains("memory-lz4, half")
    );
    assert_eq!(std::fs::read_dir(&disk).expect("the folder").count(), 0);
}

#[test]
#[ignore = "needs fio: run by ./upshift test"]
fn a_bench_that_is_told_to_stop_leaves_nothing() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mut bench = cache(&[
        "bench",
        "--dir",
        &disk,
        "--sizes",
        "4K",
        "--file-size",
        "16M",
    ])
    .args(["--seconds", "2"])
    .stderr(Stdio::null())
    .spawn()
    .expect("bench starts");
    let own = format!("upshift-bench-{}", bench.id());
    let until = Instant::now() + Duration::from_secs(30);
    while !Path::new(&disk)
        .join(&own)
        .join("random.tierbench")
        .exists()
    {
        assert!(Instant::now() < until, "bench makes no file");
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: the call takes numbers; the child has not been waited for.
    let told = unsafe { libc::kill(bench.id() as i32, libc::SIGTERM) };
    assert_eq!(told, 0);
    let ended = bench.wait().expect("bench ends");
    assert_eq!(ended.code(), Some(130), "{ended}");
    assert_eq!(std::fs::read_dir(&disk).expect("the folder").count(), 0);
    assert!(!Path::new("/dev/shm").join(&own).exists());
}
