//! Starting a test program again under the preloaded library, where it is a worker, and what the tier counted.
//!
//! A worker is a function that `workers!` names, and no test: its test names it, and one that does not exist fails.
#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::{CStr, CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tiercache::status::Snapshot;
use tiercache::{Counter, Reason, StatusPage};

/// The library that cargo built beside this test program.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let folders = program.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("libupshift_tier.so"))
        .find(|path| path.is_file());
    found.expect("libupshift_tier.so beside the test program: cargo build -p tierlib")
}

/// Says which worker this process is.
const WORKER: &str = "UPSHIFT_TEST_WORKER";

/// The workers of a test program. Before `main`, a process that is one runs it and ends.
#[macro_export]
macro_rules! workers {
    ($($name:ident),* $(,)?) => {
        extern "C" fn start_worker() {
            common::start(&[$((stringify!($name), $name as fn())),*]);
        }
        #[used]
        #[unsafe(link_section = ".init_array")]
        static START_WORKER: extern "C" fn() = start_worker;
    };
}

/// Runs the worker that this process is, if it is one: the counters follow on stderr.
pub fn start(workers: &[(&str, fn())]) {
    let Ok(name) = std::env::var(WORKER) else {
        return;
    };
    // What it starts is no worker.
    // SAFETY: there is one thread.
    unsafe { std::env::remove_var(WORKER) };
    let Some((_, run)) = workers.iter().find(|(each, _)| *each == name) else {
        eprintln!("no worker {name}");
        std::process::exit(2);
    };
    let failed = std::panic::catch_unwind(|| {
        run();
        if Path::new(&folder()).join("status").exists() {
            print_counters();
        }
    });
    std::process::exit(i32::from(failed.is_err()) * 101);
}

/// This test program again as `worker`, with the library preloaded, in a folder of its test.
pub fn preloaded(worker: &str, folder: &TempDir) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command
        .env(WORKER, worker)
        .env("LD_PRELOAD", library())
        .env("UPSHIFT_TIER_SIZE", "512K")
        .env("UPSHIFT_TIER_PAGE_SIZE", "4K")
        .env("UPSHIFT_TIER_SEQUENTIAL_CUTOFF", "0")
        .env("UPSHIFT_TIER_STATUS", folder.path().join("status"))
        .env("UPSHIFT_TEST_FOLDER", folder.path());
    command
}

/// The folder of a preloaded test.
pub fn folder() -> String {
    std::env::var("UPSHIFT_TEST_FOLDER").expect("started by preloaded()")
}

/// Runs a worker under the library; what it printed. Its tier must have opened and served something.
pub fn run(worker: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    served(run_as(&mut preloaded(worker, &folder)))
}

/// As `run`, with the tier on a medium of this kind.
pub fn run_on(medium: &str, worker: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    served(run_as(&mut preloaded_on(medium, worker, &folder)))
}

/// As `preloaded`, with the tier on a medium of this kind, in a file of the folder.
pub fn preloaded_on(medium: &str, worker: &str, folder: &TempDir) -> Command {
    let mut command = preloaded(worker, folder);
    let file = folder.path().join("medium");
    command.env(
        "UPSHIFT_TIER_MEDIUM",
        format!("{medium}:{}", file.display()),
    );
    command
}

fn served(text: String) -> String {
    assert!(
        counter(&text, "hits") > 0,
        "the tier served nothing: {text}"
    );
    // The audit corrects a wrong page before the worker sees it.
    assert_eq!(counter(&text, "audit_differences"), 0, "{text}");
    text
}

/// Runs a command that `preloaded` made, as the caller changed it; what it printed, whatever the tier did.
pub fn run_as(command: &mut Command) -> String {
    let done = command.output().expect("the test program runs");
    let text = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{text}");
    text.into_owned()
}

/// Whether a worker said that it could not run here. Its test then says it, too.
pub fn not_run(text: &str) -> bool {
    let line = text.lines().find(|line| line.starts_with("NOT RUN"));
    if let Some(line) = line {
        eprintln!("{line}");
    }
    line.is_some()
}

/// A path in the folder of a preloaded test.
pub fn path(name: &str) -> CString {
    CString::new(format!("{}/{name}", folder())).expect("no zero byte")
}

/// Opens or creates.
pub fn open(path: &CStr, flags: c_int) -> c_int {
    // SAFETY: the path ends in a zero byte.
    let fd = unsafe { libc::open64(path.as_ptr(), flags | libc::O_CREAT, 0o600) };
    assert!(fd >= 0);
    fd
}

/// Writes two pages of this byte.
pub fn put(fd: c_int, byte: u8, offset: i64) {
    // SAFETY: the array has as many bytes.
    let answer = unsafe { libc::pwrite64(fd, [byte; 8192].as_ptr().cast(), 8192, offset) };
    assert_eq!(answer, 8192);
}

/// Another program, which has no tier, overwrites two pages with `c`.
pub fn overwrite(name: &str) {
    let mut other = Command::new("sh");
    other.args([
        "-c",
        r#"printf 'c%.0s' $(seq 8192) | dd of="$1" conv=notrunc status=none"#,
        "sh",
    ]);
    other.env_remove("LD_PRELOAD");
    other.arg(path(name).to_str().expect("UTF-8"));
    assert!(other.status().expect("sh runs").success());
}

/// The first byte of the page that a read gives, or errno.
pub fn get(fd: c_int, offset: i64) -> Result<u8, c_int> {
    let mut data = [0u8; 4096];
    // SAFETY: data has as many bytes.
    match unsafe { libc::pread64(fd, data.as_mut_ptr().cast(), 4096, offset) } {
        4096 => Ok(data[0]),
        // SAFETY: errno of this thread.
        -1 => Err(unsafe { *libc::__errno_location() }),
        other => panic!("short read of {other}"),
    }
}

/// The counters of the running tier.
pub fn snapshot() -> Snapshot {
    let page =
        StatusPage::attach(&Path::new(&folder()).join("status")).expect("the tier's status page");
    page.snapshot()
}

/// Every counter of the running tier as `name=value`, on stderr.
pub fn print_counters() {
    let snapshot = snapshot();
    for counter in Counter::ALL {
        eprintln!("{}={}", counter.name(), snapshot.counter(*counter));
    }
    for reason in Reason::ALL {
        eprintln!("bypass_{}={}", reason.name(), snapshot.bypass(*reason));
    }
}

/// A counter out of what `print_counters` printed.
pub fn counter(text: &str, name: &str) -> u64 {
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Random numbers (splitmix64, Steele, Lea and Flood 2014).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
