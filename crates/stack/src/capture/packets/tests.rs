//! Whole files of packets: conversations that are cut into segments, written as tcpdump writes them, spoiled on the way, and read.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use etherparse::PacketBuilder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgBlock;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use wire::passive::Side;

use super::super::taker::Taker;
use super::*;

const PORT: u16 = 3306;

/// What a taker was told of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Open { late: bool },
    Bytes(Side, Vec<u8>),
    Gap(Side, u64),
    End { closed: bool },
}

/// All connections; bytes that follow each other are one.
#[derive(Default)]
struct Recorder(BTreeMap<u32, Vec<Told>>);

impl Taker for Recorder {
    fn open(&mut self, connection: u32, _: u64, joined_late: bool) {
        let known = self
            .0
            .insert(connection, vec![Told::Open { late: joined_late }]);
        assert!(known.is_none());
    }

    fn bytes(&mut self, connection: u32, side: Side, bytes: &[u8], _: u64) {
        let told = self.0.get_mut(&connection).expect("open");
        match told.last_mut() {
            Some(Told::Bytes(last, before)) if *last == side => before.extend_from_slice(bytes),
            Some(Told::End { .. }) => panic!("bytes behind the end"),
            _ => told.push(Told::Bytes(side, bytes.to_vec())),
        }
    }

    fn gap(&mut self, connection: u32, side: Side, missing: u64, _: u64) {
        assert!(missing > 0);
        self.0
            .get_mut(&connection)
            .expect("open")
            .push(Told::Gap(side, missing));
    }

    fn end(&mut self, connection: u32, _: u64, closed: bool) {
        self.0
            .get_mut(&connection)
            .expect("open")
            .push(Told::End { closed });
    }
}

/// One segment of a conversation.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    side: Side,
    client_port: u16,
    seq: u32,
    ack: u32,
    pub(super) flags: Flags,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    Syn,
    Data,
    Fin,
}

/// The segments of a conversation from its first to its last, none longer than `longest`.
pub(super) fn segments(
    client_port: u16,
    said: &[(Side, Vec<u8>)],
    longest: usize,
    first: [u32; 2],
) -> Vec<Sent> {
    let (mut next, mut sent) = (first, Vec::new());
    let mut send = |side: Side, flags: Flags, bytes: &[u8]| {
        let own = usize::from(side == Side::Server);
        sent.push(Sent {
            side,
            client_port,
            seq: next[own],
            ack: next[1 - own],
            flags,
            bytes: bytes.to_vec(),
        });
        let more = bytes.len() as u32 + u32::from(flags != Flags::Data);
        next[own] = next[own].wrapping_add(more);
    };
    send(Side::Client, Flags::Syn, &[]);
    send(Side::Server, Flags::Syn, &[]);
    send(Side::Client, Flags::Data, &[]);
    for (side, bytes) in said {
        bytes
            .chunks(longest)
            .for_each(|chunk| send(*side, Flags::Data, chunk));
    }
    send(Side::Client, Flags::Fin, &[]);
    send(Side::Server, Flags::Fin, &[]);
    send(Side::Client, Flags::Data, &[]);
    sent
}

fn frame(sent: &Sent, v6: bool) -> Vec<u8> {
    let ends = [(1, sent.client_port), (2, PORT)];
    let [(from, source), (to, target)] = match sent.side {
        Side::Client => ends,
        Side::Server => [ends[1], ends[0]],
    };
    let link = PacketBuilder::ethernet2([from; 6], [to; 6]);
    let tcp = if v6 {
        link.ipv6([from; 16], [to; 16], 64)
            .tcp(source, target, sent.seq, 1000)
    } else {
        link.ipv4([10, 0, 0, from], [10, 0, 0, to], 64)
            .tcp(source, target, sent.seq, 1000)
    };
    let tcp = match (sent.flags, sent.side) {
        (Flags::Syn, Side::Client) => tcp.syn(),
        (Flags::Syn, Side::Server) => tcp.syn().ack(sent.ack),
        (Flags::Data, _) => tcp.ack(sent.ack).psh(),
        (Flags::Fin, _) => tcp.ack(sent.ack).fin(),
    };
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &sent.bytes).expect("room");
    bytes
}

