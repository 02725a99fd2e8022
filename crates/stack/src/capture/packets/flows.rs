//! Segments of all connections, in the order of the capture, into the bytes of each.

use std::collections::HashMap;
use std::net::SocketAddr;

use wire::passive::Side;

use super::super::taker::Taker;
use super::frame::Segment;
use super::half::{Half, Part};

/// Ended connections that are remembered, so that what is sent again after the end begins no new one.
const REMEMBERED: usize = 65_536;
/// Open connections that are held. A server has fewer: the others' ends were not seen.
const OPEN: usize = 65_536;
/// Where there are more, so large a part of them is given up at once: those that were silent for the longest.
const PART: usize = 8;
/// A connection that is silent for a day is given up, too. What it says later is joined late.
const SILENT_NS: u64 = 24 * HOUR_NS;
/// So often are the silent ones looked for.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Client, then server.
type Ports = (SocketAddr, SocketAddr);

#[derive(Debug, Default)]
struct Flow {
    number: u32,
    client: Half,
    server: Half,
    ended: bool,
    /// When its last segment came.
    seen_ns: u64,
}

/// All connections of a server's port.
pub struct Flows {
    port: u16,
    flows: HashMap<Ports, Flow>,
    number: u32,
    ended: usize,
    /// Segments that brought nothing new.
    repeated: u64,
    /// Connections whose end was not seen, and that are not waited for.
    given_up: u64,
    at_ns: u64,
    /// When the silent ones are looked for next.
    look_ns: u64,
}

