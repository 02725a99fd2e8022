//! The statements of `prepare` and `cleanup`, run once.

use rand::{RngExt, SeedableRng};
use wire::{Connection, Done, Error, Family, Fetch, RowSink, Value};

use super::Script;
use super::client::{Flow, Sender, Values};
use super::file::Setup;
use super::step::{Kind, Place, Step};
use crate::drive::refused;
use crate::failure::Failure;
use crate::session::{Connector, StatementId, StatementSpec};
use crate::sql::say;
use crate::workload::Random;

/// Rounds of a repeated step that are committed together.
const ROUNDS: u64 = 1000;
/// So many rounds are worth a line of progress.
const TOLD: u64 = 100 * ROUNDS;

/// Sends statements as text: servers prepare not all of those that make tables.
struct Plain<'c> {
    connection: &'c mut dyn Connection,
    statements: &'c [StatementSpec],
    places: &'c [Place],
    /// The statement that was sent last.
    last: StatementId,
}

impl Sender for Plain<'_> {
    fn family(&self) -> Family {
        self.connection.family()
    }

    fn send(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        self.last = id;
        let spec = &self.statements[usize::from(id.0)];
        let sql = wire::render(self.connection.dialect(), &spec.sql, parameters);
        self.connection.query(&sql, Fetch::ALL, sink)
    }
}

impl Script {
    /// Run the statements of `prepare`, those of `cleanup` before them if `drop` says so.
    ///
    /// # Errors
    /// A list that is not there, and the server's refusal.
    pub fn prepare(&self, connector: &Connector, drop: bool, seed: u64) -> anyhow::Result<()> {
        if drop {
            self.cleanup(connector)?;
        }
        self.set_up(connector, &self.file.prepare, "prepare", seed)
    }

    /// Run the statements of `cleanup`.
    ///
    /// # Errors
    /// A list that is not there, and the server's refusal.
    pub fn cleanup(&self, connector: &Connector) -> anyhow::Result<()> {
        self.set_up(connector, &self.file.cleanup, "cleanup", 1)
    }

    fn set_up(
        &self,
        connector: &Connector,
        setup: &Setup,
        name: &str,
        seed: u64,
    ) -> anyhow::Result<()> {
        if setup.steps.is_empty() {
            let message = format!("{} has no {name}", self.path.display());
            let hint = format!(
                "write {name} = [\"...\", ...] before the file's first table: statements that are run once"
            );
            return Err(Failure::new(message, hint).into());
        }
        let mut connection = connector().map_err(|error| refused(&error, 0, 1))?;
        let mut plain = Plain {
            connection: &mut *connection,
            statements: &setup.statements.specs,
            places: &setup.statements.places,
            last: StatementId(0),
        };
        let mut values = Values::new(&self.file, 0, 1);
        let mut random = Random::seed_from_u64(seed);
        for step in &setup.steps {
            values.begin();
            values.attempt(random.random());
            if let Err(error) = repeated(step, &mut values, &mut plain) {
                let place = &setup.statements.places[usize::from(plain.last.0)];
                let message = format!("{} ({}): {error}", place.what, self.place(place.at));
                let hint = match error {
                    Error::Server { code: 1050, .. } => {
                        "--drop runs the statements of cleanup first"
                    }
                    Error::Server { sqlstate, .. } if sqlstate == "42P07" => {
                        "--drop runs the statements of cleanup first"
                    }
                    _ => "try the statement in the server's own client",
                };
                return Err(Failure::new(message, hint).into());
            }
        }
        Ok(())
    }
}

/// Run a step as often as it says, and commit many rounds together.
fn repeated(step: &Step, values: &mut Values, plain: &mut Plain<'_>) -> Result<(), Error> {
    let rounds = values.rounds(step.repeat);
    if rounds == 1 && matches!(step.kind, Kind::Statement(_)) {
        return values.round(step, plain).map(|_| ());
    }
    let mut done = 0;
    let mut flow = Flow::On;
    while done < rounds && flow == Flow::On {
        say(plain.connection, "BEGIN")?;
        for _ in 0..ROUNDS.min(rounds - done) {
            flow = values.round(step, plain)?;
            if flow == Flow::End {
                break;
            }
            done += 1;
        }
        say(plain.connection, "COMMIT")?;
        if (done > 0 && done % TOLD == 0) || (done == rounds && rounds >= ROUNDS) {
            let place = &plain.places[usize::from(plain.last.0)];
            eprintln!("{}: {done} of {rounds} times", place.what);
        }
    }
    Ok(())
}
