//! MySQL's protocol, as MySQL and MariaDB speak it: packets -> fields -> results.

mod binary;
mod definitions;
pub(crate) mod field;
mod ids;
mod load;
mod login;
mod number;
mod packet;
mod public_key;
mod result;
mod statement;

use crate::connection::one_by_one;
use crate::transport::Transport;
use crate::{
    BatchWay, Connection, Counters, Dialect, Done, Error, Family, Feature, Fetch, RowSink,
    RowsWanted, ServerUrl, Statement, Value,
};
use ids::ById;
use login::{Agreement, BULK, CACHE_METADATA, OPTIONAL_METADATA};
use packet::Packets;
use result::{Encoding, NO_BACKSLASH_ESCAPES, Results};
use statement::Prepared;

pub use field::put_text;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0E;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_RESET_CONNECTION: u8 = 0x1F;

/// Connect and log in.
pub(crate) fn connect(url: &ServerUrl) -> Result<Box<dyn Connection>, Error> {
    if url.binary_results {
        let why = "binary-results=on with MySQL, whose protocol leaves no choice";
        return Err(Error::Unsupported(why.to_owned()));
    }
    let mut packets = Packets::new(Transport::connect(url)?);
    let Agreement {
        version,
        offered,
        capabilities,
        status,
    } = login::login(&mut packets, url)?;
    packets.logged_in(url.limits)?;
    let announces_columns = capabilities & (OPTIONAL_METADATA | CACHE_METADATA) != 0;
    Ok(Box::new(Mysql {
        packets,
        version,
        offered,
        definitions: (capabilities & OPTIONAL_METADATA != 0).then_some(true),
        results: Results::new(announces_columns, status),
        prepared: ById::default(),
        scratch: String::new(),
    }))
}

struct Mysql {
    packets: Packets,
    version: String,
    /// The server's capabilities.
    offered: u64,
    /// Whether column definitions come with results now, where that can be switched.
    definitions: Option<bool>,
    results: Results,
    prepared: ById<Prepared>,
    scratch: String,
}

impl Connection for Mysql {
    fn family(&self) -> Family {
        Family::Mysql
    }

    fn dialect(&self) -> Dialect {
        Dialect {
            family: Family::Mysql,
            backslash_escapes: self.results.status & NO_BACKSLASH_ESCAPES == 0,
        }
    }

    fn server_version(&self) -> &str {
        &self.version
    }

    fn counters(&self) -> Counters {
        self.packets.counters()
    }

    fn supports(&self, feature: Feature) -> bool {
        match feature {
            Feature::Bulk => self.offered & BULK != 0,
            Feature::OptionalMetadata => self.offered & (OPTIONAL_METADATA | CACHE_METADATA) != 0,
            Feature::Pipeline => false,
        }
    }

    fn query(&mut self, sql: &str, fetch: Fetch, rows: &mut dyn RowSink) -> Result<Done, Error> {
        if fetch.size > 0 {
            return Err(Error::Unsupported(
                "a fetch size for text statements on MySQL".to_owned(),
            ));
        }
        self.switch_definitions(false)?;
        self.packets.command(|out| {
            out.push(COM_QUERY);
            out.extend_from_slice(sql.as_bytes());
        })?;
        let mut done = Done::default();
        self.results.read(
            &mut self.packets,
            Encoding::Text,
            fetch.rows,
            rows,
            &mut done,
        )?;
        Ok(done)
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.switch_definitions(true)?;
        self.packets.command(|out| {
            out.push(COM_STMT_PREPARE);
            out.extend_from_slice(sql.as_bytes());
        })?;
        self.read_prepared()
    }

    fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        statement.check(parameters)?;
        self.switch_definitions(false)?;
        self.send_execute(statement, parameters, fetch.size > 0)?;
        let done = self.read_execute(statement, fetch, rows);
        if done.is_err() {
            self.forget_kinds(statement);
        }
        done
    }

    fn execute_batch(
        &mut self,
        statement: &Statement,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        for parameters in rows {
            statement.check(parameters)?;
        }
        match way {
            BatchWay::Single => one_by_one(self, statement, rows),
            BatchWay::Bulk => self.bulk(statement, rows),
            BatchWay::Pipeline => Err(Error::Unsupported(
                "a pipeline on MySQL: its server answers one request at a time".to_owned(),
            )),
        }
    }

    fn close(&mut self, statement: Statement) -> Result<(), Error> {
        self.prepared.remove(&statement.id);
        self.packets.command(|out| {
            out.push(COM_STMT_CLOSE);
            out.extend_from_slice(&statement.id.to_le_bytes());
        })
    }

    fn ping(&mut self) -> Result<Done, Error> {
        self.command(COM_PING)
    }

    fn reset(&mut self) -> Result<Done, Error> {
        let done = self.command(COM_RESET_CONNECTION)?;
        self.prepared = ById::default();
        // Its variable resultset_metadata is FULL again.
        self.definitions = self.definitions.map(|_| true);
        Ok(done)
    }

    fn load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error> {
        load::load(&mut self.packets, table, columns, rows)
    }
}

impl Mysql {
    /// A command without anything behind it, answered by an OK.
    fn command(&mut self, command: u8) -> Result<Done, Error> {
        self.packets.command(|out| out.push(command))?;
        let mut done = Done::default();
        self.results.read(
            &mut self.packets,
            Encoding::Text,
            RowsWanted::All,
            &mut (),
            &mut done,
        )?;
        Ok(done)
    }
}

impl Drop for Mysql {
    /// Tell the server, so that it does not count a lost connection; one that is lost already has nobody to tell. There is no answer,
    /// and no `Com_*` counts it, but the server's `Questions` does.
    fn drop(&mut self) {
        let _ = self.packets.command(|out| out.push(COM_QUIT));
    }
}
