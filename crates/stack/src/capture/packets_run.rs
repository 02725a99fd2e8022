//! A trace from packets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trace::{Capture, Ending};
use wire::{Family, ServerUrl};

use super::counts::Counts;
use super::live::Live;
use super::observer::Observer;
use super::options::Options;
use super::packets::{PORTS, Packet, Packets, Reading, UNREAD_BLOCK, port_of};
use super::run::{Captured, Progress, is_full, trace};
use super::summary::{Summary, why_unread};
use crate::failure::Failure;
use crate::output;

/// Packets between two looks at the trace's length, and the time between two.
const LOOK: u64 = 4096;
const LOOK_TIME: Duration = Duration::from_millis(50);

/// What is read, once the first packet of a server was seen.
struct Begun {
    family: Family,
    reading: Reading,
    observer: Observer,
    began_ns: u64,
    last_ns: u64,
}

/// Read a file's packets to its end, or to that of the capture.
///
/// # Errors
/// A file that is no capture of packets, or has none of the server's; a trace that cannot be made.
pub fn read(
    options: &Options,
    path: &Path,
    url: Option<ServerUrl>,
    pressed: &Arc<AtomicBool>,
) -> Result<Captured, Failure> {
    let ports = ports(options, url.as_ref())?;
    let packets = Packets::open(path, pressed)?;
    let mut run = Run::new(options, url, &ports);
    let whole = packets.read(|packet| run.pass(packet) && !run.is_over() && !pressed.load(Relaxed));
    let name = path.display();
    // What was asked to end has not broken off.
    let broken = whole.err().filter(|_| !pressed.load(Relaxed));
    run.finish(broken, None, |packets, ports, broken| {
        format!("none of the {packets} packets in {name} has port {ports}{broken}")
    })
}

/// Read the packets of an interface as they pass, until somebody ends the capture.
///
/// # Errors
/// No tcpdump, or none that may capture; no packet of the server's; a trace that cannot be made.
pub fn listen(
    options: &Options,
    interface: &str,
    url: Option<ServerUrl>,
    pressed: &AtomicBool,
) -> Result<Captured, Failure> {
    let ports = ports(options, url.as_ref())?;
    let (live, source) = Live::start(interface, &ports)?;
    output::say(&format!(
        "capturing port {} of {interface} into {}: Ctrl-C ends it",
        words(&ports),
        options.trace.display()
    ));
    let end = live.end();
    let mut run = Run::new(options, url, &ports);
    let began = Instant::now();
    let (whole, asked) = thread::scope(|scope| {
        scope.spawn(|| end.watch(options.lasts(), pressed));
        let whole = Packets::of(source, "what tcpdump writes").map(|packets| {
            // Read to the end, so that tcpdump comes to its own and says what was dropped.
            packets.read(|packet| {
                let is_behind = packet.as_ref().is_some_and(|one| end.is_behind(one.at_ns));
                if !end.is_done() && (is_behind || !run.pass(packet)) {
                    end.done();
                }
                true
            })
        });
        let asked = end.is_asked();
        end.done();
        (whole, asked)
    });
    let ended = live.finish(asked);
    // tcpdump's own word is the nearer reason.
    let whole = whole.unwrap_or_else(|failure| Err(failure.message));
    let broken = ended.broken.or(whole.err());
    let passed_s = began.elapsed().as_secs_f64();
    run.finish(broken, ended.dropped, |_, ports, broken| {
        format!("no packet of port {ports} passed {interface} in {passed_s:.1} s{broken}")
    })
}