/// A pcap file as tcpdump writes it with `-s snaplen`.
pub(super) fn pcap(sent: &[Sent], snaplen: usize) -> Vec<u8> {
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        endianness: Endianness::native(),
        ts_resolution: TsResolution::MicroSecond,
        // The library's writer refuses shorter packets than they were.
        snaplen: 262_144,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).expect("a header");
    for (number, sent) in sent.iter().enumerate() {
        let frame = frame(sent, false);
        let data = &frame[..frame.len().min(snaplen)];
        let at = Duration::from_micros(1_000_000 + number as u64);
        let packet = PcapPacket::new(at, frame.len() as u32, data);
        writer.write_packet(&packet).expect("written");
    }
    writer.into_writer()
}

/// What a file has.
fn read(file: &[u8]) -> (Recorder, Read, Result<(), String>) {
    let mut recorder = Recorder::default();
    let (read, whole) = read_into(file, &mut recorder);
    (recorder, read, whole)
}

/// Read a file from the disk.
pub(super) fn read_into(file: &[u8], taker: &mut dyn Taker) -> (Read, Result<(), String>) {
    let mut out = tempfile::NamedTempFile::new().expect("a file");
    out.write_all(file).expect("room");
    let packets = Packets::open(out.path(), &std::sync::Arc::default()).expect("a pcap");
    let mut reading = Reading::new(PORT);
    let whole = packets.read(|packet| {
        if let Some(packet) = packet {
            reading.take(&packet, taker);
        }
        true
    });
    (reading.finish(taker), whole)
}

/// What is told of a whole conversation.
fn whole(said: &[(Side, Vec<u8>)]) -> Vec<Told> {
    let mut recorder = Recorder::default();
    recorder.open(1, 0, false);
    for (side, bytes) in said {
        recorder.bytes(1, *side, bytes, 0);
    }
    recorder.end(1, 0, true);
    recorder.0.remove(&1).expect("told")
}

fn conversation() -> Vec<(Side, Vec<u8>)> {
    let text = |side, text: &str| (side, text.as_bytes().to_vec());
    vec![
        text(Side::Server, "greeting, which is somewhat longer"),
        text(Side::Client, "login"),
        text(Side::Server, "ok"),
        text(Side::Client, "select everything from everywhere"),
        text(Side::Server, &"row ".repeat(50)),
        text(Side::Client, "quit"),
    ]
}

#[test]
fn a_conversation_is_read_as_it_was_whatever_the_format() {
    let said = conversation();
    let sent = segments(4000, &said, 10, [u32::MAX - 3, 7]);
    let (mut recorder, read_, broken) = read(&pcap(&sent, usize::MAX));
    assert_eq!(recorder.0.remove(&1), Some(whole(&said)));
    assert_eq!(
        (read_.packets, read_.segments, broken),
        (sent.len() as u64, sent.len() as u64, Ok(()))
    );
    let mut writer = PcapNgWriter::new(Vec::new()).expect("a header");
    let interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
    writer
        .write_block(&interface.into_block())
        .expect("written");
    for sent in &sent {
        let frame = frame(sent, true);
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(5),
            original_len: frame.len() as u32,
            data: frame.into(),
            options: Vec::new(),
        };
        writer.write_block(&packet.into_block()).expect("written");
    }
    let (mut recorder, _, broken) = read(&writer.into_inner());
    assert_eq!(
        (recorder.0.remove(&1), broken),
        (Some(whole(&said)), Ok(()))
    );
}

#[test]
fn a_file_that_breaks_off_has_what_came_before() {
    let said = conversation();
    let file = pcap(&segments(4000, &said, 10, [1, 1]), usize::MAX);
    let (recorder, read_, broken) = read(&file[..file.len() / 2]);
    assert!(broken.expect_err("cut").contains("ends within a packet"));
    assert!(read_.packets > 5);
    assert_eq!(recorder.0[&1].last(), Some(&Told::End { closed: false }));
}

