//! What tcpdump wrote of the loopback interface.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::common::{Folder, program, records, text};

/// The kernel hands packets on up to a second late.
const DELIVERY: Duration = Duration::from_millis(1500);

/// A tcpdump that captures a port's packets into a file.
pub struct Packets {
    child: Child,
    stderr: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Packets {
    /// Begin; none, with the reason on stderr, where there is no tcpdump, or no right to capture.
    pub fn start(folder: &Folder, port: u16) -> Option<Self> {
        let file = folder.file("pcap");
        let mut command = Command::new("tcpdump");
        command.args(["-i", "lo", "-n", "-U", "-s", "0", "-B", "65536", "-w", "-"]);
        command.arg(format!("tcp port {port}"));
        command
            .stdin(Stdio::null())
            .stdout(File::create(&file).expect("a file"))
            .stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("NOT RUN: packets are not compared: tcpdump is not on PATH");
            return None;
        };
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("listening on") {
            if stderr.read_line(&mut said).expect("text") == 0 {
                let _ = child.wait();
                assert!(said.contains("permi"), "{said}");
                eprintln!("NOT RUN: packets are not compared: {said}");
                return None;
            }
        }
        Some(Self {
            child,
            stderr,
            file,
        })
    }

    /// End; the records of the trace that the packets make.
    pub fn end(mut self, server: &str) -> Vec<Value> {
        std::thread::sleep(DELIVERY);
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill touches no memory; the child was not waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("a child").success(), "{said}");
        assert!(said.contains("\n0 packets dropped by kernel"), "{said}");
        let trace = self.file.with_extension("trace");
        let made = program()
            .args(["capture", "--server", server, "--pcap", text(&self.file)])
            .arg(&trace)
            .output()
            .expect("the program");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        records(&trace)
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