/// A capture of packets under way.
struct Run<'a> {
    options: &'a Options,
    url: Option<ServerUrl>,
    ports: &'a [u16],
    counts: Arc<Counts>,
    progress: Progress,
    begun: Option<Begun>,
    failed: Option<Failure>,
    number: u64,
    /// Those of them in blocks that are not read.
    in_unread_blocks: u64,
    looked: Instant,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, url: Option<ServerUrl>, ports: &'a [u16]) -> Self {
        Self {
            options,
            url,
            ports,
            counts: Arc::new(Counts::default()),
            progress: Progress::new(),
            begun: None,
            failed: None,
            number: 0,
            in_unread_blocks: 0,
            looked: Instant::now(),
        }
    }

    /// The next packet; none for one in a block that is not read. False when no more is wanted.
    fn pass(&mut self, packet: Option<Packet>) -> bool {
        self.number += 1;
        match packet {
            Some(packet) => self.take(&packet),
            None => self.in_unread_blocks += 1,
        }
        let looks = self.number.is_multiple_of(LOOK) || self.looked.elapsed() >= LOOK_TIME;
        if looks {
            self.looked = Instant::now();
            self.progress.say(&self.counts);
        }
        self.failed.is_none() && !(looks && is_full(self.options))
    }

    fn take(&mut self, packet: &Packet) {
        if self.begun.is_none() {
            let (options, url) = (self.options, self.url.as_ref());
            match begin(options, url, self.ports, packet, &self.counts) {
                Ok(new) => self.begun = new,
                Err(failure) => self.failed = Some(failure),
            }
        }
        if let Some(begun) = &mut self.begun {
            begun.reading.take(packet, &mut begun.observer);
            begun.last_ns = begun.last_ns.max(packet.at_ns);
            let connections = begun.reading.connections().into();
            self.counts.connections.store(connections, Relaxed);
            let open = begun.reading.open() as u64;
            self.counts.open.store(open, Relaxed);
        }
    }

    /// Whether the packets have come to the end of the time that is wanted of them.
    fn is_over(&self) -> bool {
        match (&self.begun, self.options.lasts()) {
            (Some(begun), Some(lasts)) => {
                u128::from(begun.last_ns - begun.began_ns) >= lasts.as_nanos()
            }
            _ => false,
        }
    }

    /// What was captured; `none` says that there was nothing, from the number of packets, the ports, and how they broke off.
    fn finish(
        self,
        broken: Option<String>,
        dropped: Option<u64>,
        none: impl Fn(u64, &str, &str) -> String,
    ) -> Result<Captured, Failure> {
        drop(self.progress);
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let Some(begun) = self.begun else {
            let unread = match self.in_unread_blocks {
                0 => None,
                count => Some(format!("{count} of them: {}", why_unread(UNREAD_BLOCK))),
            };
            let whys = broken.into_iter().chain(unread);
            let broken: String = whys.map(|why| format!(" ({why})")).collect();
            return Err(Failure::failed(
                none(self.number, &words(self.ports), &broken),
                "name the server's port with --port; a unix socket has no packets: use --listen or --take-socket",
            ));
        };
        let Begun {
            family,
            reading,
            mut observer,
            began_ns,
            last_ns,
        } = begun;
        let mut read = reading.finish(&mut observer);
        read.unread_in_blocks(self.in_unread_blocks);
        let ending = Ending {
            duration_us: (last_ns - began_ns) / 1000,
            ..Ending::default()
        };
        let (seen, written) = observer.finish(ending.clone());
        let (written, failed) = match written {
            Ok(written) => (Some(written), Ok(())),
            Err(error) => (None, Err(Failure::from(error))),
        };
        let trace = &self.options.trace;
        let summary = Summary::new(
            trace,
            family,
            self.url.as_ref(),
            &self.counts,
            seen,
            written,
            &ending,
        );
        Ok((summary.of_packets(read, dropped, broken), failed))
    }
}

/// `3306 or 5432`.
fn words(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(" or ")
}

/// The ports that the server may have.
fn ports(options: &Options, url: Option<&ServerUrl>) -> Result<Vec<u16>, Failure> {
    match (options.port, url) {
        (Some(port), None) if !PORTS.contains(&port) => Err(Failure::usage(
            format!("--port {port} does not say which protocol is spoken there"),
            format!("add --server mysql://HOST:{port} or postgres://HOST:{port}"),
        )),
        (Some(port), _) => Ok(vec![port]),
        (None, Some(url)) => Ok(vec![url.port]),
        (None, None) => Ok(PORTS.to_vec()),
    }
}

