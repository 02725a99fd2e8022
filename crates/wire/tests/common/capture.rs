//! What tcpdump sees of one connection on the loopback interface.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A capture of the TCP traffic of one server port.
pub struct Capture {
    tcpdump: Child,
    seen: mpsc::Receiver<Seen>,
    port: u16,
}

/// What one side of a connection sent.
#[derive(Default)]
pub struct Side {
    pub payload: Vec<u8>,
    /// The number of the other side's next byte, whenever it sent something.
    pub heard: BTreeSet<u32>,
    /// The number of its first byte.
    first: Option<u32>,
    /// Segments by where they begin: on two processors they are seen in any order.
    segments: BTreeMap<u32, Vec<u8>>,
    end: Option<u32>,
}

/// A connection from its first packet to its last.
#[derive(Default)]
pub struct Seen {
    pub client: Side,
    pub server: Side,
}

impl Capture {
    /// Returns when tcpdump sees everything.
    pub fn start(port: u16) -> Self {
        let is_root = Command::new("id").arg("-u").output().expect("id").stdout == b"0\n";
        let mut command = Command::new(if is_root { "tcpdump" } else { "sudo" });
        if !is_root {
            command.args(["-n", "tcpdump"]);
        }
        // Whole packets; 32 MiB of them may wait for tcpdump, however small they are because it may take them late.
        let arguments = "-i lo -s 0 -U -B 32768 -w - tcp port";
        let mut tcpdump = command
            .args(arguments.split(' '))
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump is installed");
        let mut said = String::new();
        let mut errors = BufReader::new(tcpdump.stderr.take().expect("piped"));
        while !said.contains("listening on") {
            let read = errors.read_line(&mut said).expect("tcpdump's words");
            assert!(
                read > 0,
                "tcpdump may not capture, be root or let it: {said}"
            );
        }
        // What it counts at its end.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let packets = BufReader::new(tcpdump.stdout.take().expect("piped"));
        let (tell, seen) = mpsc::channel();
        std::thread::spawn(move || {
            // Nobody listens any more where it came too late.
            let _ = tell.send(watch(packets, port));
        });
        Self {
            tcpdump,
            seen,
            port,
        }
    }

    /// The first connection since the start, once it is closed.
    pub fn seen(mut self) -> Seen {
        let seen = self.seen.recv_timeout(Duration::from_secs(60));
        if seen.is_err() {
            let _ = self.tcpdump.kill();
        }
        // tcpdump ends when nobody takes its next packet.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        self.tcpdump.wait().expect("tcpdump");
        seen.expect("a whole connection")
    }
}

/// Reads what tcpdump writes up to the end of the first connection.
fn watch(mut packets: BufReader<ChildStdout>, port: u16) -> Seen {
    // The file begins with its version, its time zone and the kind of its packets: Ethernet.
    let header: [u8; 24] = take(&mut packets);
    assert_eq!(header[20], 1, "not Ethernet");
    let mut seen = Seen::default();
    let mut client_port = None;
    while !(seen.client.is_complete() && seen.server.is_complete()) {
        let segment = Segment::read(&mut packets);
        let from_server = segment.from == port;
        let peer = if from_server {
            segment.to
        } else {
            segment.from
        };
        // Of connections before this one the end may still be seen.
        if segment.begins && !from_server {
            client_port.get_or_insert(peer);
        }
        if client_port != Some(peer) {
            continue;
        }
        if segment.resets {
            break;
        }
        let side = if from_server {
            &mut seen.server
        } else {
            &mut seen.client
        };
        side.add(segment);
    }
    seen.client.assemble();
    seen.server.assemble();
    seen
}

fn take<const N: usize>(packets: &mut impl Read) -> [u8; N] {
    let mut bytes = [0; N];
    packets.read_exact(&mut bytes).expect("a packet");
    bytes
}

impl Side {
    fn add(&mut self, segment: Segment) {
        if segment.begins {
            self.first = Some(segment.number.wrapping_add(1));
            return;
        }
        let first = self.first.expect("a connection begins with SYN");
        let at = segment.number.wrapping_sub(first);
        if segment.finishes {
            self.end = Some(at + segment.payload.len() as u32);
        }
        let known = self.segments.get(&at).map_or(0, Vec::len);
        // A busy machine sends some twice, the second time perhaps more of it.
        if segment.payload.len() > known {
            if known == 0 {
                self.heard.insert(segment.heard);
            }
            self.segments.insert(at, segment.payload);
        }
    }

    fn is_complete(&self) -> bool {
        let mut covered = 0;
        for (at, part) in &self.segments {
            if *at <= covered {
                covered = covered.max(at + part.len() as u32);
            }
        }
        self.end == Some(covered)
    }

    fn assemble(&mut self) {
        for (at, part) in std::mem::take(&mut self.segments) {
            let known = self
                .payload
                .len()
                .checked_sub(at as usize)
                .expect("a segment is missing");
            self.payload.extend(part.into_iter().skip(known));
        }
    }
}

struct Segment {
    from: u16,
    to: u16,
    number: u32,
    /// The number of the other side's next byte.
    heard: u32,
    begins: bool,
    finishes: bool,
    /// Sent to a side that has closed its socket: nothing follows either way.
    resets: bool,
    payload: Vec<u8>,
}

impl Segment {
    fn read(packets: &mut impl Read) -> Self {
        let record: [u8; 16] = take(packets);
        let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("4"));
        assert_eq!(word(8), word(12), "a packet cut off");
        let mut packet = vec![0; word(8) as usize];
        packets.read_exact(&mut packet).expect("a packet");
        Self::parse(&packet[14..])
    }

    /// From a packet of IP version 4.
    fn parse(packet: &[u8]) -> Self {
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let tcp = &packet[usize::from(packet[0] & 0x0F) * 4..total];
        let header_bytes = usize::from(tcp[12] >> 4) * 4;
        Self {
            from: u16::from_be_bytes([tcp[0], tcp[1]]),
            to: u16::from_be_bytes([tcp[2], tcp[3]]),
            number: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            heard: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
            begins: tcp[13] & 0x02 != 0,
            finishes: tcp[13] & 0x01 != 0,
            resets: tcp[13] & 0x04 != 0,
            payload: tcp[header_bytes..].to_vec(),
        }
    }
}
