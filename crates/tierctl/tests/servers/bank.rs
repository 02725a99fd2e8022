//! Transfers between accounts, each acknowledged commit noted, and what must hold of them afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use testserver::{ALL, Server, one, rows, run};
use wire::{Connection, Error};

/// With `PAD` some 30 MB: several times the buffer pool of these tests.
const ACCOUNTS: u64 = 40_000;
const BALANCE: u64 = 1_000;
const WORKERS: usize = 3;
/// A load that is not ended by its server's end is broken.
const LOAD_MAX: Duration = Duration::from_secs(60);

const DIGITS: &str = "WITH d (n) AS (SELECT 0 UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 \
     UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)";

/// Accounts whose balances always add up to the same, and the transfers that were acknowledged, by worker.
pub struct Bank {
    acknowledged: [AtomicU64; WORKERS],
}

impl Bank {
    /// Makes the tables.
    pub fn open(server: &Server) -> Self {
        let mut connection = server.connect("mysql").expect("a login");
        for statement in [
            "CREATE DATABASE bank",
            "CREATE TABLE bank.account (id INT PRIMARY KEY, balance BIGINT NOT NULL, pad CHAR(200) NOT NULL, more CHAR(250) NOT NULL, \
             KEY (balance)) ENGINE=InnoDB",
            "CREATE TABLE bank.transfer (worker INT, number BIGINT, debit INT NOT NULL, credit INT NOT NULL, amount BIGINT NOT NULL, \
             PRIMARY KEY (worker, number)) ENGINE=InnoDB",
            &format!(
                "INSERT INTO bank.account {DIGITS} SELECT id, {BALANCE}, REPEAT('p', 200), REPEAT('m', 250) FROM \
                 (SELECT a.n * 10000 + b.n * 1000 + c.n * 100 + e.n * 10 + f.n AS id FROM d a, d b, d c, d e, d f) ids \
                 WHERE id < {ACCOUNTS}"
            ),
        ] {
            run(&mut *connection, statement);
        }
        Self {
            acknowledged: Default::default(),
        }
    }

    /// Transfers and sums over all accounts, until `end` has ended the server, which is asked after the first commit.
    pub fn load(&self, server: &mut Server, seed: u64, end: impl FnOnce(&mut Server)) {
        let connections: Vec<_> = (0..=WORKERS)
            .map(|_| server.connect("bank").expect("a login"))
            .collect();
        let ended = AtomicBool::new(false);
        let until = Instant::now() + LOAD_MAX;
        let on = || !ended.load(Ordering::Acquire) && Instant::now() < until;
        std::thread::scope(|scope| {
            let mut connections = connections.into_iter();
            let mut reader = connections.next().expect("a connection for sums");
            scope.spawn(move || while on() && sum(&mut *reader).is_some() {});
            for (worker, mut connection) in connections.enumerate() {
                let random = SmallRng::seed_from_u64(seed.wrapping_add(worker as u64));
                scope.spawn(move || self.work(worker, &mut *connection, random, &on));
            }
            let before = self.committed();
            while self.committed() == before && on() {
                std::thread::sleep(Duration::from_millis(5));
            }
            end(server);
            ended.store(true, Ordering::Release);
        });
    }

    /// Transfers until the connection breaks.
    fn work(
        &self,
        worker: usize,
        connection: &mut dyn Connection,
        mut random: SmallRng,
        on: &dyn Fn() -> bool,
    ) {
        while on() {
            let number = self.acknowledged[worker].load(Ordering::Acquire) + 1;
            match transfer(connection, worker, number, &mut random) {
                Ok(()) => self.acknowledged[worker].store(number, Ordering::Release),
                Err(error) if error.is_retryable() => {
                    drop(connection.query("ROLLBACK", ALL, &mut ()))
                }
                Err(error) => {
                    eprintln!("worker {worker} ended: {error}");
                    return;
                }
            }
        }
    }

    /// Transfers that were acknowledged so far.
    pub fn committed(&self) -> u64 {
        self.acknowledged
            .iter()
            .map(|number| number.load(Ordering::Acquire))
            .sum()
    }

