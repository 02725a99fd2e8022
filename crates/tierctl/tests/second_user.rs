//! A server that root starts and that becomes another user, as `sudo upshift cache run -- mysqld --user=mysql`.

mod common;

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{cache, text};
use serde_json::Value;

/// Becomes the user, reads a data file, lets a program read it too, and waits for the end of its input.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *user = 0, *data = 0, page[16384], path[4096], shell[9000];
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--user=", 7)) user = argv[i] + 7;
        if (!strncmp(argv[i], "--datadir=", 10)) data = argv[i] + 10;
    }
    struct passwd *who = getpwnam(user);
    if (!who || setgid(who->pw_gid) || setuid(who->pw_uid)) return 3;
    snprintf(path, sizeof path, "%s/x.ibd", data);
    int fd = open(path, O_RDWR);
    if (fd < 0) return 4;
    for (int i = 0; i < 10; i++)
        if (pread(fd, page, sizeof page, 0) != sizeof page) return 5;
    snprintf(shell, sizeof shell, "cp %s %s/copy.ibd", path, data);
    if (system(shell)) return 6;
    puts("ready");
    fflush(stdout);
    return getchar() == EOF ? 0 : 7;
}
"#;

fn not_run(why: &str) {
    eprintln!("NOT RUN: {why}");
}

#[test]
fn a_server_that_becomes_another_user_has_its_tier() {
    let uid = Path::new("/proc/self").metadata().expect("Linux").uid();
    if uid != 0 {
        return not_run("only root starts a server as another user");
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
    let (server, data) = (folder.path().join("mysqld"), folder.path().join("data"));
    let source = folder.path().join("server.c");
    std::fs::write(&source, SERVER).expect("a file");
    let built = Command::new("cc")
        .arg("-o")
        .arg(&server)
        .arg(&source)
        .output();
    match built {
        Ok(built) => assert!(built.status.success(), "{}", text(&built)),
        Err(error) => return not_run(&format!("no C compiler: {error}")),
    }
    std::fs::create_dir(&data).expect("a folder");
    for name in ["x.ibd", "ibdata1"] {
        std::fs::write(data.join(name), vec![1; 1 << 20]).expect("a file");
        chown(data.join(name), Some(65534), None).expect("another owner");
    }
    chown(&data, Some(65534), None).expect("another owner");

    let medium = format!("file:{}", data.join("tier").display());
    let run = |more: &[&str]| {
        let mut command = cache(&["run", "--size", "1M"]);
        command.args(more).arg("--").arg(&server);
        command.args(["--no-defaults", "--user=nobody"]);
        command.arg(format!("--datadir={}", data.display()));
        command
    };
    let mut running = run(&["--medium", &medium])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let pid = running.id().to_string();
    let mut ready = String::new();
    let mut out = BufReader::new(running.stdout.take().expect("piped"));
    out.read_line(&mut ready).expect("a line");
    let stat = cache(&["stat", "--json", "--pid", &pid])
        .output()
        .expect("stat runs");
    let found = cache(&["stat", "--json"]).output().expect("stat runs");
    drop(running.stdin.take());
    let ended = running.wait_with_output().expect("the server ends");
    assert!(
        ended.status.success() && ready == "ready\n",
        "{}",
        text(&ended)
    );
    // What the server starts has no tier and says nothing.
    assert!(!text(&ended).contains("upshift tier"), "{}", text(&ended));

    let page = PathBuf::from(format!("/run/upshift-65534/tier-{pid}.status"));
    let about = page.metadata().expect("the page");
    assert_eq!((about.uid(), about.mode() & 0o777), (65534, 0o600));
    std::fs::remove_file(&page).expect("the page goes");
    for done in [stat, found] {
        let said: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&done)));
        assert_eq!(said["pid"].to_string(), pid);
        assert!(said["counters"]["hits"].as_u64() >= Some(9), "{said}");
    }

    // A device that is root's alone.
    let device = data.join("device");
    let name = CString::new(device.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the name ends in a zero byte.
    let made = unsafe { libc::mknod(name.as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(7, 250)) };
    if made == 0 {
        let medium = format!("--medium=direct:{}", device.display());
        let refused = run(&[&medium]).output().expect("upshift-cache runs");
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        let said = ["Permission denied", "the server's user"];
        let all = said.iter().all(|said| text(&refused).contains(said));
        assert!(all, "{}", text(&refused));
    } else {
        not_run("this user may make no device");
    }

    // A file that root's own server made is not that user's.
    chown(data.join("tier"), Some(0), None).expect("another owner");
    std::fs::set_permissions(data.join("tier"), PermissionsExt::from_mode(0o666)).expect("a mode");
    let refused = run(&["--medium", &medium])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("chown 65534"), "{}", text(&refused));
}
