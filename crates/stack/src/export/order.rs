//! Exchanges of all connections in the order of their last bytes.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use wire::passive::{Exchange, Parameters, Text};

/// Threads of a capture tell their exchanges at their own time: none stands so many places behind where it belongs.
const AHEAD: usize = 16 * 1024;
/// Fewer wait where their texts and parameters are so long together, in bytes.
const AHEAD_BYTES: usize = 64 << 20;

/// Puts exchanges that stand almost in order in order.
#[derive(Default)]
pub(super) struct InOrder {
    /// The last byte's time, and the place in the trace, which tells what to do where times are equal.
    places: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, (u32, Box<Exchange>)>,
    added: u64,
    /// Of those that wait; of texts that several have, once.
    bytes: usize,
    /// How many have a text, by where it is.
    texts: HashMap<usize, usize>,
}

impl InOrder {
    /// Add the next of the trace.
    pub(super) fn add(&mut self, connection: u32, exchange: Box<Exchange>) {
        let last_ns = exchange
            .answer_ns
            .map_or(exchange.request_end_ns, |(_, last)| last);
        self.places.push(Reverse((last_ns, self.added)));
        self.bytes += parameter_bytes(&exchange);
        if let Some(text) = &exchange.text {
            let having = self.texts.entry(address(text)).or_default();
            *having += 1;
            self.bytes += if *having == 1 { text.bytes.len() } else { 0 };
        }
        self.waiting.insert(self.added, (connection, exchange));
        self.added += 1;
    }

    /// The first of those that wait, where enough do.
    pub(super) fn due(&mut self) -> Option<(u32, Box<Exchange>)> {
        let is_enough = self.places.len() > AHEAD || self.bytes > AHEAD_BYTES;
        is_enough.then(|| self.next()).flatten()
    }

    /// The first of those that wait.
    pub(super) fn next(&mut self) -> Option<(u32, Box<Exchange>)> {
        let Reverse((_, place)) = self.places.pop()?;
        let (connection, exchange) = self.waiting.remove(&place)?;
        self.forget(&exchange);
        Some((connection, exchange))
    }

    fn forget(&mut self, exchange: &Exchange) {
        self.bytes -= parameter_bytes(exchange);
        let Some(text) = &exchange.text else {
            return;
        };
        if let Entry::Occupied(mut having) = self.texts.entry(address(text)) {
            *having.get_mut() -= 1;
            if *having.get() == 0 {
                having.remove();
                self.bytes -= text.bytes.len();
            }
        }
    }
}

fn parameter_bytes(exchange: &Exchange) -> usize {
    exchange.parameters.as_ref().map_or(0, Parameters::bytes)
}

/// Where a text is: the reader has each once, for all exchanges with it.
fn address(text: &Text) -> usize {
    text.bytes.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use wire::passive::{Kind, Parameter, ParameterValue};

    use super::*;

    /// An exchange that ends then.
    fn ending(at_ns: u64, text_bytes: usize) -> Box<Exchange> {
        let mut exchange = Exchange::new(Kind::Query, at_ns);
        exchange.text = Some(Text {
            bytes: vec![b'x'; text_bytes].into(),
            length: text_bytes as u64,
        });
        Box::new(exchange)
    }

    #[test]
    fn what_waits_is_bounded_by_its_bytes_too() {
        let mut ordered = InOrder::default();
        let mut seen = Vec::new();
        for number in 0..1000 {
            ordered.add(1, ending(number ^ 1, 1 << 18));
            while let Some((_, exchange)) = ordered.due() {
                seen.push(exchange.request_ns);
            }
            assert!(ordered.bytes <= AHEAD_BYTES && ordered.waiting.len() <= 256);
        }
        assert_eq!(seen, (0..1000 - 256).collect::<Vec<_>>());
        // One long one takes the place of many short ones.
        let mut ordered = InOrder::default();
        for number in 0..100 {
            ordered.add(1, ending(number, 600 << 10));
        }
        ordered.add(1, ending(100, AHEAD_BYTES));
        while ordered.due().is_some() {}
        assert_eq!((ordered.bytes, ordered.waiting.len()), (AHEAD_BYTES, 1));
        assert!(ordered.next().is_some() && ordered.next().is_none());
        assert_eq!(ordered.bytes, 0);
    }

    #[test]
    fn a_text_that_all_have_counts_once() {
        let mut ordered = InOrder::default();
        let mut each = ending(0, 1 << 18);
        let value = ParameterValue::Text(vec![b'x'; 100]);
        each.parameters = Some(Parameters {
            rows: vec![vec![Parameter { kind: 0, value }]],
            cut: false,
        });
        for _ in 0..1000 {
            ordered.add(1, each.clone());
            assert!(ordered.due().is_none());
        }
        assert_eq!(ordered.bytes, (1 << 18) + 1000 * 100);
        while ordered.next().is_some() {}
        assert_eq!((ordered.bytes, ordered.texts.len()), (0, 0));
    }
}
