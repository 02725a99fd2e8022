//! One system call after the other fails, at the kernel's edge: those on the tier's own file, then those on the data file.
//!
//! strace makes the calls fail (`--inject`), so that nothing of the library is replaced. Every fault meets a cycle of
//! start, load and stop, and a second start on what that one left. Each read is compared with the file itself.

#[path = "common/aio.rs"]
mod aio;
mod common;

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{counter, preloaded};
use tempfile::TempDir;

workers!(worker);

const PAGE: usize = 4096;
const PAGES: usize = 6;
const ROUNDS: usize = 3;

/// A folder with a data file, and where the tier's own file goes.
struct Setup {
    folder: TempDir,
    medium: &'static str,
}

impl Setup {
    fn new(medium: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, medium }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("t.ibd")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Both files as at the first start.
    fn reset(&self) {
        let pages: Vec<u8> = (0..PAGES).flat_map(|page| vec![page as u8; PAGE]).collect();
        std::fs::write(self.data(), pages).expect("a data file");
        let _ = std::fs::remove_file(self.cache());
    }

    /// The worker's command line, to run as it is or under strace.
    fn worker(&self) -> Command {
        let mut command = preloaded("worker", &self.folder);
        command.env(
            "UPSHIFT_TIER_MEDIUM",
            format!("{}:{}", self.medium, self.cache().display()),
        );
        command
    }

    /// The worker under strace, which looks only at calls on `path`: what the worker said, and the trace.
    fn traced(&self, path: &Path, call: &str, answer: &str, number: usize) -> (String, String) {
        let worker = self.worker();
        let trace = self.folder.path().join("trace");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-o"])
            .arg(&trace)
            .arg("-P")
            .arg(path);
        command.args(["-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{answer}:when={number}")]);
        for (name, value) in worker.get_envs() {
            // strace itself must not be served.
            let mut pair = name.to_owned();
            pair.push("=");
            pair.push(value.expect("set, not removed"));
            command.arg("-E").arg(pair);
        }
        command.arg(worker.get_program()).args(worker.get_args());
        let text = said(&mut command);
        (text, std::fs::read_to_string(trace).expect("a trace"))
    }

    /// Each call of this name on `path` fails in turn, the first of each thread, then the second; how many did.
    /// `seen` gets what the worker said with the fault, then at the start after it.
    fn each_fails(
        &self,
        path: &Path,
        call: &str,
        answer: &str,
        seen: impl Fn(&str, bool),
    ) -> usize {
        for number in 1.. {
            self.reset();
            let (text, trace) = self.traced(path, call, answer, number);
            if !trace.contains("INJECTED") {
                return number - 1;
            }
            seen(&text, true);
            seen(&said(&mut self.worker()), false);
        }
        unreachable!("a cycle has an end")
    }
}

fn said(command: &mut Command) -> String {
    let done = command.output().expect("strace and the test program run");
    let text = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{command:?}: {text}");
    text.into_owned()
}

/// Pages from before the last stop that were served again; none where the tier could not be had.
fn warm(text: &str) -> u64 {
    if text.contains("the server runs without a tier") {
        return 0;
    }
    counter(text, "warm_verified")
}

type Faults = &'static [(&'static str, &'static [&'static str])];

