//! The program, run beside real servers.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A program that does not end by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own, open to all users and gone with the test.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        let all = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(all).tempdir();
        Self(folder.expect("a folder"))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A running capture.
pub struct Capture {
    child: Option<Child>,
    /// What it has said on stderr so far.
    pub said: String,
    stderr: BufReader<std::process::ChildStderr>,
}

/// How it ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_upshift-stack"))
}

impl Capture {
    /// Start it, and wait until it captures; what it says where it ends instead.
    pub fn try_start(arguments: &[&str]) -> Result<Self, Ended> {
        Self::try_start_by(&[], arguments)
    }

    /// The same under a program that becomes it.
    pub fn start_by(prefix: &[&str], arguments: &[&str]) -> Self {
        Self::try_start_by(prefix, arguments).unwrap_or_else(|ended| panic!("{}", ended.stderr))
    }

    fn try_start_by(prefix: &[&str], arguments: &[&str]) -> Result<Self, Ended> {
        let mut command = match prefix {
            [] => program(),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program().get_program());
                command
            }
        };
        command.arg("capture").args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut capture = Self {
            child: Some(child),
            said: String::new(),
            stderr,
        };
        loop {
            let mut line = String::new();
            if capture.stderr.read_line(&mut line).expect("text") == 0 {
                return Err(capture.wait());
            }
            capture.said.push_str(&line);
            if line.starts_with("capturing ") {
                return Ok(capture);
            }
        }
    }

    pub fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).unwrap_or_else(|ended| panic!("{}", ended.stderr))
    }

    pub fn pid(&self) -> i32 {
        let child = self.child.as_ref().expect("running");
        i32::try_from(child.id()).expect("a process id")
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill touches no memory; the child was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// End it as Ctrl-C does.
    pub fn stop(self) -> Ended {
        self.signal(libc::SIGINT);
        self.wait()
    }

    /// Wait until it ends by itself.
    pub fn wait(mut self) -> Ended {
        let mut child = self.child.take().expect("running");
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut ended = Ended {
            code: status.code(),
            stdout: String::new(),
            stderr: std::mem::take(&mut self.said),
        };
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_to_string(&mut ended.stdout).expect("text");
        self.stderr.read_to_string(&mut ended.stderr).expect("text");
        ended
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A trace's records, as `dump` prints them; without what breaks off.
pub fn records(trace: &Path) -> Vec<serde_json::Value> {
    let done = program()
        .arg("dump")
        .arg(trace)
        .output()
        .expect("the program");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let lines = String::from_utf8(done.stdout).expect("text");
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

/// Statements in the order of their answers, with their kinds.
pub fn statements(records: &[serde_json::Value]) -> Vec<(String, String)> {
    let exchanges = records.iter().filter(|each| each["record"] == "exchange");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    exchanges
        .map(|each| (text(&each["kind"]), text(&each["sql"])))
        .collect()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Wait until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
