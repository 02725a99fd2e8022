//! Commit stress, after Sun's iGen: light SQL, one small durable transaction after another, so that the log device and the server's commit
//! path are what is measured. Its figures are transactions a minute and the average response time.

use rand::RngExt;
use serde_json::{Map, Value as Json};
use wire::{Connection, Error, Family, Fetch, Value};

use crate::drive::refused;
use crate::failure::Failure;
use crate::session::{Connector, Session, StatementId, StatementSpec};
use crate::sql::{self, say};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

const UPDATE: StatementId = StatementId(0);
const INSERT: StatementId = StatementId(1);
/// Rows in one INSERT of prepare.
const INSERT_ROWS: usize = 1000;

/// Each transaction changes one account and notes it in a log.
pub struct Commit {
    accounts: u64,
    statements: Vec<StatementSpec>,
}

impl Commit {
    /// The stress on so many accounts: few make transactions wait for each other's row locks.
    #[must_use]
    pub fn new(accounts: u64) -> Self {
        let statements = vec![
            StatementSpec::new(
                "account_update",
                "UPDATE commit_account SET balance = balance + ? WHERE id = ?",
            ),
            StatementSpec::new(
                "log_insert",
                "INSERT INTO commit_log (account, amount) VALUES (?, ?)",
            ),
        ];
        Self {
            accounts,
            statements,
        }
    }
}

impl Workload for Commit {
    fn name(&self) -> &str {
        "commit"
    }

    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn transactions(&self) -> &[&'static str] {
        &["commit"]
    }

    fn check(&self, connection: &mut dyn Connection) -> anyhow::Result<()> {
        let sql = format!(
            "SELECT balance FROM commit_account WHERE id = {}",
            self.accounts
        );
        let hint = format!(
            "fill the tables: upshift load commit prepare --accounts {}",
            self.accounts
        );
        match connection.query(&sql, Fetch::ALL, &mut ()) {
            Ok(done) if done.rows == 1 => Ok(()),
            Ok(_) => Err(Failure::new(
                format!("commit_account has fewer than {} rows", self.accounts),
                hint,
            )
            .into()),
            Err(Error::Server { message, .. }) => Err(Failure::new(message, hint).into()),
            Err(error) => Err(error.into()),
        }
    }

    fn options(&self) -> Map<String, Json> {
        Map::from_iter([("accounts".to_owned(), self.accounts.into())])
    }

    fn client(&self, _number: u32, _connections: u32) -> Box<dyn Client> {
        Box::new(CommitClient {
            accounts: self.accounts,
            account: 1,
            amount: 0,
        })
    }
}

struct CommitClient {
    accounts: u64,
    account: i64,
    amount: i64,
}

impl Client for CommitClient {
    fn draw(&mut self, random: &mut Random) -> Option<TransactionKind> {
        self.account = random.random_range(1..=self.accounts) as i64;
        self.amount = random.random_range(-1000..=1000);
        Some(TransactionKind(0))
    }

    fn run(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        session.begin()?;
        session.run(UPDATE, &[Value::Int(self.amount), Value::Int(self.account)])?;
        session.run(INSERT, &[Value::Int(self.account), Value::Int(self.amount)])?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

/// Make and fill the tables.
///
/// # Errors
/// The server's refusal.
pub fn prepare(connector: &Connector, accounts: u64, drop: bool) -> anyhow::Result<()> {
    let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
    if drop {
        cleanup(connector)?;
    }
    let (serial, engine) = match connection.family() {
        Family::Mysql => ("BIGINT NOT NULL AUTO_INCREMENT", "ENGINE=InnoDB"),
        Family::Postgres => ("BIGSERIAL", ""),
    };
    let account =
        "CREATE TABLE commit_account (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)";
    say(&mut *connection, &format!("{account} {engine}"))?;
    let log = format!(
        "CREATE TABLE commit_log (id {serial}, account INTEGER NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY (id))"
    );
    say(&mut *connection, &format!("{log} {engine}"))?;
    let rows = || (1..=accounts).map(|id| vec![Value::Int(id as i64), Value::Int(0)]);
    let columns = ["id", "balance"];
    sql::fill(
        &mut *connection,
        "commit_account",
        &columns,
        rows,
        INSERT_ROWS,
    )
}

/// Drop the tables.
///
/// # Errors
/// The server's refusal.
pub fn cleanup(connector: &Connector) -> anyhow::Result<()> {
    let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
    for table in ["commit_account", "commit_log"] {
        say(&mut *connection, &format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(())
}
