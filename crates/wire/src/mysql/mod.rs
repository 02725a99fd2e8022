//! MySQL's protocol, as MySQL and MariaDB speak it: packets -> fields -> results.

mod binary;
mod field;
mod load;
mod login;
mod packet;
mod result;

use std::collections::HashMap;

use crate::transport::Transport;
use crate::{
    BatchWay, Connection, Counters, Done, Error, Family, Feature, Fetch, RowSink, RowsWanted,
    ServerUrl, Statement, Value,
};
use field::{Fields, refusal};
use packet::Packets;
use result::{Encoding, Results};

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_STMT_FETCH: u8 = 0x1C;

/// Connect and log in.
pub(crate) fn connect(url: &ServerUrl) -> Result<Box<dyn Connection>, Error> {
    if !url.metadata {
        return Err(Error::Unsupported("metadata=off".to_owned()));
    }
    let mut packets = Packets::new(Transport::connect(url)?);
    let version = login::login(&mut packets, url)?;
    Ok(Box::new(Mysql {
        packets,
        version,
        results: Results::default(),
        kinds: HashMap::new(),
        scratch: String::new(),
    }))
}

struct Mysql {
    packets: Packets,
    version: String,
    results: Results,
    /// The parameter types that the server knows of each statement: sent again only where they change.
    kinds: HashMap<u32, Vec<u8>>,
    scratch: String,
}

impl Mysql {
    fn send_execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        cursor: bool,
    ) -> Result<(), Error> {
        let known = self.kinds.entry(statement.id).or_default();
        let mut changed = known.len() != parameters.len();
        known.resize(parameters.len(), binary::KIND_UNKNOWN);
        for (kind, value) in known.iter_mut().zip(parameters) {
            let now = binary::kind(value, *kind);
            changed |= now != *kind;
            *kind = now;
        }
        let scratch = &mut self.scratch;
        self.packets.command(|out| {
            out.push(COM_STMT_EXECUTE);
            out.extend_from_slice(&statement.id.to_le_bytes());
            out.push(u8::from(cursor));
            out.extend_from_slice(&1u32.to_le_bytes());
            if parameters.is_empty() {
                return;
            }
            let bitmap = out.len();
            out.resize(bitmap + parameters.len().div_ceil(8), 0);
            for (position, value) in parameters.iter().enumerate() {
                if *value == Value::Null {
                    out[bitmap + position / 8] |= 1 << (position % 8);
                }
            }
            out.push(u8::from(changed));
            if changed {
                for kind in known.iter() {
                    out.extend_from_slice(&[*kind, 0]);
                }
            }
            for value in parameters {
                binary::put(out, value, scratch);
            }
        })
    }

    fn read_execute(
        &mut self,
        statement: &Statement,
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        let mut done = Done::default();
        let mut more = self.results.read(
            &mut self.packets,
            Encoding::Binary,
            fetch.rows,
            rows,
            &mut done,
        )?;
        // A cursor that is left open is closed by the statement's next execution.
        while more && (fetch.rows == RowsWanted::All || done.rows == 0) {
            self.packets.command(|out| {
                out.push(COM_STMT_FETCH);
                out.extend_from_slice(&statement.id.to_le_bytes());
                out.extend_from_slice(&fetch.size.to_le_bytes());
            })?;
            more = self
                .results
                .fetched(&mut self.packets, fetch.rows, rows, &mut done)?;
        }
        Ok(done)
    }
}

impl Connection for Mysql {
    fn family(&self) -> Family {
        Family::Mysql
    }

    fn server_version(&self) -> &str {
        &self.version
    }

    fn counters(&self) -> Counters {
        self.packets.counters()
    }

    fn supports(&self, feature: Feature) -> bool {
        match feature {
            Feature::Bulk | Feature::Pipeline | Feature::OptionalMetadata => false,
        }
    }

    fn query(&mut self, sql: &str, fetch: Fetch, rows: &mut dyn RowSink) -> Result<Done, Error> {
        if fetch.size > 0 {
            return Err(Error::Unsupported(
                "a fetch size for text statements on MySQL".to_owned(),
            ));
        }
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
        self.packets.command(|out| {
            out.push(COM_STMT_PREPARE);
            out.extend_from_slice(sql.as_bytes());
        })?;
        let payload = self.packets.read()?;
        if payload.first() == Some(&0xFF) {
            return Err(refusal(payload));
        }
        let mut fields = Fields(payload);
        fields.u8()?;
        let statement = Statement {
            id: fields.u32()?,
            columns: fields.u16()?,
            parameters: fields.u16()?,
        };
        for _ in 0..u32::from(statement.columns) + u32::from(statement.parameters) {
            self.packets.read()?;
        }
        Ok(statement)
    }

    fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        if parameters.len() != usize::from(statement.parameters) {
            return Err(Error::Unsupported(format!(
                "{} parameters for a statement of {}",
                parameters.len(),
                statement.parameters
            )));
        }
        self.send_execute(statement, parameters, fetch.size > 0)?;
        let done = self.read_execute(statement, fetch, rows);
        if done.is_err() {
            // Whether the server has taken the types over is not known after a refusal.
            self.kinds.remove(&statement.id);
        }
        done
    }

    fn execute_batch(
        &mut self,
        statement: &Statement,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        if way != BatchWay::Single {
            return Err(Error::Unsupported(format!("{way:?} batches")));
        }
        let fetch = Fetch {
            size: 0,
            rows: RowsWanted::All,
        };
        let mut all = Done::default();
        for row in rows {
            let done = self.execute(statement, row, fetch, &mut ())?;
            all.rows += done.rows;
            all.affected += done.affected;
        }
        Ok(all)
    }

    fn close(&mut self, statement: Statement) -> Result<(), Error> {
        self.kinds.remove(&statement.id);
        self.packets.command(|out| {
            out.push(COM_STMT_CLOSE);
            out.extend_from_slice(&statement.id.to_le_bytes());
        })
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
