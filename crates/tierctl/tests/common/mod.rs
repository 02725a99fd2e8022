//! What the tests of the command share.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The command, with the library that cargo built.
pub fn cache(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upshift-cache"));
    command
        .args(arguments)
        .env("UPSHIFT_TIER_LIBRARY", library());
    command
}

/// The library that cargo built: beside this test's own executable, or one folder up.
pub fn library() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("libupshift_tier.so"))
        .find(|path| path.is_file());
    found.expect("libupshift_tier.so beside the test: cargo build -p tierlib")
}

/// stdout and stderr.
pub fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}
