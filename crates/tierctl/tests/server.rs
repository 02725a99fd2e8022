//! `upshift-cache` with a real MariaDB: run, stat, mode, drop, a clean stop; and what it refuses.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn cache(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upshift-cache"));
    command.args(arguments);
    command
}

/// The library that cargo built: beside this test's own executable, or one folder up.
fn library() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("libupshift_tier.so"))
        .find(|path| path.is_file());
    found.expect("libupshift_tier.so beside the test: cargo build -p tierlib")
}

fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

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
        .env("UPSHIFT_TIER_LIBRARY", library())
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
fn no_server_is_a_failure_with_a_hint() {
    let done = cache(&["stat", "--pid", "1"])
        .output()
        .expect("upshift-cache runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("hint: "), "{}", text(&done));
}
