//! Exchanges of all connections in the order of their last bytes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use wire::passive::Exchange;

/// Threads of a capture tell their exchanges at their own time: none stands so many places behind where it belongs.
const AHEAD: usize = 16 * 1024;

/// Puts exchanges that stand almost in order in order.
#[derive(Default)]
pub(super) struct InOrder {
    /// The last byte's time, and the place in the trace, which tells what to do where times are equal.
    places: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, (u32, Box<Exchange>)>,
    added: u64,
}

impl InOrder {
    /// Add the next of the trace; the first of those that wait, where enough do.
    pub(super) fn add(
        &mut self,
        connection: u32,
        exchange: Box<Exchange>,
    ) -> Option<(u32, Box<Exchange>)> {
        let last_ns = exchange
            .answer_ns
            .map_or(exchange.request_end_ns, |(_, last)| last);
        self.places.push(Reverse((last_ns, self.added)));
        self.waiting.insert(self.added, (connection, exchange));
        self.added += 1;
        if self.places.len() > AHEAD {
            self.next()
        } else {
            None
        }
    }

    /// The first of those that wait.
    pub(super) fn next(&mut self) -> Option<(u32, Box<Exchange>)> {
        let Reverse((_, place)) = self.places.pop()?;
        self.waiting.remove(&place)
    }
}
