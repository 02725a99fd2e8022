//! Starting a test again under the preloaded library, and what the tier counted.
#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::{CStr, CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// This test program again, running only `test`, with the library preloaded and a folder of its own.
pub fn preloaded(test: &str, name: &str) -> Command {
    let folder = std::env::temp_dir().join(format!("tierlib-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LD_PRELOAD", library())
        .env("UPSHIFT_TIER_SIZE", "512K")
        .env("UPSHIFT_TIER_PAGE_SIZE", "4K")
        .env("UPSHIFT_TIER_SEQUENTIAL_CUTOFF", "0")
        .env("UPSHIFT_TIER_STATUS", folder.join("status"))
        .env("UPSHIFT_TEST_FOLDER", &folder);
    command
}

/// The folder of a preloaded test.
pub fn folder() -> String {
    std::env::var("UPSHIFT_TEST_FOLDER").expect("started by preloaded()")
}

/// Runs a worker under the library; what it printed.
pub fn run(worker: &str) -> String {
    run_as(&mut preloaded(worker, worker))
}

/// As `run`, with the tier on a medium of this kind, in a file of the worker's folder.
pub fn run_on(medium: &str, worker: &str) -> String {
    let name = format!("{worker}-{medium}");
    let file = std::env::temp_dir().join(format!("tierlib-{name}-{}/medium", std::process::id()));
    let mut command = preloaded(worker, &name);
    run_as(command.env(
        "UPSHIFT_TIER_MEDIUM",
        format!("{medium}:{}", file.display()),
    ))
}

/// Runs a command that `preloaded` made, as the caller changed it.
pub fn run_as(command: &mut Command) -> String {
    let done = command.output().expect("the test program runs");
    let text = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{text}");
    text.into_owned()
}

/// Whether this is the process that has the library preloaded.
pub fn is_worker() -> bool {
    std::env::var_os("LD_PRELOAD").is_some()
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
