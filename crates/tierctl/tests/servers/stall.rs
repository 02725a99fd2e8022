//! A medium that stalls: strace, attached to the server, holds calls on the tier's file back.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testserver::Kind;

use crate::bank::Bank;
use crate::tiered::Tiered;

const LOAD: Duration = Duration::from_secs(4);
/// A call is held back this long, one in twenty: some hundred times what a slow disk takes.
const STALL_US: u32 = 500_000;
const EVERY: u32 = 20;
const ATTACHED: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs servers and strace: run by ./upshift test"]
fn a_medium_that_stalls_slows_the_server_and_no_more() {
    let mut tiered = Tiered::new(Kind::MariaDb);
    let bank = Bank::open(&tiered.server);
    tiered.server.stop();
    tiered.medium = tiered.medium.replace("file:", "direct:");
    tiered.start();
    bank.audit(&tiered.server);
    let hits = tiered.counter("hits");
    let trace = tiered.server.folder().join("trace");
    let stall = Stall::on(&tiered, &trace);
    bank.load(&mut tiered.server, 1, |_| std::thread::sleep(LOAD));
    drop(stall);
    let stalls = std::fs::read_to_string(&trace).expect("a trace");
    let count = stalls.matches("(DELAYED)").count();
    eprintln!("{count} stalls, {} commits", bank.committed());
    assert!(count > 0, "{stalls}");
    bank.audit(&tiered.server);
    assert!(tiered.counter("hits") > hits, "{}", tiered.stat());
    tiered.server.stop();
    tiered.check_files();
    tiered.start();
    bank.audit(&tiered.server);
}

/// strace on the server, until it is dropped.
struct Stall(Child);

impl Stall {
    fn on(tiered: &Tiered, trace: &std::path::Path) -> Self {
        let calls = "pread64,pwrite64";
        let strace = Command::new("strace")
            .args(["-f", "-o"])
            .arg(trace)
            .args(["-p", &tiered.server.pid().to_string(), "-P"])
            .arg(tiered.file())
            .args(["-e", &format!("trace={calls}"), "-s", "0"])
            .args([
                "-e",
                &format!("inject={calls}:delay_enter={STALL_US}:when={EVERY}+{EVERY}"),
            ])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace is installed");
        let until = Instant::now() + ATTACHED;
        while !is_traced(tiered.server.pid()) {
            assert!(Instant::now() < until, "strace does not attach");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self(strace)
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).expect("a process id");
        // SAFETY: kill takes no memory; the process is our child and not yet waited for. On SIGINT strace lets the server go.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let _ = self.0.wait();
    }
}

fn is_traced(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running server");
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
