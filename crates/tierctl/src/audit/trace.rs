//! The calls of a server on its data files, from strace with call stacks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::failure::Failure;

/// Every call that can read or change a file's data; `?`: strace on some machines does not know it.
const CALLS: &str = "trace=pread64,preadv,preadv2,pwrite64,pwritev,pwritev2,read,readv,write,writev,io_submit,sendfile,splice,\
    copy_file_range,mmap,truncate,ftruncate,fallocate,ioctl,?io_uring_setup,?io_uring_enter";
const LIBRARY: &str = "libupshift_tier.so(";
/// The library's door for calls by number: it lets all but a few through without looking at them.
const BY_NUMBER: &str = "libupshift_tier.so(syscall+";

/// A call on a data file that the tier did not see.
#[derive(Serialize, Debug, PartialEq)]
pub struct Escaped {
    /// Name of the system call.
    pub call: String,
    /// The data file; empty for io_uring.
    pub file: String,
    /// Where in the file; None where the call does not say.
    pub offset_bytes: Option<u64>,
    /// What the call answered: bytes for a read or write.
    pub answer: Option<i64>,
    /// As strace wrote it.
    pub text: String,
}

/// What was traced.
#[derive(Default)]
pub struct Traced {
    /// Calls on data files that came through the library, by name.
    pub through: BTreeMap<String, u64>,
    /// The others.
    pub escaped: Vec<Escaped>,
}

/// Traces the process and its threads for so many seconds. `timeout` ends strace, also when this program dies first.
pub fn run(pid: u32, seconds: u32, is_data: impl Fn(&str) -> bool) -> Result<Traced, Failure> {
    let folder = Folder::new()?;
    eprintln!("tracing process {pid} for {seconds} s");
    // -s 0: no user's data in the trace; it would cut the list of io_submit to nothing too, but for abbrev=none.
    let done = Command::new("timeout")
        .args(["--foreground", "--signal=INT", "--kill-after=30"])
        .arg(seconds.to_string())
        .args([
            "strace",
            "-ff",
            "-k",
            "-y",
            "-s",
            "0",
            "-e",
            "abbrev=none",
            "-e",
            CALLS,
            "-o",
        ])
        .arg(folder.0.join("trace"))
        .args(["-p", &pid.to_string()])
        .output()
        .map_err(|error| {
            Failure::failed(
                format!("timeout does not start: {error}"),
                "install coreutils",
            )
        })?;
    let said = String::from_utf8_lossy(&done.stderr);
    // 127: timeout found no strace; 124: the time was up, as meant. Without an attachment nothing was traced.
    if done.status.code() == Some(127) {
        return Err(Failure::failed(
            "strace is not installed",
            "install it (apt install strace), or use --seconds 0, which only looks at /proc",
        ));
    }
    if !said.contains("attached") {
        return Err(Failure::failed(
            format!("strace: {}", said.trim()),
            "run this command as root, while no other program traces the server, and with a strace that knows -k (strace -V: stack-trace)",
        ));
    }
    let mut traced = Traced::default();
    for entry in std::fs::read_dir(&folder.0).into_iter().flatten().flatten() {
        let text = std::fs::read(entry.path()).map_err(|error| {
            Failure::failed(
                format!("the trace cannot be read: {error}"),
                "see whether the folder for temporary files (TMPDIR) has room",
            )
        })?;
        traced.add(&String::from_utf8_lossy(&text), &is_data);
    }
    Ok(traced)
}

impl Traced {
    /// Adds the trace of one thread: a line for each call, followed by its stack, a line ` > object(symbol+offset)` each, innermost first.
    fn add(&mut self, text: &str, is_data: impl Fn(&str) -> bool) {
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut frame = None;
            while let Some(next) = lines.next_if(|next| next.starts_with(" > ")) {
                frame = frame.or(next.contains(LIBRARY).then_some(next));
            }
            // A call that the end of the trace cut off has neither answer nor stack.
            let Some((call, rest)) = line
                .split_once('(')
                .filter(|_| line.contains(") ") && line.contains(" = "))
            else {
                continue;
            };
            let file = paths(rest).find(|path| is_data(path)).unwrap_or_default();
            if file.is_empty() && !call.starts_with("io_uring") {
                continue;
            }
            if frame.is_some_and(|frame| !frame.contains(BY_NUMBER)) {
                *self.through.entry(call.to_owned()).or_default() += 1;
            } else {
                self.escaped.push(escaped(line, call, rest, file));
            }
        }
    }
}

