//! A connection that runs a workload's statements by number, under the knobs, and measures each.

mod knobs;
mod statement;

use std::sync::Arc;

use wire::{
    BatchWay, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, Statement, Value,
};

pub use knobs::{Isolation, Knobs, Protocol, RowsMode};
pub use statement::{StatementId, StatementSpec, Way};

use crate::clock::Clock;
use crate::measure::{Names, Recorder};
use crate::replay::{Counts, Tape};

/// A pause looks so often whether the load has ended: Ctrl-C moves its end.
const LOOK_NS: u64 = 100_000_000;

/// Makes a new connection to the server under load.
pub type Connector = Arc<dyn Fn() -> Result<Box<dyn Connection>, Error> + Send + Sync>;

/// What all sessions of a run share.
#[derive(Clone)]
pub struct Shared {
    /// Makes connections.
    pub connector: Connector,
    /// The workload's statements.
    pub statements: Arc<[StatementSpec]>,
    /// The names that statements are reported under.
    pub names: Arc<Names>,
    /// How statements are sent.
    pub knobs: Knobs,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// One connection.
pub struct Session {
    shared: Shared,
    connection: Option<Box<dyn Connection>>,
    family: Family,
    /// Where it went; none before it has gone anywhere, and where nobody knows.
    database: Option<String>,
    /// By `StatementId`; prepared when first used, because servers limit how many there are at once.
    prepared: Vec<Option<Statement>>,
    recorder: Recorder,
    /// A statement has succeeded since the transaction began.
    begun: bool,
    /// The transaction began with [`Self::begin`]; otherwise each of its statements commits by itself where autocommit is on.
    bounded: bool,
    /// A statement of the transaction has committed by itself.
    permanent: bool,
    /// When the last request was answered.
    answered_ns: u64,
    /// Where requests are noted, if they are.
    tape: Option<Tape>,
}

impl Session {
    /// Connect.
    ///
    /// # Errors
    /// The server's or the system's refusal.
    pub fn open(shared: Shared, recorder: Recorder) -> Result<Self, Error> {
        let prepared = vec![None; shared.statements.len()];
        let mut session = Self {
            shared,
            connection: None,
            family: Family::Mysql,
            database: None,
            prepared,
            recorder,
            begun: false,
            bounded: false,
            permanent: false,
            answered_ns: 0,
            tape: None,
        };
        session.reconnect()?;
        Ok(session)
    }

    /// Which protocol the server speaks.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// The knobs of the run.
    #[must_use]
    pub fn knobs(&self) -> &Knobs {
        &self.shared.knobs
    }

    /// The run's clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// Run a statement and throw its rows away.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn run(&mut self, id: StatementId, parameters: &[Value]) -> Result<Done, Error> {
        self.rows(id, parameters, &mut ())
    }

