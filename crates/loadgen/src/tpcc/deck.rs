//! The mix of transactions (clause 5.2.4): cards dealt from a shuffled deck, so that the shares are exact.

use rand::seq::SliceRandom;

use super::Transaction;
use crate::workload::Random;

/// Cards of each kind in a hundred.
const CARDS: [(Transaction, usize); 5] = [
    (Transaction::NewOrder, 45),
    (Transaction::Payment, 43),
    (Transaction::OrderStatus, 4),
    (Transaction::Delivery, 4),
    (Transaction::StockLevel, 4),
];

/// One terminal's deck.
#[derive(Debug, Default)]
pub(super) struct Deck {
    cards: Vec<Transaction>,
}

impl Deck {
    /// The next card; an empty deck is filled and shuffled.
    pub(super) fn deal(&mut self, random: &mut Random) -> Transaction {
        if self.cards.is_empty() {
            for (transaction, count) in CARDS {
                self.cards.extend(std::iter::repeat_n(transaction, count));
            }
            self.cards.shuffle(random);
        }
        self.cards.pop().expect("just filled")
    }
}
