//! What all integration tests need: the program, run to its end.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod relay;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testserver::Server;

/// `upshift-load` that has ended.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Its result; it must have ended with this exit code.
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).expect("JSON on stdout")
    }

    /// It ended with an error: this exit code, ERROR with these words, and a hint.
    pub fn refused(&self, code: i32, words: &[&str]) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{stdout}\n{stderr}");
        assert!(
            stderr.contains("ERROR: ") && stderr.contains("hint: "),
            "{stderr}"
        );
        for word in words {
            assert!(stderr.contains(word), "{word} is not in: {stderr}");
        }
    }

    /// It ended well.
    pub fn done(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// A line of arguments, then further ones that may have spaces.
pub fn command(line: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upshift-load"));
    command.args(line.split_whitespace()).args(more);
    command.env_remove("UPSHIFT_LOAD_SERVER");
    command
}

/// The same, on a system that has no io_uring for it.
pub fn without_io_uring(mut command: Command) -> Command {
    command.env("UPSHIFT_LOAD_IO_URING", "off");
    command
}

/// Run it on a server.
pub fn load(line: &str, server: &str) -> Ran {
    ended(command(line, &["--server", server]))
}

/// Start it on a server, to be waited for with [`wait`].
pub fn start(line: &str, server: &str) -> Child {
    started(command(line, &["--server", server]))
}

pub fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program")
}

/// As Ctrl-C does.
pub fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("sh").success(), "it has ended by itself");
}

pub fn wait(child: Child) -> Ran {
    ran(child.wait_with_output().expect("the program ends"))
}

pub fn ended(mut command: Command) -> Ran {
    ran(command.output().expect("the program"))
}

fn ran(output: std::process::Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Every option of a command is a key of its result's `options`, except the server, which may have a password, and how the result is shown.
pub fn every_option_is_told(subcommands: &[&str], result: &Value) {
    let mut command = loadgen::cli::command();
    for name in subcommands {
        let found = command.find_subcommand(name).expect("a command");
        command = found.clone();
    }
    let mut options = 0;
    for name in command.get_arguments().filter_map(|one| one.get_long()) {
        let is_told = !matches!(name, "server" | "json" | "wide" | "histogram" | "help")
            && !name.starts_with("no-");
        let key = name.replace("-seconds", "_s").replace('-', "_");
        assert_eq!(
            result["options"].get(key).is_some(),
            is_told,
            "{subcommands:?} --{name}: {:#}",
            result["options"]
        );
        options += usize::from(is_told);
    }
    assert!(options > 10);
}

/// A server's database `t` with sysbench's tables, small.
pub fn filled(server: &Server, tables: u32, rows: u32) -> String {
    let url = server.create("t");
    fill(&url, tables, rows);
    url
}

/// Make the tables anew, always with the same rows.
pub fn fill(url: &str, tables: u32, rows: u32) {
    let line = format!("oltp read_write prepare --drop --tables {tables} --table-size {rows}");
    load(&line, url).done();
}

/// A file in the server's folder, which goes with it.
pub fn file(server: &Server, name: &str) -> PathBuf {
    server.folder().join(name)
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}