#[test]
fn what_a_short_snapshot_length_cut_off_is_a_gap() {
    let said = conversation();
    let sent = segments(4000, &said, 100, [1, 1]);
    // 54 bytes of headers.
    let (recorder, _, _) = read(&pcap(&sent, 54 + 20));
    let mut missing = 0;
    for told in &recorder.0[&1] {
        match told {
            Told::Gap(_, bytes) => missing += bytes,
            Told::Bytes(_, bytes) => assert!(bytes.len() <= 20 + 2),
            Told::Open { late } => assert!(!late),
            Told::End { closed } => assert!(closed),
        }
    }
    assert_eq!(missing, 14 + 13 + 80 + 80);
    let (_, read_, _) = read(&pcap(&sent, 40));
    assert_eq!(read_.unread_packets["cut"], sent.len() as u64);
}

#[test]
fn a_connection_that_was_there_before_is_joined_late() {
    let said = conversation();
    let sent = segments(4000, &said, 1000, [1, 1]);
    // Not its begin, and not its first messages.
    let (recorder, _, _) = read(&pcap(&sent[6..], usize::MAX));
    let mut right = whole(&said[3..]);
    right[0] = Told::Open { late: true };
    assert_eq!(recorder.0[&1], right);
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let said = conversation();
    let first = segments(4000, &said, 1000, [1, 1]);
    let second = segments(4000, &said[..3], 1000, [900_000_000, 5]);
    // The first one's last segments were lost; one of its answers comes again after its end.
    let mut sent = first[..first.len() - 3].to_vec();
    sent.extend(second.iter().cloned());
    sent.push(second[4].clone());
    let (recorder, _, _) = read(&pcap(&sent, usize::MAX));
    assert_eq!(recorder.0.len(), 2);
    assert_eq!(recorder.0[&1], whole(&said));
    assert_eq!(recorder.0[&2], whole(&said[..3]));
}

#[test]
fn other_ports_are_passed_over() {
    let mut sent = segments(4000, &conversation(), 1000, [1, 1]);
    for sent in &mut sent {
        sent.client_port = 80;
    }
    let mut file = pcap(&sent, usize::MAX);
    // Port 3306 becomes 3307 in every frame.
    let port = PORT.to_be_bytes();
    for place in 24..file.len() - 1 {
        if file[place..place + 2] == port {
            file[place + 1] += 1;
        }
    }
    let (recorder, read_, _) = read(&file);
    assert!(recorder.0.is_empty());
    assert_eq!(read_.segments, 0);
}

fn any_conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let side = prop_oneof![Just(Side::Client), Just(Side::Server)];
    let message = (side, proptest::collection::vec(any::<u8>(), 1..60));
    proptest::collection::vec(message, 1..12)
}

/// Which bytes of a side are there, at their places; those that are said to be missing are none.
fn placed(told: &[Told], of: Side) -> Vec<Option<u8>> {
    let mut placed = Vec::new();
    for told in told {
        match told {
            Told::Bytes(side, bytes) if *side == of => {
                placed.extend(bytes.iter().copied().map(Some))
            }
            Told::Gap(side, missing) if *side == of => {
                placed.extend(std::iter::repeat_n(None, *missing as usize));
            }
            _ => {}
        }
    }
    placed
}