fn whichever_call_on_the_tiers_file_fails(medium: &'static str, faults: Faults) {
    let setup = Setup::new(medium);
    setup.reset();
    said(&mut setup.worker());
    let again = said(&mut setup.worker());
    assert!(warm(&again) > 0, "a cycle without faults: {again}");
    for (call, answers) in faults {
        for answer in *answers {
            let count = setup.each_fails(&setup.cache(), call, answer, |text, _| {
                let retries = counter(text, "retries");
                assert_eq!(retries, 0, "{call}: the program sees it: {text}");
            });
            println!("{medium}: {count} times {call} {answer}");
            assert!(count > 0, "{call} is not called");
        }
    }
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn whichever_call_on_a_direct_tier_file_fails_the_data_is_right() {
    let faults: Faults = &[
        ("pwrite64", &["error=EIO", "error=ENOSPC"]),
        ("pread64", &["error=EIO", "retval=512"]),
        ("fdatasync", &["error=EIO"]),
        ("fsync", &["error=EIO"]),
        ("fallocate", &["error=ENOSPC", "error=EIO"]),
        ("openat", &["error=EMFILE"]),
        ("flock", &["error=EAGAIN"]),
    ];
    whichever_call_on_the_tiers_file_fails("direct", faults);
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn whichever_call_on_a_buffered_tier_file_fails_the_data_is_right() {
    let faults: Faults = &[
        ("pwrite64", &["error=EIO", "error=ENOSPC"]),
        ("pread64", &["error=EIO", "retval=512"]),
        ("fdatasync", &["error=EIO"]),
        ("fsync", &["error=EIO"]),
        ("fallocate", &["error=ENOSPC", "error=EIO"]),
        ("openat", &["error=EMFILE"]),
        ("flock", &["error=EAGAIN"]),
    ];
    whichever_call_on_the_tiers_file_fails("file", faults);
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn errors_and_short_calls_on_the_data_file_reach_the_program_and_never_the_tier() {
    let setup = Setup::new("file");
    let faults: Faults = &[
        ("pread64", &["error=EIO", "retval=512", "retval=0"]),
        ("pwrite64", &["error=EIO", "error=ENOSPC", "retval=512"]),
    ];
    for (call, answers) in faults {
        for answer in *answers {
            let count = setup.each_fails(&setup.data(), call, answer, |text, faulted| {
                // A failed read by number, past the library, is made again by the program too.
                assert_eq!(counter(text, "retries"), u64::from(faulted), "{text}");
            });
            println!("{count} times {call} {answer}");
            assert!(count > 0, "{call} is not called");
        }
    }
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn c20_without_a_null_device_reads_by_io_submit_are_the_files() {
    let setup = Setup::new("file");
    setup.reset();
    let served = counter(&said(&mut setup.worker()), "bypass_read_ahead");
    setup.reset();
    let (text, trace) = setup.traced(Path::new("/dev/null"), "openat", "error=EMFILE", 1);
    assert!(trace.contains("INJECTED"), "{trace}");
    let bypassed = counter(&text, "bypass_read_ahead");
    assert!(served == 0 && bypassed > 0, "{served}, {bypassed}: {text}");
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn c15_a_failed_sync_ends_the_caching_of_the_file() {
    assert_eq!(ends_the_caching("fdatasync"), ROUNDS, "a sync each round");
}

#[test]
#[ignore = "needs strace: run by ./upshift test"]
fn c2_a_failed_close_ends_the_caching_of_the_file() {
    assert_eq!(ends_the_caching("close"), 1);
}

/// After a failure that may have lost written data, nothing of the file is served, nor at the next start; how many calls failed.
fn ends_the_caching(call: &str) -> usize {
    let setup = Setup::new("file");
    setup.each_fails(&setup.data(), call, "error=EIO", |text, faulted| {
        let ended = counter(text, "bypass_unsupported");
        assert_eq!(ended, u64::from(faulted), "{text}");
        assert_eq!(warm(text), 0, "{text}");
    })
}

/// The load of one cycle: reads, each compared with the file, and writes between them.
fn worker() {
    let path = CString::new(format!("{}/t.ibd", common::folder())).expect("no zero byte");
    // SAFETY: the path ends in a zero byte.
    let fd = unsafe { libc::open64(path.as_ptr(), libc::O_RDWR) };
    assert!(fd >= 0);
    let mut load = Load {
        fd,
        context: aio::context(1),
        retries: 0,
    };
    for round in 0..ROUNDS {
        for page in 0..PAGES {
            load.check(page);
            if page % ROUNDS == round {
                load.write(page, (10 * round + page + 40) as u8);
                load.check(page);
            }
        }
        // What fails here is only not kept over the stop.
        // SAFETY: our own descriptor.
        unsafe { libc::fdatasync(fd) };
    }
    for page in 0..PAGES {
        load.check(page);
    }
    // SAFETY: as above.
    unsafe { libc::close(fd) };
    eprintln!("retries={}", load.retries);
}

struct Load {
    fd: c_int,
    context: usize,
    retries: u32,
}

impl Load {
    /// Makes a call again until it did all of a page.
    fn whole(&mut self, mut call: impl FnMut(c_int) -> isize) {
        while call(self.fd) != PAGE as isize {
            self.retries += 1;
            assert!(self.retries < 10, "more failures than the one made");
        }
    }

    fn write(&mut self, page: usize, byte: u8) {
        let data = [byte; PAGE];
        // SAFETY: data has PAGE bytes.
        self.whole(|fd| unsafe {
            libc::pwrite64(fd, data.as_ptr().cast(), PAGE, (page * PAGE) as i64)
        });
    }

    fn check(&mut self, page: usize) {
        let offset = (page * PAGE) as i64;
        let (mut served, mut there) = ([0xEEu8; PAGE], [0xEEu8; PAGE]);
        // SAFETY: both have PAGE bytes. The system call by number goes past the library.
        unsafe {
            self.whole(|fd| libc::pread64(fd, served.as_mut_ptr().cast(), PAGE, offset));
            self.whole(|fd| {
                libc::syscall(libc::SYS_pread64, fd, there.as_mut_ptr(), PAGE, offset) as isize
            });
        }
        let mut ahead = [0xEEu8; PAGE];
        let mut block = aio::block(aio::READ, self.fd, ahead.as_mut_ptr(), PAGE, offset as u64);
        // SAFETY: block and buffer live until the completion.
        let taken = unsafe { aio::submit(self.context, &mut [&raw mut block]) };
        assert_eq!(taken, 1);
        assert_eq!(aio::reap(self.context)[2], PAGE as u64);
        assert!(ahead == there, "page {page} by io_submit");
        assert!(
            served == there,
            "page {page}: {} where the file has {}",
            served[0],
            there[0]
        );
    }
}
