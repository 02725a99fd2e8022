//! Table `config`: written when all rows are there, so that tables half loaded are known as such.

use wire::{Connection, Error, Value};

use crate::failure::Failure;
use crate::sql;

/// What a run has to know of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) warehouses: i64,
    /// C of NURand for the last names that were loaded.
    pub(super) c_last: i64,
}

impl Default for Config {
    /// One warehouse.
    fn default() -> Self {
        Self {
            warehouses: 1,
            c_last: 0,
        }
    }
}

impl Config {
    /// Note that the load is complete.
    pub(super) fn write(&self, connection: &mut dyn Connection) -> Result<(), Error> {
        let rows = [
            ("warehouses", self.warehouses),
            ("nurand_c_last", self.c_last),
        ];
        for (name, value) in rows {
            let sql = "INSERT INTO config (cfg_name, cfg_value) VALUES (?, ?)";
            let values = [Value::Text(name.to_owned()), Value::Text(value.to_string())];
            let sql = wire::render(connection.dialect(), sql, &values);
            sql::say(connection, &sql)?;
        }
        Ok(())
    }
}

/// Ask the tables.
///
/// # Errors
/// Tables that are not there, or half loaded.
pub(super) fn read(connection: &mut dyn Connection) -> anyhow::Result<Config> {
    let fill = "fill the tables: upshift load tpcc prepare --warehouses 10";
    let Some(warehouses) = ask(connection, "SELECT MAX(w_id) FROM warehouse", fill)? else {
        return Err(half_loaded("table warehouse is empty"));
    };
    let value = |name: &str| format!("SELECT cfg_value FROM config WHERE cfg_name = '{name}'");
    let noted = ask(connection, &value("warehouses"), fill)?;
    let c_last = ask(connection, &value("nurand_c_last"), fill)?;
    match (noted, c_last) {
        (Some(noted), Some(c_last)) if noted == warehouses => Ok(Config { warehouses, c_last }),
        (Some(noted), Some(_)) => Err(half_loaded(&format!(
            "table warehouse ends at {warehouses}, and prepare loaded {noted}"
        ))),
        _ => Err(half_loaded("prepare did not complete")),
    }
}

fn half_loaded(why: &str) -> anyhow::Error {
    let hint = "fill them again: upshift load tpcc prepare --drop --warehouses 10";
    Failure::new(format!("the tables are incomplete: {why}"), hint).into()
}

/// The one number of a result.
fn ask(connection: &mut dyn Connection, sql: &str, hint: &str) -> anyhow::Result<Option<i64>> {
    match sql::one(connection, sql) {
        Ok(one) => Ok(one.number()),
        Err(Error::Server { message, .. }) => Err(Failure::new(message, hint).into()),
        Err(error) => Err(error.into()),
    }
}
