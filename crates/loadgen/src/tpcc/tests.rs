//! The five transactions over 100,000 of them, against a server that always has an answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand::SeedableRng;
use wire::{
    BatchWay, Cell, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, Statement,
    Value,
};

use super::part::Part;
use super::rows::Load;
use super::terminal::{Drawn, Home, Terminal};
use super::{BatchMode, Choice, How, Pace, Tpcc, Transaction, Warehouses, scale};
use crate::clock::MonotonicClock;
use crate::measure::{Collector, Names, Recorder};
use crate::session::{Knobs, Protocol, Session, Shared};
use crate::workload::{Client, Outcome, Random, Workload};

const TRANSACTIONS: u64 = 100_000;
const TERMINALS: u32 = 16;

/// What was sent, in order, with the parameters.
type Sent = Arc<Mutex<Vec<(String, Vec<Value>)>>>;

/// Answers every SELECT with one row of ones, but knows which item there is not.
#[derive(Default)]
struct Always {
    executed: Arc<AtomicU64>,
    prepared: Vec<String>,
    sent: Option<Sent>,
    /// Statements that begin so have so many columns.
    narrow: Option<(&'static str, usize)>,
}

impl Always {
    fn note(&self, sql: &str, parameters: &[Value]) {
        if let Some(sent) = &self.sent {
            let sent = &mut sent.lock().expect("whole");
            sent.push((sql.to_owned(), parameters.to_vec()));
        }
    }
}

impl Connection for Always {
    fn family(&self) -> Family {
        Family::Mysql
    }
    fn server_version(&self) -> &'static str {
        "always"
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
    fn supports(&self, _feature: Feature) -> bool {
        false
    }
    fn query(&mut self, sql: &str, _: Fetch, _: &mut dyn RowSink) -> Result<Done, Error> {
        self.note(sql, &[]);
        Ok(Done::default())
    }
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.prepared.push(sql.to_owned());
        Ok(Statement {
            id: self.prepared.len() as u32 - 1,
            parameters: 0,
            columns: u16::from(sql.starts_with("SELECT")),
        })
    }
    fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        _: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        self.executed.fetch_add(1, Ordering::Relaxed);
        self.note(&self.prepared[statement.id as usize], parameters);
        let there = parameters[0] != Value::Int(scale::ITEM_UNUSED);
        if statement.columns > 0 && there {
            let sql = &self.prepared[statement.id as usize];
            let narrow = self.narrow.filter(|(begin, _)| sql.starts_with(begin));
            rows.row(&[Cell::Int(1); 14][..narrow.map_or(14, |(_, columns)| columns)]);
        }
        Ok(Done {
            affected: 1,
            ..Done::default()
        })
    }
    fn execute_batch(
        &mut self,
        _: &Statement,
        _: &[Vec<Value>],
        _: BatchWay,
    ) -> Result<Done, Error> {
        Ok(Done::default())
    }
    fn close(&mut self, _statement: Statement) -> Result<(), Error> {
        Ok(())
    }
    fn load(
        &mut self,
        _: &str,
        _: &[&str],
        _: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error> {
        Ok(0)
    }
}

fn choice() -> Choice {
    Choice {
        flavour: "benchmarksql".to_owned(),
        statements: Vec::new(),
        folder: None,
    }
}

fn how(batch: BatchMode) -> How {
    How {
        batch,
        pace: Pace::default(),
        warehouses: Warehouses::Home,
    }
}

#[test]
fn a_batch_prepares_only_the_statements_that_it_sends() {
    let prepared = |batch, all| {
        let protocol = if all {
            Protocol::Prepared
        } else {
            Protocol::Text
        };
        let knobs = Knobs {
            protocol,
            ..Knobs::default()
        };
        let tpcc = Tpcc::new(&choice(), how(batch), 1, 1).expect("a flavour that is there");
        (tpcc.statements_prepared(&knobs), tpcc.statements().len())
    };
    let (single, every) = prepared(BatchMode::None, true);
    assert!(single < every - 28, "{single} of {every}");
    // The multi-row INSERT is a statement for each number of lines, in place of a single one.
    assert_eq!(prepared(BatchMode::Multirow, true).0, single + 14);
    assert_eq!(prepared(BatchMode::Multirow, false).0, 0);
    assert_eq!(prepared(BatchMode::Pipeline, false).0, 2);
}

