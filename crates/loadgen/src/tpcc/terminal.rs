//! One connection's work: a terminal with its home warehouse and district.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use wire::Error;

use super::Transaction;
use super::batch::BatchMode;
use super::deck::Deck;
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::pace::Pace;
use super::payment::Payment;
use super::random::NurandConstants;
use super::scale::DISTRICTS;
use super::statements::{Runner, Statements};
use super::stock_level::StockLevel;
use crate::session::Session;
use crate::workload::{Client, Outcome, Random, TransactionKind};

/// Where a terminal stands (clause 2.4.1.1: it never moves).
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    pub(super) w_id: i64,
    pub(super) d_id: i64,
    pub(super) warehouses: i64,
    pub(super) constants: NurandConstants,
}

impl Home {
    /// Of terminal `number`: the first of each warehouse come first, then the second ones.
    pub(super) fn of(number: u32, warehouses: i64, constants: NurandConstants) -> Self {
        let number = i64::from(number);
        Self {
            w_id: number % warehouses + 1,
            d_id: number / warehouses % DISTRICTS + 1,
            warehouses,
            constants,
        }
    }

    /// A warehouse that is not the home; the home if there is no other.
    pub(super) fn other_warehouse(&self, random: &mut Random) -> i64 {
        if self.warehouses == 1 {
            return self.w_id;
        }
        let other = random.random_range(1..self.warehouses);
        other + i64::from(other >= self.w_id)
    }
}

/// A transaction and its inputs.
#[derive(Debug)]
pub(super) enum Drawn {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

pub(super) struct Terminal {
    home: Home,
    deck: Deck,
    statements: Arc<Statements>,
    batch: BatchMode,
    pace: Pace,
    drawn: Option<(Transaction, Drawn)>,
}

impl Terminal {
    pub(super) fn new(
        home: Home,
        statements: Arc<Statements>,
        batch: BatchMode,
        pace: Pace,
    ) -> Self {
        Self {
            home,
            deck: Deck::default(),
            statements,
            batch,
            pace,
            drawn: None,
        }
    }

    pub(super) fn deal(&mut self, random: &mut Random) -> (Transaction, Drawn) {
        let card = self.deck.deal(random);
        let home = &self.home;
        let drawn = match card {
            Transaction::NewOrder => Drawn::NewOrder(NewOrder::draw(home, random)),
            Transaction::Payment => Drawn::Payment(Payment::draw(home, random)),
            Transaction::OrderStatus => Drawn::OrderStatus(OrderStatus::draw(home, random)),
            Transaction::Delivery => Drawn::Delivery(Delivery::draw(home, random)),
            Transaction::StockLevel => Drawn::StockLevel(StockLevel::draw(home, random)),
        };
        (card, drawn)
    }
}

impl Client for Terminal {
    fn draw(&mut self, random: &mut Random) -> TransactionKind {
        let (card, drawn) = self.deal(random);
        self.drawn = Some((card, drawn));
        card.kind()
    }

    fn keying(&mut self) -> Duration {
        self.drawn
            .as_ref()
            .map_or(Duration::ZERO, |(card, _)| self.pace.keying(*card))
    }

    fn thinking(&mut self, random: &mut Random) -> Duration {
        self.drawn.as_ref().map_or(Duration::ZERO, |(card, _)| {
            self.pace.thinking(*card, random)
        })
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        let mut runner = Runner {
            session,
            statements: &self.statements,
        };
        let (_, drawn) = self.drawn.as_ref().expect("drawn before it is run");
        match drawn {
            Drawn::NewOrder(order) => order.run(&mut runner, self.batch),
            Drawn::Payment(payment) => payment.run(&mut runner),
            Drawn::OrderStatus(status) => status.run(&mut runner),
            Drawn::Delivery(delivery) => delivery.run(&mut runner),
            Drawn::StockLevel(level) => level.run(&mut runner),
        }
    }
}