    /// Every acknowledged transfer is there, nothing that was not sent, every account has what its transfers left, and the
    /// tables are sound. A commit on its way when the server ended may be there: it counts as acknowledged from now on.
    pub fn audit(&self, server: &Server) {
        let mut connection = server.connect("bank").expect("a login");
        for (worker, acknowledged) in self.acknowledged.iter().enumerate() {
            let found = rows(
                &mut *connection,
                &format!(
                    "SELECT COUNT(*), COALESCE(MAX(number), 0) FROM transfer WHERE worker = {worker}"
                ),
            );
            let [count, last] = [0, 1].map(|at| {
                found[0][at]
                    .as_deref()
                    .expect("a number")
                    .parse::<u64>()
                    .expect("a number")
            });
            let known = acknowledged.load(Ordering::Acquire);
            assert_eq!(count, last, "worker {worker}: transfers are missing");
            assert!(
                (known..=known + 1).contains(&last),
                "worker {worker}: {known} acknowledged, {last} found"
            );
            acknowledged.store(last, Ordering::Release);
        }
        consistent(&mut *connection);
    }

    /// What was acknowledged, to go back to with [`Bank::rewind`].
    pub fn mark(&self) -> [u64; WORKERS] {
        std::array::from_fn(|worker| self.acknowledged[worker].load(Ordering::Acquire))
    }

    /// The server's files are those of this mark again.
    pub fn rewind(&self, mark: [u64; WORKERS]) {
        for (acknowledged, was) in self.acknowledged.iter().zip(mark) {
            acknowledged.store(was, Ordering::Release);
        }
    }
}

/// Balances by themselves and against the transfers; CHECK TABLE.
fn consistent(connection: &mut dyn Connection) {
    assert_eq!(sum(connection), Some(ACCOUNTS * BALANCE));
    let wrong = one(
        connection,
        &format!(
            "SELECT COUNT(*) FROM account LEFT JOIN (SELECT id, SUM(amount) AS moved FROM \
             (SELECT debit AS id, -amount AS amount FROM transfer UNION ALL SELECT credit, amount FROM transfer) sides \
             GROUP BY id) sums USING (id) WHERE balance <> {BALANCE} + COALESCE(moved, 0)"
        ),
    );
    assert_eq!(
        wrong, "0",
        "accounts that are not what their transfers left"
    );
    for row in rows(connection, "CHECK TABLE account, transfer") {
        assert_eq!(row[3].as_deref(), Some("OK"), "{row:?}");
    }
}

/// All balances; none when the server went. Panics when they do not add up.
fn sum(connection: &mut dyn Connection) -> Option<u64> {
    let mut found = testserver::Texts::default();
    connection
        .query(
            "SELECT SUM(balance) FROM account USE INDEX ()",
            ALL,
            &mut found,
        )
        .ok()?;
    let total = found.0[0][0].as_deref()?.parse().expect("a sum");
    assert_eq!(total, ACCOUNTS * BALANCE, "money came or went");
    Some(total)
}

fn transfer(
    connection: &mut dyn Connection,
    worker: usize,
    number: u64,
    random: &mut SmallRng,
) -> Result<(), Error> {
    let (debit, credit) = (
        random.random_range(0..ACCOUNTS),
        random.random_range(0..ACCOUNTS),
    );
    let amount = random.random_range(1..=9_i64);
    // In one order everywhere, so that transfers do not lock each other out; an account may be both sides.
    let mut sides = [(debit, -amount), (credit, amount)];
    sides.sort_unstable();
    let mut send = |sql: &str| connection.query(sql, ALL, &mut ()).map(drop);
    send("START TRANSACTION")?;
    for (id, change) in sides {
        send(&format!(
            "UPDATE account SET balance = balance + {change} WHERE id = {id}"
        ))?;
    }
    send(&format!(
        "INSERT INTO transfer VALUES ({worker}, {number}, {debit}, {credit}, {amount})"
    ))?;
    send("COMMIT")
}