/// A request that waits behind a hole stands before the gap of its lost answer, not behind it, where the next answer would be taken for its own.
#[test]
fn what_waits_behind_a_hole_is_told_before_the_gap_that_follows_it() {
    let said: Vec<(Side, Vec<u8>)> = [
        (Side::Client, "first"),
        (Side::Server, "ONE"),
        (Side::Client, "second"),
        (Side::Server, "TWO"),
        (Side::Client, "third"),
        (Side::Server, "THREE"),
    ]
    .map(|(side, words)| (side, words.into()))
    .into();
    let mut sent = segments(4000, &said, 100, [5, 9]);
    // Behind the three of the greeting: the first request, and the answers to it and to the second.
    for lost in [6, 4, 3] {
        sent.remove(lost);
    }
    let (recorder, _, _) = read(&pcap(&sent, usize::MAX));
    let right = [
        Told::Open { late: false },
        Told::Gap(Side::Server, 3),
        Told::Gap(Side::Client, 5),
        Told::Bytes(Side::Client, b"second".into()),
        Told::Gap(Side::Server, 3),
        Told::Bytes(Side::Client, b"third".into()),
        Told::Bytes(Side::Server, b"THREE".into()),
        Told::End { closed: true },
    ];
    assert_eq!(recorder.0[&1], right);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Segments that come twice, and a flight that comes in another order, change nothing.
    #[test]
    fn nothing_lost_nothing_missing(
        said in any_conversation(),
        longest in 1_usize..30,
        first in any::<[u32; 2]>(),
        spoiled in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..6, any::<bool>()), 0..10),
    ) {
        let mut sent = segments(4000, &said, longest, first);
        for (place, later, again) in spoiled {
            let place = place.index(sent.len());
            if again {
                let copy = sent[place].clone();
                sent.insert((place + 1 + later).min(sent.len()), copy);
            } else if let [one, two] = &sent[place..(place + 2).min(sent.len())] {
                // Within a flight: neither knows of anything that the other does not.
                let same = one.side == two.side && one.ack == two.ack;
                if same && one.flags == Flags::Data && two.flags == Flags::Data {
                    sent.swap(place, place + 1);
                }
            }
        }
        let (mut recorder, _, _) = read(&pcap(&sent, usize::MAX));
        prop_assert_eq!(recorder.0.remove(&1), Some(whole(&said)));
        prop_assert!(recorder.0.is_empty());
    }

    /// What was lost is said to be missing, and nothing else; and before what it was answered with.
    #[test]
    fn what_was_lost_is_a_gap_at_its_place(
        said in any_conversation(),
        longest in 1_usize..30,
        first in any::<[u32; 2]>(),
        lost in proptest::collection::btree_set(0_usize..60, 0..10),
    ) {
        let sent = segments(4000, &said, longest, first);
        let mut streams: BTreeMap<bool, Vec<Option<u8>>> = BTreeMap::new();
        // The greetings and ends stay, so that all places are known.
        let mut kept = Vec::new();
        for (number, each) in sent.iter().enumerate() {
            let is_lost = lost.contains(&number) && each.flags == Flags::Data;
            let bytes = each.bytes.iter().map(|&byte| (!is_lost).then_some(byte));
            streams.entry(each.side == Side::Server).or_default().extend(bytes);
            if !is_lost {
                kept.push(each.clone());
            }
        }
        let (recorder, _, _) = read(&pcap(&kept, usize::MAX));
        let told = &recorder.0[&1];
        for side in [Side::Client, Side::Server] {
            let right = streams.remove(&(side == Side::Server)).unwrap_or_default();
            prop_assert_eq!(placed(told, side), right);
        }
        // Everything that came before a message on the other side was told before it; more, where both sides lost something.
        let mut known = [0_u64; 2];
        let mut order = Vec::new();
        for each in told {
            let (side, len) = match each {
                Told::Bytes(side, bytes) => (*side, bytes.len() as u64),
                Told::Gap(side, missing) => (*side, *missing),
                _ => continue,
            };
            let own = usize::from(side == Side::Server);
            // Where both sides lost something, no order of it can be known.
            if matches!(each, Told::Bytes(..)) {
                order.push((side, known[own], known[1 - own]));
            }
            known[own] += len;
        }
        let mut before = [0_u64; 2];
        for (side, bytes) in &said {
            let own = usize::from(*side == Side::Server);
            let told = order.iter().filter(|(told, from, _)| told == side && *from == before[own]);
            for (_, _, other) in told {
                prop_assert!(*other >= before[1 - own]);
            }
            before[own] += bytes.len() as u64;
        }
    }
}
