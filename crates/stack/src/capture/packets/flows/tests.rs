//! Connections whose end is never seen.

use std::collections::HashSet;

use super::*;

const PORT: u16 = 3306;

/// The connections that are open, and how many began and were given up.
#[derive(Default)]
struct Watching {
    open: HashSet<u32>,
    most: usize,
    late: u64,
    given_up: u64,
    closed: u64,
    gaps: u64,
}

impl Taker for Watching {
    fn open(&mut self, connection: u32, _: u64, joined_late: bool) {
        assert!(self.open.insert(connection));
        self.most = self.most.max(self.open.len());
        self.late += u64::from(joined_late);
    }

    fn bytes(&mut self, connection: u32, _: Side, _: &[u8], _: u64) {
        assert!(self.open.contains(&connection));
    }

    fn gap(&mut self, connection: u32, _: Side, _: u64, _: u64) {
        assert!(self.open.contains(&connection));
        self.gaps += 1;
    }

    fn end(&mut self, connection: u32, _: u64, closed: bool) {
        assert!(self.open.remove(&connection));
        self.closed += u64::from(closed);
        self.given_up += u64::from(!closed);
    }
}

/// Segments of many clients, each of which sends its SYN and then a byte at a time.
struct Clients {
    flows: Flows,
    watching: Watching,
    at_ns: u64,
}

impl Clients {
    fn new() -> Self {
        Self {
            flows: Flows::new(PORT),
            watching: Watching::default(),
            at_ns: 0,
        }
    }

    fn send(&mut self, client: u32, seq: u32, syn: bool) {
        let [_, net, high, low] = client.to_be_bytes();
        let segment = Segment {
            from: SocketAddr::from(([10, net, high, low], 40_000)),
            to: SocketAddr::from(([10, 0, 0, 1], PORT)),
            seq,
            ack: None,
            syn,
            fin: false,
            rst: false,
            bytes: if syn { b"" } else { b"x" },
            cut: 0,
        };
        self.at_ns += 1;
        let taken = self.flows.take(&segment, self.at_ns, &mut self.watching);
        assert!(taken);
    }

    fn finish(self) -> (Watching, u64) {
        let mut watching = self.watching;
        let given_up = self.flows.given_up();
        self.flows.finish(&mut watching);
        (watching, given_up)
    }
}

#[test]
fn connections_whose_end_was_not_seen_do_not_add_up() {
    const CONNECTIONS: u32 = 200_000;
    let mut clients = Clients::new();
    for client in 0..CONNECTIONS {
        clients.send(client, 0, true);
        clients.send(client, 1, false);
        // One of them goes on all the time.
        clients.send(0, client + 2, false);
        assert!(clients.flows.flows.len() <= OPEN);
    }
    let (watching, given_up) = clients.finish();
    assert_eq!((watching.most, watching.closed), (OPEN, 0));
    assert!(given_up >= u64::from(CONNECTIONS) - OPEN as u64);
    // The first is not among them: of it alone there is more than one byte, and no gap.
    assert_eq!((watching.late, watching.gaps), (0, 0));
    assert!(watching.open.is_empty());
    assert_eq!(watching.given_up, u64::from(CONNECTIONS));
}

#[test]
fn a_day_of_silence_ends_a_connection_and_what_it_says_then_is_joined_late() {
    let mut clients = Clients::new();
    clients.send(1, 0, true);
    clients.send(2, 0, true);
    clients.at_ns = SILENT_NS / 2;
    clients.send(2, 1, false);
    // Looked for when another one begins.
    clients.at_ns = SILENT_NS + HOUR_NS;
    clients.send(3, 0, true);
    assert_eq!(clients.flows.given_up(), 1);
    assert_eq!(clients.watching.open, [2, 3].into());
    clients.send(1, 1, false);
    clients.send(2, 2, false);
    let (watching, given_up) = clients.finish();
    assert_eq!((watching.late, given_up), (1, 1));
}

#[test]
fn a_broken_clock_gives_up_what_is_silent_by_it() {
    let mut clients = Clients::new();
    clients.send(1, 0, true);
    clients.at_ns = u64::MAX - 2;
    clients.send(2, 0, true);
    clients.send(3, 0, true);
    assert_eq!(clients.flows.given_up(), 1);
    assert_eq!(clients.watching.open, [2, 3].into());
}