    /// Run a statement and look at its rows.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn rows(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        if let Some(tape) = &mut self.tape {
            tape.statement(id, parameters);
        }
        let done = self.send(id, parameters, sink);
        self.note(id, &done);
        done
    }

    fn send(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        self.enter(id)?;
        let spec = &self.shared.statements[usize::from(id.0)];
        if spec.way.is_some_and(|way| way.several) {
            // One of them may be a USE.
            self.database = None;
        }
        let (protocol, fetch) = self.shared.knobs.way(spec, self.family);
        let name = self.shared.names.of(id);
        match protocol {
            Protocol::Text => self.measured(name, |connection, shared| {
                let spec = &shared.statements[usize::from(id.0)];
                if parameters.is_empty() {
                    return connection.query(&spec.sql, fetch, sink);
                }
                connection.query(
                    &wire::render(connection.dialect(), &spec.sql, parameters),
                    fetch,
                    sink,
                )
            }),
            Protocol::Prepared | Protocol::Recorded | Protocol::RecordedKept => {
                let statement = self.take_prepared(id)?;
                let done = self.measured(name, |connection, _| {
                    connection.execute(&statement, parameters, fetch, sink)
                });
                self.put_back(id, statement);
                done
            }
            Protocol::PreparePerRequest => self.measured(name, |connection, shared| {
                let spec = &shared.statements[usize::from(id.0)];
                let statement = connection.prepare_typed(&spec.sql, &spec.types)?;
                let done = connection.execute(&statement, parameters, fetch, sink);
                // Of two errors the first says why.
                let closed = connection.close(statement);
                done.and_then(|done| closed.map(|()| done))
            }),
        }
    }

    /// Run a prepared statement once for each row of parameters; counted as one statement. It is prepared whatever the knob says, since a
    /// batch is a use of a prepared statement.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn batch(
        &mut self,
        id: StatementId,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        if let Some(tape) = &mut self.tape {
            tape.batch(id, rows, way);
        }
        let done = self.send_batch(id, rows, way);
        self.note(id, &done);
        done
    }

    /// This way of a batch, or one row after the other where the server does not offer it.
    #[must_use]
    pub fn offered(&self, way: BatchWay) -> BatchWay {
        let feature = match way {
            BatchWay::Single => return way,
            BatchWay::Bulk => Feature::Bulk,
            BatchWay::Pipeline => Feature::Pipeline,
        };
        match &self.connection {
            Some(connection) if connection.supports(feature) => way,
            _ => BatchWay::Single,
        }
    }

    fn send_batch(
        &mut self,
        id: StatementId,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        self.enter(id)?;
        let statement = self.take_prepared(id)?;
        let name = self.shared.names.of(id);
        let done = self.measured(name, |connection, _| {
            connection.execute_batch(&statement, rows, way)
        });
        self.put_back(id, statement);
        done
    }

    /// Go to the database of a statement.
    fn enter(&mut self, id: StatementId) -> Result<(), Error> {
        let spec = &self.shared.statements[usize::from(id.0)];
        if spec.database.is_none() || spec.database == self.database {
            return Ok(());
        }
        let database = spec.database.clone();
        if let Some(sql) = spec.use_sql() {
            self.simple(Names::USE, &sql)?;
        }
        self.database = database;
        Ok(())
    }

    /// What the answer to a statement or batch was.
    fn note(&mut self, id: StatementId, done: &Result<Done, Error>) {
        self.begun |= done.is_ok();
        // What is about the session changes no row, and may be sent again.
        let changes = done.is_ok() && !self.shared.statements[usize::from(id.0)].of_session;
        self.permanent |= changes && self.shared.knobs.autocommit.unwrap_or(!self.bounded);
        if let Some(tape) = &mut self.tape {
            tape.answered(
                done.as_ref()
                    .map_or_else(|_| Counts::default(), |&done| done.into()),
            );
        }
    }

    /// When the last request was answered; 0 before the first.
    #[must_use]
    pub fn answered_ns(&self) -> u64 {
        self.answered_ns
    }

    /// Wait for a moment within a transaction, or for the end of the load.
    pub fn pause_until(&self, moment_ns: u64) {
        let clock = &*self.shared.clock;
        loop {
            let until_ns = moment_ns.min(self.recorder.end_ns());
            let now_ns = clock.now_ns();
            if now_ns >= until_ns {
                return;
            }
            clock.sleep_until(until_ns.min(now_ns + LOOK_NS));
        }
    }

    /// Before each attempt at a transaction: nothing of it has been done.
    pub fn start(&mut self) {
        self.begun = false;
        self.bounded = false;
        self.permanent = false;
    }

    /// Whether a part of the transaction at hand is permanent already, so that it must not be run again.
    #[must_use]
    pub fn is_partly_committed(&self) -> bool {
        self.permanent
    }

    /// Commit what a transaction without boundaries, of a single statement, has left open because autocommit is off.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn settle(&mut self) -> Result<(), Error> {
        if !self.begun || self.shared.knobs.autocommit != Some(false) {
            return Ok(());
        }
        self.begun = false;
        self.simple(Names::COMMIT, "COMMIT")
    }

    /// BEGIN, unless the knobs leave it out.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn begin(&mut self) -> Result<(), Error> {
        if let Some(tape) = &mut self.tape {
            tape.begin();
        }
        self.bounded = true;
        match self.shared.knobs.autocommit {
            None => self.simple(Names::BEGIN, "BEGIN"),
            Some(_) => Ok(()),
        }
    }

    /// COMMIT, unless every statement commits by itself.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn commit(&mut self) -> Result<(), Error> {
        if let Some(tape) = &mut self.tape {
            tape.commit();
        }
        self.begun &= self.shared.knobs.autocommit == Some(true);
        match self.shared.knobs.autocommit {
            Some(true) => Ok(()),
            None | Some(false) => self.simple(Names::COMMIT, "COMMIT"),
        }
    }

    /// ROLLBACK, unless every statement commits by itself.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn rollback(&mut self) -> Result<(), Error> {
        if let Some(tape) = &mut self.tape {
            tape.rollback();
        }
        self.begun &= self.shared.knobs.autocommit == Some(true);
        match self.shared.knobs.autocommit {
            Some(true) => Ok(()),
            None | Some(false) => self.simple(Names::ROLLBACK, "ROLLBACK"),
        }
    }

    /// A round trip that asks for nothing.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn ping(&mut self) -> Result<Done, Error> {
        self.measured(Names::PING, |connection, _| connection.ping())
    }

    /// Make the session as it was after its login; what was prepared is gone.
    ///
    /// # Errors
    /// Any [`Error`]; it has been counted.
    pub fn reset(&mut self) -> Result<Done, Error> {
        self.prepared.fill(None);
        self.measured(Names::RESET, |connection, shared| {
            let done = connection.reset()?;
            set_up(connection, &shared.knobs)?;
            Ok(done)
        })
    }

    /// Drop the connection and make a new one; what was prepared is gone.
    ///
    /// # Errors
    /// Any [`Error`]: there is no connection then.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        self.connection = None;
        self.database = None;
        self.prepared.fill(None);
        let began_ns = self.shared.clock.now_ns();
        let connected = (self.shared.connector)().and_then(|mut connection| {
            set_up(&mut *connection, &self.shared.knobs)?;
            Ok(connection)
        });
        let ended_ns = self.shared.clock.now_ns();
        let (connection, outcome) = match connected {
            Ok(connection) => (Some(connection), Ok(Done::default())),
            Err(error) => (None, Err(error)),
        };
        let wire = connection
            .as_ref()
            .map_or_else(Counters::default, |connection| connection.counters());
        let recorder = &mut self.recorder;
        recorder.statement(Names::CONNECT, began_ns, ended_ns, wire, &outcome);
        if let Some(connection) = &connection {
            self.family = connection.family();
        }
        self.connection = connection;
        outcome.map(|_| ())
    }

    /// Where this session's measurements go.
    pub fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Where requests are noted from now on; `None` (the default) notes nothing.
    pub fn tape(&mut self) -> &mut Option<Tape> {
        &mut self.tape
    }

    fn simple(&mut self, name: u16, sql: &str) -> Result<(), Error> {
        self.measured(name, |connection, _| {
            connection.query(sql, Fetch::ALL, &mut ())
        })
        .map(|_| ())
    }

    fn take_prepared(&mut self, id: StatementId) -> Result<Statement, Error> {
        if let Some(statement) = self.prepared[usize::from(id.0)].take() {
            return Ok(statement);
        }
        let mut prepared = None;
        self.measured(Names::PREPARE, |connection, shared| {
            let spec = &shared.statements[usize::from(id.0)];
            prepared = Some(connection.prepare_typed(&spec.sql, &spec.types)?);
            Ok(Done::default())
        })?;
        prepared.ok_or_else(|| Error::Protocol("prepare gave no statement".into()))
    }

    fn put_back(&mut self, id: StatementId, statement: Statement) {
        self.prepared[usize::from(id.0)] = Some(statement);
    }

    /// Run something and record it under `name`.
    fn measured(
        &mut self,
        name: u16,
        request: impl FnOnce(&mut dyn Connection, &Shared) -> Result<Done, Error>,
    ) -> Result<Done, Error> {
        let Some(connection) = self.connection.as_deref_mut() else {
            return Err(Error::Io(std::io::ErrorKind::NotConnected.into()));
        };
        let before = connection.counters();
        let began_ns = self.shared.clock.now_ns();
        let outcome = request(connection, &self.shared);
        let ended_ns = self.shared.clock.now_ns();
        self.answered_ns = ended_ns;
        self.recorder.statement(
            name,
            began_ns,
            ended_ns,
            connection.counters() - before,
            &outcome,
        );
        outcome
    }
}

/// Tell a new connection what the knobs want for all of its statements.
fn set_up(connection: &mut dyn Connection, knobs: &Knobs) -> Result<(), Error> {
    let family = connection.family();
    if let Some(sql) = knobs.isolation.sql(family) {
        connection.query(&sql, Fetch::ALL, &mut ())?;
    }
    if let (Some(on), Family::Mysql) = (knobs.autocommit, family) {
        let sql = format!("SET autocommit={}", u8::from(on));
        connection.query(&sql, Fetch::ALL, &mut ())?;
    }
    Ok(())
}
