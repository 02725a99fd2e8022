//! One connection's work: a terminal with its home warehouse and district.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use rand::RngExt;
use serde::Serialize;
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

/// Which warehouses the terminals work for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warehouses {
    /// Each for its own, as clause 2.4.1.1 wants: N terminals load N warehouses.
    Home,
    /// Each transaction for any of them and any of its districts: few connections load many warehouses.
    Any,
}

/// Where a terminal stands (clause 2.4.1.1: it never moves, unless [`Warehouses::Any`] is asked for).
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

    /// Somewhere else.
    fn moved(mut self, random: &mut Random) -> Self {
        self.w_id = random.random_range(1..=self.warehouses);
        self.d_id = random.random_range(1..=DISTRICTS);
        self
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
    warehouses: Warehouses,
    deck: Deck,
    statements: Arc<Statements>,
    batch: BatchMode,
    pace: Pace,
    drawn: Option<(Transaction, Drawn)>,
}

impl Terminal {
    pub(super) fn new(
        home: Home,
        warehouses: Warehouses,
        statements: Arc<Statements>,
        batch: BatchMode,
        pace: Pace,
    ) -> Self {
        Self {
            home,
            warehouses,
            deck: Deck::default(),
            statements,
            batch,
            pace,
            drawn: None,
        }
    }

    pub(super) fn deal(&mut self, random: &mut Random) -> (Transaction, Drawn) {
        let card = self.deck.deal(random);
        if self.warehouses == Warehouses::Any {
            self.home = self.home.moved(random);
        }
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
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        let (card, drawn) = self.deal(random);
        self.drawn = Some((card, drawn));
        Some(card.kind())
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