/// Begin with the first packet that is one of a server's.
fn begin(
    options: &Options,
    url: Option<&ServerUrl>,
    ports: &[u16],
    packet: &Packet,
    counts: &Arc<Counts>,
) -> Result<Option<Begun>, Failure> {
    let Some(port) = port_of(packet, ports) else {
        return Ok(None);
    };
    let family = url.map_or_else(|| usual(port), |url| url.family);
    let began_ns = packet.at_ns;
    let writer = trace(options, family, Capture::Pcap, began_ns / 1000, began_ns)?;
    let observer = Observer::new(family, writer, Arc::clone(counts));
    Ok(Some(Begun {
        family,
        reading: Reading::new(port),
        observer,
        began_ns,
        last_ns: began_ns,
    }))
}

/// What is usually spoken on a port.
fn usual(port: u16) -> Family {
    match port == PORTS[1] {
        true => Family::Postgres,
        false => Family::Mysql,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use etherparse::PacketBuilder;
    use pcap_file::DataLink;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use pcap_file::pcapng::blocks::packet::PacketBlock;
    use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
    use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn connections_that_are_open_are_counted_for_the_line_of_progress() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace");
        let line = Line::parse_from(["capture", "--pcap", "-", &trace.display().to_string()]);
        let mut run = Run::new(&line.options, None, &PORTS);
        for (port, ends) in [(4000, false), (4001, false), (4000, true)] {
            let packet = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
            let packet = packet.tcp(port, 3306, 1, 100);
            let packet = if ends { packet.rst() } else { packet.syn() };
            let mut data = Vec::new();
            packet.write(&mut data, b"").expect("room");
            assert!(run.pass(Some(Packet {
                link: DataLink::RAW,
                at_ns: 1,
                data: &data,
                whole: data.len(),
            })));
        }
        let line = run.counts.line();
        drop(run);
        assert!(trace.exists(), "a trace");
        assert!(line.starts_with("2 connections (1 open)"), "{line}");
    }

    /// A capture of a file with so many packets in simple, obsolete and enhanced blocks, and of its packets how many were not read.
    fn blocks(simple: usize, obsolete: usize, enhanced: usize) -> Result<u64, Failure> {
        let mut frame = Vec::new();
        let packet = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let syn = packet.tcp(4000, 3306, 1, 100).syn();
        syn.write(&mut frame, b"").expect("room");
        let length = frame.len() as u32;
        let simple_one = || SimplePacketBlock {
            original_len: length,
            data: (&frame).into(),
        };
        let obsolete_one = || PacketBlock {
            interface_id: 0,
            drop_count: 0,
            timestamp: 5,
            captured_len: length,
            original_len: length,
            data: (&frame).into(),
            options: Vec::new(),
        };
        let enhanced_one = || EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(5),
            original_len: length,
            data: (&frame).into(),
            options: Vec::new(),
        };
        let interface = InterfaceDescriptionBlock::new(DataLink::RAW, 0).into_block();
        let simple = (0..simple).map(|_| simple_one().into_block());
        let obsolete = (0..obsolete).map(|_| obsolete_one().into_block());
        let enhanced = (0..enhanced).map(|_| enhanced_one().into_block());
        let mut writer = PcapNgWriter::new(Vec::new()).expect("a header");
        for block in std::iter::once(interface)
            .chain(simple)
            .chain(enhanced)
            .chain(obsolete)
        {
            writer.write_block(&block).expect("written");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (file, trace) = (folder.path().join("pcapng"), folder.path().join("trace"));
        std::fs::write(&file, writer.into_inner()).expect("a file");
        let words = ["capture", "--pcap", "-", &trace.display().to_string()];
        let captured = read(
            &Line::parse_from(words).options,
            &file,
            None,
            &Arc::default(),
        );
        let packets = captured?.0.packets.expect("of packets");
        assert_eq!(packets.broken, None);
        Ok(packets
            .unread_packets
            .get(UNREAD_BLOCK)
            .copied()
            .unwrap_or_default())
    }

    #[test]
    fn packets_in_blocks_that_are_not_read_are_counted() {
        assert_eq!(blocks(0, 0, 1).ok(), Some(0));
        assert_eq!(blocks(2, 1, 1).ok(), Some(3));
        let failure = blocks(2, 1, 0).expect_err("nothing read");
        let why = "none of the 3 packets";
        assert!(failure.message.starts_with(why), "{}", failure.message);
        let why = "(3 of them: simple packet blocks, which have no time,";
        assert!(failure.message.contains(why), "{}", failure.message);
    }
}
