//! Real conversations as packets: the exchanges are those of the whole stream, or gaps are said.

use std::path::Path;

use proptest::prelude::*;
use wire::Family;
use wire::passive::{Exchange, Observed, Side, Stream};

use super::super::taker::Taker;
use super::tests::{Flags, pcap, read_into, segments};

#[path = "../../../../wire/tests/common/captured.rs"]
mod captured;

use captured::captured;

/// Reads the one connection that there is.
struct Reader {
    stream: Stream,
    family: Family,
    exchanges: Vec<Exchange>,
    missing: u64,
    broken: bool,
}

impl Reader {
    fn new(family: Family) -> Self {
        Self {
            stream: Stream::new(family),
            family,
            exchanges: Vec::new(),
            missing: 0,
            broken: false,
        }
    }

    fn tell(&mut self, happened: impl FnOnce(&mut Stream, &mut dyn FnMut(Observed))) {
        let (exchanges, broken) = (&mut self.exchanges, &mut self.broken);
        happened(&mut self.stream, &mut |observed| match observed {
            Observed::Exchange(exchange) => exchanges.push(*exchange),
            Observed::Broken { .. } => *broken = true,
            Observed::Session(_) => {}
        });
    }

    /// What does not depend on when it came.
    fn timeless(mut self) -> Vec<Exchange> {
        for exchange in &mut self.exchanges {
            (exchange.request_ns, exchange.request_end_ns) = (0, 0);
            exchange.answer_ns = exchange.answer_ns.map(|_| (0, 0));
        }
        self.exchanges
    }
}

impl Taker for Reader {
    fn open(&mut self, _: u32, _: u64, joined_late: bool) {
        if joined_late {
            self.stream = Stream::joined_late(self.family);
        }
    }

    fn bytes(&mut self, _: u32, side: Side, bytes: &[u8], at_ns: u64) {
        self.tell(|stream, out| stream.bytes(side, bytes, at_ns, out));
    }

    fn gap(&mut self, _: u32, side: Side, missing: u64, at_ns: u64) {
        self.missing += missing;
        self.tell(|stream, out| stream.gap(side, missing, at_ns, out));
    }

    fn end(&mut self, _: u32, at_ns: u64, _: bool) {
        self.tell(|stream, out| stream.end(at_ns, out));
    }
}

/// What was said, in its order.
type Said = Vec<(Side, Vec<u8>)>;

/// Every captured conversation.
fn conversations() -> Vec<(Family, Said)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/exchanges");
    let names = std::fs::read_dir(folder).expect("captured exchanges");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort_unstable();
    let family = |name: &str| match name {
        name if name.contains("postgres") => Family::Postgres,
        _ => Family::Mysql,
    };
    names
        .iter()
        .map(|name| (family(name), captured(name)))
        .collect()
}

/// As a proxy would read it.
fn directly(family: Family, said: &[(Side, Vec<u8>)]) -> Vec<Exchange> {
    let mut reader = Reader::new(family);
    for (side, bytes) in said {
        reader.bytes(1, *side, bytes, 0);
    }
    reader.end(1, 0, true);
    reader.timeless()
}

#[test]
fn packets_have_the_exchanges_of_the_stream() {
    let conversations = conversations();
    assert!(conversations.len() >= 2);
    for (family, said) in conversations {
        let whole = directly(family, &said);
        assert!(!whole.is_empty());
        for longest in [7, 1448, 60_000] {
            let mut reader = Reader::new(family);
            let sent = segments(4000, &said, longest, [u32::MAX - 100, 9]);
            let (_, whole_file) = read_into(&pcap(&sent, usize::MAX), &mut reader);
            assert_eq!(whole_file, Ok(()));
            assert_eq!((reader.missing, reader.broken), (0, false));
            assert_eq!(reader.timeless(), whole);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// What is told although packets were lost is what was; what is missing is said.
    #[test]
    fn lost_packets_invent_nothing(
        which in any::<prop::sample::Index>(),
        lost in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
        longest in 20_usize..400,
    ) {
        let conversations = conversations();
        let (family, said) = &conversations[which.index(conversations.len())];
        let whole = directly(*family, said);
        let mut sent = segments(4000, said, longest, [5, 9]);
        let data = sent.len() - 6;
        for lost in &lost {
            // The greetings and ends of TCP stay.
            sent[3 + lost.index(data)].flags = Flags::Syn;
        }
        let all = sent.len();
        let kept: Vec<_> = (0..all).filter(|&number| {
            !(3..all - 3).contains(&number) || sent[number].flags == Flags::Data
        }).map(|number| sent[number].clone()).collect();
        let mut reader = Reader::new(*family);
        let (_, whole_file) = read_into(&pcap(&kept, usize::MAX), &mut reader);
        prop_assert_eq!(whole_file, Ok(()));
        prop_assert!(reader.missing > 0);
        let broken = reader.broken;
        let mut told = 0;
        for exchange in reader.timeless() {
            let known = exchange.text.is_some() && !exchange.incomplete;
            told += usize::from(known);
            // What a request is told as may depend on one that was lost: a fetch on an execute, parameters on a preparation, the digest
            // of rows on their description. What it says and what came of it may not.
            let same = whole.iter().any(|other| {
                other.text == exchange.text
                    && (other.rows, other.affected) == (exchange.rows, exchange.affected)
                    && other.error == exchange.error
            });
            prop_assert!(same || !known, "{exchange:?} (broken: {broken})");
        }
        prop_assert!(told <= whole.len());
    }
}
