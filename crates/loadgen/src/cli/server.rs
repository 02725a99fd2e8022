//! What the server says of itself before the load begins, and what would end the load later.

use std::collections::BTreeMap;

use wire::{Cell, Connection, Error, Family, Fetch, RowSink};

use super::load::Target;
use crate::drive::{Plan, refused};
use crate::failure::{Failure, Usage};
use crate::output::Server;
use crate::session::Knobs;
use crate::workload::Workload;

const MYSQL: &str = "SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', 'autocommit', \
     'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_doublewrite', 'max_prepared_stmt_count')";
const MYSQL_PREPARED: &str = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";
const POSTGRES: &str = "SELECT name, setting FROM pg_settings \
     WHERE name IN ('default_transaction_isolation', 'fsync', 'synchronous_commit', 'full_page_writes')";
/// What decides whether a committed transaction outlives a crash.
const DURABILITY: [&str; 7] = [
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "innodb_doublewrite",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
];

/// Connect once, check the workload's tables, and ask the server who it is.
///
/// # Errors
/// A refused login, tables that are not there, and a load that the server's settings would end.
pub(super) fn look(
    target: &Target,
    workload: &dyn Workload,
    plan: &Plan,
) -> anyhow::Result<Server> {
    let knobs = &target.knobs;
    let mut connection = (target.connector)().map_err(|error| refused(&error, 0, 1))?;
    workload.check(&mut *connection)?;
    let mut settings = Settings::default();
    let (family, sql) = match connection.family() {
        Family::Mysql => ("mysql", MYSQL),
        Family::Postgres => ("postgres", POSTGRES),
    };
    settings.ask(&mut *connection, sql)?;
    if connection.family() == Family::Mysql {
        settings.ask(&mut *connection, MYSQL_PREPARED)?;
    }
    settings.check_autocommit(knobs)?;
    settings.check_prepared(workload.statements_prepared(knobs), plan.connections)?;
    Ok(Server {
        family: family.to_owned(),
        version: connection.server_version().to_owned(),
        transport: target.transport,
        isolation: settings.isolation(),
        durability: settings.durability(),
    })
}

/// Settings by name, as the server writes them.
#[derive(Default)]
struct Settings(BTreeMap<String, String>);

impl RowSink for Settings {
    fn row(&mut self, cells: &[Cell<'_>]) {
        if let [Some(name), Some(value)] = [0, 1].map(|place| cells.get(place)?.to_text()) {
            self.0.insert(name.to_lowercase(), value);
        }
    }
}

impl Settings {
    fn ask(&mut self, connection: &mut dyn Connection, sql: &str) -> Result<(), Error> {
        connection.query(sql, Fetch::ALL, self).map(|_| ())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    /// The level that new connections have, in the words of `--isolation`.
    fn isolation(&self) -> Option<String> {
        let names = [
            "transaction_isolation",
            "tx_isolation",
            "default_transaction_isolation",
        ];
        let level = names.iter().find_map(|name| self.0.get(*name))?;
        Some(level.to_lowercase().replace(' ', "-"))
    }

    fn durability(&self) -> BTreeMap<String, String> {
        let told = DURABILITY.iter().filter_map(|name| {
            let value = self.0.get(*name)?;
            Some(((*name).to_owned(), value.clone()))
        });
        told.collect()
    }

    /// A statement alone, which nobody commits, would be rolled back at the end.
    fn check_autocommit(&self, knobs: &Knobs) -> Result<(), Usage> {
        let off = self.0.get("autocommit").is_some_and(|value| value == "OFF");
        if off && knobs.autocommit.is_none() {
            return Err(Usage::new(
                "the server starts connections with autocommit off",
                "give --autocommit or --no-autocommit",
            ));
        }
        Ok(())
    }

    fn check_prepared(&self, statements: usize, connections: u32) -> Result<(), Failure> {
        let Some(limit) = self.number("max_prepared_stmt_count") else {
            return Ok(());
        };
        let used = self.number("prepared_stmt_count").unwrap_or_default();
        let needed = statements as u64 * u64::from(connections);
        if used + needed <= limit {
            return Ok(());
        }
        Err(Failure::new(
            format!(
                "{connections} connections with {statements} prepared statements each need {needed} prepared statements, and the server allows {limit} ({used} are in use)"
            ),
            format!(
                "SET GLOBAL max_prepared_stmt_count = {}, use fewer --connections, or use --protocol text",
                used + needed
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.row(&[Cell::Bytes(name.as_bytes()), Cell::Bytes(value.as_bytes())]);
        }
        settings
    }

    #[test]
    fn isolation_is_told_in_the_options_words() {
        for (name, level) in [
            ("transaction_isolation", "REPEATABLE-READ"),
            ("tx_isolation", "REPEATABLE-READ"),
            ("default_transaction_isolation", "repeatable read"),
        ] {
            let told = settings(&[(name, level)]).isolation();
            assert_eq!(told.as_deref(), Some("repeatable-read"));
        }
    }

    #[test]
    fn more_statements_than_the_server_takes_are_refused_before_the_run() {
        let mysql = settings(&[
            ("max_prepared_stmt_count", "16382"),
            ("Prepared_stmt_count", "40"),
        ]);
        let failure = mysql.check_prepared(61, 268).expect_err("16,388 in all");
        assert!(failure.message.contains("16348"), "{}", failure.message);
        assert!(failure.hint.contains("16388"), "{}", failure.hint);
        assert!(mysql.check_prepared(61, 267).is_ok());
        assert!(settings(&[]).check_prepared(61, 10_000).is_ok());
    }

    #[test]
    fn a_server_without_autocommit_wants_a_word() {
        let off = settings(&[("autocommit", "OFF")]);
        let mut knobs = Knobs::default();
        assert!(off.check_autocommit(&knobs).is_err());
        knobs.autocommit = Some(false);
        assert!(off.check_autocommit(&knobs).is_ok());
    }
}
