//! This test program again, with more text than two huge pages and the library preloaded: what its mappings are, and whether
//! functions all over the text still answer.

use std::arch::global_asm;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Says that this process is the one under the library.
const WORKER: &str = "UPSHIFT_TEST_WORKER";
/// include/uapi/linux/prctl.h, Linux 6.3; libc has no names for them.
const PR_SET_MDWE: libc::c_int = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;

// Three functions, 3 MiB apart: two huge pages between the first and the last are whole wherever the text begins.
macro_rules! far_apart {
    ($($instruction:literal),*) => {
        global_asm!(
            ".text", ".balign 64", ".globl upshift_test_first", "upshift_test_first:", $($instruction,)*
            ".skip 0x300000", ".globl upshift_test_middle", "upshift_test_middle:", $($instruction,)*
            ".skip 0x300000", ".globl upshift_test_last", "upshift_test_last:", $($instruction,)*
        );
    };
}
#[cfg(target_arch = "x86_64")]
far_apart!("mov eax, 42", "ret", ".balign 64");
#[cfg(target_arch = "aarch64")]
far_apart!("mov w0, #42", "ret", ".balign 64");

unsafe extern "C" {
    safe fn upshift_test_first() -> u32;
    safe fn upshift_test_middle() -> u32;
    safe fn upshift_test_last() -> u32;
}

extern "C" fn start_worker() {
    if std::env::var_os(WORKER).is_none() {
        return;
    }
    let answers = [
        upshift_test_first(),
        upshift_test_middle(),
        upshift_test_last(),
    ];
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel has /proc");
    println!("at {:x}\n{maps}", upshift_test_middle as *const () as usize);
    std::process::exit(i32::from(answers != [42; 3]));
}
#[used]
#[unsafe(link_section = ".init_array")]
static START_WORKER: extern "C" fn() = start_worker;

/// The mapping of the function in the middle, what of it lies on huge pages, and what the library said.
struct Worker {
    mapping: String,
    huge_bytes: usize,
    said: String,
}

impl Worker {
    /// Runs it with text of this program's name moved, as `change` has changed the command.
    fn run(change: impl FnOnce(&mut Command)) -> Self {
        let own = std::env::current_exe().expect("this program has a path");
        let name = own.file_name().expect("a file's name").to_owned();
        let mut command = Command::new(&own);
        command
            .env(WORKER, "1")
            .env("LD_PRELOAD", library())
            .env("UPSHIFT_HUGETEXT_PROGRAM", name)
            .env("UPSHIFT_HUGETEXT_SAY", "1");
        change(&mut command);
        let done = command.output().expect("the test program runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{}: {said}", done.status);
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        let at = out.lines().find_map(|line| line.strip_prefix("at "));
        let at = usize::from_str_radix(at.expect("the worker printed"), 16).expect("an address");
        let holds_it = |line: &str| {
            let ends = line.split(' ').next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(ends.0)? <= at && at < number(ends.1)?)
        };
        let mut lines = out.lines().skip_while(|line| holds_it(line) != Some(true));
        let mapping = lines.next().expect("the function is mapped").to_owned();
        let huge = lines.find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = huge.expect("smaps says it").trim().trim_end_matches(" kB");
        Self {
            mapping,
            huge_bytes: kib.parse::<usize>().expect("a number") * 1024,
            said,
        }
    }

    fn is_as_it_was(&self) -> bool {
        self.mapping.contains("r-xp") && self.mapping.contains("/moved-") && self.huge_bytes == 0
    }
}

/// The library that cargo built beside this test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let folders = program.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("libupshift_hugetext.so"))
        .find(|path| path.is_file());
    found.expect("libupshift_hugetext.so beside the test program: cargo build -p hugetext")
}

#[test]
fn text_lies_on_huge_pages_and_still_answers() {
    let chosen = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !chosen.is_ok_and(|text| !text.contains("[never]")) {
        eprintln!("NOT RUN: this kernel gives no huge pages");
        return;
    }
    let worker = Worker::run(|_| {});
    let found = format!(
        "{} with {}: {}",
        worker.mapping, worker.huge_bytes, worker.said
    );
    assert!(worker.mapping.contains("r-xp"), "{found}");
    assert!(!worker.mapping.contains('/'), "of no file: {found}");
    assert!(worker.huge_bytes >= 4 << 20, "{found}");
    assert!(worker.said.contains("MiB of text moved"), "{found}");
}

#[test]
fn another_program_is_left_alone() {
    for named in ["mysqld", ""] {
        let worker = Worker::run(|command| {
            command.env("UPSHIFT_HUGETEXT_PROGRAM", named);
        });
        assert!(worker.is_as_it_was(), "{}", worker.mapping);
        assert_eq!(worker.said, "");
    }
}

#[test]
fn without_huge_pages_nothing_changes() {
    let worker = Worker::run(|command| {
        // SAFETY: prctl is a system call, which a child may make between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
    });
    assert!(worker.is_as_it_was(), "{}", worker.mapping);
    assert!(
        worker.said.contains("gave no huge pages"),
        "{}",
        worker.said
    );
}

#[test]
fn where_written_memory_may_not_be_executed_nothing_changes() {
    // SAFETY: asks whether the kernel knows the call (Linux 6.3).
    if unsafe { libc::prctl(PR_SET_MDWE, 0, 0, 0, 0) } != 0 {
        eprintln!("NOT RUN: this kernel is older than Linux 6.3");
        return;
    }
    let worker = Worker::run(|command| {
        // SAFETY: as above.
        unsafe {
            command.pre_exec(
                || match libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                },
            )
        };
    });
    assert!(worker.is_as_it_was(), "{}", worker.mapping);
    assert!(worker.said.contains("mprotect failed"), "{}", worker.said);
}

#[test]
fn nothing_is_said_unless_asked() {
    let worker = Worker::run(|command| {
        command.env_remove("UPSHIFT_HUGETEXT_SAY");
    });
    assert_eq!(worker.said, "");
}
