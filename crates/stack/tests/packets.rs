//! `--pcap`, from the file to the lines of the trace.

#[path = "../../wire/tests/common/captured.rs"]
mod captured;
mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use captured::captured;
use common::{Folder, program, records, statements, text, until};
use etherparse::PacketBuilder;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use wire::passive::Side;

/// A conversation with a real server as a file of packets, from the first one on.
fn file(folder: &Folder, name: &str, port: u16) -> PathBuf {
    let header = PcapHeader {
        datalink: DataLink::RAW,
        snaplen: 262_144,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).expect("a header");
    let (mut next, mut number) = ([1_u32, 1], 0);
    let mut send = |side: Side, syn: bool, bytes: &[u8]| {
        let own = usize::from(side == Side::Server);
        let ends = [([10, 0, 0, 1], 4000), ([10, 0, 0, 2], port)];
        let (from, to) = (ends[own], ends[1 - own]);
        let packet = PacketBuilder::ipv4(from.0, to.0, 64);
        let packet = packet.tcp(from.1, to.1, next[own], 1000);
        let packet = match (syn, side) {
            (true, Side::Client) => packet.syn(),
            (true, Side::Server) => packet.syn().ack(next[0]),
            _ => packet.ack(next[1 - own]),
        };
        let mut frame = Vec::new();
        packet.write(&mut frame, bytes).expect("room");
        next[own] += bytes.len() as u32 + u32::from(syn);
        number += 1;
        let at = Duration::from_millis(1_700_000_000_000 + number);
        let packet = PcapPacket::new(at, frame.len() as u32, &frame);
        writer.write_packet(&packet).expect("written");
    };
    send(Side::Client, true, b"");
    send(Side::Server, true, b"");
    for (side, bytes) in captured(name) {
        bytes
            .chunks(1400)
            .for_each(|chunk| send(side, false, chunk));
    }
    let path = folder.file("app.pcap");
    std::fs::write(&path, writer.into_writer()).expect("written");
    path
}

fn capture(folder: &Folder, arguments: &[&str], stdin: &[u8]) -> Output {
    let mut command = program();
    command.arg("capture").args(arguments).arg(folder.file("t"));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().expect("the program");
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    child.wait_with_output().expect("it ends")
}

/// The summary of a capture that went well.
fn summary(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn has_statements(trace: &Path) -> usize {
    let all = records(trace);
    assert_eq!(all[0]["capture"], "pcap");
    assert_eq!(all[0]["began_unix_us"], 1_700_000_000_001_000_u64);
    let statements = statements(&all);
    assert!(
        statements
            .iter()
            .any(|(kind, sql)| kind == "execute" && sql.starts_with("INSERT"))
    );
    statements.len()
}

#[test]
fn a_file_becomes_a_trace() {
    for (name, family, port) in [
        ("mysql-9.7.txt", "mysql", 3306),
        ("postgres-15.txt", "postgres", 5432),
    ] {
        let folder = Folder::new();
        let path = file(&folder, name, port);
        let said = summary(&capture(&folder, &["--json", "--pcap", text(&path)], b""));
        assert_eq!(
            (&said["family"], &said["connections"]),
            (&family.into(), &1.into())
        );
        assert_eq!(
            (&said["gap_bytes"], &said["packets"]["broken"]),
            (&0.into(), &serde_json::Value::Null)
        );
        assert_eq!(said["requests"], has_statements(&folder.file("t")));
        // From stdin, on a port of its own.
        std::fs::remove_file(folder.file("t")).expect("a trace");
        let bytes = std::fs::read(file(&folder, name, 7777)).expect("a file");
        let url = format!("{family}://db:7777");
        let said = capture(
            &folder,
            &["--json", "--pcap", "-", "--server", &url],
            &bytes,
        );
        assert_eq!(
            summary(&said)["requests"],
            has_statements(&folder.file("t"))
        );
    }
}

#[test]
fn a_file_that_breaks_off_is_said() {
    let folder = Folder::new();
    let path = file(&folder, "mysql-9.7.txt", 3306);
    let bytes = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).expect("written");
    let done = capture(&folder, &["--pcap", text(&path)], b"");
    assert!(done.status.success());
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        said.contains("not all packets were read: the data ends within a packet"),
        "{said}"
    );
    // Nobody has said where the server is.
    let next = said.lines().last().expect("a line");
    assert!(next.starts_with("next: upshift stack examine "), "{said}");
    assert!(!next.contains("--server"), "{said}");
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = Folder::new();
    let path = file(&folder, "mysql-9.7.txt", 8888);
    let refused = |arguments: &[&str], code: i32, message: &str, hint: &str| {
        let done = capture(
            &folder,
            arguments,
            b"no packets at all, and long enough to be some",
        );
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert!(said.contains(message) && said.contains(hint), "{said}");
        assert!(!folder.file("t").exists());
    };
    let pcap = ["--pcap", text(&path)];
    refused(&pcap, 1, "has port 3306 or 5432", "--port");
    let port = [pcap[0], pcap[1], "--port", "8888"];
    refused(&port, 2, "which protocol", "--server mysql://HOST:8888");
    refused(&["--pcap", "-"], 1, "not a capture of packets", "tcpdump");
    refused(
        &["--pcap", "/no/such/file"],
        1,
        "No such file",
        "tcpdump -w",
    );
    refused(
        &[pcap[0], pcap[1], "--server", "oracle://x"],
        2,
        "--server: ",
        "mysql://HOST:PORT",
    );
    for only_of_a_proxy in [&["--share-identity"][..], &["--drain-seconds", "1"]] {
        let both = [&pcap[..], only_of_a_proxy].concat();
        refused(&both, 2, "cannot be used with", "--pcap");
    }
    refused(&[], 2, "required", "--listen");
}

/// A pipe that brings nothing more is not waited for.
#[test]
fn a_pipe_that_is_silent_ends_when_the_capture_is_asked_to() {
    let folder = Folder::new();
    let bytes = std::fs::read(file(&folder, "mysql-9.7.txt", 3306)).expect("a file");
    let mut command = program();
    command.args(["capture", "--json", "--pcap", "-", text(&folder.file("t"))]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().expect("the program");
    let mut stdin = child.stdin.take().expect("piped");
    // The last packet is not whole.
    stdin.write_all(&bytes[..bytes.len() - 10]).expect("sent");
    until("it has begun", || folder.file("t").exists());
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: kill touches no memory; the child was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let said = summary(&child.wait_with_output().expect("it has ended"));
    assert_eq!(said["packets"]["broken"], serde_json::Value::Null);
    assert_eq!(said["connections"], 1);
    drop(stdin);
}
