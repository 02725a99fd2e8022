//! A captured frame down to its TCP segment.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_file::DataLink;

/// What a frame turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A segment of TCP.
    Segment(Segment<'a>),
    /// A piece of a packet that was sent in pieces.
    Fragment,
    /// The capture has less of it than its headers.
    Cut,
    /// Neither IP nor TCP.
    Other,
}

/// A segment.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub bytes: &'a [u8],
    /// Bytes behind those that the capture cut off.
    pub cut: u64,
}

/// Whether frames of this kind can be read.
#[must_use]
pub fn is_known(link: DataLink) -> bool {
    matches!(
        link,
        DataLink::ETHERNET
            | DataLink::LINUX_SLL
            | DataLink::LINUX_SLL2
            | DataLink::NULL
            | DataLink::LOOP
            | DataLink::RAW
            | DataLink::IPV4
            | DataLink::IPV6
    )
}

/// Read a frame of which the capture has `data`, and which had `whole` bytes.
#[must_use]
pub fn read(link: DataLink, data: &[u8], whole: usize) -> Frame<'_> {
    let missing = whole.saturating_sub(data.len()) as u64;
    let sliced = match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        // A family of the system that captured, in its byte order, or in network order: IP's own version says as much.
        DataLink::NULL | DataLink::LOOP => data.get(4..).and_then(ip),
        DataLink::LINUX_SLL => data.get(14..).and_then(|rest| typed(rest, 0, 2)),
        DataLink::LINUX_SLL2 => typed(data, 0, 20),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => ip(data),
        _ => None,
    };
    match sliced {
        Some(sliced) => segment(&sliced, missing),
        None if missing > 0 => Frame::Cut,
        None => Frame::Other,
    }
}

fn ip(data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    LaxSlicedPacket::from_ip(data).ok()
}

/// An ethernet type at one place, its payload at another.
fn typed(data: &[u8], at: usize, payload: usize) -> Option<LaxSlicedPacket<'_>> {
    let number = u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?);
    Some(LaxSlicedPacket::from_ether_type(
        EtherType(number),
        data.get(payload..)?,
    ))
}

fn segment<'a>(sliced: &LaxSlicedPacket<'a>, missing: u64) -> Frame<'a> {
    // Where the length of the packet is 0, it is longer than the field can say, and the frame's length counts.
    let (from, to, packet, here): (IpAddr, IpAddr, usize, usize) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(packet)) => {
            let header = packet.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                usize::from(header.total_len()),
                header.slice().len()
                    + packet
                        .extensions()
                        .auth
                        .as_ref()
                        .map_or(0, |auth| auth.slice().len())
                    + packet.payload().payload.len(),
            )
        }
        Some(LaxNetSlice::Ipv6(packet)) => {
            let header = packet.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                usize::from(header.payload_length()),
                packet.extensions().slice().len() + packet.payload().payload.len(),
            )
        }
        _ if missing > 0 => return Frame::Cut,
        _ => return Frame::Other,
    };
    if sliced
        .ip_payload()
        .is_some_and(|payload| payload.fragmented)
    {
        return Frame::Fragment;
    }
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
        let is_tcp = sliced
            .ip_payload()
            .is_some_and(|payload| payload.ip_number == etherparse::IpNumber::TCP);
        return if is_tcp { Frame::Cut } else { Frame::Other };
    };
    let cut = match packet {
        0 => missing,
        packet => packet.saturating_sub(here) as u64,
    };
    Frame::Segment(Segment {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        bytes: tcp.payload(),
        cut,
    })
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    /// A segment in a frame of each kind.
    fn frames(payload: &[u8]) -> Vec<(DataLink, Vec<u8>)> {
        let write = |packet: etherparse::PacketBuilderStep<etherparse::TcpHeader>| {
            let mut bytes = Vec::new();
            packet.write(&mut bytes, payload).expect("room");
            bytes
        };
        let four = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let four = write(four.tcp(4000, 3306, 7, 100).ack(9));
        let six = PacketBuilder::ipv6([1; 16], [2; 16], 64);
        let six = write(six.tcp(4000, 3306, 7, 100).ack(9));
        let ethernet =
            PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut ethernet = write(ethernet.tcp(4000, 3306, 7, 100).ack(9));
        // Short frames are filled up.
        ethernet.resize(ethernet.len().max(60), 0);
        let vlan = PacketBuilder::ethernet2([1; 6], [2; 6])
            .single_vlan(etherparse::VlanId::try_new(5).expect("valid"))
            .ipv6([1; 16], [2; 16], 64);
        let behind = |head: &[u8], rest: &[u8]| [head, rest].concat();
        vec![
            (DataLink::ETHERNET, ethernet),
            (
                DataLink::ETHERNET,
                write(vlan.tcp(4000, 3306, 7, 100).ack(9)),
            ),
            (DataLink::RAW, four.clone()),
            (DataLink::IPV6, six.clone()),
            (DataLink::NULL, behind(&[2, 0, 0, 0], &four)),
            (DataLink::LOOP, behind(&[0, 0, 0, 30], &six)),
            (
                DataLink::LINUX_SLL,
                behind(&[[0; 14].as_slice(), &[0x08, 0]].concat(), &four),
            ),
            (
                DataLink::LINUX_SLL2,
                behind(&[[0x86, 0xdd].as_slice(), &[0; 18]].concat(), &six),
            ),
        ]
    }

    #[test]
    fn every_kind_of_frame_has_its_segment() {
        for payload in [&b"select 1"[..], b""] {
            for (link, frame) in frames(payload) {
                assert!(is_known(link));
                let Frame::Segment(segment) = read(link, &frame, frame.len()) else {
                    panic!("{link:?}");
                };
                assert_eq!((segment.bytes, segment.cut), (payload, 0), "{link:?}");
                assert_eq!((segment.from.port(), segment.to.port()), (4000, 3306));
                assert_eq!((segment.seq, segment.ack), (7, Some(9)));
            }
        }
    }

    #[test]
    fn what_a_capture_cut_off_is_counted() {
        let payload = [b'x'; 100];
        for (link, frame) in frames(&payload) {
            let Frame::Segment(segment) = read(link, &frame[..frame.len() - 30], frame.len())
            else {
                panic!("{link:?}");
            };
            assert_eq!((segment.bytes.len(), segment.cut), (70, 30), "{link:?}");
            assert_eq!(
                read(link, &frame[..frame.len() - 110], frame.len()),
                Frame::Cut,
                "{link:?}"
            );
        }
    }

    #[test]
    fn other_frames_are_none_of_ours() {
        let mut udp = Vec::new();
        let packet = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 3306);
        packet.write(&mut udp, b"x").expect("room");
        assert_eq!(read(DataLink::RAW, &udp, udp.len()), Frame::Other);
        assert_eq!(read(DataLink::ETHERNET, &[0; 60], 60), Frame::Other);
        assert_eq!(read(DataLink::RAW, &[], 0), Frame::Other);
        assert_eq!(read(DataLink::LINUX_SLL, &[0; 10], 10), Frame::Other);
    }
}
