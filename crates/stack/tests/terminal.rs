//! A capture whose terminal or reader goes away.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::Duration;

use common::{Folder, program, records, text};

const GREETING: &[u8] = b"\x0a\0\0\0\x0a9.9.9\0\0\0\0";

/// The side of a terminal that a person sees, and the one that a program has.
fn terminal() -> (File, File) {
    let (mut seen, mut own) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are written to integers that outlive the call; the other arguments may be null.
    let done = unsafe {
        libc::openpty(
            &raw mut seen,
            &raw mut own,
            none,
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(done, 0);
    // SAFETY: both descriptors are open and belong to nobody else.
    unsafe {
        // A program that had the person's side would keep it open.
        assert_eq!(libc::fcntl(seen, libc::F_SETFD, libc::FD_CLOEXEC), 0);
        (File::from_raw_fd(seen), File::from_raw_fd(own))
    }
}

/// A person closes the window: the terminal is gone, and SIGHUP says so.
#[test]
fn a_closed_terminal_ends_a_capture_as_ctrl_c_does() {
    let folder = Folder::new();
    let server = UnixListener::bind(folder.file("s")).expect("a free path");
    std::thread::spawn(move || {
        for client in server.incoming() {
            std::thread::spawn(move || {
                let mut client = client.expect("a client");
                let _ = client.write_all(GREETING);
                let _ = client.read(&mut [0; 1]);
            });
        }
    });
    let (mut seen, own) = terminal();
    let url = format!("mysql://?socket={}", folder.file("s").display());
    let (listen, trace) = (folder.file("p"), folder.file("t"));
    let mut command = program();
    command.args(["capture", "--server", &url, "--listen", text(&listen)]);
    command.arg(&trace).stdout(Stdio::piped()).stderr(own);
    let child = command.spawn().expect("the program");
    drop(command);
    let mut said = String::new();
    while !said.contains("Ctrl-C ends it") {
        let mut piece = [0; 200];
        let read = seen.read(&mut piece).expect("it says something");
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    let mut client = UnixStream::connect(&listen).expect("a proxy");
    let mut greeting = vec![0; GREETING.len()];
    client.read_exact(&mut greeting).expect("a greeting");
    drop(seen);
    // The next line of progress goes nowhere.
    std::thread::sleep(Duration::from_millis(1200));
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: kill touches no memory; the child was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGHUP) }, 0);
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(0));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.starts_with("1 connection"), "{said}");
    let all = records(&trace);
    assert_eq!(all.last().expect("an end")["whole"], true);
    assert!(!listen.exists());
}