fn escaped(line: &str, call: &str, rest: &str, file: &str) -> Escaped {
    let (arguments, answer) = rest.rsplit_once(") = ").unwrap_or((rest, ""));
    let last = || arguments.rsplit(", ").next()?.parse().ok();
    let in_block = || {
        let (_, after) = arguments.split_once("aio_offset=")?;
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        after[..end].parse().ok()
    };
    let offset_bytes = match call {
        "pread64" | "pwrite64" | "preadv" | "pwritev" => last(),
        "io_submit" => in_block(),
        _ => None,
    };
    Escaped {
        call: call.to_owned(),
        file: file.to_owned(),
        offset_bytes,
        answer: answer.split(' ').next().and_then(|word| word.parse().ok()),
        text: line.to_owned(),
    }
}

/// The paths in a call's arguments: `-y` writes a descriptor as `5</path>`, and `truncate` begins with a name.
fn paths(arguments: &str) -> impl Iterator<Item = &str> {
    let name = arguments
        .strip_prefix('"')
        .and_then(|rest| rest.split_once('"'));
    arguments
        .split('<')
        .skip(1)
        .filter_map(|part| part.split_once('>').map(|(path, _)| path))
        .chain(name.map(|(path, _)| path))
        .filter(|path| path.starts_with('/'))
}

/// A folder for the trace, this user's alone, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("upshift-audit-{}", std::process::id()));
        let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path);
        made.map_err(|error| {
            Failure::failed(
                format!("{} cannot be made: {error}", path.display()),
                "name a folder for temporary files with TMPDIR",
            )
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        // What stays behind is a trace in the temporary folder.
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "pread64(10</d/t/a.ibd>, \"\"..., 16384, 81920) = 16384
 > /usr/lib/libc.so.6(pread64+0x13) [0xf63d3]
 > /p/libupshift_tier.so(pread64+0x20e) [0x1e34e]
pread64(10</d/t/a.ibd>, \"\"..., 16384, 98304) = 16384
 > /p/libupshift_tier.so(syscall+0x3a) [0x26b8a]
 > /usr/sbin/mysqld(main+0x3a) [0x26b8a]
pwrite64(11</d/#ib_redo1>, \"\"..., 512, 0) = 512
 > /usr/sbin/mysqld(main+0x3a) [0x26b8a]
io_submit(0x7f00, 1, [{aio_data=0x1, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=10</d/t/a.ibd>, aio_buf=0x2, aio_nbytes=16384, aio_offset=32768}]) = 1
 > /usr/sbin/mysqld(main+0x3a) [0x26b8a]
mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 10</d/t/a.ibd>, 0) = 0x7f0000000000
 > /usr/lib/libc.so.6(mmap+0x13) [0xf63d3]
io_uring_enter(5<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = 1
truncate(\"/d/t/a.ibd\", 0) = 0
 > /usr/lib/libc.so.6(truncate+0x13) [0xf63d3]
ioctl(10</d/t/a.ibd>, FICLONE, 11</d/t/b>) = 0
 > /p/libupshift_tier.so(ioctl+0x20e) [0x1e34e]
pwrite64(10</d/t/a.ibd>, \"\"..., 16384, 0 <detached ...>
+++ exited with 0 +++
";

    #[test]
    fn a_call_that_came_another_way_than_through_the_library_escaped() {
        let mut traced = Traced::default();
        traced.add(TRACE, |path| path.ends_with(".ibd"));
        assert_eq!(
            traced.through,
            BTreeMap::from([("pread64".to_owned(), 1), ("ioctl".to_owned(), 1)])
        );
        let found: Vec<_> = traced
            .escaped
            .iter()
            .map(|each| (each.call.as_str(), each.offset_bytes, each.answer))
            .collect();
        assert_eq!(
            found,
            [
                ("pread64", Some(98304), Some(16384)),
                ("io_submit", Some(32768), Some(1)),
                ("mmap", None, None),
                ("io_uring_enter", None, Some(1)),
                ("truncate", None, Some(0)),
            ]
        );
        assert_eq!(traced.escaped[0].file, "/d/t/a.ibd");
    }
}