impl Flows {
    /// None yet.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self {
            port,
            flows: HashMap::new(),
            number: 0,
            ended: 0,
            repeated: 0,
            given_up: 0,
            at_ns: 0,
            look_ns: 0,
        }
    }

    /// Connections seen.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.number
    }

    /// Connections whose end was not seen.
    #[must_use]
    pub fn open(&self) -> usize {
        self.flows.len() - self.ended
    }

    /// Segments that brought nothing new.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Connections that were given up because nothing came of them any more.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The next segment of the capture; whether it is one of ours.
    pub fn take(&mut self, segment: &Segment, at_ns: u64, taker: &mut dyn Taker) -> bool {
        let (ports, side) = if segment.to.port() == self.port {
            ((segment.from, segment.to), Side::Client)
        } else if segment.from.port() == self.port {
            ((segment.to, segment.from), Side::Server)
        } else {
            return false;
        };
        // A clock that was set back in between: a later segment is never earlier.
        self.at_ns = self.at_ns.max(at_ns);
        let at_ns = self.at_ns;
        if self.is_new(ports, side, segment) {
            self.drop_flow(ports, taker);
            let brings = segment.syn || !segment.bytes.is_empty() || segment.cut > 0;
            if segment.rst || !brings {
                return true;
            }
            self.begin(ports, segment, taker);
        }
        let Some(flow) = self.flows.get_mut(&ports) else {
            return true;
        };
        if flow.ended {
            return true;
        }
        flow.seen_ns = at_ns;
        let number = flow.number;
        let (own, other) = match side {
            Side::Client => (&mut flow.client, &mut flow.server),
            Side::Server => (&mut flow.server, &mut flow.client),
        };
        // First what the sender had received: it is what this segment may answer.
        let first = segment.seq.wrapping_add(u32::from(segment.syn));
        own.start(first);
        if let Some(ack) = segment.ack {
            let with_bytes = !segment.bytes.is_empty() || segment.cut > 0;
            if other.lacks(ack, with_bytes) {
                // What this side sent before stands before the gap.
                own.pass_before(first, &mut passing(taker, number, side, at_ns));
            }
            let out = &mut passing(taker, number, side.other(), at_ns);
            other.acked(ack, with_bytes, out);
        }
        let before = own.repeated;
        own.take(
            first,
            segment.bytes,
            segment.cut,
            &mut passing(taker, number, side, at_ns),
        );
        self.repeated += own.repeated - before;
        if segment.fin {
            own.finish(first, segment.bytes.len() as u64 + segment.cut);
        }
        if segment.rst || own.is_finished() && other.is_finished() {
            self.end(ports, taker, true);
        }
        true
    }

    /// The capture has ended, and with it all that we know.
    pub fn finish(mut self, taker: &mut dyn Taker) {
        let mut all: Vec<(u32, Ports)> = self
            .flows
            .iter()
            .filter(|(_, flow)| !flow.ended)
            .map(|(ports, flow)| (flow.number, *ports))
            .collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        for (_, ports) in all {
            self.end(ports, taker, false);
        }
    }

    /// Whether this segment is not of the connection that is known on its ports.
    fn is_new(&self, ports: Ports, side: Side, segment: &Segment) -> bool {
        let Some(flow) = self.flows.get(&ports) else {
            return true;
        };
        let own = match side {
            Side::Client => &flow.client,
            Side::Server => &flow.server,
        };
        if segment.syn && side == Side::Client {
            return !own.began_at(segment.seq.wrapping_add(1));
        }
        own.is_far(segment.seq)
    }

    fn drop_flow(&mut self, ports: Ports, taker: &mut dyn Taker) {
        if self.flows.get(&ports).is_some_and(|flow| !flow.ended) {
            self.end(ports, taker, true);
        }
        if self.flows.remove(&ports).is_some() {
            self.ended -= 1;
        }
    }

    /// Before one more connection: give up those of which nothing will come any more.
    fn make_room(&mut self, taker: &mut dyn Taker) {
        let open = self.open();
        let is_full = open >= OPEN;
        if !is_full && self.at_ns < self.look_ns {
            return;
        }
        self.look_ns = self.at_ns.saturating_add(HOUR_NS);
        let flows = self.flows.iter().filter(|(_, flow)| !flow.ended);
        let mut silent: Vec<(u64, u32, Ports)> = flows
            .map(|(ports, flow)| (flow.seen_ns, flow.number, *ports))
            .collect();
        silent.sort_unstable();
        let part = if is_full { open / PART } else { 0 };
        let long = silent.partition_point(|(seen_ns, ..)| self.at_ns - seen_ns >= SILENT_NS);
        silent.truncate(part.max(long));
        self.given_up += silent.len() as u64;
        for (.., ports) in silent {
            if let Some(mut flow) = self.flows.remove(&ports) {
                flow.end(self.at_ns, taker, false);
            }
        }
    }

    fn begin(&mut self, ports: Ports, segment: &Segment, taker: &mut dyn Taker) {
        self.make_room(taker);
        self.number += 1;
        let mut flow = Flow {
            number: self.number,
            seen_ns: self.at_ns,
            ..Flow::default()
        };
        let is_server = segment.from == ports.1;
        if let Some(ack) = segment.ack {
            let other = if is_server {
                &mut flow.client
            } else {
                &mut flow.server
            };
            other.start(ack);
        }
        self.flows.insert(ports, flow);
        taker.open(self.number, self.at_ns, !segment.syn);
    }

    fn end(&mut self, ports: Ports, taker: &mut dyn Taker, closed: bool) {
        let Some(flow) = self.flows.get_mut(&ports) else {
            return;
        };
        flow.end(self.at_ns, taker, closed);
        self.ended += 1;
        if self.ended > REMEMBERED {
            self.flows.retain(|_, flow| !flow.ended);
            self.ended = 0;
        }
    }
}

impl Flow {
    /// Hand on what is held, and say that nothing more comes.
    fn end(&mut self, at_ns: u64, taker: &mut dyn Taker, closed: bool) {
        for (half, side) in [
            (&mut self.client, Side::Client),
            (&mut self.server, Side::Server),
        ] {
            half.flush(&mut passing(taker, self.number, side, at_ns));
            *half = std::mem::take(half).remembered();
        }
        taker.end(self.number, at_ns, closed);
        self.ended = true;
    }
}

/// Hands the parts of a side on.
fn passing<'a>(
    taker: &'a mut dyn Taker,
    number: u32,
    side: Side,
    at_ns: u64,
) -> impl FnMut(Part) + 'a {
    move |part| match part {
        Part::Bytes(bytes) => taker.bytes(number, side, bytes, at_ns),
        Part::Gap(missing) => taker.gap(number, side, missing, at_ns),
    }
}

#[cfg(test)]
mod tests;