fn session(tpcc: &Tpcc, executed: &Arc<AtomicU64>, sent: Option<&Sent>) -> Session {
    let (executed, sent) = (Arc::clone(executed), sent.cloned());
    on(tpcc, move || Always {
        executed: Arc::clone(&executed),
        sent: sent.clone(),
        ..Always::default()
    })
}

fn on(tpcc: &Tpcc, server: impl Fn() -> Always + Send + Sync + 'static) -> Session {
    let shared = Shared {
        connector: Arc::new(move || Ok(Box::new(server()))),
        statements: tpcc.statements().into(),
        names: Arc::new(Names::new(tpcc.statements())),
        knobs: Knobs::default(),
        clock: Arc::new(MonotonicClock::start()),
    };
    let recorder = Recorder::new(Collector::new(shared.names.all().len(), 5));
    Session::open(shared, recorder).expect("connects")
}

#[test]
fn an_order_with_an_item_that_does_not_exist_does_all_the_other_work_first() {
    let tpcc = Tpcc::new(&choice(), how(BatchMode::None), 1, 1).expect("a flavour that is there");
    let sent = Sent::default();
    let mut session = session(&tpcc, &Arc::default(), Some(&sent));
    let (mut client, mut random) = (tpcc.client(0, 1), Random::seed_from_u64(1));
    loop {
        sent.lock().expect("whole").clear();
        client.draw(&mut random).expect("a kind");
        let outcome = client.run(&mut session).expect("the server has an answer");
        if outcome == Outcome::RolledBack {
            break;
        }
    }
    let sent = sent.lock().expect("whole");
    let of = |begin: &str| -> Vec<&Vec<Value>> {
        let matching = sent.iter().filter(|(sql, _)| sql.starts_with(begin));
        matching.map(|(_, parameters)| parameters).collect()
    };
    let lines = of("INSERT INTO order_line").len() as i64;
    assert_eq!(of("INSERT INTO oorder")[0][5], Value::Int(lines + 1));
    let items = of("SELECT i_price").len();
    assert_eq!(of("SELECT s_quantity").len(), items - 1);
    assert_eq!(of("UPDATE stock").len(), items - 1);
    assert_eq!(sent.last().expect("some").0, "ROLLBACK");
    assert!(of("COMMIT").is_empty());
}

#[test]
fn a_statement_with_too_few_columns_is_an_error_of_the_load() {
    let both = |sql: &'static str, columns: usize| (0..columns).map(move |some| (sql, some));
    let narrow = both("SELECT d_tax", 2)
        .chain(both("SELECT i_price", 1))
        .chain(both("SELECT s_quantity", 2))
        .chain(both("SELECT c_first", 11));
    for (narrow, stock) in narrow.flat_map(|one| [(one, "benchmarksql"), (one, "tuned")]) {
        let mut choice = choice();
        choice.statements = vec![("new_order.stock_select".to_owned(), stock.to_owned())];
        let tpcc = Tpcc::new(&choice, how(BatchMode::None), 1, 1).expect("a flavour");
        let mut session = on(&tpcc, move || Always {
            narrow: Some(narrow),
            ..Always::default()
        });
        let (mut client, mut random) = (tpcc.client(0, 1), Random::seed_from_u64(1));
        let refused = (0..100).find_map(|_| {
            client.draw(&mut random).expect("a kind");
            client.run(&mut session).err()
        });
        let why = refused.expect("not all is there").to_string();
        assert!(why.contains("fewer columns"), "{narrow:?}: {why}");
    }
}

