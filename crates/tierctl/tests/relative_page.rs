//! A statistics page that a server's environment names by a relative path, as somebody may who preloads the library by hand.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{cache, library, text};
use serde_json::Value;

#[test]
fn a_page_by_a_relative_path_is_found_below_the_servers_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    // It opens a data file for reading and writing, and waits for the end of its input.
    let mut server = Command::new("sh")
        .args(["-c", "cd \"$0\" && exec 3<>x.ibd && read line"])
        .arg(folder.path())
        .env("LD_PRELOAD", library())
        .env("UPSHIFT_TIER_SIZE", "1M")
        .env("UPSHIFT_TIER_STATUS", "page")
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let pid = server.id().to_string();
    let end = Instant::now() + Duration::from_secs(30);
    while !folder.path().join("page").exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let by_pid = ["stat", "--json", "--pid", pid.as_str()];
    let asked = [&by_pid[..], &by_pid[..2]];
    let said = asked.map(|arguments| {
        loop {
            let done = cache(arguments).output().expect("stat runs");
            if done.status.success() || Instant::now() > end {
                break done;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    drop(server.stdin.take());
    server.wait().expect("it ends");
    // Other tests run servers, too.
    for (arguments, done) in asked.into_iter().zip(said) {
        let text = text(&done);
        if let Ok(found) = serde_json::from_str::<Value>(&text) {
            assert_eq!(found["pid"].to_string(), pid, "{arguments:?}");
        } else {
            let listed = text.contains("as processes") && text.contains(&pid);
            assert!(listed, "{arguments:?}: {text}");
        }
    }
}
