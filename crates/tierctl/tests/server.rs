//! `upshift-cache` with a real MariaDB: run, stat, mode, drop, a clean stop; and what it refuses.

mod common;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{cache, text};

struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tierctl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let data = format!("--datadir={}", folder.join("data").display());
        let made = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--user=root",
                "--auth-root-authentication-method=normal",
            ])
            .arg(&data)
            .output()
            .expect("MariaDB is installed");
        assert!(made.status.success(), "{}", text(&made));
        let status = folder.join("status");
        let child = cache(&[
            "run",
            "--size",
            "64M",
            // The scan below is one long sequential run.
            "--cutoff",
            "0",
            "--status",
            &status.display().to_string(),
            "--",
            "mariadbd",
        ])
        .args([
            "--no-defaults",
            "--user=root",
            "--skip-networking",
            "--innodb-use-native-aio=0",
        ])
        .args(["--innodb-buffer-pool-size=8M", &data])
        .arg(format!("--socket={}", folder.join("s").display()))
        .env("PATH", "/usr/sbin:/usr/bin:/bin")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("upshift-cache starts");
        let server = Self { child, folder };
        let until = Instant::now() + Duration::from_secs(60);
        while !server.sql("SELECT 1").status.success() {
            assert!(Instant::now() < until, "the server does not answer");
            std::thread::sleep(Duration::from_millis(200));
        }
        server
    }

    fn sql(&self, statements: &str) -> Output {
        Command::new("mariadb")
            .args(["--no-defaults", "-uroot", "-N", "-S"])
            .arg(self.folder.join("s"))
            .args(["-e", statements])
            .output()
            .expect("MariaDB's client is installed")
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        cache(arguments)
            .arg("--status")
            .arg(self.folder.join("status"))
            .output()
            .expect("upshift-cache runs")
    }

    fn stat(&self) -> serde_json::Value {
        let done = self.ask(&["stat", "--json"]);
        serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&done)))
    }

    fn a_reader_that_goes_ends_the_watch(&self) {
        let mut watch = cache(&["stat", "--watch", "--status"])
            .arg(self.folder.join("status"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("upshift-cache runs");
        let mut first = [0];
        let mut out = watch.stdout.take().expect("piped");
        out.read_exact(&mut first).expect("something is shown");
        drop(out);
        let done = watch.wait_with_output().expect("the command ends");
        assert_eq!((done.status.code(), text(&done)), (Some(0), String::new()));
    }

    fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill takes no memory; the process is our child and not yet waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_real_server_is_served_and_its_tier_changed_while_it_runs() {
    let mut server = Server::start("served");
    let filled = server.sql(
        "CREATE DATABASE t; USE t; CREATE TABLE t.a (id INT PRIMARY KEY, pad CHAR(200)); \
         INSERT INTO t.a SELECT seq, REPEAT('x', 200) FROM seq_1_to_100000",
    );
    assert!(filled.status.success(), "{}", text(&filled));
    for _ in 0..3 {
        let sum = server.sql("SELECT COUNT(*), SUM(id) FROM t.a");
        assert_eq!(
            String::from_utf8_lossy(&sum.stdout).trim(),
            "100000\t5000050000"
        );
    }
    let now = server.stat();
    assert_eq!(now["schema_version"], 1);
    assert_eq!(now["mode"], "write-through");
    assert!(now["counters"]["hits"].as_u64() > Some(0), "{now}");
    // The table of files and the fill are brought up to date by the tier's ticks, some time apart.
    let until = Instant::now() + Duration::from_secs(20);
    while !server.stat()["files"].to_string().contains("t/a.ibd") {
        assert!(Instant::now() < until, "{}", server.stat());
        server.sql("SELECT SUM(id) FROM t.a");
    }

    let switched = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.ask(&["mode", "pass-through"]));
        while !asked.is_finished() {
            server.sql("SELECT SUM(id) FROM t.a");
        }
        asked.join().expect("the command ends")
    });
    assert!(switched.status.success(), "{}", text(&switched));
    assert_eq!(server.stat()["mode"], "pass-through");
    let exported = server.ask(&["export"]);
    assert!(
        text(&exported).contains("upshift_tier_up 1"),
        "{}",
        text(&exported)
    );

    for series in [
        "hit_latency_seconds_bucket{le=\"+Inf\"}",
        "file_misses_total{file=",
    ] {
        assert!(text(&exported).contains(series), "{series}");
    }
    let checked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.ask(&["check", "--seconds", "2"]));
        while !asked.is_finished() {
            server.sql("UPDATE t.a SET pad = id; SELECT SUM(id) FROM t.a");
        }
        asked.join().expect("the command ends")
    });
    assert!(
        checked.status.success() && text(&checked).contains("none escaped"),
        "{}",
        text(&checked)
    );
    server.a_reader_that_goes_ends_the_watch();

    server.stop();
    assert_eq!(server.stat()["alive"], false);
    let late = server.ask(&["drop"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(text(&late).contains("has stopped"), "{}", text(&late));
}

#[test]
fn what_cannot_be_meant_is_refused_before_a_server_starts() {
    for (arguments, said) in [
        (vec!["run", "--size", "0", "--", "sh"], "size"),
        (vec!["run", "--size", "9999999G", "--", "sh"], "size"),
        (
            vec![
                "run",
                "--size",
                "1G",
                "--mode",
                "write-sideways",
                "--",
                "sh",
            ],
            "mode",
        ),
        (
            vec!["run", "--size", "1G", "--medium", "tape", "--", "sh"],
            "medium",
        ),
        (
            vec!["run", "--size", "1G", "--", "/no/such/mysqld"],
            "no server",
        ),
        (vec!["resize", "lots"], "size"),
        (vec!["mode", "sideways"], "mode"),
        (vec!["bench", "--dir", "/no/such/folder"], "not a folder"),
        (vec!["bench", "--dir", "/etc"], "not an innodb directory"),
        (
            vec![
                "run",
                "--size",
                "1M",
                "--medium",
                "file:/no/such/x",
                "--",
                "sh",
            ],
            "medium",
        ),
        (
            vec![
                "run",
                "--size",
                "900T",
                "--page-size",
                "64K",
                "--medium",
                "file:/tmp/x",
                "--",
                "sh",
            ],
            "size",
        ),
    ] {
        let done = cache(&arguments)
            .env("UPSHIFT_TIER_LIBRARY", "/bin/sh")
            .env("XDG_RUNTIME_DIR", std::env::temp_dir())
            .output()
            .expect("upshift-cache runs");
        assert_eq!(
            done.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&done)
        );
        assert!(
            text(&done).contains("ERROR: ") && text(&done).to_lowercase().contains(said),
            "{arguments:?}: {}",
            text(&done)
        );
    }
}

#[test]
fn a_dry_run_prints_a_line_for_a_shell() {
    let done = cache(&["run", "--size", "1M", "--dry-run", "--status", "/tmp/a b"])
        .args(["--", "sh", "-c", "echo 'said '$UPSHIFT_TIER_STATUS"])
        .output()
        .expect("upshift-cache runs");
    assert!(done.status.success(), "{}", text(&done));
    let line = text(&done);
    let said = Command::new("sh").args(["-c", &line]).output().expect("sh");
    assert_eq!(text(&said).trim(), "said /tmp/a b", "{line}");
}

#[test]
fn no_server_is_a_failure_with_a_hint() {
    let done = cache(&["stat", "--pid", "1"])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("hint: "), "{}", text(&done));
}