#[test]
fn mix_and_rollbacks_are_the_specification_s() {
    let tpcc =
        Tpcc::new(&choice(), how(BatchMode::None), TERMINALS, 1).expect("a flavour that is there");
    let executed = Arc::new(AtomicU64::new(0));
    let mut session = session(&tpcc, &executed, None);
    let mut clients: Vec<(Box<dyn Client>, Random)> = (0..TERMINALS)
        .map(|number| {
            (
                tpcc.client(number, TERMINALS),
                Random::seed_from_u64(u64::from(number)),
            )
        })
        .collect();
    let (mut counts, mut rolled_back) = ([0_u64; 5], 0_u64);
    for number in 0..TRANSACTIONS {
        let (client, random) = &mut clients[(number % u64::from(TERMINALS)) as usize];
        counts[usize::from(client.draw(random).expect("a kind").0)] += 1;
        let outcome = client.run(&mut session).expect("the server has an answer");
        rolled_back += u64::from(outcome == Outcome::RolledBack);
    }
    for (count, percent) in counts.iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
        let share = *count as f64 * 100.0 / TRANSACTIONS as f64;
        assert!((share / percent - 1.0).abs() < 0.005, "{counts:?}");
    }
    let share = rolled_back as f64 * 100.0 / counts[0] as f64;
    assert!((0.85..1.15).contains(&share), "{share} % rolled back");
    assert!(executed.load(Ordering::Relaxed) > 20 * TRANSACTIONS);
}

#[test]
fn inputs_are_the_specification_s() {
    let statements = super::Statements::read(&choice()).expect("all files");
    let constants = super::random::NurandConstants::for_run(0, &mut Random::seed_from_u64(1));
    let home = Home::of(23, 10, constants);
    assert_eq!((home.w_id, home.d_id), (4, 3));
    let mut terminal = Terminal::new(
        home,
        Warehouses::Home,
        Arc::new(statements),
        BatchMode::None,
        Pace::default(),
    );
    let mut random = Random::seed_from_u64(2);
    let (mut lines, mut remote_lines, mut orders) = (0, 0, 0);
    let (mut payments, mut remote, mut by_last) = (0, 0, 0);
    for _ in 0..TRANSACTIONS {
        match terminal.deal(&mut random) {
            (Transaction::NewOrder, Drawn::NewOrder(order)) => {
                let (all, far) = order.lines();
                assert!((5..=15).contains(&all));
                (lines, remote_lines, orders) = (lines + all, remote_lines + far, orders + 1);
            }
            (Transaction::Payment, Drawn::Payment(payment)) => {
                payments += 1;
                remote += u32::from(payment.is_remote());
                by_last += u32::from(payment.is_by_last());
            }
            _ => {}
        }
    }
    let near = |part: f64, whole: f64, percent: f64, off: f64| {
        assert!(
            (part * 100.0 / whole - percent).abs() < off,
            "{part} of {whole}: not {percent} %"
        );
    };
    near(lines as f64, f64::from(orders), 1000.0, 5.0);
    near(remote_lines as f64, lines as f64, 1.0, 0.1);
    near(f64::from(remote), f64::from(payments), 15.0, 0.6);
    near(f64::from(by_last), f64::from(payments), 60.0, 0.8);
}

#[test]
fn the_same_seed_makes_the_same_rows_in_every_version() {
    let load = Load::new(1);
    let hashes = [Part::Item, Part::Customer(1), Part::Stock(1)].map(|part| {
        let text = format!("{:?}", load.rows(part).take(1000).collect::<Vec<_>>());
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    });
    assert_eq!(
        hashes,
        [
            15_521_425_444_964_506_874,
            7_544_188_910_419_233_806,
            13_498_084_877_647_018_706
        ]
    );
}

#[test]
fn money_is_read_from_any_text() {
    for (text, expected) in [
        ("12.34", Some(1234)),
        ("7", Some(700)),
        ("0.5", Some(50)),
        ("-0.05", Some(-5)),
        ("x", None),
    ] {
        assert_eq!(
            super::cents(&Cell::Bytes(text.as_bytes())),
            expected,
            "{text}"
        );
    }
    assert_eq!(super::cents(&Cell::Null), None);
}
