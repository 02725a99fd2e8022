//! What a capture of packets has of a server's connections.

#[cfg(test)]
mod exchanges_tests;
mod file;
mod flows;
mod frame;
mod half;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use file::{Packet, Packets};
use flows::Flows;
use frame::Frame;

use super::taker::Taker;

/// The ports that are looked for where none is given: MySQL's and PostgreSQL's.
pub const PORTS: [u16; 2] = [3306, 5432];

/// What was read, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    pub packets: u64,
    /// Segments of the server's port.
    pub segments: u64,
    /// Segments that brought nothing new: sent again, or captured twice.
    pub repeated: u64,
    /// Connections whose end was not seen, and that were not waited for.
    pub given_up: u64,
    /// Packets sent in pieces, cut within their headers, of a kind of frames or in a kind of blocks that is not read here, by reason.
    pub unread_packets: BTreeMap<&'static str, u64>,
}

/// Why a packet is not read: its block of pcapng.
pub const UNREAD_BLOCK: &str = "block";

impl Read {
    /// So many packets of the file stood in blocks that are not read.
    pub fn unread_in_blocks(&mut self, packets: u64) {
        self.packets += packets;
        if packets > 0 {
            self.unread_packets.insert(UNREAD_BLOCK, packets);
        }
    }
}

/// Segments on their way to the connections that they belong to.
pub struct Reading {
    flows: Flows,
    read: Read,
}

/// The port of a packet that is one of ours: the server's, whichever end it is on.
#[must_use]
pub fn port_of(packet: &Packet, ports: &[u16]) -> Option<u16> {
    match frame::read(packet.link, packet.data, packet.whole) {
        Frame::Segment(segment) => [segment.to.port(), segment.from.port()]
            .into_iter()
            .find(|port| ports.contains(port)),
        _ => None,
    }
}

impl Reading {
    /// Of a server's port.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self {
            flows: Flows::new(port),
            read: Read::default(),
        }
    }

    /// The next packet.
    pub fn take(&mut self, packet: &Packet, taker: &mut dyn Taker) {
        self.read.packets += 1;
        let why = if frame::is_known(packet.link) {
            match frame::read(packet.link, packet.data, packet.whole) {
                Frame::Segment(segment) => {
                    let ours = self.flows.take(&segment, packet.at_ns, taker);
                    self.read.segments += u64::from(ours);
                    return;
                }
                Frame::Other => return,
                Frame::Fragment => "fragment",
                Frame::Cut => "cut",
            }
        } else {
            "link"
        };
        *self.read.unread_packets.entry(why).or_default() += 1;
    }

    /// Connections so far.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.flows.connections()
    }

    /// Those of them whose end was not seen.
    #[must_use]
    pub fn open(&self) -> usize {
        self.flows.open()
    }

    /// There are no more packets.
    pub fn finish(mut self, taker: &mut dyn Taker) -> Read {
        self.read.repeated = self.flows.repeated();
        self.read.given_up = self.flows.given_up();
        self.flows.finish(taker);
        self.read
    }
}
