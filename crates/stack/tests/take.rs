//! A server's own socket is never lost, whoever captures it.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use common::{Capture, Folder, text, until};

const GREETING: &[u8] = b"\x0a\0\0\0\x0a9.9.9\0\0\0\0";

/// A server that greets its first client when it is told to, and all others at once. What it tells is that the first one is there.
fn server(path: &Path, go: Receiver<()>) -> Receiver<()> {
    let listener = UnixListener::bind(path).expect("a free path");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut first = listener.accept().expect("a client").0;
        tell.send(()).expect("the test waits");
        std::thread::spawn(move || {
            let _ = go.recv();
            let _ = first.write_all(GREETING);
        });
        for client in listener.incoming() {
            let _ = client.expect("a client").write_all(GREETING);
        }
    });
    told
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

fn take(url: &str, trace: &Path) -> Result<Capture, common::Ended> {
    let arguments = [
        "--server",
        url,
        "--take-socket",
        "--share-identity",
        text(trace),
    ];
    Capture::try_start(&arguments)
}

/// The second capture has looked at the server before the first one takes its socket.
#[test]
fn of_two_captures_that_begin_together_one_is_refused_and_takes_nothing() {
    let folder = Folder::new();
    let path = folder.file("s");
    let aside = PathBuf::from(format!("{}.upshift", path.display()));
    let (go, gone) = channel();
    let told = server(&path, gone);
    let ours = inode(&path);
    let url = format!("mysql://?socket={}", path.display());
    let late = std::thread::spawn({
        let (url, trace) = (url.clone(), folder.file("late"));
        move || take(&url, &trace).err().expect("refused").stderr
    });
    told.recv().expect("a look");
    let capture = take(&url, &folder.file("t")).unwrap_or_else(|ended| panic!("{}", ended.stderr));
    go.send(()).expect("the server waits");
    let said = late.join().expect("it ends");
    // The guard of the refused one may still be at work.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(inode(&aside), ours, "the server keeps its second name");
    assert!(UnixStream::connect(&aside).is_ok());
    assert!(!folder.file("late").exists());
    assert!(said.contains("another capture"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    until("the place is given back", || inode(&path) == ours);
    assert!(inode(&aside).is_none());
}

/// Of the thread that calls it, which ends with them.
fn become_nobody_of(group: u32) {
    let nobody = 65534_i64;
    // SAFETY: the first call reads one number, the others take numbers only.
    let done = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 1_usize, &raw const group),
            libc::syscall(libc::SYS_setresgid, nobody, nobody, nobody),
            libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody),
        ]
    };
    assert_eq!(done, [0; 3]);
}

#[test]
fn a_client_keeps_the_groups_that_let_it_in() {
    const GROUP: u32 = 4321;
    // SAFETY: the call takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("NOT RUN: only root can act as another user");
        return;
    }
    let folder = Folder::new();
    let path = folder.file("s");
    let (go, gone) = channel();
    let told = server(&path, gone);
    chown(&path, Some(0), Some(GROUP)).expect("root");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).expect("ours");
    go.send(()).expect("the server waits");
    let url = format!("mysql://?socket={}", path.display());
    let trace = folder.file("t");
    let capture = Capture::start(&["--server", &url, "--take-socket", text(&trace)]);
    told.recv().expect("a look");
    let client = std::thread::spawn(move || {
        become_nobody_of(GROUP);
        let mut greeting = Vec::new();
        let mut stream = UnixStream::connect(&path).expect("the group may");
        let _ = stream.read_to_end(&mut greeting);
        greeting
    });
    assert_eq!(client.join().expect("it ends"), GREETING);
    assert_eq!(capture.stop().code, Some(0));
}
