//! What a load generator asks of a connection, the same for both protocols.

use std::ops::AddAssign;

use crate::{Cell, Counters, Dialect, Error, Family, ServerUrl, Value};

/// How many rows a request brings, and how many are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// Rows a round trip, through a cursor or portal; 0: all at once.
    pub size: u32,
    /// What is done with them.
    pub rows: RowsWanted,
}

impl Fetch {
    /// Every row, all at once.
    pub const ALL: Self = Self {
        size: 0,
        rows: RowsWanted::All,
    };
}

/// How much of a result is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsWanted {
    /// Every row.
    All,
    /// The first; the others are fetched as the protocol makes necessary and thrown away undecoded.
    First,
}

/// How a batch of parameter rows is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchWay {
    /// One request and one answer a row.
    Single,
    /// MariaDB's bulk execution (COM_STMT_BULK_EXECUTE): one request and one answer for all rows, more where they are longer than
    /// 1 MiB or a parameter's type changes from row to row.
    Bulk,
    /// All requests sent, then all answers read (PostgreSQL).
    Pipeline,
}

/// What a server may or may not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// [`BatchWay::Bulk`].
    Bulk,
    /// [`BatchWay::Pipeline`].
    Pipeline,
    /// Results without column metadata.
    OptionalMetadata,
}

/// A server-side prepared statement of one connection.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The server's (MySQL) or our (PostgreSQL) number for it.
    pub id: u32,
    /// How many parameters it takes.
    pub parameters: u16,
    /// How many columns it returns.
    pub columns: u16,
}

impl Statement {
    /// Both servers' own errors for a wrong number of parameters mislead: MySQL's names no statement, PostgreSQL's has the class of a
    /// lost connection.
    pub(crate) fn check(&self, parameters: &[Value]) -> Result<(), Error> {
        if parameters.len() == usize::from(self.parameters) {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "{} parameters for a statement of {}",
            parameters.len(),
            self.parameters
        )))
    }
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that it returned.
    pub rows: u64,
    /// Rows that it changed.
    pub affected: u64,
    /// Warnings that it raised: as MySQL counts them in its last answer; PostgreSQL's notices.
    pub warnings: u32,
    /// MySQL's AUTO_INCREMENT number of the first row that it inserted; 0 where there is none, and on PostgreSQL.
    pub last_insert_id: u64,
}

/// One statement after the other: counts are added, the insert id is the last one's.
impl AddAssign for Done {
    fn add_assign(&mut self, next: Self) {
        self.rows += next.rows;
        // The server's numbers, which may be anything.
        self.affected = self.affected.saturating_add(next.affected);
        self.warnings = self.warnings.saturating_add(next.warnings);
        self.last_insert_id = next.last_insert_id;
    }
}

/// A column of a result, as the server describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    /// Its name or alias.
    pub name: &'a [u8],
    /// The type's number: in MySQL's protocol, or PostgreSQL's pg_type.
    pub kind: u32,
    /// MySQL's display length in bytes; PostgreSQL's type modifier, -1 as 0xFFFF_FFFF.
    pub length: u32,
    /// MySQL's number of the collation; 0 on PostgreSQL.
    pub collation: u16,
    /// MySQL's flags (NOT NULL 1, UNSIGNED 32, ...); 0 on PostgreSQL.
    pub flags: u16,
    /// MySQL's digits after the point; 0 on PostgreSQL.
    pub decimals: u8,
}

/// Takes rows as they arrive.
pub trait RowSink {
    /// Whether [`Self::column`] is to be called. Looked at when a result begins.
    fn wants_columns(&self) -> bool {
        false
    }

    /// A column of a result, before its rows, in order. With `metadata=off` the server tells only those of prepared statements.
    fn column(&mut self, _definition: &ColumnDefinition<'_>) {}

    /// One row. Its cells live until this returns.
    fn row(&mut self, cells: &[Cell<'_>]);
}

/// Rows that nobody looks at.
impl RowSink for () {
    fn row(&mut self, _cells: &[Cell<'_>]) {}
}

/// A blocking connection. All methods count what they do; all SQL has `?` for parameters, on PostgreSQL too.
pub trait Connection: Send {
    /// Which protocol it speaks.
    fn family(&self) -> Family;

    /// How the session reads statements as text now; for [`crate::render`].
    fn dialect(&self) -> Dialect {
        self.family().into()
    }

    /// As the server says it: `9.7.4`, `10.11.19-MariaDB`, `15.18`.
    fn server_version(&self) -> &str;

    /// What it did so far.
    fn counters(&self) -> Counters;

    /// Whether the server offers something.
    fn supports(&self, feature: Feature) -> bool;

    /// Run one statement as text. A fetch size above 0 is refused on MySQL, whose text protocol has no cursors.
    ///
    /// # Errors
    /// Any [`Error`].
    fn query(&mut self, sql: &str, fetch: Fetch, rows: &mut dyn RowSink) -> Result<Done, Error>;

    /// Prepare a statement on the server.
    ///
    /// # Errors
    /// Any [`Error`].
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error>;

    /// Prepare a statement whose parameters have these types: on PostgreSQL `pg_type`'s oids, 0 or none where the server is to work one out.
    /// MySQL takes the types of each execution's values, and ignores these.
    ///
    /// # Errors
    /// Any [`Error`].
    fn prepare_typed(&mut self, sql: &str, _types: &[u32]) -> Result<Statement, Error> {
        self.prepare(sql)
    }

    /// Run a prepared statement.
    ///
    /// # Errors
    /// Any [`Error`].
    fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error>;

    /// Run a prepared statement once for each row of parameters.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the server does not offer the way; any other.
    fn execute_batch(
        &mut self,
        statement: &Statement,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error>;

    /// Forget a prepared statement.
    ///
    /// # Errors
    /// Any [`Error`].
    fn close(&mut self, statement: Statement) -> Result<(), Error>;

    /// A round trip that asks for nothing (COM_PING).
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the protocol has none; any other.
    fn ping(&mut self) -> Result<Done, Error> {
        Err(Error::Unsupported("a ping".to_owned()))
    }

    /// Make the session as it was after its login (COM_RESET_CONNECTION, DISCARD ALL): what was prepared is gone. MySQL rolls back what
    /// is open, `PostgreSQL` refuses it there.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the protocol has none; any other.
    fn reset(&mut self) -> Result<Done, Error> {
        Err(Error::Unsupported("a reset of the session".to_owned()))
    }

    /// Fill a table fast: COPY on PostgreSQL, LOAD DATA LOCAL on MySQL. Returns the number of rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the server forbids it, and for [`Value::Bytes`] on MySQL, behind the rows before them: use
    /// multi-row inserts then.
    fn load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error>;
}

/// [`BatchWay::Single`].
pub(crate) fn one_by_one(
    connection: &mut impl Connection,
    statement: &Statement,
    rows: &[Vec<Value>],
) -> Result<Done, Error> {
    let mut done = Done::default();
    for parameters in rows {
        done += connection.execute(statement, parameters, Fetch::ALL, &mut ())?;
    }
    Ok(done)
}

/// Connect and log in.
///
/// # Errors
/// Any [`Error`]; a refused login is [`Error::Server`].
pub fn connect(url: &ServerUrl) -> Result<Box<dyn Connection>, Error> {
    match url.family {
        Family::Postgres => crate::postgres::connect(url),
        Family::Mysql => crate::mysql::connect(url),
    }
}
