//! Connections read from outside: as they were captured, damaged, cut and joined late, and between real clients and servers.

mod attributes;
mod bounds;
#[path = "../common/captured.rs"]
mod captured;
mod foreign;
#[path = "../common/held.rs"]
mod held;
mod made;
mod names;
mod offline;
mod ours;
mod packed;
mod raw;
mod relay;
mod savepoint;

use wire::Family;
use wire::passive::{Exchange, Observed, SessionFacts, Side, Stream, Totals, Why};

/// What a stream has told.
#[derive(Debug, Default, PartialEq)]
struct Told {
    sessions: Vec<SessionFacts>,
    exchanges: Vec<Exchange>,
    broken: Option<Why>,
    totals: Totals,
}

impl Told {
    fn add(&mut self, observed: Observed) {
        match observed {
            Observed::Session(facts) => self.sessions.push(*facts),
            Observed::Exchange(exchange) => self.exchanges.push(*exchange),
            Observed::Broken { why, .. } => self.broken = Some(why),
        }
    }

    /// Bytes and packets of both sides that belong to the login or an exchange.
    fn sums(&self) -> [u64; 4] {
        let logins = self.sessions.iter().map(|facts| {
            let packets = [facts.packets_sent, facts.packets_received];
            [packets, [facts.bytes_sent, facts.bytes_received]].concat()
        });
        let exchanges = self.exchanges.iter().map(|exchange| {
            let packets = [exchange.packets_sent, exchange.packets_received];
            [packets, [exchange.bytes_sent, exchange.bytes_received]].concat()
        });
        logins.chain(exchanges).fold([0; 4], |mut sums, more| {
            sums.iter_mut()
                .zip(more)
                .for_each(|(sum, more)| *sum += more);
            sums
        })
    }

    fn round_trips(&self) -> u64 {
        let logins = self.sessions.iter().map(|facts| facts.login_round_trips);
        let exchanges = self.exchanges.iter();
        logins.sum::<u64>()
            + exchanges
                .map(|exchange| u64::from(exchange.round_trips))
                .sum::<u64>()
    }

    /// Everything that passed is accounted for.
    fn is_whole(&self) {
        let [_, _, sent, received] = self.sums();
        assert_eq!(self.broken, None, "{self:#?}");
        assert_eq!(
            (sent, received, self.totals.unread),
            (self.totals.bytes_sent, self.totals.bytes_received, 0),
            "{self:#?}"
        );
        assert!(
            self.exchanges.iter().all(|exchange| !exchange.incomplete),
            "{self:#?}"
        );
    }
}

/// What a stream tells of a connection from its begin to its end.
fn told<B: AsRef<[u8]>>(family: Family, passed: &[(Side, B)]) -> Told {
    read(Stream::new(family), passed)
}

fn read<B: AsRef<[u8]>>(mut stream: Stream, passed: &[(Side, B)]) -> Told {
    let mut told = Told::default();
    for (at, (side, bytes)) in passed.iter().enumerate() {
        stream.bytes(*side, bytes.as_ref(), at as u64, &mut |observed| {
            told.add(observed)
        });
    }
    stream.end(passed.len() as u64, &mut |observed| told.add(observed));
    told.totals = stream.totals();
    told
}

fn text(exchange: &Exchange) -> Option<String> {
    let text = exchange.text.as_ref()?;
    Some(String::from_utf8_lossy(&text.bytes).into_owned())
}

#[test]
fn mariadb() {
    let server = testserver::Server::mariadb(&["--max-allowed-packet=256M"]);
    drop(server.create("passive"));
    ours::everything(&server, "passive");
    raw::everything(&server, false);
    ours::character_sets(&server);
    foreign::mysql(&server);
}

#[test]
fn mysql() {
    let Some(server) = testserver::Server::mysql(&["--max-allowed-packet=256M"]) else {
        return;
    };
    drop(server.create("passive"));
    ours::everything(&server, "passive");
    raw::everything(&server, true);
    ours::character_sets(&server);
    foreign::mysql(&server);
}

#[test]
fn postgres() {
    let server = testserver::Server::postgres(&[]);
    drop(server.create("passive"));
    ours::everything(&server, "passive");
    foreign::postgres(&server);
    foreign::pgbench(&server);
}
