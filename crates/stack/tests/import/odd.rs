//! Files that are no ordinary log.

use std::ffi::CString;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Folder, program, text};
use crate::imported::whole;

const SLOW: &str = "# Time: 2026-11-23T07:50:23.430719Z\n\
    # User@Host: root[root] @ localhost []  Id:     9\n\
    # Query_time: 0.000108  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 0\n\
    SET timestamp=1795420223;\n\
    SELECT 1;\n";

/// What is written into a pipe can be read once.
#[test]
fn a_pipe_is_refused() {
    let folder = Folder::new();
    let (pipe, trace) = (folder.file("pipe"), folder.file("t"));
    let name = CString::new(text(&pipe)).expect("no zero");
    // SAFETY: the name is a string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut command = program();
    command.args(["import", text(&pipe), text(&trace)]);
    command.args(["--format", "mysql-slow"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("runs");
    // It does not wait for a writer.
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let done = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("is not a regular file"), "{said}");
    assert!(said.contains("hint: ") && !trace.exists(), "{said}");
}

/// MySQL's clock was set back while a statement ran: it subtracted below zero.
#[test]
fn a_time_that_no_statement_takes_is_left_out() {
    let folder = Folder::new();
    let path = folder.file("log");
    let wrong = SLOW.replace("Query_time: 0.000108", "Query_time: 18446744073.709550");
    fs::write(&path, [SLOW, &wrong, SLOW].concat()).expect("room");
    let imported = whole(&path, "mysql-slow", &[]);
    assert_eq!(imported.requests().len(), 2);
    assert_eq!(imported.said["cut_entries"], 1);
    // The log's clock stands still: one after the other.
    assert_eq!(imported.said["duration_s"], 0.000216);
}

/// Otherwise their lines would belong to the statement before.
#[test]
fn commands_of_replicas_are_no_part_of_a_statement() {
    let folder = Folder::new();
    let path = folder.file("log");
    let line =
        |number: u32, what: &str| format!("2026-11-23T07:50:22.92661{number}Z\t    8 {what}\n");
    let lines = [
        line(1, "Query\tSELECT 1"),
        line(2, "clone\t"),
        line(3, "Query\tSELECT 2"),
        line(4, "Group Replication Data Stream subscription\t"),
        line(5, "Query\tSELECT 3"),
    ];
    fs::write(&path, lines.concat()).expect("room");
    let imported = whole(&path, "mysql-general", &[]);
    assert_eq!(
        imported.requests(),
        [
            "0 query SELECT 1",
            "- other",
            "1 query SELECT 2",
            "- other",
            "2 query SELECT 3"
        ]
    );
}
